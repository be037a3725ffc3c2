#!/usr/bin/env bash
# A loss scale changes the unit of gradients: the residual follows.
set -u
. tests/t/lib.sh

export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.05 SPARSESHIM_REGISTER='*' \
    SPARSESHIM_REGISTER_AFTER=0 SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-8 \
    SPARSESHIM_RESIDUAL_SCALE=auto

# An overflow anywhere in a step halves the scale of the whole: which tensor it hit does not matter.
for ranks in 2 3; do
    for where in all last first; do
        preloaded "$ranks" lossscale halved form=whole where=$where
        tap_passed "$ranks ranks, scale halved after overflows ($where): the same bits" 100
    done
    preloaded "$ranks" lossscale halved form=fractions tolerance=1
    tap_passed "$ranks ranks, scale halved after overflows: the same results but for rounding" 100
    for where in last first; do
        preloaded "$ranks" lossscale scalers form=fractions steps=90 growth=30 where=$where
        tap_passed "$ranks ranks, two loss scalers, one overflows ($where): nothing is lost" 100
        grep -q 'top-k:.* 2^-1 times .*RESIDUAL_SCALE=auto' "$WORK/err"
        tap "$?" "$ranks ranks, two loss scalers, one overflows ($where): it says what it did"
    done
    # Most overflows follow a doubling and take it back. A doubling alone is not followed: what lay
    # in the residual then counts half.
    preloaded "$ranks" lossscale train steps=90 growth=20 tolerance=30000
    tap_passed "$ranks ranks, training with a loss scale: the same loss within 3 % of the first" 50
done

# Off, the default, leaves the residual as it is, and names the option once.
SPARSESHIM_RESIDUAL_SCALE='' preloaded 2 lossscale train steps=60 growth=10 tolerance=1000000
[ "$(grep -c 'SPARSESHIM_RESIDUAL_SCALE=auto' "$WORK/err")" -eq 1 ]
tap "$?" "the first Inf in a registered buffer gets one line that names the option"

# fails_without CASE ARGUMENT...: the same with RESIDUAL_SCALE=off is found out.
fails_without() {
    SPARSESHIM_RESIDUAL_SCALE=off preloaded 2 lossscale "$@"
    [ "$STATUS" -eq 1 ] && grep -q '^1\.\.' "$WORK/out" && grep -q '^not ok' "$WORK/out"
    tap "$?" "RESIDUAL_SCALE=off is found out by: $*"
}
fails_without halved form=whole
fails_without scalers form=fractions steps=90 growth=30 where=first
finish
