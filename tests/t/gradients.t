#!/usr/bin/env bash
# What trainings reduce, in the ways they reduce it, is found within 20 steps and sparse from there
# on; no gradient leaves a trace in another.
set -u
. tests/t/lib.sh

PROGRAMS=$BUILD/tests/gradients
export SPARSESHIM_MODE=topk SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_ALGORITHM=split_allgather
unset SPARSESHIM_REPORT

# ranks, mode, rule, steps
while read -r ranks mode rule steps; do
    SPARSESHIM_REGISTER=$rule preloaded "$ranks" positives "$mode" "${steps:-80}"
    tap_passed "$mode, $ranks ranks, REGISTER=$rule: $(sed -n 's/^# sparse/sparse/p' "$WORK/out")" 60
done <<'END'
2 kept *
4 kept *
2 single *
3 fresh *
2 two_sets *
3 three_sets *
2 pool_of_six *
3 one_rank_in_turn *
2 layers8 *
4 layers8 *
2 layers96 * 40
3 changing_order *
2 fused *
3 accumulated *
2 evaluated *
3 clipped *
2 gan *
3 unfrozen *
3 new_domain *
END

# Where the buffers lie, on all ranks or on one, changes no bit of a result; and oktopk, whose regions
# and thresholds all ranks share, does not find them anew for it. Under oktopk calls that are not
# registered yet go as auto finds best, which must not be measured here.
export SPARSESHIM_REPRODUCIBLE=on
for algorithm in recursive_doubling split_allgather oktopk; do
    export SPARSESHIM_ALGORITHM=$algorithm SPARSESHIM_REGISTER='*'
    for mode in one_set one_rank_in_turn two_sets; do
        preloaded 3 positives $mode
        now=$(sed -n 's/^# bits //p' "$WORK/out")
        [ "$algorithm" != oktopk ] || now="$now, $(counter bytes.bytes_sent) bytes sent"
        [ "$mode" != one_set ] || first=$now
        passed && [ "$now" = "$first" ]
        tap "$?" "$algorithm, $mode: as with one set of buffers: $now"
    done
done
finish
