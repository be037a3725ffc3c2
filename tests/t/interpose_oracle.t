#!/usr/bin/env bash
# Exact is exact, replicas stay replicas, same input same output: the oracle for every number of
# ranks and every algorithm.
set -u
. tests/t/lib.sh

ALGORITHMS=(auto recursive_doubling split_allgather dsar ring allgather dense)

# oracle PROGRAM RANKS ALGORITHM LARGEST PART PARTS
oracle() {
    local least=1
    # auto and dense may rightly never choose a sparse collective.
    [ "$3" = auto ] || [ "$3" = dense ] || [ "$2" -eq 1 ] || least=5
    [ "$3" = dense ] || [ "$2" -eq 1 ] && least=0
    [ "$3" = auto ] && least=0
    SPARSESHIM_ALGORITHM=$3 LIMIT=120 preloaded "$2" "$1" "$4" "$5" "$6"
    tap_passed "$1: $3 on $2 ranks, counts to $4" "$least"
}

# The rows are dealt in turn, so that over the algorithms each is run; on two ranks by every other
# algorithm.
for ranks in 1 2 3 4 5 6 7 8 9; do
    largest=4096
    parts=6
    [ "$ranks" -le 4 ] && largest=2000000
    [ "$ranks" -le 2 ] && parts=$ranks
    for a in "${!ALGORITHMS[@]}"; do
        [ "$ranks" -eq 1 ] && [ "$a" -gt 0 ] && break
        oracle oracle "$ranks" "${ALGORITHMS[$a]}" "$largest" $(((a + ranks) % parts)) "$parts"
    done
done
for algorithm in "${ALGORITHMS[@]}"; do
    oracle oracle_fastmath 2 "$algorithm" 70000 0 1
    oracle oracle_fastmath 3 "$algorithm" 70000 1 2
done

# With the algorithm forced whole runs repeat bit for bit; so they do with the costs given.
bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}
for algorithm in recursive_doubling split_allgather dsar ring allgather auto; do
    for ranks in 3 5; do
        SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-8 SPARSESHIM_ALGORITHM=$algorithm \
            preloaded "$ranks" oracle 4096 0 6
        once=$(bits)
        SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-8 SPARSESHIM_ALGORITHM=$algorithm \
            preloaded "$ranks" oracle 4096 0 6
        [ -n "$once" ] && [ "$(bits)" = "$once" ]
        tap "$?" "$algorithm on $ranks ranks: two runs give the same bits"
    done
done
finish
