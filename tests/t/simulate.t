#!/usr/bin/perl
# sparseshim simulate: its columns, errors, and what it says of runs that are too large. Run from
# the repository root.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use Test::More;

my $build = abs_path($ENV{BUILD} // 'build');
my $cli   = "$build/sparseshim";
my $dir   = tempdir('sparseshim-simulate-XXXXXX', TMPDIR => 1, CLEANUP => 1);
delete @ENV{grep { /^SPARSESHIM_/ } keys %ENV};
# The algorithms of a list of core/base/choices.h.
sub listed {
    my ($list) = @_;
    open my $in, '<', 'core/base/choices.h' or die $!;
    local $/;
    return <$in> =~ /define SS_${list}_LIST\(X\)(.*?)^#/ms ? $1 =~ /X\(\w+, (\w+)\)/g : ();
}
my @exact = listed('EXACT');
my @global = listed('GLOBAL');
my @whole = listed('WHOLE');

# Runs the verb; returns (exit status, stdout, stderr).
sub simulate {
    my ($arguments) = @_;
    my $status = system('sh', '-c', "'$cli' simulate $arguments >'$dir/out' 2>'$dir/err' </dev/null");
    my @text = map { open my $in, '<', "$dir/$_" or die "$_: $!"; local $/; scalar <$in> // '' } 'out', 'err';
    return ($status >> 8, @text);
}

# The rows as hashes.
sub rows {
    my ($arguments) = @_;
    my ($code, $out, $err) = simulate("--time=60s $arguments");
    is("$code$err", '0', "simulate $arguments");
    my ($settings, $head, @lines) = split /\n/, $out;
    my @names = split ' ', $head;
    return map { my %row; @row{@names} = split ' ', $_, scalar @names; \%row } @lines;
}

my ($code, $out, $err);

subtest 'a line for each number of ranks and algorithm, with what it assumes' => sub {
    ($code, $out, $err) = simulate('--ranks=2..8 --count=64Ki --density=0.01');
    is("$code$err", '0', 'succeeds');
    like($out, qr/^# alpha = 2e-06 s, beta = 1e-10 s.byte, overlap = 0, compute = 0$/m, 'says what it assumes');
    my @rows = rows('--ranks 2..8 --count 64Ki --density 0.01 --algorithm all');
    is(scalar @rows, 3 * (@exact + @global + @whole + 1), 'lines'); # and dense
    is(join(' ', sort keys %{$rows[0]}),
        'algorithm bytes_max bytes_mean checksum count density memory messages note ran ranks result rounds seconds source x_dense', 'columns');
    is(scalar(grep { $_->{source} ne 'simulated' || $_->{note} ne '-' } @rows), 0, 'all simulated');
};

subtest 'the exact collectives give one result, on any number of ranks' => sub {
    my @rows = rows('--ranks=2..9:1 --count=20000 --density=0.02,0.3 --algorithm=' . join ',', @exact, 'auto');
    is(scalar @rows, 8 * 2 * (@exact + 1), 'rows');
    for my $ranks (2 .. 9) {
        for my $density (0.02, 0.3) {
            my %sums = map { $_->{checksum} => 1 } grep { $_->{ranks} == $ranks && $_->{density} == $density && $_->{ran} ne 'dense' } @rows;
            is(scalar keys %sums, 1, "one checksum: $ranks ranks, $density");
        }
    }
    for my $row (grep { $_->{algorithm} eq 'ring' } @rows) {
        my $expected = 1 - (1 - $row->{density})**$row->{ranks};
        ok(abs($row->{result} / $expected - 1) < 0.05, "fill-in of $row->{ranks} ranks at $row->{density}");
    }
};

subtest 'bytes of dense and ring are those of the formulas, powers of two or not' => sub {
    for my $row (rows('--ranks=2..9:1 --count=72000 --density=1 --algorithm=dense,ring')) {
        my ($p, $bytes) = ($row->{ranks}, 4 * 72000);
        my $power = 1;
        $power *= 2 while 2 * $power <= $p;
        if ($row->{algorithm} eq 'dense') {
            my $each = 2 * $bytes * ($power - 1) / $power;
            is($row->{bytes_max}, $each + ($p > $power ? $bytes : 0), "dense, $p ranks: most");
            is($row->{bytes_mean}, sprintf('%.0f', ($power * $each + 2 * ($p - $power) * $bytes) / $p), "dense, $p ranks: mean");
        } else {
            my $beside = $row->{bytes_mean} - 2 * $bytes * ($p - 1) / $p;
            ok($beside > 0 && $beside < 0.02 * $bytes + 4000, "ring, $p ranks: $beside bytes of headers and vote");
        }
    }
};

subtest 'hosts of several ranks: the bytes of the busiest host beside those of ranks' => sub {
    my @rows = rows('--ranks=4,8 --ranks-per-host=4 --count=72000 --density=0.02 --algorithm=dense,allgather,two_level');
    is(join(' ', map { $_->{bytes_host} > 0 ? 'some' : 'none' } @rows), 'none none none some some some', 'none of one host alone');
    is(join(' ', map { $_->{x_dense} > 1e3 ? 'many' : 'few' } @rows[0 .. 2]), 'few few few', 'dense on one host stays inside it, too');
    my ($dense, $flat, $two_level) = @rows[3 .. 5];
    is($dense->{bytes_host}, 4 * 72000, 'dense sums inside hosts first');
    is($two_level->{checksum}, $flat->{checksum}, 'two levels give the same sum');
    ok($two_level->{bytes_host} < $flat->{bytes_host} / 2, 'with fewer bytes between hosts');
};

subtest 'latency and bandwidth are what is given' => sub {
    my ($latency) = rows('--ranks=8 --count=64Ki --algorithm=dense --alpha=1ms --beta=0');
    is($latency->{seconds}, 6.6e-3, 'six rounds of a millisecond and its tenth, for which a message holds the link');
    my ($wire) = rows('--ranks=8 --count=64Ki --algorithm=dense --alpha=0 --beta=8e-9');
    is($wire->{seconds}, sprintf('%.9g', 2 * 7 / 8 * 4 * 65536 * 8e-9), 'and 2 (P-1)/P vectors of bytes');
};

subtest 'where nothing takes time nothing is said to be faster' => sub {
    my ($row) = rows('--ranks=2 --count=1000 --algorithm=ring --alpha=0 --beta=0');
    is("$row->{seconds} $row->{x_dense}", '0 -', 'no speedup');
};

subtest 'computing takes its time where it is asked to' => sub {
    my $arguments = '--ranks=8 --count=200000 --density=0.2 --algorithm=allgather --alpha=0 --beta=0';
    my ($none, $some) = map { (rows("$arguments $_"))[0] } '', '--compute=100';
    is($none->{seconds}, 0, 'none without');
    ok($some->{seconds} > 0, 'some with');
    is($some->{checksum}, $none->{checksum}, 'the result is the same');
};

subtest 'entries that ranks have in common' => sub {
    my ($none, $all) = map { (rows("--ranks=16 --count=100000 --density=0.01 --algorithm=ring --overlap=$_"))[0] } 0, 1;
    is($all->{result}, 0.01, 'all of them');
    ok(abs($none->{result} - 0.1485) < 0.005, 'none but by chance');
    ok($all->{bytes_max} < $none->{bytes_max}, 'and fewer bytes');
};

subtest 'the same arguments print the same bytes' => sub {
    my $arguments = '--ranks=2..16 --count=30000 --density=0.01 --time=60s';
    my (undef, $first)  = simulate($arguments);
    my (undef, $second) = simulate($arguments);
    is($second, $first, 'twice');
};

subtest 'many ranks: what takes too much is extrapolated from the largest run, or refused' => sub {
    my @rows = rows('--ranks=2..4096 --count=100000 --density=0.001 --algorithm=gtopk,dense,allgather --memory=60MiB');
    my (%last, %simulated);
    for my $row (@rows) {
        $simulated{$row->{algorithm}}++ if $row->{source} eq 'simulated';
        my $known = $last{$row->{algorithm}};
        if ($row->{algorithm} eq 'dense') {
            is($row->{source}, 'simulated', "dense, $row->{ranks} ranks");
        } elsif ($row->{source} eq 'simulated') {
            ok(!$known || $known->{source} eq 'simulated', "$row->{algorithm}, $row->{ranks} ranks: before those that are not");
            like($row->{checksum}, qr/^[0-9a-f]{16}$/, 'with a checksum');
        } else {
            is($row->{source}, 'extrapolated', "$row->{algorithm}, $row->{ranks} ranks");
            like($row->{note}, qr/^from \d+ ranks; \d+ ranks need (about|more than) [\d.]+ [MG]iB \(--memory=60 MiB\)$/, 'says from where, and why');
            is("$row->{checksum}$row->{rounds}$row->{messages}$row->{memory}", '----', 'and has no checksum');
            ok($row->{seconds} > $known->{seconds} && $row->{bytes_max} > $known->{bytes_max}, 'and grows');
        }
        $last{$row->{algorithm}} = $row;
    }
    ok($simulated{gtopk} && $simulated{allgather}, 'runs of few ranks are no extrapolations');
    is($last{allgather}{source}, 'extrapolated', '4096 ranks are too many for 60 MiB');
    my ($refused) = rows('--ranks=2 --count=1Gi --algorithm=ring --memory=100MB');
    is($refused->{source}, 'refused', 'two ranks are');
    like($refused->{note}, qr/^2 ranks need about 20 GiB \(--memory=95\.4 MiB\)$/, 'with an estimate');
    is($refused->{seconds}, '-', 'and no figures');
    my ($slow) = rows('--ranks=64 --count=1Mi --density=0.2 --algorithm=split_allgather --time=1ms');
    is($slow->{source}, 'refused', 'and where time is short');
    like($slow->{note}, qr/^2 ranks take more than 0\.001 s \(--time\)$/, 'it says so');
};

subtest 'an extrapolation is near what a run would give' => sub {
    my $case = '--ranks=64 --count=50000 --density=0.008 --algorithm=split_allgather,allgather,ring,recursive_doubling,gtopk';
    my %simulated = map { $_->{algorithm} => $_ } rows($case);
    for my $row (rows("$case --memory=11MiB")) {
        my $run = $simulated{$row->{algorithm}};
        is("$run->{source} $row->{source}", 'simulated extrapolated', $row->{algorithm});
        for my $figure (qw(seconds bytes_max bytes_mean result)) {
            my $off = $row->{$figure} / $run->{$figure} - 1;
            ok(abs($off) < 0.2, sprintf '%s within 20 %% (%+.1f %%)', $figure, 100 * $off);
        }
    }
};

subtest 'a bad value is named, with what is allowed' => sub {
    for my $case (
        ['--ranks=1', qr/^sparseshim simulate: --ranks=1: allowed are numbers from 2 to 4096/],
        ['--ranks=2..5000', qr/--ranks=2\.\.5000: allowed are/],
        ['--ranks=9..2', qr/--ranks=9\.\.2: allowed are/],
        ['--ranks=2..9:0', qr/--ranks=2\.\.9:0: allowed are/],
        ['--ranks=', qr/--ranks=: allowed are/],
        ['--ranks=2,,4', qr/--ranks=2,,4: allowed are/],
        ['--ranks=2,4,', qr/--ranks=2,4,: allowed are/],
        ['--ranks=' . '0' x 70 . '4', qr/: allowed are numbers from 2 to 4096/],
        ['--count=0', qr/--count=0: allowed are elements, 1 to 1Gi/],
        ['--count=4Ti', qr/--count=4Ti: allowed are/],
        ['--density=0', qr/--density=0: allowed are shares above 0, up to 1/],
        ['--density=101%', qr/--density=101%: allowed are/],
        ['--algorithm=fast', qr/--algorithm=fast: allowed are all, auto, recursive_doubling, .*, dense/],
        ['--alpha=-1', qr/--alpha=-1: allowed are seconds per message/],
        ['--beta=1Gbit', qr/--beta=1Gbit: allowed are seconds per byte/],
        ['--overlap=2', qr/--overlap=2: allowed are a share from 0 to 1/],
        ['--memory=none', qr/--memory=none: allowed are bytes/],
        ['--time=0', qr/--time=0: allowed are seconds, more than 0/],
        ['--count', qr/--count needs a value: elements/],
        ['--rank=4', qr/--rank is not known \(did you mean --ranks\?\)/],
        ['4', qr/4 is no option; all it takes is --OPTION=VALUE/],
    ) {
        my ($argument, $message) = @$case;
        ($code, $out, $err) = simulate($argument);
        is("$code$out", '2', "simulate $argument");
        like($err, $message, 'message');
        is(scalar(() = $err =~ /\n/g), 1, 'in one line');
    }
};

subtest 'the example of README.md extrapolates nothing' => sub {
    open my $in, '<', 'README.md' or die $!;
    my ($example) = do { local $/; <$in> } =~ /`sparseshim simulate ([^`]+)`/ or die 'no example';
    is(scalar(grep { $_->{source} ne 'simulated' } rows($example)), 0, "rows of $example that are not simulated");
};

done_testing();
