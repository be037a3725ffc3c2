#!/usr/bin/perl
# The command line program: verbs, preload, and the verdict of check. Run from the repository root.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use Test::More;

my $build = abs_path($ENV{BUILD} // 'build');
my $cli   = "$build/sparseshim";
my $lib   = "$build/libsparseshim.so";
my $dir   = tempdir('sparseshim-cli-XXXXXX', TMPDIR => 1, CLEANUP => 1);
delete @ENV{grep { /^SPARSESHIM_/ } keys %ENV};
delete @ENV{qw(LD_PRELOAD LD_LIBRARY_PATH)};

# Runs a shell command; returns (exit status, stdout, stderr). A signal gives 128 and more. Also without the library,
# mpirun now and then ends by SIGPIPE (141) if ranks that make no MPI call end at once; then it runs again.
sub sh {
    my ($command) = @_;
    my $code = 141;
    for (my $turn = 1; $code == 141 && $turn <= 5; $turn++) {
        my $status = system("sh", "-c", "exec >'$dir/out' 2>'$dir/err'; $command");
        $code = $status & 127 ? 128 + ($status & 127) : $status >> 8;
    }
    my @text;
    for my $name ('out', 'err') {
        open my $in, '<', "$dir/$name" or die "$name: $!";
        local $/;
        push @text, scalar <$in> // '';
    }
    return ($code, @text);
}

sub file {
    my ($name, $text, $mode) = @_;
    open my $out, '>', "$dir/$name" or die "$name: $!";
    print $out $text;
    close $out or die "$name: $!";
    chmod $mode, "$dir/$name" if defined $mode;
    return "$dir/$name";
}

sub compiled {
    my ($command) = @_;
    my ($code, $out, $err) = sh("cd '$dir' && $command");
    is($code, 0, "compiles: $command") or diag($out, $err);
}

my ($code, $out, $err);
my ($mpicc) = grep { -x } map { ("$_/mpicc.mpich") } split /:/, $ENV{PATH};
$mpicc //= 'mpicc';
my ($mpirun) = grep { -x } map { ("$_/mpirun.mpich") } split /:/, $ENV{PATH};
$mpirun //= 'mpirun';

subtest 'verbs are listed, and the nearest is offered for a typo' => sub {
    ($code, $out, $err) = sh("'$cli'");
    is($code, 2,  'no verb is a usage error');
    is($out,  '', 'nothing on standard output');
    for my $verb (qw(info run learn check report simulate help --version)) {
        like($err, qr/^  \Q$verb\E\s+\w/m, "$verb is listed");
    }
    ($code, $out) = sh("'$cli' help");
    is($code, 0, 'help succeeds');
    like($out, qr/^usage: sparseshim/, 'and prints the usage');
    ($code, $out) = sh("'$cli' help run");
    like($out, qr/mpirun -n 8 sparseshim run/, 'help of a verb');
    for my $verb (qw(info run check report simulate help)) {
        (undef, my $help) = sh("'$cli' help $verb");
        for my $flag ('--help', '-h') {
            ($code, $out, $err) = sh("'$cli' $verb $flag");
            is("$code$out$err", "0$help", "$verb $flag");
        }
    }
    for my $words ('bench --count 5', 'learn --steps 5 --out x', 'run --mode=exact', 'simulate --ranks 4') {
        my ($verb) = split / /, $words;
        (undef, my $help) = sh("'$cli' help $verb");
        for my $flag ('--help', '-h') {
            ($code, $out, $err) = sh("'$cli' $words $flag");
            is("$code$out$err", "0$help", "$words $flag");
        }
    }
    ($code, $out) = sh("'$cli' run -n echo --help");
    like($out, qr/^exec echo --help$/m, "a program's --help is its own");
    ($code, $out) = sh("'$cli' --version");
    like($out, qr/^sparseshim \d+\.\d+\.\d+$/, 'version');
    ($code, $out, $err) = sh("'$cli' chekc");
    is($code, 2,                                                         'unknown verb');
    is($err,  "sparseshim: chekc is not known (did you mean check?)\n", 'nearest verb');
    ($code, $out, $err) = sh("'$cli' frobnicate");
    is($err, "sparseshim: frobnicate is not known; `sparseshim help` lists the verbs\n", 'nothing near');
    file('ar',       "#!/bin/sh\n", 0755);
    file('train.py', "print(1)\n",  0644);
    for my $case (['./ar', './ar'], ["'$dir/ar' x", "$dir/ar"], ['train.py', 'python3 train.py'], ['printf x', 'printf']) {
        my ($words, $meant) = @$case;
        ($code, $out, $err) = sh("cd '$dir' && '$cli' $words");
        like("$code $err", qr/\A2 sparseshim: \S+ is a program, no verb: sparseshim run \Q$meant\E\n\z/, "$words: what is meant");
    }
    ($code, $out, $err) = sh("'$cli' try -- true");
    is("$code$out", 2, 'try is gone');
    like($err, qr/^sparseshim: try is replaced by three commands: learn .*, run .*, report .*\n\z/, 'a line says what replaced it');
    ($code, $out, $err) = sh("'$cli' info > /dev/full");
    is($code, 1, 'a full disk is an error');
};

subtest 'run puts the library in front of what is preloaded already' => sub {
    ($code, $out) = sh(qq('$cli' run sh -c 'echo "\$LD_PRELOAD"'));
    is($code, 0,        'exit status of the program');
    is($out,  "$lib\n", 'preload');
    ($code, $out) = sh(qq(LD_PRELOAD=libm.so.6 '$cli' run -- sh -c 'echo "\$LD_PRELOAD"'));
    is($out, "$lib:libm.so.6\n", 'former preload is kept');
    ($code, $out) = sh(qq('$cli' run '$cli' run sh -c 'echo "\$LD_PRELOAD"'));
    is($out, "$lib\n", 'once is enough');
    ($code, $out) = sh(qq(LD_PRELOAD="libm.so.6 $lib:libdl.so.2 $lib" '$cli' run -n true));
    like($out, qr/^LD_PRELOAD=\Q$lib\E:libm\.so\.6:libdl\.so\.2$/m,
        'it comes first, once, wherever it stood');
    ($code, $out) = sh(qq(LD_PRELOAD=":libm.so.6: /not/there/libsparseshim.so" '$cli' run -n true));
    like($out, qr/^LD_PRELOAD=\Q$lib\E:libm\.so\.6$/m, 'in the place of another copy of itself');
    ($code, $out) = sh(qq('$cli' run grep -c libsparseshim.so /proc/self/maps));
    cmp_ok($out, '>', 0, 'the library is mapped');
    ($code, $out, $err) = sh("'$cli' run sh -c 'exit 7'");
    is("$code$out$err", '7', 'status is passed on and nothing is printed');
};

subtest 'run in front of the mpirun of Open MPI hands its variables to other hosts' => sub {
    mkdir "$dir/$_" for qw(open open5 other);
    for (qw(open/orterun open5/mpirun open5/ompi_info other/mpirun)) {
        file($_, "#!/bin/sh\n");
        chmod 0755, "$dir/$_";
    }
    symlink 'orterun', "$dir/open/mpirun";
    for my $mpirun ("$dir/open/mpirun", "$dir/open5/mpirun") {
        ($code, $out) = sh("SPARSESHIM_REPORT=rank0 SPARSESHIM_TIMEOUT=5 '$cli' run -n --mode=observe -- '$mpirun' -x SPARSESHIM_TIMEOUT=7 -n 2 ./app");
        my ($exported) = $out =~ /^exec \Q$mpirun\E (.*) -x SPARSESHIM_TIMEOUT=7 -n 2 \.\/app$/m;
        is(join(' ', sort split / ?-x /, $exported // ''), ' LD_PRELOAD SPARSESHIM_MODE SPARSESHIM_REPORT',
            "$mpirun: its options and those of the environment, but for an -x of the user's");
    }
    ($code, $out) = sh("'$cli' run -n -- '$dir/other/mpirun' -n 2 ./app");
    like($out, qr/^exec \S+mpirun -n 2 \.\/app$/m, 'other launchers hand on all variables');
};

subtest 'run -n with a number is a launcher forgotten, not a dry run' => sub {
    for my $words ('-n 4', '--mode=exact -n 4', '-n 4 --mode=exact', '-np 4', '-n4', '-np8', '-n -n 4') {
        ($code, $out, $err) = sh("'$cli' run $words touch '$dir/ran'");
        is("$code$out", 2, "$words: a usage error, and nothing is printed");
        like($err, qr/^sparseshim run: -np? ?\d is for a launcher, which is missing; meant is sparseshim run \[OPTIONS\] -- mpirun -n 4 \.\/app, or mpirun -n 4 sparseshim run .*\n\z/,
            "$words: what is meant");
    }
    ok(!-e "$dir/ran", 'nothing ran');
    my @set = ('SPARSESHIM_MODE=observe', 'SPARSESHIM_REPORT=rank0', "LD_PRELOAD=$lib", 'exec 4 -n 4');
    for my $words ('-n --mode=observe --report=rank0 --', '--mode=observe -n --report=rank0 --',
        '--mode=observe --report=rank0 -n --')
    {
        ($code, $out, $err) = sh("'$cli' run $words 4 -n 4");
        is("$code$out$err", join("\n", 0 . shift @{[@set]}, @set[1 .. 3], ''), "$words: all that would be set, wherever -n stands");
    }
    ($code, $out) = sh("'$cli' run -n true");
    is($code, 0, 'the dry run');
    like($out, qr/^exec true$/m, 'shows the program');
};

subtest 'run works under a launcher' => sub {
    ($code, $out, $err) =
      sh("timeout -k 5 60 '$mpirun' -n 2 '$cli' run --mode=observe "
          . q(sh -c 'echo $SPARSESHIM_MODE; grep -c libsparseshim.so /proc/self/maps'));
    is($code, 0, 'exit status') or diag($err);
    my @lines = sort split /\n/, $out;
    is(scalar(@lines), 4, 'both ranks speak');
    is_deeply([grep { $_ eq 'observe' } @lines], ['observe', 'observe'], 'both have the option');
    is(scalar(grep { /^[1-9]/ } @lines), 2, 'both have the library');
};

subtest 'run refuses what cannot be meant, in one line per job' => sub {
    mkdir "$dir/$_" for qw(home home/sparseshim);
    file('home/sparseshim/mine.conf', "mode = topk\n");
    local $ENV{XDG_CONFIG_HOME} = "$dir/home";
    for my $case (
        ['--mode=sparse',       qr/SPARSESHIM_MODE=sparse is not allowed \(allowed: observe, learn, exact, topk, quant\)/],
        ['--density=5',         qr/SPARSESHIM_DENSITY=5 is not allowed/],
        ['--register=100000',   qr/SPARSESHIM_REGISTER: rule 1, '100000', character 1: '100000' is no condition/],
        ['--exclude=count=5x',  qr/SPARSESHIM_EXCLUDE: rule 1, 'count=5x', character 7: /],
        ['--exclude=count=5:density=1', qr/SPARSESHIM_EXCLUDE: rule 1, /],
        ['--config=nofile',     qr/SPARSESHIM_CONFIG: nofile cannot be read: No such file or directory/],
        ["--config='$dir'",     qr/SPARSESHIM_CONFIG: \Q$dir\E cannot be read: Is a directory/],
        ['--config=@nope',      qr/.*nope\.conf cannot be read: .*; profiles: .*\binfiniband, mine\b/],
        ['--profile nope',      qr/--profile NAME is replaced by --config=\@NAME/],
        ['--algoritm=ring',     qr/--algoritm is not known \(did you mean --algorithm\?\)/])
    {
        my ($option, $why) = @$case;
        ($code, $out, $err) = sh("'$cli' run $option touch '$dir/ran'");
        is("$code$out", 2, "$option: status 2");
        like($err, qr/\Asparseshim run: (?:$why).*\n\z/, "$option: why");
        ($code, $out, $err) = sh("timeout -k 5 60 '$mpirun' -n 3 '$cli' run $option touch '$dir/ran'");
        is($code, 2, "$option: status 2 of 3 ranks");
        is(scalar(() = $err =~ /^sparseshim run: /mg), 1, "$option: one line of 3 ranks") or diag($err);
        my ($value) = $option =~ /^--config=(.*)/ or next;
        ($code, $out, $err) = sh("SPARSESHIM_CONFIG=$value '$cli' run touch '$dir/ran'");
        like("$code$err", qr/\A2sparseshim run: (?:$why).*\n\z/, "$value in the environment: the same");
        ($code, $out, $err) = sh("SPARSESHIM_DISABLE=on SPARSESHIM_CONFIG=$value '$cli' run true");
        is("$code$err", '0', "$value with DISABLE=on: runs");
    }
    ($code, $out, $err) = sh("timeout -k 5 60 '$mpirun' -n 3 '$cli' run ./no-such-program");
    is(scalar(() = $err =~ /cannot be run/g), 1, 'a missing program: one line of 3 ranks');
    ok(!-e "$dir/ran", 'nothing ran');
    for my $option ('--register="count=1000; site=grad*:density=0.1"', '--exclude="count=5 count=7"',
        '--config=@mine', "--config='$dir/home/sparseshim/mine.conf'") {
        ($code, $out, $err) = sh("'$cli' run --mode=topk $option true");
        is("$code$out$err", '0', "$option: runs");
    }
    # A datagram is what one write has sent.
    require Socket;
    socketpair my $here, my $there, Socket::AF_UNIX(), Socket::SOCK_DGRAM(), 0 or die "socketpair: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDERR, '>&', $there or die;
        exec $cli, 'run', '--mode=sparse', 'true';
    }
    waitpid $pid, 0;
    sysread $here, my $written, 4096;
    like($written, qr/\Asparseshim run: SPARSESHIM_MODE=sparse is not allowed .*\n\z/, 'in one write');
};

subtest 'run finds the library where it was installed' => sub {
    mkdir "$dir/$_" for qw(prefix prefix/bin prefix/lib), 'a b';
    copy($cli, "$dir/prefix/bin/sparseshim");
    copy($lib, "$dir/prefix/lib/libsparseshim.so");
    chmod 0755, "$dir/prefix/bin/sparseshim";
    ($code, $out) = sh(qq('$dir/prefix/bin/sparseshim' run sh -c 'echo "\$LD_PRELOAD"'));
    is($out, abs_path("$dir/prefix/lib/libsparseshim.so") . "\n", 'in ../lib');
    symlink "$dir/prefix/bin/sparseshim", "$dir/link";
    ($code, $out) = sh(qq('$dir/link' run sh -c 'echo "\$LD_PRELOAD"'));
    is($out, abs_path("$dir/prefix/lib/libsparseshim.so") . "\n", 'also through a link');
    copy($cli, "$dir/a b/sparseshim");
    copy($lib, "$dir/a b/libsparseshim.so");
    chmod 0755, "$dir/a b/sparseshim";
    ($code, $out, $err) = sh(qq('$dir/a b/sparseshim' run true));
    is($code, 126, 'a path with a blank cannot be preloaded');
    like($err, qr/a b\/libsparseshim\.so cannot be preloaded/, 'and the message says so');
};

subtest 'run says why a program cannot be run' => sub {
    ($code, $out, $err) = sh("'$cli' run ./no-such-program");
    is($code, 127, 'missing');
    is($err, "sparseshim run: ./no-such-program cannot be run: No such file or directory\n", 'why');
    file('plain', "#!/bin/sh\n", 0644);
    ($code, $out, $err) = sh("'$cli' run '$dir/plain'");
    is($code, 126, 'not executable');
    like($err, qr/plain cannot be run: Permission denied/, 'why');
    my $alone = 'is a Python script that cannot be run by its name alone: sparseshim run python3';
    for my $case (['', 0644], ['', 0755], ["#!/usr/bin/env python3\n", 0644]) {
        my ($first, $mode) = @$case;
        file('train.py', "${first}open('ran', 'w')\n", $mode);
        for my $name ('train.py', './train.py', "$dir/train.py") {
            ($code, $out, $err) = sh("cd '$dir' && '$cli' run $name --epochs 3");
            is("$code$err", "126sparseshim run: $name $alone $name\n", sprintf '%s, mode %o: what to type', $name, $mode);
        }
    }
    ok(!-e "$dir/ran", 'none has run, by the shell neither');
    file('train.py', "#!/usr/bin/env python3\nprint('ran')\n", 0755);
    ($code, $out, $err) = sh("cd '$dir' && '$cli' run ./train.py");
    is("$code$out$err", "0ran\n", 'one with both runs');
    ($code, $out, $err) = sh("cd '$dir' && '$cli' run train.py");
    is("$code$err", "127sparseshim run: train.py is not in PATH: sparseshim run ./train.py\n", 'a file of the current directory');
    ($code, $out, $err) = sh("'$cli' run");
    is($code, 2, 'no program');
    like($err, qr/no program given/, 'is said');
};

subtest 'run with a report says at the end of a program that it made no MPI call' => sub {
    my $line = qr/^sparseshim: (\S+) made no MPI call that the library sees, so there is no report; for PyTorch .*\n\z/;
    file('calm.py', "print('ran')\n", 0644);
    file('small.py', "import subprocess\nsubprocess.run(['true'])\n", 0644);
    copy('/bin/true', "$dir/mpiexec.any");
    chmod 0755, "$dir/mpiexec.any";
    file('waits.sh', "#!/bin/bash\n$mpirun -n 2 $build/tests/mpi/smoke\n\$@", 0755);
    for my $set ('--report=rank0', "--report-dir='$dir/reports'") {
        for my $case (['true', 'true'], ["/usr/bin/python3 '$dir/calm.py'", 'calm.py'], ["sh -c 'exec true'", 'true'],
                      ["/usr/bin/python3 '$dir/small.py'", 'small.py']) {
            my ($program, $name) = @$case;
            ($code, $out, $err) = sh("'$cli' run $set $program");
            is($code, 0, "$set $program ends as it does");
            is($err =~ $line ? $1 : $err, $name, 'and the line names it');
        }
    }
    for my $case (["'$cli' run true", 'without a report'],
                  ["SPARSESHIM_DISABLE=1 '$cli' run --report=rank0 true", 'switched off'],
                  ["! '$cli' run --report=rank0 false", 'a program that fails'],
                  ["'$cli' run --report=rank0 --debug=none true", 'DEBUG=none'],
                  ["'$cli' run --report=rank0 '$dir/mpiexec.any'", 'a launcher, whose ranks may be on other hosts'],
                  ["'$cli' run --report=rank0 '$cli' run --disable=on true", 'an inner run that switches off'],
                  ["$mpirun -n 3 sh -c 'PMI_RANK=\$((PMI_RANK + 1)) '$cli' run --report=rank0 true'", 'ranks but 0']) {
        my ($command, $name) = @$case;
        ($code, $out, $err) = sh($command);
        is("$code$err", '0', "$name: no line");
    }
    for my $end ('', 'exec true') {
        ($code, $out, $err) = sh("'$cli' run --report=rank0 '$dir/waits.sh' $end");
        is($code, 0, "a script whose programs made calls, $end: ends as it does");
        unlike($err, qr/made no MPI call/, 'and has no line');
    }
    ($code, $out, $err) = sh("$mpirun -n 3 '$cli' run --report=rank0 true");
    like($err, $line, 'one line for all ranks of a job');
};

my $app = <<'C';
#include <mpi.h>
int main(int argc, char **argv)
{
    int one = 1, sum;
    MPI_Init(&argc, &argv);
    CALL(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum == 0;
}
C
file('app.c', "#ifndef CALL\n#define CALL MPI_Allreduce\n#endif\n$app");
file('profiler.c', <<'C');
#include <mpi.h>
int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return PMPI_Allreduce(in, out, n, type, op, comm);
}
C
file('empty.c', "int main(void) { return 0; }\n");
file('direct.c', "#define CALL PMPI_Allreduce\n#include \"app.c\"\n");
file('barrier.c', <<'C');
#include <mpi.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
C
file('nonblocking.c', <<'C');
#include <mpi.h>
int main(int argc, char **argv)
{
    int one = 1, sum;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return MPI_Finalize();
}
C
file('persistent.c', <<'C');
#include <mpi.h>
int main(int argc, char **argv)
{
    int one = 1, sum;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Request_free(&request);
    return MPI_Finalize();
}
C
# Stands for Open MPI: the names by which the real one is told.
file('open.c', "int ompi_mpi_comm_world, MPI_Allreduce(void), PMPI_Allreduce(void);\n"
      . "int MPI_Allreduce(void) { return 0; }\nint PMPI_Allreduce(void) { return 0; }\n"
      . "int mpi_allreduce_(void) { return 0; }\n");
file('openapp.c', "#ifdef FORTRAN\n#define MPI_Allreduce mpi_allreduce_\n#endif\n"
      . "int MPI_Allreduce(void);\nint main(void) { return MPI_Allreduce(); }\n");

sub verdict {
    my ($program, $status, $pattern, $name) = @_;
    ($code, $out, $err) = sh("cd '$dir' && '$cli' check $program");
    is($code, $status, "$name: status") or diag($out, $err);
    my @verdicts = grep { /^verdict: / } split /\n/, $out;
    is(scalar(@verdicts), 1, "$name: one verdict");
    like($verdicts[0] // '', $pattern, "$name: verdict");
    like($out, qr/^what to do: \S/m, "$name: what to do");
}

subtest 'check sees an ordinary MPI program' => sub {
    compiled("$mpicc app.c -o app");
    verdict('./app', 0, qr/^verdict: calls would be seen: .*MPI_Allreduce/, 'mpicc program');
    like($out, qr/^program: +\.\/app, .*dynamically linked/m, 'dynamic');
    like($out, qr/^MPI: .*libmpi(ch)?\.so\.12.*MPICH ABI family/m, 'family');
    like($out, qr/^what to do: \S*mpirun\S* -n 8 sparseshim run \.\/app$/m, 'the command to type');
    compiled("$mpicc -shared -fPIC app.c -o plugin.so");
    verdict('./plugin.so', 0, qr/would be seen: .*plugin\.so/, 'plugin');
};

subtest 'check says that the user has switched the library off' => sub {
    local $ENV{SPARSESHIM_DISABLE} = 'on';
    verdict('./app', 1, qr/not be seen because DISABLE is on \(environment\)$/, 'DISABLE');
    like($out, qr/^what to do: unset SPARSESHIM_DISABLE$/m, 'and how to undo it');
    delete local $ENV{SPARSESHIM_DISABLE};
    local $ENV{SPARSESHIM_CONFIG} = file('off.conf', "disable = on\n");
    verdict('./app', 1, qr/not be seen because DISABLE is on \(file named by CONFIG\)$/, 'DISABLE in a file');
    like($out, qr/^what to do: set SPARSESHIM_DISABLE=off, or change that file/m, 'and how to undo it there');
};

subtest 'check says that PROGRAMS leaves a program out' => sub {
    file('left.py', "from mpi4py import MPI\nMPI.COMM_WORLD.Allreduce\n");
    for my $case (['train*', './app', 'app'], ['!app', './app', 'app'], ['app', 'left.py', 'left.py']) {
        my ($programs, $asked, $name) = @$case;
        local $ENV{SPARSESHIM_PROGRAMS} = $programs;
        verdict($asked, 1, qr/not be seen because PROGRAMS=\Q$programs\E \(environment\) leaves \Q$name\E out$/, "$programs, $asked");
        like($out, qr/^what to do: add the name to PROGRAMS, or leave PROGRAMS empty$/m, 'and what to do');
    }
    local $ENV{SPARSESHIM_PROGRAMS} = 'ap* left.py';
    verdict('./app', 0, qr/would be seen/, 'a program that is named');
    verdict('left.py', 0, qr/would be seen/, 'a script that is named');
    verdict('/usr/bin/python3', 0, qr/would be seen/, 'Python, whose script has the name');
    verdict('./plugin.so', 0, qr/would be seen/, 'a library, whose program has the name');
    verdict('/usr/bin/env', 1, qr/neither .* nor its libraries use MPI/, 'a wrapper, whose program has the name');
};

subtest 'check names the mpirun of the MPI library' => sub {
    mkdir "$dir/$_" for qw(ompi ompi/bin ompi/lib);
    file('ompi/bin/mpirun', "#!/bin/sh\n");
    chmod 0755, "$dir/ompi/bin/mpirun";
    compiled("gcc -shared -fPIC open.c -Wl,-soname,libmpi.so.40 -o ompi/lib/libmpi.so.40");
    compiled("gcc openapp.c ompi/lib/libmpi.so.40 -Wl,-rpath,'\$ORIGIN/ompi/lib' -o ownapp");
    verdict('./ownapp', 0, qr/would be seen/, 'Open MPI');
    my $root = abs_path("$dir/ompi");
    like($out, qr/^what to do: \Q$root\E\/bin\/mpirun -n 8 sparseshim run \.\/ownapp$/m, 'the one beside the library');
    local $ENV{PATH} = "$dir/ompi/bin:$ENV{PATH}";
    verdict('./ownapp', 0, qr/would be seen/, 'in PATH');
    like($out, qr/^what to do: mpirun -n 8 sparseshim run \.\/ownapp$/m, 'by its plain name');
};

subtest 'check names a profiler and the order' => sub {
    compiled("$mpicc -shared -fPIC profiler.c -o libprofiler.so");
    compiled("$mpicc app.c -L. -lprofiler -Wl,-rpath,'\$ORIGIN' -o profiled");
    verdict('./profiled', 0, qr/would be seen/, 'profiler in a library');
    like($out, qr/defined by libprofiler\.so \(a profiler or wrapper\), then libmpi/, 'order');
    compiled("$mpicc app.c profiler.c -o wrapped");
    verdict('./wrapped', 1, qr/not be seen because .* MPI_Allreduce of its own/, 'in the program');
};

subtest 'check sees a profiler that is preloaded before the library' => sub {
    local $ENV{LD_PRELOAD} = "$dir/libprofiler.so $lib";
    verdict('./app', 1, qr/because libprofiler\.so is preloaded before libsparseshim\.so and takes MPI_Allreduce/,
        'profiler first');
    like($out, qr/^what to do: .*LD_PRELOAD=\Q$lib:$dir\E\/libprofiler\.so .*sparseshim run/m, 'the order');
    like($out, qr/defined by libprofiler\.so \(preloaded\), then libsparseshim\.so \(preloaded\)/, 'who defines it');
    $ENV{LD_PRELOAD} = "$lib:$dir/libprofiler.so";
    verdict('./app', 0, qr/would be seen/, 'library first');
    $ENV{LD_PRELOAD} = "$dir/libprofiler.so";
    verdict('./app', 0, qr/would be seen/, 'run will put the library first');
    $ENV{LD_PRELOAD} = $lib;
    verdict('./profiled', 0, qr/would be seen/, 'a profiler that is linked comes after every preload');
    compiled("$mpicc nonblocking.c -o only_nonblocking");
    $ENV{LD_PRELOAD} = "$dir/libprofiler.so $lib";
    local $ENV{SPARSESHIM_PROGRESS} = 'watchdog';
    verdict('./only_nonblocking', 0, qr/would be seen/, 'a profiler of other functions');
};

subtest 'check sees a profiler of Fortran that goes on by PMPI' => sub {
    file('fortran.f90', "use mpi\ninteger :: e\nreal :: x, y\ncall MPI_Init(e)\n"
        . "call MPI_Allreduce(x, y, 1, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, e)\ncall MPI_Finalize(e)\nend\n");
    file('fprofiler.c', "void pmpi_allreduce_(void *, void *, void *, void *, void *, void *, void *);\n"
        . "void mpi_allreduce_(void *a, void *b, void *c, void *d, void *e, void *f, void *g)\n"
        . "{\n    pmpi_allreduce_(a, b, c, d, e, f, g);\n}\n");
    compiled('mpif90.mpich -w -fallow-argument-mismatch fortran.f90 -o fortran');
    compiled("$mpicc -shared -fPIC fprofiler.c -o libfprofiler.so");
    verdict('./fortran', 0, qr/would be seen/, 'Fortran');
    for my $preload ("$dir/libfprofiler.so $lib", "$lib $dir/libfprofiler.so") {
        local $ENV{LD_PRELOAD} = $preload;
        verdict('./fortran', 1, qr/because libfprofiler\.so takes mpi_allreduce_ of Fortran and does not call MPI_Allreduce/,
            'wrapped');
        verdict('./app', 0, qr/would be seen/, 'a program in C');
    }
};

subtest 'check names a runtime that must be loaded first, and run keeps it there' => sub {
    compiled("$mpicc -fsanitize=address app.c -o sanitized");
    verdict('./sanitized', 1, qr/uses AddressSanitizer, whose runtime must be loaded first/, 'not first');
    my ($asan) = $out =~ /LD_PRELOAD=(\S+libasan\S+) sparseshim run/;
    ok($asan, 'the runtime');
    local $ENV{ASAN_OPTIONS} = 'detect_leaks=0';
    ($code) = sh("cd '$dir' && timeout -k 5 60 '$cli' run ./sanitized");
    isnt($code, 0, 'without it the program does not start');
    my $preload = "LD_PRELOAD='$asan'";
    ($code, $out) = sh("cd '$dir' && $preload '$cli' check ./sanitized");
    is($code, 0, 'first: would be seen');
    ($code, $out) = sh("cd '$dir' && $preload '$cli' run -n ./sanitized");
    like($out, qr/^LD_PRELOAD=\Q$asan\E:\S*libsparseshim\.so$/m, 'run keeps it first');
    ($code, $out, $err) = sh("cd '$dir' && $preload timeout -k 5 60 '$cli' run ./sanitized");
    is($code, 0, 'it runs') or diag($out, $err);
};

subtest 'check follows RPATH, RUNPATH and LD_LIBRARY_PATH' => sub {
    compiled("$mpicc app.c -L. -lprofiler -o bare");
    verdict('./bare', 1, qr/would not start here: libprofiler\.so is not found/, 'missing library');
    verdict('./bare', 1, qr/not found/, 'still missing');
    local $ENV{LD_LIBRARY_PATH} = $dir;
    verdict('./bare', 0, qr/would be seen/, 'LD_LIBRARY_PATH');
    delete local $ENV{LD_LIBRARY_PATH};
    compiled("$mpicc app.c -L. -lprofiler -Wl,--disable-new-dtags,-rpath,'\${ORIGIN}/.' -o old");
    verdict('./old', 0, qr/would be seen/, 'RPATH');
};

subtest 'check says why calls would not be seen' => sub {
    verdict('true', 1, qr/use MPI$/, 'true');
    verdict('ls',   1, qr/use MPI$/, 'ls');
    compiled("gcc -static empty.c -o static");
    verdict('./static', 1, qr/statically linked/, 'static');
    compiled("gcc -static-pie empty.c -o static-pie");
    verdict('./static-pie', 1, qr/statically linked/, 'static-pie');
    compiled("gcc empty.c -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 -o musl");
    verdict('./musl', 1, qr/started by musl's loader/, 'a program of musl');
    compiled("$mpicc direct.c -o direct");
    verdict('./direct', 1, qr/calls PMPI_Allreduce/, 'profiling name');
    compiled("$mpicc barrier.c -o barrier");
    verdict('./barrier', 1, qr/nor its libraries call MPI_Allreduce/, 'no reduction');
    compiled("$mpicc nonblocking.c -o nonblocking");
    verdict('./nonblocking', 1, qr/calls only MPI_Iallreduce: .* behind an eligible blocking call/, 'nonblocking only');
    compiled("$mpicc persistent.c -o persistent");
    verdict('./persistent', 1, qr/only MPI_Allreduce_init/, 'persistent only');
    compiled("gcc -shared -fPIC open.c -Wl,-soname,libmpi.so.40 -o libmpi.so.40");
    compiled("gcc openapp.c ./libmpi.so.40 -Wl,-rpath,'\$ORIGIN' -o openapp");
    verdict('./openapp', 0, qr/would be seen/, 'Open MPI');
    compiled("gcc -DFORTRAN openapp.c ./libmpi.so.40 -Wl,-rpath,'\$ORIGIN' -o openfortran");
    verdict('./openfortran', 0, qr/would be seen/, 'Fortran under Open MPI');
    compiled("gcc -shared -fPIC open.c -Wl,-soname,libmpi_vendor.so.3 -o libmpi_vendor.so.3");
    compiled("gcc openapp.c ./libmpi_vendor.so.3 -Wl,-rpath,'\$ORIGIN' -o vendorapp");
    verdict('./vendorapp', 0, qr/would be seen/, 'Open MPI under the name of a vendor');
    compiled("gcc -shared -fPIC open.c -Wl,-soname,libmpi.so.20 -o libmpi.so.20");
    compiled("gcc openapp.c ./libmpi.so.20 -Wl,-rpath,'\$ORIGIN' -o oldopenapp");
    verdict('./oldopenapp', 1, qr/Open MPI before 4: calls pass through untouched/, 'Open MPI 2');
    compiled("gcc openapp.c open.c -o embedded");
    verdict('./embedded', 1, qr/MPI library is linked statically into/, 'MPI inside');
    compiled("gcc -c empty.c -o empty.o");
    verdict('./empty.o', 1, qr/no program/,      'object file');
    verdict('./app.c',   1, qr/neither an ELF/, 'source file');
  SKIP: {
        skip 'only root can make a program setuid to somebody else', 4 if $> != 0;
        copy("$dir/app", "$dir/setuid");
        chown 65534, 65534, "$dir/setuid";
        chmod 04755, "$dir/setuid";
        verdict('./setuid', 1, qr/is setuid/, 'setuid');
    }
};

subtest 'run warns once per job of a program that takes no preload' => sub {
    my $launch = "$mpirun -n 3 '$cli' run";
    my $launched = sub { ($code, $out, $err) = sh("cd '$dir' && $launch $_[0]") };
    my $warned = sub { scalar(() = $err =~ /^sparseshim run: \S+ is \Q$_[0]\E.*: \Q$_[1]\E/mg) };
    for my $program ('static', 'static-pie') {
        $launched->("./$program");
        is($code, 0, "$program runs");
        is($warned->('statically linked', 'link it dynamically'), 1, '... and is named once, with the remedy');
        like($err, qr/^.*\n\z/, '... in one line');
    }
    ($code, $out, $err) = sh("cd '$dir' && '$cli' run ./static");
    is($warned->('statically linked', ''), 1, 'without a launcher, too');
    ($code, $out, $err) = sh("cd '$dir' && '$cli' run --disable=on ./static");
    is("$code $err", '0 ', 'DISABLE=on: nothing is said');
    compiled("gcc empty.c -o dynamic");
    $launched->("./dynamic");
    is("$code $err", '0 ', 'nor of a program that takes it');
    file('script', "#!/bin/sh\n./static\n", 0755);
    ($code, $out, $err) = sh("cd '$dir' && '$cli' run ./script");
    is("$code $err", '0 ', 'nor of a script');
    ($code, $out, $err) = sh("cd '$dir' && '$cli' run -n ./musl");
    like($err, qr{^sparseshim run: \S+/musl is started by musl's loader \(/lib/ld-musl-x86_64\.so\.1\), which .*\n\z},
        'a program of musl is named in one line');
    unlike($out, qr/LD_PRELOAD/, '... and gets no preload, which its loader would stumble over');
  SKIP: {
        skip 'musl-gcc is missing (musl-tools): no program of musl runs', 2 if !grep { -x "$_/musl-gcc" } split /:/, $ENV{PATH};
        compiled("musl-gcc empty.c -o of_musl");
        ($code, $out, $err) = sh("cd '$dir' && '$cli' run ./of_musl");
        is($code, 0, '... and runs') or diag($err);
        $launched->("./of_musl");
        is(scalar(() = $err =~ /^sparseshim run: .* musl's loader/mg), 1, '... and is named once per job');
    }
  SKIP: {
        skip 'only root can make a program setuid to somebody else', 3 if $> != 0;
        $launched->("./setuid");
        is($warned->('setuid', 'run a copy without that privilege'), 1, 'a setuid program is named once');
        chmod 0755, "$dir/setuid";
        $launched->("./setuid");
        is($err, '', '... and no more without that privilege');
        chmod 02755, "$dir/setuid";
        $launched->("./setuid");
        is($warned->('setgid', 'run a copy without that privilege'), 1, 'so is a setgid one');
    }
};

subtest 'check says of nonblocking calls what a run shows' => sub {
    file('posts.c', <<'C');
#include <mpi.h>
int main(int argc, char **argv)
{
    int one = 1, sum, level;
    MPI_Request request;
    MPI_Init_thread(&argc, &argv, LEVEL, &level);
    FIRST;
    for (int i = 0; i < 5; i++) {
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return MPI_Finalize();
}
C
    my $blocking = '"-DFIRST=MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)"';
    my %flags = (
        posts    => '-DLEVEL=MPI_THREAD_SINGLE -DFIRST=',
        multiple => '-DLEVEL=MPI_THREAD_MULTIPLE -DFIRST=',
        behind   => "-DLEVEL=MPI_THREAD_MULTIPLE $blocking",
    );
    my $taken = sub {
        my ($options, $program) = @_;
        ($code, $out, $err) = sh("cd '$dir' && timeout -k 5 60 '$mpirun' -n 2 '$cli' run --min-count=1 --report=rank0 $options ./$program");
        is($code, 0, "$program $options: runs") or diag($err);
        return $err =~ /, (\d+) nonblocking calls? taken over$/m ? $1 : 0;
    };
    for my $program ('posts', 'multiple') {
        compiled("$mpicc $flags{$program} posts.c -o $program");
        verdict("./$program", 1, qr/calls only MPI_Iallreduce: /, $program);
        my ($do) = $out =~ /^what to do: \S*mpirun\S* -n 8 sparseshim run (--progress=watchdog) \.\/$program, /m;
        is($do, '--progress=watchdog', "$program: the remedy");
        is($taken->('', $program), 0, "$program: a run takes none over");
        cmp_ok($taken->('--progress=watchdog', $program), '>=', 3, "$program: and does with the remedy");
        for my $set ([PROGRESS => 'thread'], [MODE => 'topk']) {
            local $ENV{"SPARSESHIM_$set->[0]"} = $set->[1];
            local $ENV{SPARSESHIM_REGISTER} = 'count=1000' if $set->[0] eq 'MODE';
            verdict("./$program", 0, qr/calls MPI_Iallreduce, which/, "$program, where $set->[0] is set");
        }
    }
    compiled("$mpicc $flags{behind} posts.c -o behind");
    verdict('./behind', 0, qr/would be seen/, 'behind a blocking call');
    is($taken->('', 'behind'), 5, 'a run takes all over there');
    compiled("$mpicc -shared -fPIC $flags{posts} posts.c -o posts.so");
    verdict('./posts.so', 0, qr/would be seen/, 'a part of a program');
};

subtest 'check looks through scripts' => sub {
    my ($python) = grep { -x } map { "$_/python3" } split /:/, $ENV{PATH};
    file('py', "#!/usr/bin/env python3\nimport mpi4py\n", 0755);
    verdict('./py', 0, qr/at run time \(mpi4py\)/, 'Python');
    like($out, qr/^script: +\.\/py is run by \Q$python\E$/m, 'the interpreter');
    file('train.py', "import mpi4py\n", 0644);
    verdict('./train.py', 0, qr/at run time \(mpi4py\)/, 'Python without a first line that names it');
    like($out, qr/^script: +\.\/train\.py is run by \Q$python\E$/m, 'the interpreter');
    like($out, qr/^what to do: mpirun -n 8 sparseshim run python3 \.\/train\.py$/m, 'the command');
    verdict('train.py', 0, qr/at run time \(mpi4py\)/, 'without its folder');
    mkdir "$dir/nets";
    file('nets/__init__.py', "from torch.nn.parallel import DistributedDataParallel\n");
    file('mine.py',          "from mpi4py import MPI\n");
    my $mpirun = 'mpirun -n 8 sparseshim run python3 \./train\.py';
    for my $case (
        ["import numpy, mpi4py.MPI as m\n",                   0, 'mpi4py', qr/at run time \(mpi4py\)/, $mpirun],
        ["import os, mine\nimport torch.distributed as d\n", 0, 'mpi4py torch.distributed', qr/at run time/, $mpirun],
        ["if 1:\n    import horovod.torch as hvd\n",         0, 'horovod', qr/if its horovod is built for MPI/, $mpirun],
        ["import torch.distributed as d\n", 0, 'torch.distributed', qr/runs over mpi4py \(sparseshim\(7\)\)/, $mpirun],
        ["from torch import distributed\n", 0, 'torch.distributed', qr/runs over mpi4py \(sparseshim\(7\)\)/, $mpirun],
        ["import nets\n",                   0, 'torch.distributed', qr/runs over mpi4py \(sparseshim\(7\)\)/, $mpirun],
        ["from accelerate import Accelerator\n",          0, 'torch.distributed', qr/runs over mpi4py/, $mpirun],
        ["from transformers import Trainer\n",            0, 'torch.distributed', qr/runs over mpi4py/, $mpirun],
        ["# import mpi4py\nimport json\n", 0, 'no mpi4py, horovod or torch.distributed', qr/at run time/, $mpirun])
    {
        my ($text, $status, $imports, $why, $advice) = @$case;
        file('train.py', $text);
        verdict('./train.py', $status, $why, "$text: the verdict");
        like($out, qr/^imports: +\Q$imports\E$/m, "$text: what it imports");
        like($out, qr/^what to do: $advice$/m, "$text: what to do");
    }
    file('train.py', "import torch.distributed\n");
    {
        local $ENV{SPARSESHIM_TORCH} = 'off';
        verdict('./train.py', 0, qr/if it calls MPI itself, under TORCH=off/, 'TORCH=off');
    }
    mkdir "$dir/$_" for 'lacking', 'lacking/bin';
    symlink '/bin/true', "$dir/lacking/bin/python3";
    ($code, $out) = sh("cd '$dir' && PATH='$dir/lacking/bin' '$cli' check ./train.py");
    like($out, qr/^what to do: install mpi4py$/m, 'a script whose python3 lacks mpi4py');
    file('train.py', "from mpi4py import MPI\ns = MPI.COMM_WORLD.allreduce(1)\n");
    verdict('./train.py', 0, qr/at run time/, 'small letters');
    like($out, qr/^objects: .*use comm\.Allreduce, on arrays$/m, 'the capital letter is named');
    mkdir "$dir/$_" for 'venv', 'venv/bin', 'venv/lib', 'venv/lib/python3.11', 'venv/lib/python3.11/site-packages';
    symlink '/bin/true', "$dir/venv/bin/python";
    verdict('venv/bin/python', 0, qr/at run time/, 'an environment without mpi4py');
    like($out, qr/^what to do: install mpi4py$/m, 'is to get it');
    mkdir "$dir/venv/lib/python3.11/site-packages/mpi4py";
    verdict('venv/bin/python', 0, qr/at run time/, 'an environment with mpi4py');
    like($out, qr/^what to do: mpirun -n 8 sparseshim run venv\/bin\/python SCRIPT$/m, 'is not to get it');
    ($code, $out) = sh("cd '$dir' && PATH='$dir' '$cli' check ./train.py");
    like("$code $out", qr/^1 verdict: .* neither an ELF program nor a script/, 'where there is no python3');
    file('text', "import mpi4py\n", 0755);
    verdict('./text', 1, qr/neither an ELF program nor a script/, 'any other text');
    file('sh', "#!/bin/sh\n./app\n", 0755);
    verdict('./sh', 1, qr/uses no MPI itself/, 'shell');
    file('loop', "#!$dir/loop\n", 0755);
    verdict('./loop', 1, qr/neither an ELF/, 'a script that runs itself');
};

subtest 'check reports what it cannot read' => sub {
    ($code, $out, $err) = sh("'$cli' check ./no-such-program");
    is("$code $err", "2 sparseshim check: ./no-such-program cannot be read: No such file or "
          . "directory\n", 'missing');
    ($code, $out, $err) = sh("'$cli' check /");
    is($code, 2, 'a directory');
    ($code, $out, $err) = sh("'$cli' check");
    is($code, 2, 'nothing to check');
};

sub image {
    open my $in, '<:raw', "$dir/$_[0]" or die $!;
    local $/;
    return scalar <$in>;
}

subtest 'check tells what is foreign, damaged or without section headers' => sub {
    my $image = image('app');
    my $patched = sub {
        my ($at, $bytes) = @_;
        my $copy = $image;
        substr($copy, $at, length $bytes) = $bytes;
        return file('patched', $copy, 0755);
    };
    # Offsets of the ELF header, 64 bit.
    my ($class, $order, $shoff, $phnum, $shnum) = (4, 5, 40, 56, 60);
    my $foreign = qr/is not a 64-bit program of this machine's byte order/;
    my $damaged = qr/is a damaged ELF file/;
    $patched->($class, "\1");
    verdict('./patched', 1, $foreign, '32 bit');
    $patched->($order, ord(substr $image, $order, 1) == 1 ? "\2" : "\1");
    verdict('./patched', 1, $foreign, 'the other byte order');
    $patched->($class, "\11");
    verdict('./patched', 1, $damaged, 'no class of ELF');
    $patched->($phnum, "\0\377");
    verdict('./patched', 1, $damaged, 'more segments than the file has room for');
    file('patched', substr($image, 0, 40), 0755);
    verdict('./patched', 1, $damaged, 'cut in its header');
    $image = substr($image, 0, $shoff) . "\0" x 8 . substr($image, $shoff + 8);
    $patched->($shnum, "\0" x 4);
    verdict('./patched', 0, qr/would be seen: .*MPI_Allreduce/, 'no section headers');
    file('patched', '', 0755);
    verdict('./patched', 1, qr/neither an ELF/, 'empty');
};

subtest 'check survives damaged programs' => sub {
    my $image = image('app');
    my ($worst, $random) = (0, 12345);
    my $next = sub { $random = ($random * 1103515245 + 12345) % 2147483648; $random >> 8 };
    for my $case (1 .. 120) {
        my $damaged = $image;
        if ($case % 3 == 0) {
            $damaged = substr $damaged, 0, $next->() % length $damaged;
        }
        else {
            # Headers and the dynamic section are where offsets stand.
            my $region = $case % 3 == 1 ? 1024 : length $damaged;
            substr($damaged, $next->() % $region, 1) = chr($next->() % 256) for 1 .. 1 + $case % 40;
        }
        file('damaged', $damaged, 0755);
        ($code) = sh("cd '$dir' && timeout -k 5 20 '$cli' check ./damaged");
        $worst = $code if $code > $worst;
    }
    cmp_ok($worst, '<=', 2, 'always an answer, never a crash');
};

subtest 'report says what is wrong with a file' => sub {
    ($code, $out, $err) = sh("'$cli' report ./none.json");
    is("$code $err", "1 sparseshim report: ./none.json cannot be read: No such file or directory\n",
        'missing');
    my $place = qr/line 1, column \d+: (?=\S)/;
    for my $case (
        ['', $place], ['{', $place], ["\0\0", $place], ['{"schema": 3', $place], ['[]', qr/no "schema": /],
        ['{"schema": 2}', qr/schema: report of another schema than 3/],
        ['{"schema": 3, "job": {"rank": 2147483647}}', qr/job\.rank: number of a rank/],
        ['{"schema": 3, "job": {"ranks": -2}}', qr/job\.ranks: number of a rank/],
        ['{"a": ' x 100000, qr/$place.*depth/], ['{"schema": 3, "a": 1, "a": 2}', qr/$place.*duplicate/],
        ['{"schema": 3, "lanes": [{}, {"op": 3}]}', qr/lanes\[1\]\.op: text expected/],
        ['{"schema": 3, "lanes": {}}', qr/lanes: array expected/],
        ['{"schema": 3, "rounds": {"rounds_stretches": {"rounds": [1], "in": [1, 2]}}}', qr/rounds\.rounds_stretches\./])
    {
        my ($text, $why) = @$case;
        my $path = file('bad.json', $text);
        ($code, $out, $err) = sh("'$cli' report '$path'");
        is("$code$out", 1, 'no report: status');
        like($err, qr/^sparseshim report: \Q$path\E is no report: (?:$why).*\n\z/, 'no report: why');
    }
    for my $text ('{"schema": 3}', '{"schema": 3, "lanes": [{}], "tensors": [{}], "small": [{}], "passed": [{}]}',
        '{"schema": 3, "job": {"observe": true}, "lanes": [{}]}', '{"schema": 3, "rounds": {}, "merged": {"measured_steps": 2}}') {
        my $path = file('bare.json', $text);
        for my $form ('', '--all', '--json', '--csv', '--html', '--merge') {
            ($code, $out, $err) = sh("'$cli' report $form '$path'");
            is("$code$err", 0, "a report that lacks nearly everything: $form");
        }
    }
    ($code) = sh("'$cli' report");
    is($code, 2, 'no file');
};

subtest 'report --trace reads files and folders, and never waits for anything else' => sub {
    require POSIX;
    require IO::Socket::UNIX;
    POSIX::mkfifo("$dir/trace-fifo.json", 0600) or die "mkfifo: $!";
    my $socket = IO::Socket::UNIX->new(Local => "$dir/trace-socket.json", Listen => 1) or die "socket: $!";
    for my $path ("$dir/trace-fifo.json", "$dir/trace-socket.json", '/dev/null', '/dev/fd/0') {
        for my $words ("--trace '$path'", "--trace='$path'") {
            ($code, $out, $err) = sh("echo | timeout -k 5 20 '$cli' report $words");
            is("$code$out$err", "2sparseshim report: --trace: $path is neither a file nor a folder\n", $words);
        }
    }
    ($code, $out, $err) = sh("timeout -k 5 20 '$cli' report --trace '$dir'");
    is("$code$out", 2, 'such things in a folder: status');
    is($err =~ s/^sparseshim report: --trace: \Q$dir\E\/trace-\w+\.json is neither a file nor a folder\n//mgr, '',
        'each is named, and nothing else is said');
    is(scalar(() = $err =~ /trace-(?:fifo|socket)/g), 2, 'all of them');
    unlink "$dir/trace-fifo.json", "$dir/trace-socket.json";
    for my $words ("--trace '$dir'", "--trace='$dir'") {
        ($code, $out, $err) = sh("'$cli' report $words");
        is("$code$out$err", "1sparseshim report: $dir holds no traces (trace-*.json, as SPARSESHIM_TRACE writes them)\n",
            'a folder without traces: what was looked for');
    }
    file('trace-empty.json', "[\n]\n");
    ($code, $out, $err) = sh("'$cli' report --trace '$dir/trace-empty.json'");
    is("$code$out", 1, 'a file that holds no rank: status');
    like($err, qr/trace-empty\.json is no trace that SPARSESHIM_TRACE wrote/, 'and why');
    ($code, undef, $err) = sh("'$cli' report --trace=");
    is($code, 1, 'no name');
    unlink "$dir/trace-empty.json";
};

done_testing();
