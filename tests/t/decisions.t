#!/usr/bin/env bash
# DEBUG=info logs each decision once per job, on the first rank of the communicator. A communicator is
# served; a buffer is admitted or refused, and why; the collective of a call signature
# changes. There are as many lines on four ranks as on two.
set -u
. tests/t/lib.sh

PROGRAMS=$BUILD/tests/gradients
export SPARSESHIM_MODE=topk SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_DEBUG=info

# told PATTERN: how many lines of the last job match it, by whichever rank.
told() {
    grep -cE "^sparseshim\[[0-9]+\]: $1" "$WORK/err"
}

# by_rank_0: all lines are rank 0's; but for those about call sites, which a host may lack.
by_rank_0() {
    ! grep '^sparseshim\[' "$WORK/err" | grep -v 'no call sites' | grep -qv '^sparseshim\[0\]: '
}

# tap_told NAME PATTERN [COUNT]: the pattern is there, or there so many times.
tap_told() {
    local n
    n=$(told "$2")
    if [ $# -gt 2 ]; then [ "$n" -eq "$3" ]; else [ "$n" -ge 1 ]; fi
    tap "$?" "$1: $n lines"
}

SITE='lossy: [0-9]+ float called from positives[+]0x[0-9a-f]+( in [a-z_]+)? on MPI_COMM_WORLD:'
for ranks in 2 4; do
    SPARSESHIM_REGISTER='*' SPARSESHIM_ALGORITHM=split_allgather preloaded "$ranks" positives kept 40 1
    tap_passed "$ranks ranks: a training" 1
    by_rank_0
    tap "$?" "$ranks ranks: rank 0 tells"
    grep -c '^sparseshim\[' "$WORK/err" >"$WORK/lines$ranks"
    tap_told "$ranks ranks: version" 'version ' 1
    tap_told "$ranks ranks: the communicator" \
        "communicator \"MPI_COMM_WORLD\" of $ranks ranks: first exchange done; its costs are measured in its first call" 1
    tap_told "$ranks ranks: its costs" \
        "communicator \"MPI_COMM_WORLD\" of $ranks ranks: measured [0-9.e-]+ s per message, [0-9.e-]+ s per byte" 1
    tap_told "$ranks ranks: the collective of each lane" \
        'allreduce of [0-9]+ float sum on MPI_COMM_WORLD: split_allgather by call [0-9]+, predicted [0-9.e-]+ ms, dense [0-9.e-]+ ms$' 5
    tap_told "$ranks ranks: admitted, and why" \
        "$SITE admitted from its call [0-9]+ on: REGISTER has [*]" 5
    tap_told "$ranks ranks: the end" '[0-9]+ calls seen, [0-9]+ made sparse' 1
done
[ "$(cat "$WORK/lines2")" -eq "$(cat "$WORK/lines4")" ]
tap "$?" "as many lines on 4 ranks as on 2: $(cat "$WORK/lines2" "$WORK/lines4" | paste -sd' ')"

# With costs given nothing is measured, and the same is decided in each run.
SPARSESHIM_REGISTER='count=5000:' SPARSESHIM_WARMUP_STEPS=12 SPARSESHIM_DENSITY=0.1% SPARSESHIM_ALPHA=1us \
    SPARSESHIM_BETA=1e-8 preloaded 2 positives kept 40 1
sparse_calls 100
tap "$?" "costs given, a density that comes down: calls become sparse"
tap_told "given costs" 'communicator "MPI_COMM_WORLD" of 2 ranks: first exchange done; 1e-06 s per message, 1e-08 s per byte' 1
tap_told "no others" '.* measured ' 0
tap_told "by a rule" "$SITE admitted from its call [0-9]+ on: REGISTER has count=5000:" 3
tap_told "refused, and why" "$SITE exact from its call 1 on: matches no rule of REGISTER" 2
tap_told "dense first" 'allreduce of 5632 float sum on MPI_COMM_WORLD: dense by call 2, predicted [0-9.e-]+ ms$' 1
tap_told "then changed" \
    'allreduce of 5632 float sum on MPI_COMM_WORLD: [a-z_]+ by call [0-9]+, predicted [0-9.e-]+ ms, dense [0-9.e-]+ ms$' 1
SPARSESHIM_REPRODUCIBLE=on preloaded 2 positives kept 4 1
tap_told "REPRODUCIBLE=on" '.*: first exchange done; ([0-9.e-]+ s per message|its costs are those of a table)' 1

for level in warn none; do
    SPARSESHIM_DEBUG=$level SPARSESHIM_REGISTER='*' preloaded 2 positives kept 40 1
    [ "$(told '.*(exchange|admitted|by call|awake|resting|version)')" -eq 0 ]
    tap "$?" "DEBUG=$level: none of it"
done

# Observing decides nothing.
SPARSESHIM_MODE=observe preloaded 2 positives kept 20 1
[ "$(told '.*(admitted|by call)')" -eq 0 ] && [ "$(told '.*: first exchange done; ')" -eq 1 ]
tap "$?" "MODE=observe: the communicator only"

# Communicators of parts of the job are told by their own first ranks.
export SPARSESHIM_MODE=exact SPARSESHIM_MIN_COUNT=1
PROGRAMS=$BUILD/tests/mpi preloaded 4 smoke
[ "$STATUS" -eq 0 ] && [ "$(told 'communicator ".*" of [0-9]+ ranks: first exchange done; ')" -ge 2 ]
tap "$?" "communicators of a job: $(told '.*: first exchange done; ') lines"
finish
