#!/usr/bin/env bash
# sparseshim try: one job run four times, in copies of its folder, which stays as it was; what each
# mode brings, which buffers were lossy, and the lines to set.
set -u
SPARSESHIM_MIN_COUNT=1000
. tests/t/lib.sh
unset SPARSESHIM_MIN_COUNT
CLI=$BUILD/sparseshim

cat >"$WORK/job.c" <<'C'
/* In each step a sum that is sparse by nature and a gradient. usage: job STEPS STATUS; 0 steps:
 * without end. Reads ../data/seed, appends a line to written.txt. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 50000 };
static uint64_t mine, ours;

static float draw(uint64_t *from)
{
    *from = *from * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*from >> 32) / 2147483648.0f;
}

__attribute__((noinline)) void features(const float *in, float *out)
{
    MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

__attribute__((noinline)) void gradients(const float *in, float *out)
{
    MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static float sparse[N], dense[N], sum[N];
    int rank, steps = atoi(argv[1]);
    unsigned seed;
    FILE *file = fopen("../data/seed", "r");

    if (!file || fscanf(file, "%u", &seed) != 1)
        return 7;
    fclose(file);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    mine = (uint64_t)rank + seed;
    ours = seed;
    for (int i = rank; i < N; i += 331)
        sparse[i] = draw(&mine);
    for (int s = 0; steps == 0 || s < steps; s++) {
        for (int i = 0; i < N; i++)
            dense[i] = draw(&mine) + draw(&ours);
        features(sparse, sum);
        gradients(dense, sum);
        if (steps == 0)
            usleep(20000);
    }
    if (rank == 0 && (file = fopen("written.txt", "a"))) {
        fprintf(file, "mode %s\n", getenv("SPARSESHIM_MODE"));
        fclose(file);
        fprintf(stderr, "the job was here\n");
    }
    MPI_Finalize();
    return atoi(argv[2]);
}
C
cat >"$WORK/slow.c" <<'C'
/* The MPI library's allreduce takes 10 ms longer, as on a slow network. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "MPI_Allreduce");
    usleep(10000);
    return next(in, out, count, type, op, comm);
}
C
mkdir -p "$WORK/jobs/w" "$WORK/jobs/data"
echo 42 >"$WORK/jobs/data/seed"
mpicc.mpich -O1 -rdynamic -o "$WORK/jobs/w/job" "$WORK/job.c" &&
    mpicc.mpich -shared -fPIC -o "$WORK/slow.so" "$WORK/slow.c" -ldl || exit 1
echo unchanged >"$WORK/jobs/w/written.txt"
mkdir "$WORK/jobs/w/locked" && touch "$WORK/jobs/w/locked/file" && chmod 500 "$WORK/jobs/w/locked"
cd "$WORK/jobs/w" || exit 1
before=$(find .. -ls | awk '{ print $3, $5, $7, $NF }' | sort)

# tried ARGUMENT...: in this folder, with the same options for all. What the job itself is told to do
# about reports must not reach it.
tried() {
    within 120 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR "$CLI" try --min-count=1000 \
        --algorithm=recursive_doubling "$@"
}

as_before() {
    [ "$(find .. -ls | awk '{ print $3, $5, $7, $NF }' | sort)" = "$before" ]
}

# form NAME: its row.
form() {
    grep -E "^  $1 " "$WORK/out"
}

# One runs without end, and takes its time, while the others run.
mkdir -p "$WORK/endless/w" && cp -r ../data "$WORK/endless/" && cp job "$WORK/endless/w/"
(cd "$WORK/endless/w" && exec timeout -k 5 110 "$CLI" try --min-count=1000 --algorithm=recursive_doubling --steps=20 -- \
    "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" ./job 0 0 >"$WORK/endless.out" 2>"$WORK/endless.err") &
endless=$!

LD_PRELOAD=$WORK/slow.so tried --density=0.05 -- "$MPIRUN" -n 2 ./job 60 0
[ "$STATUS" -eq 0 ] && [ "$(grep -cE '^  (off|observe|exact|topk) +60 .* itself$' "$WORK/out")" -eq 4 ]
tap "$?" "four runs, each to its end, steps counted"
grep -qx '  a step: 2 calls seen' "$WORK/out" && [ "$(form off | awk '{ print $5 }')" = 1.00 ]
tap "$?" "a step has two calls; off is as fast as itself"
form exact | awk '{ exit !($10 > 1.2) }' && form off | grep -q ' 1.00  *0 %  itself$'
tap "$?" "exact sends fewer bytes, off those of the MPI library"
grep -q '^  50000 float called from job+0x[0-9a-f]* (gradients): [0-9]* of [0-9]* calls, [45][.0-9]* % of the elements' "$WORK/out" &&
    grep -q '^Lossy in topk, 1 of 2 tensors:$' "$WORK/out"
tap "$?" "the buffer that was lossy is named, and no other"
grep -qx '  export SPARSESHIM_MODE=exact' "$WORK/out" && grep -qx '  export SPARSESHIM_MODE=topk' "$WORK/out" &&
    [ "$(grep -cx '  export SPARSESHIM_MIN_COUNT=1000' "$WORK/out")" -eq 2 ] &&
    grep -qx '  export SPARSESHIM_DENSITY=0.05' "$WORK/out"
tap "$?" "the lines to set, with the options given"
grep -qx "  export SPARSESHIM_REGISTER=count=50000,site=gradients" "$WORK/out"
tap "$?" "the rule for top-k takes the gradient alone"
as_before
tap "$?" "the folder is as it was, nothing is left beside it"

# The lines do what they say.
eval "$(sed -n '/^Lines to set for topk/,/^And/s/^  export/export/p' "$WORK/out")"
within 60 "$MPIRUN" -n 2 "$CLI" run ./job 60 0
[ "$STATUS" -eq 0 ] && grep -qE '^ *1  .* gradients ' "$WORK/err" &&
    grep -qE '^ *1  registered +[1-9]' "$WORK/err"
tap "$?" "with the lines set the job's gradient is top-k"
unset "${!SPARSESHIM_@}"
echo unchanged >written.txt

tried --keep --register=count=50000 -- "$MPIRUN" -n 2 ./job 30 0
kept=$(sed -n 's/^sparseshim try: kept: \(.*\) and what begins with its name$/\1/p' "$WORK/err")
[ -n "$kept" ] && [ "$(cat "$kept".*/written.txt)" = "unchanged
mode exact
unchanged
mode observe
unchanged
mode exact
unchanged
mode topk" ]
tap "$?" "each run wrote into its own copy, which --keep leaves"
[ "$(cat written.txt)" = unchanged ] && grep -qx 'the job was here' "$kept/off.log"
tap "$?" "what a run says is kept too"
form topk | grep -q '100 %' || form topk | awk '{ exit !($(NF - 2) > 50) }'
tap "$?" "--register is what is lossy in topk"
chmod -R u+rwx "$kept".* && rm -rf "$kept" "$kept".*
as_before
tap "$?" "nothing else is left"

tried --here -- "$MPIRUN" -n 2 ./job 20 0
[ "$STATUS" -eq 0 ] && [ "$(sort written.txt | uniq -c | awk '{ print $1, $2, $3 }' | tr '\n' ';')" = "2 mode exact;1 mode observe;1 mode topk;1 unchanged ;" ]
tap "$?" "--here: all runs work in the folder"
echo unchanged >written.txt
as_before
tap "$?" "and leave nothing else"

cd ..
before=$(find .. -path ../endless -prune -o -ls | awk '{ print $3, $5, $7, $NF }' | grep -v 'out$\|err$\|endless' | sort)
tried --cwd w -- "$MPIRUN" -n 2 ./job 20 0
[ "$STATUS" -eq 0 ] && [ "$(grep -cE '^  (off|observe|exact|topk) +20 ' "$WORK/out")" -eq 4 ] && [ "$(ls)" = "data
w" ]
tap "$?" "--cwd names the folder to work in"
cd w || exit 1
before=$(find .. -ls | awk '{ print $3, $5, $7, $NF }' | sort)

# The command fails, cannot be started, is no MPI program, takes too long.
tried -- "$MPIRUN" -n 2 ./job 20 5
[ "$STATUS" -eq 3 ] && [ "$(grep -c 'the command ended with status 5; it said last:' "$WORK/err")" -eq 4 ] &&
    grep -qx 'the job was here' "$WORK/err" && form exact | grep -q 'itself, status 5$' && as_before
tap "$?" "a job that fails: exit status 3, its last words, and the table all the same"
tried -- "$MPIRUN" -n 2 sh -c 'echo no such data; exit 9'
[ "$STATUS" -eq 3 ] && [ ! -s "$WORK/out" ] && grep -qx 'no such data' "$WORK/err" &&
    [ "$(grep 'ended with status' "$WORK/err")" = 'sparseshim try: topk: the command ended with status 9; it said last:
sparseshim try: off: the command ended with status 9; it said last:' ] &&
    grep -q '^sparseshim try: the command fails at once (status 9) where every call is the MPI .* own, too: exact and observe are not run$' "$WORK/err" && as_before
tap "$?" "a command that fails at once, by itself: its status, its last words, and no other form is run"
# shellcheck disable=SC2016 # the job's
tried -- sh -c 'test "$SPARSESHIM_MODE" != topk && exec "$@"' - "$MPIRUN" -n 2 ./job 20 0
[ "$STATUS" -eq 3 ] && form topk | grep -q 'itself, status 1$' && [ "$(grep -cE '^  (off|observe|exact) +40 .* itself$' "$WORK/out")" -eq 3 ] && as_before
tap "$?" "one that fails at once with top-k alone: the other forms are run"
tried -- ./absent
[ "$STATUS" -eq 127 ] && grep -q './absent cannot be run: No such file or directory' "$WORK/err" && as_before
tap "$?" "a command that is not there: exit status 127, once"
tried -- true
[ "$STATUS" -eq 1 ] && grep -qx 'No call was made sparse.' "$WORK/out" && grep -q 'No rank wrote a report' "$WORK/out" && as_before
tap "$?" "a command without MPI: exit status 1, and why"
tried --min-count=1000000 -- "$MPIRUN" -n 2 ./job 5 0
[ "$STATUS" -eq 1 ] && grep -q 'MIN_COUNT' "$WORK/out" && as_before
tap "$?" "no call large enough: exit status 1, and why"
tried --limit 1 -- sleep 60
[ "$STATUS" -eq 1 ] && [ "$(grep -c 'try, --limit reached$' "$WORK/out")" -eq 4 ] && as_before
tap "$?" "a run that takes too long is ended"
tried -- "$PWD/job" 1 0
grep -q "job names the folder itself, not its copies" "$WORK/err"
tap "$?" "a path that leads out of the copy is told"
tried -- sh -c "cd $PWD; true"
grep -q "true names the folder itself, not its copies" "$WORK/err"
tap "$?" "also amid a text"
tried -- true "${PWD}2/job" "$PWD-old" "$PWD.bak" "/more$PWD/job"
[ "$STATUS" -eq 1 ] && ! grep -q 'names the folder itself' "$WORK/err"
tap "$?" "those that only begin or end like it lead elsewhere"

# It is ended itself: so is the job, and nothing is left.
"$CLI" try -- "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" ./job 0 0 >"$WORK/out" 2>"$WORK/err" &
pid=$!
for _ in $(seq 100); do
    pgrep -f "^\./job 0 0$" >/dev/null && break
    sleep 0.1
done
STATUS=0
kill -TERM "$pid"
wait "$pid" || STATUS=$?
[ "$STATUS" -eq 3 ] && as_before
tap "$?" "SIGTERM ends the job, and nothing is left"

# So it is before the first job has begun: a cp that takes its time.
mkdir "$WORK/bin" && printf '#!/bin/sh\ntouch "%s"\nexec sleep 30\n' "$WORK/copying" >"$WORK/bin/cp" && chmod +x "$WORK/bin/cp"
PATH=$WORK/bin:$PATH "$CLI" try -- true >"$WORK/out" 2>"$WORK/err" &
pid=$!
for _ in $(seq 100); do
    [ -e "$WORK/copying" ] && break
    sleep 0.1
done
begin=$SECONDS
STATUS=0
kill -TERM "$pid"
wait "$pid" || STATUS=$?
[ "$STATUS" -eq 3 ] && [ $((SECONDS - begin)) -lt 20 ] && [ ! -s "$WORK/err" ] && as_before
tap "$?" "SIGTERM ends the first copy, and nothing is left"
STATUS=0
{ timeout -k 5 60 "$CLI" try -- sleep 1 2>&1 || echo "$?" >"$WORK/status"; } | true
[ "$(cat "$WORK/status")" = 3 ] && as_before
tap "$?" "nobody reads what try prints: it ends, and nothing is left"

# What its caller ignores stays ignored, as under nohup; but not the end of its job.
tried_ignoring() {
    # shellcheck disable=SC2016 # Perl's
    within 60 perl -e '$SIG{shift @ARGV} = "IGNORE"; exec @ARGV or die' "$1" "$CLI" try -- sh -c "$2"
}
# shellcheck disable=SC2016 # the job's
tried_ignoring HUP 'kill -HUP $PPID; sleep 0.5'
[ "$STATUS" -eq 1 ] && [ "$(grep -cE '^  (off|observe|exact|topk) .* itself$' "$WORK/out")" -eq 4 ] && as_before
tap "$?" "SIGHUP changes nothing where it is ignored"
tried_ignoring CHLD 'exit 5'
[ "$STATUS" -eq 3 ] && [ "$(grep -c 'the command ended with status 5' "$WORK/err")" -eq 2 ] && as_before
tap "$?" "with SIGCHLD ignored the job's status is known all the same"

# A job that leaves reports as they might be: those of a real one, changed by Perl.
mkdir "$WORK/sample" && SPARSESHIM_REPORT=all SPARSESHIM_REPORT_DIR=$WORK/sample timeout -k 5 60 "$MPIRUN" -n 2 \
    "$CLI" run --min-count=1000 --algorithm=recursive_doubling ./job 60 0 >/dev/null 2>&1
echo unchanged >written.txt
before=$(find .. -ls | awk '{ print $3, $5, $7, $NF }' | sort)
cat >"$WORK/reports.pl" <<'PERL'
use strict;
use warnings;
use JSON::PP;
my ($change, @files) = @ARGV;
my $topk = $ENV{SPARSESHIM_MODE} eq 'topk';
my $n = 0;
for my $file (@files) {
    open my $in, '<', $file or die;
    my $r = decode_json(do { local $/; <$in> });
    eval "$change; 1" or die $@;
    open my $out, '>', "$ENV{SPARSESHIM_REPORT_DIR}/sparseshim-" . $n++ . '.json' or die;
    print $out encode_json($r);
    close $out or die;
}
PERL
# reported CHANGE: of the report $r.
reported() {
    within 60 "$CLI" try -- perl "$WORK/reports.pl" "$1" "$WORK"/sample/*.json
}
# shellcheck disable=SC2016 # Perl's, here and below
reported '$r->{times}{seconds_elapsed} = $topk ? 1 : 3; $r->{tensors}[$_]{topk_calls} = 0 for 0 .. $#{$r->{tensors}}'
[ "$STATUS" -eq 0 ] && form topk | grep -q ' 3\.00 ' && grep -qx 'Nothing was lossy in topk.' "$WORK/out" &&
    grep -qx 'Nothing to set: exact is not 1.05 times as fast as off, nor topk, which made nothing lossy: its time is that of exact.' "$WORK/out" && ! grep -q 'sparseshim run' "$WORK/out"
tap "$?" "topk is faster by chance, nothing is lossy: nothing to set, and nothing to preload"
# shellcheck disable=SC2016
reported '$r->{job}{ranks} = 0'
[ "$STATUS" -eq 0 ] && form exact | awk '$8 == "-" { found = 1 } END { exit !found }'
tap "$?" "reports that do not know how many ranks there are: bytes are not known"

# With MPI Sessions no communicator is looked at before a call is large enough, which is none in off.
tried -- "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" "$PROGRAMS/sessions"
if grep -q 'no sessions' "$WORK/out" "$WORK/err"; then
    skip "a program of MPI Sessions" "this MPI library has none"
else
    form off | grep -qE '^  off +0 +- +- +- +- +- ' && form exact | grep -qE '^  exact +[1-9][0-9]* +[0-9.]+ m?s +- ' &&
        grep -qx 'Nothing to set: what a step takes without the library was not seen.' "$WORK/out"
    tap "$?" "MPI Sessions: what was not seen is not told, nor compared with"
fi

# refused TEXT ARGUMENT...
refused() {
    local text=$1
    shift
    tried "$@" -- true
    [ "$STATUS" -eq 2 ] && grep -qF -- "$text" "$WORK/err" && as_before
    tap "$?" "$*: $text"
}
refused 'holds' --copy-limit=0.000001
refused '--steps=0: allowed is a number of steps, more than 0' --steps=0
refused '--limit=soon: allowed is a number of seconds' --limit soon
refused '--mode=exact is what try sets itself' --mode=exact
refused '--densty is not known; did you mean --density?' --densty=1
refused 'DENSITY=2 is not allowed' --density=2
refused '--cwd=nowhere: No such file or directory' --cwd nowhere
refused '-x is not known; allowed are --steps N' -x
within 10 "$CLI" try --steps=3
[ "$STATUS" -eq 2 ] && grep -q 'no command given' "$WORK/err"
tap "$?" "no command"

STATUS=0
wait "$endless" || STATUS=$?
cp "$WORK/endless.out" "$WORK/out"
cp "$WORK/endless.err" "$WORK/err"
[ "$STATUS" -eq 0 ] && [ "$(grep -c 'try, steps seen$' "$WORK/out")" -eq 4 ] && [ "$(ls "$WORK/endless")" = "data
w" ]
tap "$?" "a job without end is ended once all ranks have made the steps, four times"
awk '$1 ~ /^(off|observe|exact|topk)$/ { n += $2 >= 20 } END { exit n != 4 }' "$WORK/out"
tap "$?" "and not before"
chmod 700 locked
finish
