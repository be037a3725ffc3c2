#!/usr/bin/env bash
# What trainings reduce, in the ways they reduce it, is found within 20 steps and sparse from there
# on; no gradient leaves a trace in another.
set -u
. tests/t/lib.sh

PROGRAMS=$BUILD/tests/gradients
export SPARSESHIM_MODE=topk SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_ALGORITHM=split_allgather
unset SPARSESHIM_REPORT

# ranks, mode, rule
while read -r ranks mode rule; do
    SPARSESHIM_REGISTER=$rule preloaded "$ranks" positives "$mode"
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
2 layers96 *
3 changing_order *
2 fused *
3 accumulated *
2 evaluated *
3 clipped *
2 gan *
3 unfrozen *
3 new_domain *
END
finish
