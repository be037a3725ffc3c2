#!/usr/bin/env bash
# Sums on two levels, with layouts of the ranks on hosts that SPARSESHIM_TEST gives: exact, alike on
# all ranks, blocking and nonblocking, and together with what goes on one level.
set -u
. tests/t/lib.sh

on_host "device buffers are summed on one level"

# two_levels LAYOUT ALGORITHM NAME LEAST RANKS PROGRAM [ARGUMENT...]: the program passes, and at least
# so many of its calls are made on two levels.
two_levels() {
    local layout=$1 algorithm=$2 name=$3 least=$4 result=0 made
    shift 4
    SPARSESHIM_TEST=layout=$layout,slice=500 SPARSESHIM_NODE_AGGREGATION=on \
        SPARSESHIM_ALGORITHM=$algorithm LIMIT=120 preloaded "$@"
    passed || result=1
    made=$(on_two_levels)
    if [ "$made" -lt "$least" ]; then
        echo "calls on two levels: $made, expected at least $least" >>"$WORK/err"
        result=1
    fi
    tap "$result" "$name: layout $layout, ALGORITHM=$algorithm"
}

# on_two_levels: calls of rank 0 made by two_level.
on_two_levels() {
    cat "$WORK"/report/*.json 2>/dev/null | perl -MJSON::PP -e '
        my $text = do { local $/; <STDIN> };
        my $report = eval { decode_json($text) };
        my $calls = 0;
        $calls += $_->{sparse}{two_level} // 0 for @{$report->{lanes} || []};
        print "$calls\n"'
}

row=0
for layout in 112 1122 1212 11223 123123 111223 1111222 12341234 112233441; do
    for algorithm in auto recursive_doubling split_allgather dsar ring allgather; do
        row=$((row + 1))
        ((row % 3)) && continue
        two_levels "$layout" "$algorithm" "the oracle" 5 "${#layout}" oracle 4096 $((row % 8)) 8
    done
done
two_levels 1122 auto "long vectors" 1 4 oracle 2000000 3 12
two_levels 1123 two_level "many communicators" 1 4 comms
SPARSESHIM_PROGRESS=watchdog two_levels 1122 auto "calls under way together" 20 4 nb_random --runs 12 --seed 1
SPARSESHIM_PROGRESS=watchdog two_levels 11232 split_allgather "calls under way together" 20 5 nb_random --runs 6 --seed 3
two_levels 11122 split_allgather "smoke" 10 5 smoke

# One rank on each host: nothing is made on two levels.
two_levels 1234 auto "one rank on each host" 0 4 smoke
[ "$(on_two_levels)" = 0 ]
tap "$?" "one rank on each host: all calls on one level"
SPARSESHIM_TEST=layout=1122 SPARSESHIM_NODE_AGGREGATION=off preloaded 4 smoke
[ "$(on_two_levels)" = 0 ]
tap "$?" "NODE_AGGREGATION=off: all calls on one level"

# Whole runs repeat bit for bit, as on one level.
bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}
for turn in 1 2; do
    two_levels 11223 split_allgather "bits, turn $turn" 5 5 oracle 4096 0 6
    [ "$turn" = 1 ] && once=$(bits)
done
[ -n "$once" ] && [ "$(bits)" = "$once" ]
tap "$?" "two runs give the same bits"

# Top-k with one residual per host: nothing is lost, and the report says whose residual it is.
by_host() { # LAYOUT ALGORITHM VALUES REGISTER NODE_AGGREGATION NAME PROGRAM [ARGUMENT...]
    local layout=$1 algorithm=$2 values=$3 rules=$4 aggregation=$5 name=$6 result=0
    shift 6
    SPARSESHIM_TEST=layout=$layout,slice=300,identity_steps=1,threshold_period=${PERIOD:-8} \
        SPARSESHIM_MODE=topk SPARSESHIM_NODE_AGGREGATION=$aggregation SPARSESHIM_ALGORITHM=$algorithm \
        SPARSESHIM_VALUE_TYPE=$values SPARSESHIM_REGISTER=$rules LIMIT=120 preloaded "${#layout}" "$@"
    passed || result=1
    if [ "$(on_two_levels)" -lt 20 ] || ! grep -q '"residual_of": *"host"' "$WORK"/report/*.json; then
        echo "calls on two levels: $(on_two_levels), or no residual of a host" >>"$WORK/err"
        result=1
    fi
    tap "$result" "$name, one residual per host: layout $layout, ALGORITHM=$algorithm, VALUE_TYPE=$values"
}
export SPARSESHIM_DENSITY=0.05
KEPT=(form=fractions bound=eps lossy=yes comm=fresh tensors=2 type=both n=1801 steps=12 quiet=24)
by_host 1122 split_allgather bf16 '*:calls=1' on conserve conserve "${KEPT[@]}" pattern=heavy
by_host 12123 recursive_doubling same '*:calls=1:node' auto conserve conserve "${KEPT[@]}" pattern=cancelling
by_host 111222 dsar q8 '*:calls=1' on conserve conserve "${KEPT[@]}" pattern=heavy
SPARSESHIM_DENSITY=1 PERIOD=1 SPARSESHIM_GUARD=off SPARSESHIM_PROGRESS=watchdog \
    by_host 1122 ring same '*:calls=1' on "layers under way together" nb_layers --divide 256 --steps 3
unset SPARSESHIM_DENSITY

# A rank that waits for a rank of its host or of another names it.
SPARSESHIM_NODE_AGGREGATION=some preloaded 2 smoke
grep -q "SPARSESHIM_NODE_AGGREGATION.*some.*auto, on, off" "$WORK/err"
tap "$?" "a bad value is named with those allowed"
finish
