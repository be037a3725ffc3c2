#!/usr/bin/env bash
# A loss scale changes the unit of gradients: the residual follows.
set -u
. tests/t/lib.sh

export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.05 SPARSESHIM_REGISTER='*' \
    SPARSESHIM_REGISTER_AFTER=0 SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-8

if ! "$BUILD/sparseshim" info | grep -q '^SPARSESHIM_RESIDUAL_SCALE'; then
    skip "the residual follows a loss scale" "the option table does not offer RESIDUAL_SCALE"
    finish
    exit 0
fi

# An overflow anywhere in a step halves the scale of the whole: which tensor it hit does not matter.
for ranks in 2 3; do
    for where in all last first; do
        preloaded "$ranks" lossscale halved form=whole where=$where
        tap_passed "$ranks ranks, scale halved after overflows ($where): the same bits" 100
    done
    preloaded "$ranks" lossscale halved form=fractions tolerance=10
    tap_passed "$ranks ranks, scale halved after overflows: the same results but for rounding" 100
    # A doubling shows itself in three steps: what those send and keep is in the wrong unit.
    preloaded "$ranks" lossscale doubled form=fractions steps=200 growth=40 tolerance=50000
    tap_passed "$ranks ranks, scale doubled and halved: within a twentieth in all" 100
    preloaded "$ranks" lossscale train steps=60 growth=10 tolerance=10000
    tap_passed "$ranks ranks, training with a loss scale: the same loss within 1 % of the first" 50
done

# fails_without CASE ARGUMENT...: the same with RESIDUAL_SCALE=off is found out.
fails_without() {
    SPARSESHIM_RESIDUAL_SCALE=off preloaded 2 lossscale "$@"
    [ "$STATUS" -eq 1 ] && grep -q '^1\.\.' "$WORK/out" && grep -q '^not ok' "$WORK/out"
    tap "$?" "RESIDUAL_SCALE=off is found out by: $*"
}
fails_without halved form=whole
fails_without doubled form=fractions steps=200 growth=40 tolerance=50000
fails_without train steps=60 growth=10 tolerance=10000
finish
