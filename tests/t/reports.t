#!/usr/bin/perl
# `sparseshim report` on the reports of two jobs of 3 ranks, lossy and exact: all ranks in one, two jobs compared,
# CSV, JSON, and a page of HTML. The test computes the sums anew from the files.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use JSON::PP;
use List::Util qw(max min sum);
use Test::More;

my $build = abs_path($ENV{BUILD} // 'build');
my $cli   = "$build/sparseshim";
my $dir   = tempdir('sparseshim-reports-XXXXXX', TMPDIR => 1, CLEANUP => 1);
delete @ENV{grep { /^SPARSESHIM_/ } keys %ENV};
my $page = abs_path('tests/py/page.py');
my ($mpicc)  = grep { -x } map { "$_/mpicc.mpich" } split /:/, $ENV{PATH};
my ($mpirun) = grep { -x } map { "$_/mpirun.mpich" } split /:/, $ENV{PATH};
$mpicc  //= 'mpicc';
$mpirun //= 'mpirun';

sub slurp {
    my ($name) = @_;
    open my $in, '<:raw', $name or die "$name: $!";
    local $/;
    return scalar <$in> // '';
}

sub spurt {
    my ($name, $text) = @_;
    open my $out, '>:raw', $name or die "$name: $!";
    print $out $text;
    close $out or die "$name: $!";
    return $name;
}

# Runs a shell command in the folder of the test; returns (exit status, stdout, stderr).
sub sh {
    my ($command) = @_;
    my $status = system('sh', '-c', "cd '$dir'; exec >out 2>err; $command");
    return ($status & 127 ? 128 + ($status & 127) : $status >> 8, slurp("$dir/out"), slurp("$dir/err"));
}

# python3 is the interpreter itself: a version manager's script takes ten times as long to start.
chomp(my $python = qx(python3 -c 'import sys; print(sys.executable)'));
mkdir "$dir/python" or die $!;
chmod 0755, spurt("$dir/python/python3", qq(#!/bin/sh\nexec $python "\$@"\n));
$ENV{PATH} = "$dir/python:$ENV{PATH}";

sub report { return sh("'$cli' report $_[0]") }
sub json   { return JSON::PP->new->utf8->decode($_[0]) }

# A gradient of 5000, steady layers of 3000 beside it, 300 steps; rank 1 comes late to each tenth.
spurt("$dir/train.c", <<'C');
#include <mpi.h>
#include <stdint.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static float x[5000], y[5000];
    uint64_t state;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int s = 0; s < 300; s++) {
        state = 1000u * (uint64_t)(s + 1) + (uint64_t)rank;
        if (rank == 1 && s % 10 == 0)
            usleep(2000);
        for (int i = 0; i < 5000; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            x[i] = (float)(int32_t)(state >> 32) / 2147483648.0f;
        }
        MPI_Allreduce(x, y, 5000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 3000; i++)
            x[i] = i % 100 ? 0 : x[i];
        MPI_Allreduce(x, y, 3000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    return MPI_Finalize();
}
C
my ($code, $out, $err) = sh("$mpicc -O1 train.c -o train");
is $code, 0, 'the program is compiled' or diag $err;

my $yields = -e "$build/tests/mpi/yields.so" ? "$build/tests/mpi/yields.so" : '';
for my $job (['lossy', 'SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_DENSITY=0.02'],
    ['exact', 'SPARSESHIM_MODE=exact']) {
    my ($name, $settings) = @$job;
    ($code, $out, $err) =
        sh("$settings SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_ALGORITHM=split_allgather "
          . "SPARSESHIM_REPORT=all SPARSESHIM_REPORT_DIR=$dir/$name LD_PRELOAD='$yields' "
          . "timeout -k 5 60 '$mpirun' -n 3 '$cli' run ./train");
    is $code, 0, "the $name job runs" or diag $err;
}

my %files = map { my $job = $_; $job => [sort { json(slurp($a))->{job}{rank} <=> json(slurp($b))->{job}{rank} }
    glob "$dir/$job/*.json"] } qw(lossy exact);
is scalar @{$files{$_}}, 3, "3 reports of the $_ job" for qw(lossy exact);
my %reports = map { my $job = $_; $job => [map { json(slurp($_)) } @{$files{$job}}] } qw(lossy exact);
my ($first) = @{$reports{lossy}};

subtest 'the series of a lossy tensor covers its calls' => sub {
    my ($lossy) = grep { $_->{topk_calls} > 0 } @{$first->{tensors}};
    ok $lossy, 'there is one' or return;
    my $series = $lossy->{series};
    my $points = scalar @{$series->{call}};
    cmp_ok $points, '>=', 64,  'points enough';
    cmp_ok $points, '<=', 128, 'and not too many';
    is scalar @{$series->{$_}}, $points, "as many of $_" for qw(density threshold residual_norm input_norm);
    my %steps = map { $series->{call}[$_] - $series->{call}[$_ - 1] => 1 } 1 .. $points - 1;
    is_deeply [keys %steps], [int(($lossy->{topk_calls} + 127) / 128) > 2 ? 4 : int(($lossy->{topk_calls} + 127) / 128)],
        'at even distances';
    cmp_ok $series->{call}[-1] + (keys %steps)[0], '>', $lossy->{calls}, 'to the end';
    my $mean = sum(@{$series->{density}}) / $points;
    cmp_ok abs($mean / $lossy->{density_selected} - 1), '<', 0.1, 'its densities have the mean of all calls';
    my ($low, $high) = (min(@{$series->{input_norm}}), max(@{$series->{input_norm}}));
    cmp_ok $low, '<=', $lossy->{input_norm} * 1.00001, 'its norms are about';
    cmp_ok $high, '>=', $lossy->{input_norm} * 0.99999, 'the last input';
    cmp_ok min(map { $_ // 0 } @{$series->{threshold}}), '>', 0, 'its thresholds are known';
    my ($other) = grep { $_->{topk_calls} == 0 } @{$first->{tensors}};
    is $other->{series}, undef, 'what is not lossy has none' if $other;
};

subtest 'all ranks in one' => sub {
    my ($status, $text, $errors) = report('lossy');
    is $status, 0, 'of a folder' or diag $errors;
    like $text, qr/^sparseshim \S+: train, 3 of 3 ranks, started /, 'headline';
    unlike $text, qr/^  missing/m, 'nobody is missing';
    is((report("--merge @{$files{lossy}}"))[1], $text, 'the same of its files');
    is((report("--merge @{[reverse @{$files{lossy}}]}"))[1], $text, 'in any order');
    my $merged = json((report('--json lossy'))[1]);
    is $merged->{reports}, 3, 'three reports';
    my %spread = map { $_->{measure} => $_ } @{$merged->{spread}};
    for my $key (qw(seconds_scan seconds_vote seconds_native)) {
        my @values = sort { $a <=> $b } map { $_->{times}{$key} } @{$reports{lossy}};
        is_deeply [@{$spread{$key}}{qw(least median most)}], \@values, "$key: least, median, most";
        my ($slowest) = grep { $_->{times}{$key} == $values[2] } @{$reports{lossy}};
        is $spread{$key}{rank_most}, $slowest->{job}{rank}, "$key: slowest rank" if $values[2] > $values[0];
    }
    for my $key (qw(bytes_dense bytes_sent)) {
        is $spread{$key}{sum}, sum(map { $_->{bytes}{$key} } @{$reports{lossy}}), "$key: sum";
    }
    for my $lane (@{$merged->{lanes}}) {
        my @same = map { grep { $_->{count} == $lane->{count} } @{$_->{lanes}} } @{$reports{lossy}};
        is $lane->{bytes_sent}, sum(map { $_->{bytes_sent} } @same), "lane of $lane->{count}: bytes of all ranks";
        is $lane->{density_median}, (sort { $a <=> $b } map { $_->{density_mean} } @same)[1], 'median density';
    }
    my ($tensor) = grep { $_->{count} == 5000 } @{$merged->{tensors}};
    my @norms = sort { $a <=> $b } map { (grep { $_->{count} == 5000 } @{$_->{tensors}})[0]{residual_norm} } @{$reports{lossy}};
    is_deeply [map { $tensor->{"residual_norm_$_"} } qw(least median most)], \@norms, 'norms of the residuals';
    is $tensor->{state}, 'registered', 'the state that all have';
};

subtest 'ranks that do not report are named' => sub {
    my ($status, $text) = report("--merge $files{lossy}[1]");
    is $status, 0, 'one rank is enough';
    like $text, qr/^  missing  no report of rank 0, 2$/m, 'the others are named';
    like((report("--merge $files{lossy}[0] $files{lossy}[1]"))[1], qr/no report of rank 2$/m, 'the last too');
};

subtest 'what does not belong together is refused' => sub {
    my ($status, $text, $errors) = report('--merge lossy exact');
    is $status, 1, 'two jobs are not merged';
    is $text, '', 'nothing is printed';
    like $errors, qr/exact\/\S+ and lossy\/\S+ are not of one job: both are of rank \d; name the reports of one/,
        'the files and why';
    my %other = (ranks => [4, 'they are of jobs of 3 and of 4 ranks'], program => ['eval', 'they are of two programs'],
        version => ['0.0.9', 'they are of versions'], start_unix => [1, 'they ran one after the other, from'],
        number => ['17', 'their ranks have agreed on two numbers']);
    for my $key (sort keys %other) {
        my $changed = json(slurp($files{lossy}[1]));
        @{$changed->{job}}{'number', $key} = (undef, $other{$key}[0]);
        my $file = spurt("$dir/$key.json", encode_json($changed));
        ($status, $text, $errors) = report("--merge $files{lossy}[0] $file");
        like $errors, qr/not of one job: \Q$other{$key}[1]\E/, "another $key";
    }
    spurt("$dir/half.json", substr slurp($files{lossy}[0]), 0, 500);
    ($status, $text, $errors) = report("--merge half.json $files{lossy}[1]");
    is "$status$text", '1', 'half a report';
    like $errors, qr/^sparseshim report: half\.json is no report: line \d+/, 'with its place';
    spurt("$dir/new.json", '{"schema": 4}');
    like +(report('new.json'))[2], qr/new\.json is no report: .*of a newer sparseshim/, 'a newer schema';
    spurt("$dir/again.json", (report('--json lossy'))[1]);
    like +(report('again.json'))[2], qr/made of several reports, which is not read again/, 'what was merged';
    mkdir "$dir/empty";
    like +(report('empty'))[2], qr/empty holds no reports \(sparseshim-\*\.json.*gloo or nccl.*PyTorch/, 'a folder without reports';
    like +(report('nowhere'))[2], qr/nowhere cannot be read: No such file.*no MPI call writes none: .*gloo or nccl.*PyTorch.*comm\.Allreduce/,
        'nothing at all: a program without MPI calls makes no folder';
};

subtest 'of the jobs in a folder one is chosen' => sub {
    mkdir "$dir/mixed";
    for (@{$files{lossy}}) { m{([^/]+)$}; spurt("$dir/mixed/$1", slurp($_)) }
    my ($newest, $number) = (0, 0);
    for (@{$files{exact}}) {
        my $later = json(slurp($_));
        $newest = $later->{job}{start_unix} += 1000;
        my ($rank) = m{-(\d+)-\d+\.json$};
        spurt("$dir/mixed/sparseshim-7770777-$rank-1.json", encode_json($later));
    }
    my ($status, $text, $errors) = report('mixed');
    is $status, 0, 'the newest, where none is named' or diag $errors;
    like $text, qr/^sparseshim \S+: train, 3 of 3 ranks, started /, 'all its ranks';
    like $errors, qr/^sparseshim report: mixed has 2 jobs; this is the newest \(\*\); --job=NUMBER or .* chooses:\n  \* 7770777 .*\n    \S+ .* 3 of 3 ranks, ran \d+ s\n\z/,
        'which is said, with the others';
    my ($mine) = $files{lossy}[0] =~ m{/sparseshim-([^/]*)-\d+-\d+\.json$};
    is((report("--job=$mine mixed"))[1], (report('lossy'))[1], 'one by its number');
    is((report("--job=$mine mixed"))[2], '', 'and nothing is said');
    my @at = gmtime $newest;
    my $start = sprintf '%d-%02d-%02d %02d:%02d', $at[5] + 1900, $at[4] + 1, @at[3, 2, 1];
    is((report("--job='$start' mixed"))[1], $text, 'one by its start');
    is((report("--job=7770777 --csv=summary mixed"))[1] =~ tr/\n//, 4, 'in any form');
    is((report('lossy mixed'))[0], 0, 'and to compare');
    ($status, $text, $errors) = report('--job=7770778 mixed');
    is "$status$text", '1', 'one that is not there';
    like $errors, qr/mixed has no job 7770778; its jobs, by number and start:\n.*7770777/, 'those that are there are named';
    is((report("--job=7770777 $files{lossy}[0]"))[0], 2, 'a file has no jobs');
};

subtest 'two jobs are compared' => sub {
    my ($status, $text, $errors) = report('lossy exact');
    is $status, 0, 'two folders' or diag $errors;
    like $text, qr/^  MODE +topk +exact$/m, 'options that differ';
    unlike $text, qr/^  (?:MIN_COUNT|REPORT_DIR)/m, 'and no others';
    my $two = json((report('--json lossy exact'))[1]);
    is $two->{ranks}, 3, 'by three ranks';
    my ($sent) = grep { $_->{measure} eq 'bytes_sent' } @{$two->{job}};
    my %mean = map { my $job = $_; $job => sum(map { $_->{bytes}{bytes_sent} } @{$reports{$job}}) / 3 } keys %reports;
    cmp_ok abs($sent->{a} / $mean{lossy} - 1), '<', 1e-12, 'bytes of the first';
    cmp_ok abs($sent->{ratio} - $mean{exact} / $mean{lossy}), '<', 1e-9, 'and the ratio';
    my ($lane) = grep { $_->{count} == 5000 } @{$two->{lanes}};
    my ($own) = grep { $_->{count} == 5000 } @{$first->{lanes}};
    is_deeply [@{$lane}{qw(calls_a calls_b)}], [$own->{calls}, $own->{calls} - 1], 'a lane of both: the first exact call passed';
    my ($tensor) = grep { $_->{count} == 5000 } @{$two->{tensors}};
    is $tensor->{state_a}, 'registered', 'a tensor of the first';
    is $tensor->{state_b}, undef, 'that the second does not have';
    is((report("$files{lossy}[0] $files{exact}[0]"))[1] =~ /^  A  /m, 1, 'two files of two jobs are compared');
    is((report("--compare $files{lossy}[0] $files{lossy}[2]"))[1] =~ /^  ranks +1$/m, 1, 'any two, on request');
    my @each = map { (report($_))[1] } @{$files{lossy}};
    is((report("$files{lossy}[0] $files{lossy}[1]"))[1], "$each[0]$each[1]", 'two of one job are printed in turn');
    is((report("@{$files{lossy}}"))[1], join('', @each), 'and so are three');
    for my $n (2, 3) {
        like((report(join " ", @{$files{lossy}}[0 .. $n - 1]))[2],
            qr/^sparseshim report: these are $n ranks of one job, one after the other; --merge puts them in one\n\z/,
            'which is said, with what puts them in one');
    }
    is((report($_))[2], '', 'and only then') for $files{lossy}[0], "$files{lossy}[0] $files{exact}[0]", 'lossy exact',
        "@{$files{lossy}} $files{exact}[0]", "--csv @{$files{lossy}}", "--merge @{$files{lossy}}", 'lossy';
    is +(report('--compare lossy'))[0], 2, 'one cannot be compared';
    is +(report('--csv --merge lossy'))[0], 2, 'CSV is not merged';
    is +(report('--json --csv lossy'))[0], 2, 'one form at a time';
};

subtest 'CSV holds what JSON does, under the same names' => sub {
    my $reader = 'import csv,json,sys; json.dump(list(csv.reader(sys.stdin)), sys.stdout)';
    for my $table (qw(lanes tensors)) {
        my ($status, $text) = report("--csv=$table lossy");
        is $status, 0, $table;
        unlike $text, qr/[^\r]\n/, 'lines end as in RFC 4180';
        spurt("$dir/csv", $text);
        my ($names, @rows) = @{json((sh("python3 -c '$reader' <csv"))[1])};
        my @expected = map { my $report = $_; map { [$report->{job}{rank}, $_] } @{$report->{$table}} } @{$reports{lossy}};
        is scalar @rows, scalar @expected, 'a row for each';
        for my $i (0 .. $#rows) {
            my %row = (); @row{@$names} = @{$rows[$i]};
            my ($rank, $want) = @{$expected[$i]};
            is $row{rank}, $rank, 'rank';
            my @wrong = grep { !ref $want->{$_} && $_ ne 'series' && (exists $row{$_} ? $row{$_} : '?') ne ($want->{$_} // '') 
                && !(($want->{$_} // '') =~ /^-?[\d.e+-]+$/ && $row{$_} == $want->{$_}) } keys %$want;
            is "@wrong", '', 'every value';
        }
    }
    my ($status, $text) = report("--csv $files{lossy}[0]");
    is $text, (report("--csv=lanes $files{lossy}[0]"))[1], 'lanes, where no table is named';
    like $text, qr/,split_allgather=\d+,/, 'named numbers in one cell';
    ($status, $text) = report('--csv=series lossy');
    my @lines = split /\r\n/, $text;
    is $lines[0], 'file,rank,tensor,call,density,threshold,residual_norm,input_norm', 'a series has columns';
    is scalar @lines, 1 + sum(map { map { scalar @{$_->{series} ? $_->{series}{call} : []} } @{$_->{tensors}} } @{$reports{lossy}}),
        'and a line for each point';
    ($status, $text) = report('--csv=summary lossy exact');
    is scalar(split /\r\n/, $text), 7, 'a line for each report';
    is +(report('--csv=nothing lossy'))[0], 2, 'another table is refused';
    spurt("$dir/comma.json", encode_json({%$first, job => {%{$first->{job}}, program => "a \"b\", c\nd"}}));
    like +(report('--csv=summary comma.json'))[1], qr/^comma\.json,"a ""b"", c\nd",/m, 'quotes, commas and line ends are quoted';
};

is((report("--json $files{lossy}[0]"))[1], slurp($files{lossy}[0]), '--json gives a single report as it was');

subtest 'a page of HTML stands by itself' => sub {
    my ($status, $text, $errors) = report('--html lossy');
    is $status, 0, 'it is written' or diag $errors;
    spurt("$dir/page.html", my $page_text = $text);
    ($status, $text, $errors) = sh("python3 '$page' page.html");
    is $status, 0, 'and read' or diag $errors;
    my $seen = json($text);
    is_deeply $seen->{wrong}, [], 'every element is closed';
    is_deeply [@{$seen->{loads}}, @{$seen->{runs}}], [], 'nothing is loaded or run';
    is_deeply $seen->{odd}, [], 'every line can be drawn';
    is_deeply $seen->{json}{job}, json((report('--json lossy'))[1]), 'it holds the merged reports';
    is_deeply $seen->{json}{rank}, $first, 'and that of rank 0';
    cmp_ok $seen->{count}{svg}, '>=', 6, 'with pictures';
    like $seen->{text}, qr/$_/, $_ for 'Bytes against dense', 'Time per phase', 'Predicted against measured',
        'Density selected', 'Norms', 'Threshold', 'What the words mean',
        qr/^\s*sparseshim: train\s+train\s+\d\S* times fewer bytes\..*What limits it now: .*Date\s*20.*Hosts\s*1: .*Ranks\s*3 of 3\s.*Mode\s*topk\s.*Options\s*[A-Z][^\n]*REGISTER=count=5000:calls=1\b.*Bytes against dense/s;
    is $seen->{unfolded}, 0, 'text of a terminal is folded away';
    my $zeros = grep { $_ eq '0' } @{$seen->{axes}};
    cmp_ok $zeros, '>=', 6, 'axes begin at zero';
    is join(', ', grep { !/^(?:0|call \d+|[\d.,]+(?: (?:[kMG]?B|%|[mun]?s))?)$/ } @{$seen->{axes}}), '', 'and have units';
    my %meanings = map { ($_->[1] => []) } @{$seen->{colours}};
    push @{$meanings{$_->[1]}}, $_->[0] for @{$seen->{colours}}[0 .. @{$seen->{colours}} / 2 - 1];
    is_deeply [sort map { join '+', @$_ } grep { @$_ > 1 } values %meanings], ['dense+native', 'measured+over-its-calls'],
        'a colour has one meaning: the MPI library, or what was measured';

    for my $words ('-o page.out --html lossy', '--html lossy -o page.out', '--html -o page.out lossy') {
        my ($code, $out, $err) = report($words);
        is "$code$out$err", '0', "$words: says nothing";
        is slurp("$dir/page.out"), $page_text, '... and has written the page';
        unlink "$dir/page.out";
    }
    like join('', (report('--html lossy -o none/page.out'))[0, 2]), qr/^1.*none\/page.out cannot be written: .*; name a file /,
        'a folder that is not there: what to do';
    is +(report('--html none -o page.out'))[0], 1, 'of no job no page is written';
    ok !-e "$dir/page.out", '... nor a file made';

    my $odd = json(slurp($files{lossy}[0]));
    my $evil = q(</script><script>alert(1)</script><b title="x">'&amp;);
    $odd->{job}{program} = $evil;
    my ($lossy) = grep { $_->{series} } @{$odd->{tensors}};
    $lossy->{site} = $lossy->{symbol} = substr $evil, 0, 60;
    $odd->{lanes}[0]{communicator} = substr $evil, 0, 60;
    $odd->{lanes}[0]{seconds_scan} = 1e308;
    $lossy->{series}{input_norm}[$_] = [undef, 1e308, 1e-320, -1]->[$_ % 4] for 0 .. 7;
    spurt("$dir/odd.json", encode_json($odd));
    ($status, $text, $errors) = report('--html odd.json');
    is $status, 0, 'of an odd report' or diag $errors;
    spurt("$dir/page.html", $text);
    $seen = json((sh("python3 '$page' page.html"))[1]);
    is_deeply $seen->{wrong}, [], 'with odd names every element is closed';
    is_deeply [@{$seen->{loads}}, @{$seen->{runs}}], [], 'and none comes from them';
    is_deeply $seen->{odd}, [], 'with odd numbers every line can be drawn';
    is $seen->{json}{rank}{job}{program}, $evil, 'the name is what it was';
    is +(report('--html lossy exact'))[0], 1, 'of two jobs there is no page';
    like +(report('lossy --html'))[2], qr/--html stands before the files: sparseshim report --html FILE/, 'an option behind a file';
};

subtest 'a page says how much faster a job is by the model only where the model describes the job' => sub {
    for my $case ([0.1, qr/times slower than dense ones, by the model/], [10, qr/The model does not describe this run;/],
                  [undef, qr/The model does not describe this run;/], [2.5, qr/The model does not describe this run;/]) {
        my ($each, $words) = @$case;  # seconds predicted for a call of what ran, which took 0.1 s; dense 0.05 s
        my $odd = json(slurp($files{lossy}[0]));
        for my $lane (@{$odd->{lanes}}) {
            my $sparse = sum(values %{$lane->{sparse}}) or next;
            $lane->{predicted_seconds_sum} = {map({ ($_ => defined $each ? $each * $lane->{planned} : undef) } keys %{$lane->{sparse}}),
                                              dense => 0.05 * $lane->{planned}};
            $lane->{"seconds_$_"} = 0 for qw(scan vote merge coding);
            $lane->{seconds_exchange} = 0.1 * $sparse;
        }
        spurt("$dir/odd.json", encode_json($odd));
        my ($verdict) = (report('--html odd.json'))[1] =~ /<p class=verdict>(.*?)<\/p>/;
        like $verdict, $words, (defined $each ? $each : 'nothing') . ' s predicted and 0.1 s measured';
    }
};

subtest 'the legend has every key' => sub {
    my (%told, $group);
    for (split /\n/, (report('--legend'))[1]) {
        if (/^(?:(Merged|Compared): )?\S.*?(?: \("(\w+)" in JSON\))?$/) { $group = ($1 // '') . ($2 // '') }
        elsif (/^  (?! )(.*?)(?:, in JSON|, in the text)?(?:, with --all)?$/) { my $name = $1; $told{$group}{$name =~ /\((\w+)\)$/ ? $1 : $name} = 1 }
    }
    for (['Merged', 'lossy'], ['Compared', 'lossy exact']) {
        my ($form, $arguments) = @$_;
        my $document = json((report("--json $arguments"))[1]);
        my %parts = map { $_ => ref $document->{$_} eq 'HASH' || ref $document->{$_} eq 'ARRAY' } keys %$document;
        my @untold = grep { !$parts{$_} && !$told{$form}{$_} } keys %parts;
        for my $part (grep { $parts{$_} } keys %parts) {
            my @rows = ref $document->{$part} eq 'ARRAY' ? @{$document->{$part}} : $document->{$part};
            push @untold, map { "$part.$_" } grep { !$told{"$form$part"}{$_} } map { keys %$_ } @rows;
        }
        is "@untold", '', $form;
    }
};

done_testing;
