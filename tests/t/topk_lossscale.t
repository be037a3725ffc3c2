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

for ranks in 2 3; do
    preloaded "$ranks" lossscale halved form=whole
    tap_passed "$ranks ranks, scale halved after overflows, exact sums: the same bits" 100
    preloaded "$ranks" lossscale halved form=fractions tolerance=10
    tap_passed "$ranks ranks, scale halved after overflows: the same results but for rounding" 100
    preloaded "$ranks" lossscale doubled form=fractions tolerance=50000
    tap_passed "$ranks ranks, scale doubled and halved: within a twentieth in all" 100
    preloaded "$ranks" lossscale train steps=200 tolerance=10000
    tap_passed "$ranks ranks, training with a loss scale: the same loss within 1 %" 100
done

# Without it these tests fail: they can tell.
SPARSESHIM_RESIDUAL_SCALE=off preloaded 2 lossscale halved form=whole
! passed && grep -q '^not ok 2' "$WORK/out"
tap "$?" "RESIDUAL_SCALE=off: scale halved, results differ"
SPARSESHIM_RESIDUAL_SCALE=off preloaded 2 lossscale doubled form=fractions tolerance=50000
! passed && grep -q '^not ok 2' "$WORK/out"
tap "$?" "RESIDUAL_SCALE=off: scale doubled and halved, far off in all"
finish
