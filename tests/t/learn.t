#!/usr/bin/env bash
# sparseshim learn: tries a job, changes no result, and writes the rules for what looks like a
# gradient; rules that match nothing are named when they are used.
set -u
SPARSESHIM_MIN_COUNT=1000
. tests/t/lib.sh
python_without_shim
unset SPARSESHIM_MIN_COUNT
CLI=$BUILD/sparseshim

cat >"$WORK/train.c" <<'C'
/* Gradients of two layers; the weights averaged in each step, of the count of one of them; doubles.
 * usage: train STEPS FORM STATUS; 0 steps: without end; same: the average from the place of the
 * gradients; one: from the function of the gradients, at an offset of its own; group: on a
 * communicator of its own from the place of the gradients; none: no gradients; many: a communicator for each step; layer: one nonblocking sum per layer, none before them on the
 * communicator. Does not ask for a thread level. Prints a hash of all results. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { A = 5000, B = 3000, C = 2000 };
static uint64_t state, hash = 14695981039346656037u;

static float draw(uint64_t *from)
{
    *from = *from * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*from >> 32) / 2147483648.0f;
}

/* Of this rank, and what all ranks share for some steps. */
static uint64_t all;

static float noise(void)
{
    return draw(&state) + draw(&all);
}

static void note(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
}

__attribute__((noinline)) void gradients(const float *in, float *out, int n)
{
    MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    note(out, (size_t)n * sizeof *out);
}

__attribute__((noinline)) void average(const float *in, float *out, int n)
{
    MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    note(out, (size_t)n * sizeof *out);
}

static MPI_Comm comm = MPI_COMM_WORLD;

/* The gradient and the average from one function, as in a library. */
__attribute__((noinline)) void both(const float *g, float *gs, const float *w, float *ws)
{
    MPI_Allreduce(g, gs, A, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    note(gs, A * sizeof *gs);
    MPI_Allreduce(w, ws, A, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    note(ws, A * sizeof *ws);
}

/* The same call and callers, on one communicator and the other. */
__attribute__((noinline)) void in_turn(const float *const in[2], float *const out[2], const MPI_Comm on[2])
{
    for (volatile int i = 0; i < 2; i++) {
        MPI_Allreduce(in[i], out[i], A, MPI_FLOAT, MPI_SUM, on[i]);
        note(out[i], A * sizeof *out[i]);
    }
}

static void layers(const float *g, float *gs, const float *h, float *hs)
{
    MPI_Request request[2];

    MPI_Iallreduce(g, gs, A, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request[0]);
    MPI_Iallreduce(h, hs, B, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    note(gs, A * sizeof *gs);
    note(hs, B * sizeof *hs);
}

int main(int argc, char **argv)
{
    static float g[A], gs[A], h[B], hs[B], w[A], ws[A];
    static double d[C], ds[C];
    int rank, steps = atoi(argv[1]);
    int same = strcmp(argv[2], "same") == 0, none = strcmp(argv[2], "none") == 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[2], "group") == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_name(comm, "averages of it");
    }
    state = (uint64_t)rank + 1;
    for (int i = 0; i < A; i++)
        w[i] = (float)i / A;
    for (int s = 0; steps == 0 || s < steps; s++) {
        all = 77 + (uint64_t)s / 12;
        for (int i = 0; i < A; i++)
            g[i] = noise();
        for (int i = 0; i < B; i++)
            h[i] = noise();
        for (int i = 0; i < C; i++)
            d[i] = noise();
        if (strcmp(argv[2], "layer") == 0) {
            layers(g, gs, h, hs);
            continue;
        }
        if (strcmp(argv[2], "many") == 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            MPI_Allreduce(g, gs, A, MPI_FLOAT, MPI_SUM, comm);
            MPI_Comm_free(&comm);
            comm = MPI_COMM_WORLD;
            continue;
        }
        if (strcmp(argv[2], "one") == 0) {
            both(g, gs, w, ws);
            continue;
        }
        if (comm != MPI_COMM_WORLD) {
            in_turn((const float *[]){g, w}, (float *[]){gs, ws}, (MPI_Comm[]){MPI_COMM_WORLD, comm});
            continue;
        }
        if (!none) {
            gradients(g, gs, A);
            gradients(h, hs, B);
        }
        (same ? gradients : average)(w, ws, A);
        if (!none)
            MPI_Allreduce(d, ds, C, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (steps == 0)
            usleep(20000);
    }
    if (rank == 0)
        printf("bits %016llx\n", (unsigned long long)hash);
    MPI_Finalize();
    return atoi(argv[3]);
}
C
mpicc.mpich -O1 -rdynamic -o "$WORK/train" "$WORK/train.c" || exit 1
mkdir "$WORK/here" && cd "$WORK/here" || exit 1

# learned OPTION... -- FORM STEPS STATUS: runs sparseshim learn in a directory of its own.
learned() {
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    within 60 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR "$CLI" learn --min-count=1000 \
        "${options[@]}" -- "$MPIRUN" -n 2 "$WORK/train" "$3" "$2" "$4"
}

# has TEXT: a line of train.conf that begins so.
has() {
    grep -qF -- "$1" "${FILE:-train.conf}" 2>/dev/null && return
    sed 's/^/conf: /' "${FILE:-train.conf}" >>"$WORK/err" 2>&1
    return 1
}

within 60 "$MPIRUN" -n 2 "$WORK/train" 60 plain 0
bare=$(cat "$WORK/out")
RULES='register = count=5000,site=gradients:calls=1; count=3000:calls=1'
learned --density=0.05 -- plain 60 0
[ "$STATUS" -eq 0 ] && has "$RULES"
tap "$?" "a rule by count where the count is enough, else by function"
has 'mode = topk' && has 'density = 0.05' && has 'min_count = 1000'
tap "$?" "the file holds the options it was learned under"
has '# The ranks were on 1 host; each rank sends its gradients.'
tap "$?" "... and the hosts"
has '#register += count=5000,site=average:calls=1' && has '# 5000 float called from train+0x' &&
    has "the ranks' inputs are alike in 60 of 60 calls, as in an average of weights"
tap "$?" "what stays exact stands there, with its rule and why"
grep -A 1 '^# 2000 double called .* it is in double' train.conf | grep -q '^#register += count=2000,.*:calls=1$'
tap "$?" "no sum in double gets a live rule"
[ -n "$bare" ] && grep -qF "$bare" "$WORK/out"
tap "$?" "learning changes no bit of the program's results"
[ "$(ls)" = train.conf ]
tap "$?" "nothing but the file is left behind"

# used CONFIG: runs the program with what was learned.
used() {
    SPARSESHIM_CONFIG=$1 within 60 "$MPIRUN" -n 2 "$CLI" run "$WORK/train" 60 plain 0
    [ "$STATUS" -eq 0 ] && [ "$(tensors state=registered)" = 2 ] &&
        [ "$(tensors state=registered symbol=gradients)" = 2 ]
}
used ./train.conf
tap "$?" "CONFIG=./train.conf: gradients are sent as top-k, and nothing but gradients"
! grep -q 'no call of rank 0 matched' "$WORK/err"
tap "$?" "all rules of the file match"
mkdir -p "$WORK/home/sparseshim" && cp train.conf "$WORK/home/sparseshim/mine.conf"
XDG_CONFIG_HOME=$WORK/home used @mine
tap "$?" "CONFIG=@mine: the file in the user's configuration folder"

# ---- rules that match nothing ----

# told TEXT: in one line, and nothing else of the kind.
told() {
    [ "$STATUS" -eq 0 ] && [ "$(grep -c 'no call of rank 0 matched' "$WORK/err")" -eq 1 ] && grep -qF "$1" "$WORK/err"
}
export SPARSESHIM_MODE=topk
SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_REGISTER='count=5001; count=3000' within 60 "$MPIRUN" -n 2 \
    "$CLI" run "$WORK/train" 60 plain 0
told "SPARSESHIM_REGISTER: no call of rank 0 matched 'count=5001' (nearest: 5000 float from train+0x"
tap "$?" "a REGISTER rule that matched nothing is named, with what came nearest"
SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_REGISTER=count=3000 SPARSESHIM_EXCLUDE=site=averag within 60 \
    "$MPIRUN" -n 2 "$CLI" run "$WORK/train" 60 plain 0
told "SPARSESHIM_EXCLUDE: no call of rank 0 matched 'site=averag' (nearest: "
tap "$?" "so is one of EXCLUDE"
SPARSESHIM_MIN_COUNT=2500 SPARSESHIM_REGISTER='count=2000; count=3000' within 60 "$MPIRUN" -n 2 \
    "$CLI" run "$WORK/train" 60 plain 0
told "matched 'count=2000' (MIN_COUNT=2500 leaves so small calls alone)"
tap "$?" "a count below MIN_COUNT is said to be so"
SPARSESHIM_REGISTER='count=2000' within 60 "$MPIRUN" -n 2 "$CLI" run "$WORK/train" 60 plain 0
[ "$STATUS" -eq 0 ] && ! grep -q 'no call of rank 0 matched' "$WORK/err" && grep -q 'no call was eligible' "$WORK/err"
tap "$?" "not where no call was eligible: the report says that"
unset SPARSESHIM_MODE

# ---- what is not taken ----

learned -- same 60 0
[ "$STATUS" -eq 0 ] && has 'register = count=3000:calls=1' &&
    has 'looks like a gradient, but no rule tells it from another sum' &&
    has "the ranks' inputs are alike in 60 of 60 calls, as in an average of weights"
tap "$?" "averages of weights from the site and count of gradients: neither is taken, and the file names them"

# told_apart FORM RULE: a rule takes the gradient alone, in the file and in a run under it.
told_apart() {
    learned -- "$1" 60 0
    [ "$STATUS" -eq 0 ] && has "$2" && has "alike in 60 of 60 calls" &&
        SPARSESHIM_CONFIG=./train.conf within 60 "$MPIRUN" -n 2 "$CLI" run "$WORK/train" 60 "$1" 0 &&
        [ "$STATUS" -eq 0 ] && [ "$(tensors state=registered)" = 1 ] && [ "$(tensors)" = 2 ]
}
told_apart one 'register = count=5000,site=train+0x'
tap "$?" "averages of weights from the function of the gradients: the offset tells them apart"
told_apart group 'register = count=5000,comm=MPI_COMM_WORLD:calls=1' && has '#register += count=5000,comm=averages?of?it,site=in_turn:calls=1'
tap "$?" "averages of weights from the place of the gradients on another communicator: its name tells them apart"

rm -f train.conf
learned -- none 60 0
[ "$STATUS" -eq 1 ] && grep -qx 'register =' train.conf && grep -q 'nothing looked like a gradient' "$WORK/err" &&
    grep -q '^remove the # before a rule that names gradients, then use it: ' "$WORK/out" &&
    grep -q "5000 float called from .* alike in 60 of 60 calls, as in an average of weights" "$WORK/err"
tap "$?" "nothing looks like a gradient: exit status 1, a file without a rule in force, the reasons are told"
sed -i 's/^#register/register/' train.conf
SPARSESHIM_CONFIG=./train.conf within 60 "$MPIRUN" -n 2 "$CLI" run "$WORK/train" 60 none 0
[ "$STATUS" -eq 0 ] && [ "$(tensors state=registered symbol=average)" = 1 ] && ! grep -q '^sparseshim.*train.conf' "$WORK/err"
tap "$?" "... and a rule without its '#' is in force"
rm -f train.conf
learned -- many 300 0
[ "$(grep -c 'the program has made more than 256 communicators' "$WORK/err")" -eq 1 ]
tap "$?" "more than 256 communicators: one line says that calls on further ones are not recorded"
rm -f train.conf
learned --min-count=1000000 -- plain 20 0
[ "$STATUS" -eq 1 ] && [ ! -e train.conf ] && grep -q 'no rank recorded a call' "$WORK/err"
tap "$?" "every buffer is smaller than MIN_COUNT: the reason is told"
learned -- plain 60 7
[ "$STATUS" -eq 3 ] && has "$RULES" && grep -q 'the command ended with status 7' "$WORK/err"
tap "$?" "a program that fails: exit status 3, what was seen is written"

learned --out - -- plain 60 0
[ "$STATUS" -eq 0 ] && FILE=$WORK/out has "$RULES"
tap "$?" "--out -: to standard output"
echo 'mode = exact' >mine.conf
learned --out=mine.conf -- plain 60 0
[ "$STATUS" -eq 3 ] && [ "$(cat mine.conf)" = 'mode = exact' ] &&
    FILE=$WORK/out has "$RULES"
tap "$?" "a file of the user is not written over, and nothing is lost"
learned --out=train.conf -- plain 60 0
[ "$STATUS" -eq 0 ] && has "$RULES"
tap "$?" "a file that learn wrote is written anew"
sed -i '2i# a note' train.conf
learned --out=train.conf -- plain 60 0
[ "$STATUS" -eq 3 ] && has '# a note' && FILE=$WORK/out has "$RULES" && grep -q 'train.conf has been changed since' "$WORK/err"
tap "$?" "unless a user has changed it: nothing is lost"

rm -f train.conf
learned --steps 40 -- plain 0 0
[ "$STATUS" -eq 0 ] && has "$RULES"
tap "$?" "--steps N: a job without end is ended when enough was seen"

for wrong in --mode=exact --register=auto --steps=x --steps= --out= --nonsense=1 -x; do
    within 20 "$CLI" learn "$wrong" -- true
    [ "$STATUS" -eq 2 ] && [ "$(wc -l <"$WORK/err")" -eq 1 ]
    tap "$?" "learn $wrong: exit status 2"
done
within 20 "$CLI" learn --steps
[ "$STATUS" -eq 2 ] && grep -qx 'sparseshim learn: --steps needs a value' "$WORK/err"
tap "$?" "--steps without a number: exit status 2"
within 20 "$CLI" learn
[ "$STATUS" -eq 2 ]
tap "$?" "learn without a command: exit status 2"
within 20 "$CLI" learn -- ./not-there
[ "$STATUS" -eq 127 ]
tap "$?" "a command that is not there: exit status 127"
within 20 "$CLI" learn -- true
[ "$STATUS" -eq 1 ] && grep -q 'no rank recorded a call.* gloo or nccl .*see sparseshim(7), PyTorch' "$WORK/err"
tap "$?" "a command that is no MPI program: exit status 1, and it says so"
# shellcheck disable=SC2016 # Perl's
within 20 perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV or die' "$CLI" learn -- sh -c 'exit 7'
[ "$STATUS" -eq 3 ] && grep -q 'the command ended with status 7' "$WORK/err"
tap "$?" "with SIGCHLD ignored the command's status is known all the same"
# shellcheck disable=SC2016 # the command's
within 20 perl -e '$SIG{HUP} = "IGNORE"; exec @ARGV or die' "$CLI" learn -- sh -c 'kill -HUP $PPID; sleep 0.5'
[ "$STATUS" -eq 1 ]
tap "$?" "SIGHUP changes nothing where it is ignored"
# shellcheck disable=SC2016
within 20 "$CLI" learn -- sh -c 'kill -TERM $PPID; exec sleep 60'
[ "$STATUS" -eq 3 ]
tap "$?" "SIGTERM ends the command"

# ---- nonblocking calls ----

within 60 "$MPIRUN" -n 2 "$WORK/train" 60 layer 0
bare=$(cat "$WORK/out")
learned -- layer 60 0
[ "$STATUS" -eq 0 ] && has 'register = count=5000:calls=1; count=3000:calls=1' && ! has progress
tap "$?" "a training with one nonblocking sum per layer is recorded, without PROGRESS"
[ -n "$bare" ] && grep -qF "$bare" "$WORK/out"
tap "$?" "and keeps all bits of its results"
SPARSESHIM_CONFIG=./train.conf within 60 "$MPIRUN" -n 2 "$CLI" run "$WORK/train" 60 layer 0
[ "$STATUS" -eq 0 ] && [ "$(tensors state=registered)" -eq 2 ]
tap "$?" "its file makes both lossy, without PROGRESS"

rm -f train.conf mine.conf
[ -z "$(ls)" ]
tap "$?" "no directory of records is left behind"
finish
