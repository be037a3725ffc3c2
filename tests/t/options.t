#!/usr/bin/perl
# The option table is the only place where an option exists: what `info`, `run`, configuration files, the environment, the
# manual and README say agrees. Run from the repository root.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use Test::More;

my $cli = abs_path($ENV{BUILD} // 'build') . '/sparseshim';
my $build = abs_path($ENV{BUILD} // 'build');
my $dir = tempdir('sparseshim-options-XXXXXX', TMPDIR => 1, CLEANUP => 1);
delete @ENV{grep { /^SPARSESHIM_/ } keys %ENV};
delete $ENV{LD_PRELOAD};

# Runs the command with the environment given first; returns (exit status, stdout, stderr).
sub cli {
    my ($environment, @arguments) = @_;
    local %ENV = (%ENV, %$environment);
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', "$dir/out" or die $!;
        open STDERR, '>', "$dir/err" or die $!;
        exec $cli, @arguments or die "$cli: $!";
    }
    waitpid $pid, 0;
    my $status = $?;
    return ($status & 127 ? 128 + ($status & 127) : $status >> 8, map { slurp("$dir/$_") } 'out', 'err');
}

sub slurp {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!";
    local $/;
    return scalar(<$in>) // '';
}

sub spew {
    my ($name, $text) = @_;
    open my $out, '>', "$dir/$name" or die "$name: $!";
    print $out $text;
    close $out or die $!;
    return "$dir/$name";
}

# name => [value, source] as `info` prints it.
sub values_of {
    my ($text) = @_;
    return { map { /^SPARSESHIM_(\w+) +(.*?) {2,}(\S.*)$/ ? ($1 => [$2, $3])
                 : /^SPARSESHIM_(\w+) +(.*?) (default|system file|environment|file named.*)$/
                   ? ($1 => [$2, $3]) : () } split /\n/, $text };
}

my ($code, $table) = cli({}, 'info');
is($code, 0, 'info succeeds');
my @names = $table =~ /^SPARSESHIM_(\w+) /mg;
cmp_ok(scalar(@names), '>', 10, 'the table has rows');

# A value that is allowed and not the default, for every option.
my %other = (
    DISABLE      => 'on',
    CONFIG       => '',
    MODE         => 'topk',
    MIN_COUNT    => '64Mi',
    DENSITY      => '4/512',
    REGISTER     => 'count=1000:;comm=g*',
    EXCLUDE      => 'count=7',
    WARMUP_STEPS => '100',
    VALUE_TYPE   => 'bf16',
    GUARD        => 'exact',
    QUORUM       => 'majority',
    MERGE        => '4000000',
    PROGRESS     => 'thread',
    DEVICE       => 'cpu',
    ALGORITHM    => 'dsar',
    NODE_AGGREGATION => 'on',
    ALPHA        => '20us',
    BETA         => '8e-8',
    REPRODUCIBLE => 'on',
    MAX_MEMORY   => '2GiB',
    TIMEOUT      => '2.5',
    DEBUG        => 'trace',
    DEBUG_FILE   => '/tmp/a "b" #c %h.%p',
    REPORT       => 'rank0',
    REPORT_DIR   => '/tmp/reports # here',
    TRACE        => '/tmp/traces # here',
    STRICT       => 'on',
    TORCH        => 'off',
    PROGRAMS     => 'train* !train_old',
);
is_deeply([sort keys %other], [sort @names], 'this test knows every option');
# CONFIG names a file; QUORUM does not go with some of the others.
my @together = grep { !/^(?:CONFIG|QUORUM)$/ } @names;
my %environment = map { ("SPARSESHIM_$_" => $other{$_}) } @together;

subtest 'info says the value and where it came from' => sub {
    my ($status, $out, $err) = cli({}, 'info');
    is("$status$err", '0', 'defaults: no complaint');
    my $values = values_of($out);
    is_deeply([sort keys %$values], [sort @names], 'every option is listed');
    ($status, $out, $err) = cli(\%environment, 'info');
    is("$status$err", '0', 'environment: no complaint');
    $values = values_of($out);
    for my $name (@together) {
        is_deeply($values->{$name}, [$other{$name}, 'environment'], $name);
    }
};

subtest 'each option is for users or for experts' => sub {
    my ($status, $out) = cli({}, 'info');
    my ($users, $experts) = $out =~ /\AFor users\n(.*)\n\nFor experts\n(.*?)\n\nFiles/s;
    my @shown = map { /^SPARSESHIM_(\w+)/mg } $users // '', $experts // '';
    is_deeply([sort @shown], [sort @names], 'every option is in one of the two lists');
    (undef, $out) = cli({}, 'info', '-r');
    my ($first) = $out =~ /^\.SS For users\n(.*)^\.SS For experts\n/ms;
    is_deeply([($first // '') =~ /^\.B (\w+)$/mg], [($users // '') =~ /^SPARSESHIM_(\w+)/mg], 'the same in the manual');
};

subtest 'info -f documents every option' => sub {
    my ($status, $out) = cli({}, 'info', '-f');
    for my $name (@names) {
        like($out, qr/^SPARSESHIM_$name=.*\n    \S.*\n(?:    .*\n)*?    Allowed: \S/m, $name);
    }
    unlike($out, qr/^(?!    Allowed: (?:\w+, )+\w+$).{120}/m, 'in lines that can be read'); # lists of words may grow
};

subtest 'info -c reads back to the same values' => sub {
    my (undef, $written, $err) = cli(\%environment, 'info', '-c');
    is($err, '', 'no complaint in writing');
    my $path = spew('written.conf', $written);
    my (undef, $out, $complaint) = cli({SPARSESHIM_CONFIG => $path}, 'info');
    is($complaint, '', 'no complaint in reading');
    my $values = values_of($out);
    for my $name (@together) {
        is_deeply($values->{$name}, [$other{$name}, 'file named by CONFIG'], $name);
        like($written, qr/^\L$name\E =/m, "$name is written");
    }
    my (undef, $again) = cli({SPARSESHIM_CONFIG => $path}, 'info', '-c');
    s/^# config =.*\n//m for $written, $again;
    is($again, $written, 'written once more, the file is the same');

    (undef, $written) = cli({}, 'info', '-c');
    $path = spew('defaults.conf', $written);
    (undef, $out, $complaint) = cli({SPARSESHIM_CONFIG => $path}, 'info');
    is($complaint, '', 'defaults read back too');
};

subtest 'what has no effect without MODE=topk says so' => sub {
    my %lossy = (DENSITY => '0.05', REGISTER => 'count=1000', EXCLUDE => 'count=7', WARMUP_STEPS => '20');
    for my $name (sort keys %lossy) {
        my $says = "sparseshim: SPARSESHIM_$name=$lossy{$name} needs SPARSESHIM_MODE=topk or quant; it has no effect\n";
        my %set = ("SPARSESHIM_$name" => $lossy{$name});
        my ($status, $out, $err) = cli(\%set, 'info');
        is($err, $says, "$name: one message");
        is(values_of($out)->{$name}[0], $lossy{$name}, "$name: its value stays");
        (undef, $out, $err) = cli({%set, SPARSESHIM_MODE => 'observe'}, 'info');
        is($err, $name eq 'DENSITY' ? '' : $says, "$name: observe predicts for DENSITY");
        (undef, $out, $err) = cli({%set, SPARSESHIM_MODE => 'topk'}, 'info');
        is($err, '', "$name: MODE=topk");
        is(values_of($out)->{$name}[0], $lossy{$name}, "$name: its value then");
        my $mine = spew('lossy.conf', "mode = topk\n\L$name\E = \"$lossy{$name}\"\n");
        (undef, $out, $err) = cli({SPARSESHIM_CONFIG => $mine, SPARSESHIM_MODE => 'exact'}, 'info');
        is($err, '', "$name: not where the MODE of its file is overruled");
    }
    my (undef, $out, $err) = cli({map { ("SPARSESHIM_$_" => $lossy{$_}) } keys %lossy}, 'info');
    is(scalar(() = $err =~ /\n/g), 4, 'all of them: a line each');
};

subtest 'what has no effect without another option says so' => sub {
    for my $case (['GUARD=exact', 'MODE=topk or quant'], ['REPORT_DIR=/tmp/x', 'REPORT=rank0 or all'],
        (map { ['DENSITY=1', 'VALUE_TYPE=q4, or MODE=quant, to send less', MODE => $_, VALUE_TYPE => 'same'] } qw(topk quant)),
        ['MERGE=auto', 'PROGRESS other than off', MODE => 'topk', PROGRESS => 'off'], ['MERGE=auto', 'MODE=topk or quant']) {
        my ($set, $needs, %more) = @$case;
        my ($name, $value) = split /=/, $set;
        my (undef, $out, $err) = cli({"SPARSESHIM_$name" => $value, map { ("SPARSESHIM_$_" => $more{$_}) } keys %more}, 'info');
        my $end = $name eq 'MERGE' ? 'off stands' : 'it has no effect';
        is($err, "sparseshim: SPARSESHIM_$set needs SPARSESHIM_$needs; $end\n", "$set needs $needs");
    }
};

subtest 'QUORUM says what it needs' => sub {
    my %good = (SPARSESHIM_MODE => 'topk', SPARSESHIM_REGISTER => 'count=1000::calls=1', SPARSESHIM_QUORUM => 'solo');
    my $row = sub {
        my (undef, $out, $err) = cli({%good, @_}, 'info');
        return values_of($out)->{QUORUM}[0] . ": $err";
    };
    is($row->(), 'solo: ', 'a mode, a rule');
    is($row->(SPARSESHIM_QUORUM => 'Majority'), 'majority: ', 'the other word');
    like($row->(SPARSESHIM_MODE => 'exact'), qr/^all: .*SPARSESHIM_QUORUM=solo needs SPARSESHIM_MODE=topk/, 'no top-k');
    for my $rules ('', '*', 'count=5') {
        like($row->(SPARSESHIM_REGISTER => $rules),
            qr/^all: .*QUORUM=solo needs SPARSESHIM_REGISTER with calls=N in a rule; all stands/, "REGISTER='$rules'");
    }
    like($row->(SPARSESHIM_REGISTER => 'count=1000::calls=1:values=q8'),
        qr/^all: .*QUORUM=solo needs SPARSESHIM_REGISTER without values=; all stands/, 'rounds have one coding');
    like($row->(SPARSESHIM_VALUE_TYPE => 'qsgd4'),
        qr/^all: .*QUORUM=solo needs SPARSESHIM_VALUE_TYPE other than qsgd; all/, 'to nearest');
    like($row->(SPARSESHIM_REPRODUCIBLE => 'on'),
        qr/^all: .*QUORUM=solo needs SPARSESHIM_REPRODUCIBLE=off; all stands/, 'rounds go by who comes when');
    like($row->(SPARSESHIM_QUORUM => '3'), qr/^all: .*allowed: all, majority, solo/, 'no number');
};

subtest 'run takes every option of the table' => sub {
    for my $name (@names) {
        (my $option = lc $name) =~ tr/_/-/;
        my ($status, $out, $err) = cli({}, 'run', '-n', "--$option=$other{$name}", 'true');
        is("$status$err", '0', "--$option is taken");
        like($out, qr/^SPARSESHIM_$name=\Q$other{$name}\E$/m, "and sets $name");
        like($out, qr/^LD_PRELOAD=.*libsparseshim\.so$/m,     'beside the preload');
    }
    my ($status, $out) =
      cli({SPARSESHIM_MODE => 'exact'}, 'run', '--mode=observe', 'sh', '-c', 'echo $SPARSESHIM_MODE');
    is($out, "observe\n", 'the command line wins over the environment');
    ($status, $out) = cli({}, 'run', 'echo', '--mode=x', '-n');
    is($out, "--mode=x -n\n", "the program's own arguments are left alone");
};

subtest 'mistakes are named with what is allowed' => sub {
    my ($status, $out, $err) = cli({SPARSESHIM_MODE => 'exakt'}, 'info');
    is($err, "sparseshim: SPARSESHIM_MODE=exakt is not allowed (allowed: observe, learn, exact, topk, quant); exact stays\n",
        'a bad value');
    is_deeply(values_of($out)->{MODE}, ['exact', 'default'], 'the default stands');
    ($status, $out, $err) = cli({}, 'run', '--in-flight=4', 'true');
    is($status, 2, 'an option of run that is gone');
    like($err, qr/--in-flight is gone: up to 8 /, 'gets what replaced it');
    ($status, $out, $err) = cli({}, 'run', '--algoritm=ring', 'true');
    is($status, 2, 'a mistyped option of run');
    like($err, qr/--algoritm is not known \(did you mean --algorithm\?\)/, 'gets the nearest name');
    ($status, $out, $err) = cli({}, 'run', '--mode=exakt', 'true');
    is("$status $err",
        "2 sparseshim run: SPARSESHIM_MODE=exakt is not allowed (allowed: observe, learn, exact, topk, quant)\n",
        'a bad value of an option of run');
    ($status, $out, $err) = cli({}, 'run', '--mode', 'true');
    is($status, 2, 'an option without value');
    ($status, $out, $err) = cli({}, 'info', '-x');
    is("$status $err", "2 sparseshim info: -x is not allowed; allowed is one of -f, -c, -r\n",
        'a mistyped flag of info');
};

# The manual pages that `make man` builds hold every option and every verb, and no line of them
# troubles groff.
for my $page ('sparseshim.1', 'sparseshim.conf.5', 'sparseshim.7') {
    my $file = "$build/man/$page";
    my $text = -e $file ? slurp($file) : '';
    ok(length $text, "$file was built");
    my $said = qx(groff -t -man -Tutf8 -ww -z \Q$file\E 2>&1);
    is("$? $said", '0 ', "groff formats $page without a warning");
    unlike($text, qr/@(OPTIONS|HELP|VERSION)\b/, "$page: every place is filled");
}
my $manual = slurp("$build/man/sparseshim.conf.5");
my @missing = grep { $manual !~ /^\.B \Q$_\E$/m } @names;
is("@missing", '', 'sparseshim.conf(5) names every option');

# README names the options that matter, each of which there is.
my @named = slurp('README.md') =~ /^\| `([A-Z_]+)` \|/mg;
my %known = map { $_ => 1 } @names;
is(join(' ', grep { !$known{$_} } @named), '', 'the options that README.md names exist');
cmp_ok(scalar @named, '>=', 8, 'README.md names the options that matter');
cmp_ok(scalar(() = slurp('README.md') =~ /\n/g), '<=', 130, 'README.md is short');
my ($lists) = slurp('core/base/choices.h') =~ /(#define SS_EXACT_LIST.*?)enum ss_algorithm/s;
my @algorithms = $lists =~ /X\(SS_[A-Z_]+, (\w+)\)/g;
cmp_ok(scalar @algorithms, '>=', 9, 'algorithms are found');
for my $text ('README.md', 'config/sparseshim.7.in') {
    my $words = slurp($text) =~ s/\\-/-/gr;
    is(join(' ', grep { $words !~ /\b$_\b/ } @algorithms), '', "$text names every algorithm");
}
my ($screen) = slurp('README.md') =~ /\A((?:.*\n){11})/;
for my $link ('100 Mbit/s', '1 Gbit/s', '10 Gbit/s') {
    my ($row) = $screen =~ /^\| \Q$link\E \|(.*)\|$/m;
    is(scalar(grep { /^ (?:yes|perhaps|no): / } split /\|/, $row // ''), 3, "README.md says at first if it helps at $link");
}
my @results = slurp('README.md') =~ /^\| ((?:exact|top-k|quant|the same)\b.*) \|$/mg;
cmp_ok(scalar @results, '>=', 6, 'README.md has results');
is(join(', ', grep { !/^(?:[\d.]+ (?:ms|s|MB|GB|times)|no|)$/ } map { my @cells = split / *\| */; @cells[1 .. $#cells] } @results), '',
    'with one unit in a cell');
like(slurp('README.md'), qr/$_/, "README.md: $_") for qr{\]\(scripts/CHANGELOG\.md\)}, qr/Report a fault/;
my ($security) = slurp("$build/man/sparseshim.7") =~ /^\.SH SECURITY AND WHAT A SITE DECIDES\n(.*?)^\.SH /ms;
like($security, qr/$_/, "sparseshim(7) says what a site decides: $_")
    for qw(setuid Network Read Written SPARSESHIM_DISABLE allow_modes), 'lock', 'Who can switch it on', 'users not override';

done_testing();
