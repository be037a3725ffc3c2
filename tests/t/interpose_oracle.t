#!/usr/bin/env bash
# Exact is exact, replicas stay replicas, same input same output: the oracle for every number of
# ranks to nine and every algorithm; under MPICH's other builds (FLAVOUR) for a few numbers of ranks.
set -u
. tests/t/lib.sh

mapfile -t ALGORITHMS < <(echo auto && algorithms EXACT && echo dense)

# oracle RANKS ALGORITHM LARGEST PART PARTS [flush]
oracle() {
    local least=0
    # auto and dense may rightly never choose a sparse collective.
    local ranks=$1 algorithm=$2
    shift 2
    [ "$algorithm" = auto ] || [ "$algorithm" = dense ] || [ "$ranks" -eq 1 ] || least=5
    SPARSESHIM_ALGORITHM=$algorithm LIMIT=120 preloaded "$ranks" oracle "$@"
    tap_passed "$algorithm on $ranks ranks, counts to $1${4:+, subnormals dropped}" "$least"
}

# The rows are dealt in turn: on two ranks each is run by every other algorithm, on three and four
# together by at least one. From five ranks on every other algorithm runs, by turns of the number of
# ranks; tests/unit has all algorithms there.
NUMBERS="1 2 3 4 5 6 7 8 9"
[[ $FLAVOUR != mpich[0-9] ]] || NUMBERS="3 6"
for ranks in $NUMBERS; do
    largest=2000000
    parts=$ranks
    [ "$ranks" -ge 3 ] && parts=12
    [ "$ranks" -ge 5 ] && parts=6 largest=4096
    for a in "${!ALGORITHMS[@]}"; do
        [ "$ranks" -eq 1 ] && [ "$a" -gt 0 ] && break
        part=$((a + ranks))
        [ "$ranks" = 4 ] && part=$((a + 3 + ${#ALGORITHMS[@]}))
        if [ "$ranks" -ge 5 ]; then
            ((part % 2)) && continue
            part=$((part / 2 + ranks))
        fi
        oracle "$ranks" "${ALGORITHMS[$a]}" "$largest" $((part % parts)) "$parts"
    done
done
for a in "${!ALGORITHMS[@]}"; do
    oracle $((2 + a % 2)) "${ALGORITHMS[$a]}" 70000 $((a / 2 % 2)) 2 flush
done

# With the algorithm forced whole runs repeat bit for bit; so they do with the costs given.
bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}
for algorithm in $(algorithms EXACT) auto; do
    SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-8 SPARSESHIM_ALGORITHM=$algorithm \
        preloaded 5 oracle 4096 0 6
    once=$(bits)
    SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-8 SPARSESHIM_ALGORITHM=$algorithm \
        preloaded 5 oracle 4096 0 6
    [ -n "$once" ] && [ "$(bits)" = "$once" ]
    tap "$?" "$algorithm on 5 ranks: two runs give the same bits"
done
finish
