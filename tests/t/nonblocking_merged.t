#!/usr/bin/env bash
# Merged calls: the bits of calls that go alone, and legal programs that never wait for a group to be
# complete.
set -u
export SPARSESHIM_MIN_COUNT=1
. tests/t/lib.sh
unset MPIR_CVAR_NOLOCAL # in MPICH's shared memory

# The programs do not run at MPI_THREAD_MULTIPLE themselves; their inputs are no gradients.
export SPARSESHIM_PROGRESS=watchdog SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' \
    SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_GUARD=off LIMIT=90

# few MANY FEW: how many there are of something; FEW on emulated devices, where a call takes long.
few() {
    [ -n "$PLACES" ] && echo "$2" || echo "$1"
}
STEPS=$(few 4 1) DIVIDE=$(few 256 1024)

bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}

# same_as_alone NAME RANKS MERGE...: 161 tensors, without MERGE and with each value of it.
same_as_alone() {
    local name=$1 ranks=$2 once merge
    shift 2
    preloaded "$ranks" nb_beside --divide "$DIVIDE" --steps "$STEPS"
    tap_taken "$name: each call alone" $((160 * STEPS)) $((125 * STEPS))
    once=$(bits)
    for merge; do
        SPARSESHIM_MERGE=$merge preloaded "$ranks" nb_beside --divide "$DIVIDE" --steps "$STEPS"
        [ -n "$once" ] && [ "$(bits)" = "$once" ] && passed
        tap "$?" "$name: the same bits with MERGE=$merge"
    done
}

# same_trainings RANKS SEED RUNS MERGE...: random ones, without MERGE and with each value of it.
same_trainings() {
    local ranks=$1 seed=$2 runs=$3 once merge
    shift 3
    preloaded "$ranks" nb_steps --seed "$seed" --runs "$runs" --calls "$(few 300 60)"
    tap_taken "$runs random trainings on $ranks ranks: each call alone" "$(few 250 20)" "$(few 100 10)"
    once=$(bits)
    for merge; do
        SPARSESHIM_MERGE=$merge preloaded "$ranks" nb_steps --seed "$seed" --runs "$runs" --calls "$(few 300 60)"
        [ -n "$once" ] && [ "$(bits)" = "$once" ] && passed
        tap "$?" "... the same bits with MERGE=$merge"
    done
}

export SPARSESHIM_REPRODUCIBLE=on SPARSESHIM_ALGORITHM=allgather
same_as_alone "allgather on 2 ranks" 2 1 20000 100M
SPARSESHIM_ALGORITHM=recursive_doubling same_as_alone "recursive_doubling on 3 ranks" 3 60000 100M
SPARSESHIM_PROGRESS=thread SPARSESHIM_ALGORITHM=split_allgather \
    same_as_alone "split_allgather on 4 ranks, PROGRESS=thread" 4 60000
on_host "calls with buffers in device memory are not merged, so that no step of groups is measured"
STEPS=32 DIVIDE=1024 SPARSESHIM_ALGORITHM=allgather same_as_alone "allgather on 2 ranks, 32 steps" 2 auto
# shellcheck disable=SC2016
cat "$WORK"/report/*.json | perl -MJSON::PP -e '
    my $m = decode_json(do { local $/; <STDIN> })->{merged};
    exit !($m->{planned_calls} == 161 && $m->{planned_groups} >= 1 && $m->{merged_step_seconds} > 0 &&
        $m->{alone_step_seconds} > 0)' &&
    grep -q '^  merged  *.* in groups, .* with each call alone' "$WORK/err"
tap "$?" "MERGE=auto: the report has what a step takes, as measured"
at_all_places
# Layers change, steps are cut short, blocking calls come between.
export SPARSESHIM_DENSITY=0.05
SPARSESHIM_ALGORITHM=split_allgather same_trainings 3 1012 1 3000 1G
SPARSESHIM_PROGRESS=thread same_trainings 2 1 "$(few 3 1)" 3000 60000 auto
SPARSESHIM_ALGORITHM=recursive_doubling same_trainings 4 36 "$(few 2 1)" 5000 auto
unset SPARSESHIM_DENSITY
SPARSESHIM_ALGORITHM=ring same_as_alone "ring on 3 ranks, which does not merge" 3 100M
# One rank has another MERGE: nobody votes in a way that others do not know.
for option in MERGE=60000 MERGE=auto; do
    # shellcheck disable=SC2016
    SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_MERGE=100M within 60 "$MPIRUN" -n 3 sh -c '
        [ "$PMI_RANK" != 1 ] || export "SPARSESHIM_$1"
        LD_PRELOAD=$2 exec "$3" --steps 2' sh "$option" "$LOADED $YIELDS" "$PROGRAMS/nb_beside"
    tap_passed "ranks that differ in $option end as bare"
    grep -q 'SPARSESHIM_MERGE.* must be equal on all ranks and is not' "$WORK/err" && [ "$(counter calls.sparse)" = 0 ]
    tap "$?" "... and it is said"
done
unset SPARSESHIM_REPRODUCIBLE

# Every entry is claimed, so that results are sums.
export SPARSESHIM_DENSITY=1 SPARSESHIM_MIN_COUNT=64
bare 3 nb_merged --times 3
tap_passed "nb_merged on 3 ranks, bare"
for merge in 3000 1G; do
    SPARSESHIM_MERGE=$merge preloaded 3 nb_merged --times "$(few 2 1)"
    tap_taken "nb_merged on 3 ranks, MERGE=$merge" "$(few 120 60)" "$(few 120 60)"
done
export SPARSESHIM_MERGE=1G
SPARSESHIM_PROGRESS=thread preloaded 4 nb_merged --times "$(few 2 1)"
tap_taken "nb_merged on 4 ranks, PROGRESS=thread" "$(few 120 60)" "$(few 120 60)"
preloaded 5 nb_merged --times "$(few 2 1)"
tap_taken "nb_merged on 5 ranks" "$(few 120 60)" "$(few 120 60)"

for merge in 5000 auto; do
    SPARSESHIM_MERGE=$merge preloaded 4 nb_random --runs "$(few 12 3)"
    tap_taken "random programs on 4 ranks, MERGE=$merge" "$(few 24 6)"
    SPARSESHIM_MERGE=$merge SPARSESHIM_ALGORITHM=auto preloaded 3 nb_random --runs "$(few 8 3)" --seed 1001
    tap_taken "random programs on 3 ranks, ALGORITHM=auto, MERGE=$merge" "$(few 16 6)"
done
SPARSESHIM_PROGRESS=thread preloaded 2 nb_random --runs "$(few 16 4)" --seed 2001
tap_taken "random programs on 2 ranks, PROGRESS=thread, MERGE=1G" "$(few 32 8)"
finish
