#!/usr/bin/env bash
# Each gradient has its own residual, and what is no gradient stays exact.
set -u
. tests/t/lib.sh

# A sparse collective, as what a dense call drains from a residual is rounded.
export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.05 SPARSESHIM_ALGORITHM=split_allgather
export SPARSESHIM_REGISTER=auto

# Twelve equal layers through one scratch buffer, and a loss, so that the step can be seen. Left to
# itself the library waits until it has seen the step.
for ranks in 2 3; do
    preloaded "$ranks" identity layers
    tap_passed "$ranks ranks, twelve layers in one buffer, registered automatically" 300
    tap "$(($(tensors count=1800 type=float state=registered) != 12))" \
        "$ranks ranks: the report names twelve tensors"
done
SPARSESHIM_REGISTER=count=1800 preloaded 2 identity layers steps=90
tap_passed "twelve layers in one buffer, registered by a rule" 300
# With REGISTER_AFTER=0 a rule takes a buffer from its first call on, before the step can be seen: what the
# layers hold back until then is shared between them, and none of it is lost.
SPARSESHIM_REGISTER=count=1800 SPARSESHIM_REGISTER_AFTER=0 preloaded 2 identity layers each=no
tap_passed "twelve layers in one buffer, registered from the first call: their sum balances" 300
SPARSESHIM_REGISTER=count=1800 SPARSESHIM_REGISTER_AFTER=0 preloaded 3 identity scratch
tap_passed "twelve layers and nothing else, so that no step can be seen: their sum balances" 300

# A fusion buffer: where its packing varies, the lane goes exact, and the report says so; where it
# does not, it is a gradient like any other.
for ranks in 2 4; do
    preloaded "$ranks" identity fusion n=16384 bound=eps
    tap_passed "$ranks ranks, a fusion buffer of varying packing goes exact, nothing is lost"
    tap "$(($(tensors state=exact reason=profile) != 1))" "$ranks ranks: the report says why"
done
SPARSESHIM_REGISTER='*' SPARSESHIM_REGISTER_AFTER=0 preloaded 3 identity fusion n=16384 bound=eps
tap_passed "a fusion buffer of varying packing registered by a rule goes exact, nothing is lost"
tap "$(($(tensors state=exact reason=profile) != 1))" "registered by a rule: the report says why"
preloaded 3 identity fusion n=16384 bound=eps packings=1 exact=no
tap_passed "a fusion buffer that is always packed alike: nothing is lost" 60
tap "$(($(grep -c 'the last in step 119$' "$WORK/out") != 1))" \
    "always packed alike: it is sent as top-k to the end"
# Two packings in turn look like neither of them, so that each call differs from the mean by less.
preloaded 3 identity fusion n=16384 bound=eps packings=2 exact=no
tap_passed "a fusion buffer of two packings in turn: nothing is lost"

# Weights summed every ten steps beside gradients.
bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}
for buffers in equal other; do
    for algorithm in recursive_doubling split_allgather ring; do
        SPARSESHIM_ALGORITHM=$algorithm SPARSESHIM_MODE=exact \
            preloaded 3 identity weights buffers=$buffers lossy=no steps=140
        tap_passed "weights beside gradients (buffers=$buffers), $algorithm, exact mode" 60
        exact=$(bits)
        SPARSESHIM_ALGORITHM=$algorithm preloaded 3 identity weights buffers=$buffers steps=140
        tap_passed "weights beside gradients (buffers=$buffers), $algorithm, top-k" 60
        [ -n "$exact" ] && [ "$(bits)" = "$exact" ]
        tap "$?" "weights beside gradients (buffers=$buffers), $algorithm: as in exact mode, bit for bit"
    done
done

# The same where auto decides: the weights are dense, the gradients of their lane sparse from the
# call on that registers them.
SPARSESHIM_MODE=exact preloaded 3 identity weights buffers=equal lossy=no steps=140
exact=$(bits)
SPARSESHIM_ALGORITHM=auto SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-6 \
    preloaded 3 identity weights buffers=equal steps=140
tap_passed "weights beside gradients of their count, auto, top-k" 60
[ -n "$exact" ] && [ "$(bits)" = "$exact" ]
tap "$?" "weights beside gradients of their count, auto: as in exact mode, bit for bit"
withheld=$(sed -n 's/^# gradients withheld in \([0-9]*\) of 140 calls$/\1/p' "$WORK/out")
echo "# gradients withheld in ${withheld:-no} of 140 calls"
[ "${withheld:-0}" -ge 120 ]
tap "$?" "weights beside gradients of their count, auto: all gradients are sparse once they are registered"

# Metrics appended to the gradient, or before it.
for algorithm in allgather recursive_doubling dsar; do
    for end in last first; do
        SPARSESHIM_ALGORITHM=$algorithm SPARSESHIM_REGISTER="count=1800:keep=$end:3" \
            SPARSESHIM_REGISTER_AFTER=0 preloaded 4 identity metric end=$end
        tap_passed "$algorithm, keep=$end:3: metrics arrive exact, the rest balances" 40
    done
done

# What is not finite. These gradients' norms vary by powers of two, as if by a loss scale; those of
# whole numbers do not.
for ranks in 2 3 5; do
    for algorithm in ring split_allgather; do
        for case in notfinite overflow; do
            SPARSESHIM_ALGORITHM=$algorithm SPARSESHIM_REGISTER='*' SPARSESHIM_REGISTER_AFTER=0 \
                preloaded "$ranks" identity $case
            tap_passed "$ranks ranks, $algorithm, $case" 40
        done
    done
    SPARSESHIM_REGISTER='*' SPARSESHIM_REGISTER_AFTER=0 preloaded "$ranks" identity notfinite \
        form=whole
    tap_passed "$ranks ranks, Inf and NaN among gradients of steady norm" 40
done
preloaded 3 identity notfinite form=whole steps=80
tap_passed "Inf and NaN, registered automatically" 40

# Rules that differ between the ranks: nobody is registered, every call is native.
SPARSESHIM_REGISTER_AFTER=0 within 60 "$MPIRUN" \
    -n 1 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_REGISTER='count=1:' "$PROGRAMS/identity" native : \
    -n 2 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_REGISTER='count=2:' "$PROGRAMS/identity" native
tap_passed "rules that differ on one rank: native on all, bit for bit"
tap_no_sparse "rules that differ on one rank: no call is made sparse"
SPARSESHIM_REGISTER_AFTER=0 within 60 "$MPIRUN" \
    -n 2 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_REGISTER='*' "$PROGRAMS/identity" native : \
    -n 1 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_MODE=exact "$PROGRAMS/identity" native
tap_passed "top-k on some ranks only: native on all, bit for bit"
finish
