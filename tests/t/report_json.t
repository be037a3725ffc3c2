#!/usr/bin/perl
# The JSON of a report is JSON to others too, and `sparseshim report` prints all of it.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

my $build = $ENV{BUILD} // 'build';
my $dir = tempdir(CLEANUP => 1);

sub output {
    my @command = @_;
    open my $pipe, '-|', @command or die "$command[0]: $!";
    local $/;
    my $text = <$pipe> // '';
    close $pipe;
    return $text;
}

my $json = output("$build/tests/unit/test_report", 'json');
is $?, 0, 'the sample is written';

my $report = eval { JSON::PP->new->utf8->decode($json) };
is $@, '', 'a strict reader takes the report';
is $report->{schema}, 3, 'the schema is named';
is $report->{job}{program}, "odd \"name\" \x01 ? \x{e9}", 'an odd name arrives';
is $report->{calls}{seen}, 1010, 'calls are plain numbers';
is $report->{times}{seconds_allreduce}, 15, 'times are in seconds';
is $report->{times}{share_allreduce}, 0.25, 'f is a fraction';
is scalar @{$report->{lanes}}, 2, 'every lane is there';
is $report->{lanes}[0]{communicator}, 'MPI_COMM_WORLD', 'the largest lane is first';
is $report->{lanes}[0]{bytes_dense}, 25165824000, 'bytes are whole';
is $report->{lanes}[1]{density_sum}, undef, 'what is not a number is null';
is $report->{lanes}[0]{passed}{observe}, 1000, 'reasons have short names';
is $report->{lanes}[0]{advice}{best}, 'recursive_doubling', 'the advice is in it';
my ($lists) = output('cat', 'core/base/choices.h') =~ /(define SS_EXACT_LIST.*?)enum/s;
is join(' ', sort keys %{$report->{lanes}[0]{predicted_seconds_sum}}), join(' ', sort 'dense', $lists =~ /X\(\w+, (\w+)\)/g),
    'so is every prediction';
is scalar @{$report->{tensors}}, 4, 'every tensor is there';
is $report->{tensors}[0]{residual_ratio}, 2.5, 'with the ratio of residual to input';
is scalar(@{$report->{tensors}[0]{series}{call}}), 75, 'a series has points at even distances';
is $report->{tensors}[0]{series}{call}[-1], 297, 'to the last';
is $report->{tensors}[1]{series}, undef, 'or there is none';
is $report->{tensors}[1]{reason}, 'no_rule', 'with the reason why it stays exact';

my $file = "$dir/report.json";
open my $out, '>:raw', $file or die "$file: $!";
print $out $json;
close $out or die "$file: $!";
my ($all, $main) = map { output("$build/sparseshim", 'report', @$_, $file) } ['--all'], [];
is $?, 0, 'sparseshim report prints it';
unlike $main, qr/ $/m, 'no line ends in blanks';
unlike $main, qr/^ +tensor +.*(?:ordinal|off k)/m, 'what is rarely useful is left out';
like $all, qr/^ +tensor +communicator .* ordinal /m, 'and is there with --all';
like $main, qr/^  \Q$_\E/m, $_ for 'calls    1,010 seen: 0 made sparse, 1,010 passed through, 0 errors',
    'phases   scan 2.00 s, vote 1.00 s,', 'memory   12.3 MB of our own at peak', 'network  4.13 MB sent once',
    'outside  4.10 kB in buffers of calls that were not looked at further',
    '        1  MPI_COMM_WORLD      4  4,194,304  float ', '        1  SPARSESHIM_MODE=exact  ', '        2  -                      nothing to gain: density -, recursive_doubling 2.00 ms against 1.00 ms per call; dense was predicted to take 18.0 ms and took 1.00 ms',
    '        1  native                 25.2 MB   120 ms             -  measured',
    '        1  recursive_doubling      250 kB  12.0 ms          10.0  best sparse',
    '     1  registered          990  1.00 %    1.05 %      12.5      2.50',
    '  count below MIN_COUNT: calls below MIN_COUNT elements go straight to the MPI library', 'MIN_COUNT  65536';
like $main, qr/matches no rule of REGISTER +REGISTER=count=7850,site=train\+0x1400$/m, 'why a tensor is exact';
like $all, qr/^  MPI      MPICH Version: 4\.0\.2$/m, 'the first line of a long name';

my (%told, $group);
for (split /\n/, output("$build/sparseshim", 'report', '--legend')) {
    if (/^(\S.*?)(?: \("(\w+)" in JSON\))?$/) { $group = $2 // $1 }
    elsif (/^  (?! )(.*?)(?:, in JSON|, in the text)?(?:, with --all)?$/) { my $name = $1; $told{$group}{$name =~ /\((\w+)\)$/ ? $1 : $name} = 1 }
}
my @untold = grep { !ref $report->{$_} && !$told{'The document'}{$_} } keys %$report;
for my $part (grep { ref $report->{$_} } keys %$report) {
    my @rows = ref $report->{$part} eq 'ARRAY' ? @{$report->{$part}} : $report->{$part};
    push @untold, map { "series.$_" } grep { !$told{series}{$_} } map { keys %{$_->{series} || {}} } @rows;
    push @untold, map { "advice.$_" } grep { !$told{advice}{$_} } map { keys %{$_->{advice} || {}} } @rows;
    push @untold, map { "$part.$_" } grep { !$told{$part}{$_} } map { keys %$_ } @rows;
}
is "@untold", '', 'report --legend explains every key';

open $out, '>:raw', "$dir/empty.json" or die $!;
print $out output("$build/tests/unit/test_report", 'empty');
close $out;
like output("$build/sparseshim", 'report', "$dir/empty.json"), qr/^  calls    0 seen: /m, 'so has a job without calls';

# Of several ranks: bytes that are more than those of dense calls are called more.
my @ranks;
for my $rank (0, 1) {
    my $one = JSON::PP->new->utf8->decode($json);
    $one->{job}{rank} = $rank;
    @{$one->{bytes}}{qw(bytes_dense bytes_sent)} = (1e6, 4e6);
    $_->{bytes_sent} = 4 * $_->{bytes_dense} for @{$one->{lanes}};
    push @ranks, "$dir/rank$rank.json";
    open $out, '>:raw', $ranks[-1] or die $!;
    print $out JSON::PP->new->utf8->encode($one);
    close $out;
}
like output("$build/sparseshim", 'report', '--merge', @ranks), qr/ 8\.00 MB sent instead of 2\.00 MB, .*: 4\.00 times more$/m,
    'ranks together: more bytes are called more';

truncate $file, length($json) / 2 or die "$file: $!";
my $message = output('sh', '-c', '"$1" report "$2" 2>&1', 'sh', "$build/sparseshim", $file);
isnt $?, 0, 'half a report is refused';
like $message, qr/\Q$file\E.*line \d+, column \d+/, 'with file, line and column';

my $log = output('sh', '-c', '"$1" locale 2>&1', 'sh', "$build/tests/unit/test_report");
SKIP: {
    skip 'no locale with a decimal comma is installed (tried de_DE, fr_FR, ps_AF)', 1
        if $? >> 8 == 77;
    is $?, 0, 'a locale with a decimal comma changes nothing' or diag $log;
}

done_testing;
