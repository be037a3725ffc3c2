#!/usr/bin/env bash
# Each gradient has its own residual, and what no rule names stays exact.
set -u
. tests/t/lib.sh

# A sparse collective, as what a dense call drains from a residual is rounded.
export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.05 SPARSESHIM_ALGORITHM=split_allgather

# Without a rule nothing is lossy, and one line says how to get one.
preloaded 2 layers native
tap_passed "without a rule every result is that of the MPI library"
tap "$(($(grep -c "MODE=topk makes nothing lossy.*sparseshim learn" "$WORK/err") != 1))" "one line names learn"
SPARSESHIM_MODE=quant preloaded 2 layers native
tap "$(($(grep -c "MODE=quant makes nothing lossy" "$WORK/err") != 1))" "... also in MODE=quant"
SPARSESHIM_REGISTER=auto preloaded 2 layers native
tap_passed "REGISTER=auto is a bad value"
grep -q "there is no rule auto: 'sparseshim learn'" "$WORK/err"
tap "$?" "whose message names learn"

# From which step on gradients are lossy, and how many tensors there are: CASE STEP TENSORS RULE. Step 0:
# never.
while read -r name first count rule; do
    SPARSESHIM_REGISTER="$rule" preloaded 2 steps "$name" "first=$first"
    tap_passed "steps $name, $rule: lossy from step $first on" 2
    registered=$(tensors state=registered)
    [ "$registered" = "$count" ]
    tap "$?" "steps $name, $rule: $registered of $count tensors"
    [ "$(grep -c "its calls are exact, as .*':calls=N'" "$WORK/err")" = "$((first == 0))" ]
    tap "$?" "steps $name, $rule: one line names calls= where nothing is lossy"
done <<'END'
flat 0 0 count=2000:2010
flat 3 1 count=2000:2010:calls=1
printed 3 1 count=2000:2010:calls=1
fresh 0 0 count=2000:2010
fresh_beside 0 0 count=2000:2010
fresh_beside 3 1 count=2000:2010:calls=1
fresh 3 1 count=2000:2010:calls=1
unlike 3 8 count=2000:2010
changing 3 8 count=2000:2010
posted 3 8 count=2000:2010
posted_in_order 3 8 count=2000:2010
own 3 8 count=2000:2010
own 3 8 count=2000:2010:calls=8
own_posted 3 8 count=2000:2010
own_posted 3 8 count=2000:2010:calls=8
scratch 0 0 count=2000:2010
packed 0 0 count=2000:2010
turns 0 0 count=2000:2010
scratch 3 8 count=2000:2010:calls=8
packed 3 8 count=2000:2010:calls=8
turns 3 8 count=2000:2010:calls=8
fifth 3 1 count=2000:2010:calls=1
two 5 2 count=2000:2010
frozen 3 8 count=2000:2010
accumulated 2 8 count=2000:2010
extra 3 8 count=2000:2010:calls=8
missing 3 8 count=2000:2010:calls=8
extra 3 8 count=2000:2010
missing 3 8 count=2000:2010
END

# Weights summed from another site, every ten steps beside gradients, stay exact.
bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}
for buffers in equal other; do
    SPARSESHIM_MODE=exact preloaded 3 layers weights buffers=$buffers lossy=no steps=140
    tap_passed "weights beside gradients (buffers=$buffers), exact mode" 60
    exact=$(bits)
    SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_DEBUG=info preloaded 3 layers weights steps=9
    site=$(sed -n 's/.*lossy: 1800 float called from \(layers+0x[0-9a-f]*\).*admitted.*/\1/p' "$WORK/err" | head -n 1)
    SPARSESHIM_REGISTER="site=$site:calls=1" preloaded 3 layers weights buffers=$buffers steps=140
    tap_passed "weights beside gradients (buffers=$buffers), top-k" 60
    [ -n "$exact" ] && [ "$(bits)" = "$exact" ]
    tap "$?" "weights beside gradients (buffers=$buffers): as in exact mode, bit for bit"
done

# Rules that differ between the ranks: nobody is registered, every call is native.
SPARSESHIM_TEST=identity_steps=1 within 60 "$MPIRUN" \
    -n 1 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_REGISTER='count=1::calls=1' "$PROGRAMS/layers" native : \
    -n 2 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_REGISTER='count=2::calls=1' "$PROGRAMS/layers" native
tap_passed "rules that differ on one rank: native on all, bit for bit"
tap_no_sparse "rules that differ on one rank: no call is made sparse"
# With PROGRESS=auto a rank of exact mode is not in the first exchange that MPI_Init makes.
SPARSESHIM_PROGRESS=off SPARSESHIM_TEST=identity_steps=1 within 60 "$MPIRUN" \
    -n 2 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_REGISTER='*:calls=1' "$PROGRAMS/layers" native : \
    -n 1 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_MODE=exact "$PROGRAMS/layers" native
tap_passed "top-k on some ranks only: native on all, bit for bit"
SPARSESHIM_TIMEOUT=2 within 60 "$MPIRUN" \
    -n 2 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_REGISTER='*:calls=1' "$PROGRAMS/layers" native : \
    -n 1 env LD_PRELOAD="$LOADED $YIELDS" SPARSESHIM_MODE=exact "$PROGRAMS/layers" native
[ "$STATUS" -ne 0 ] && [ "$STATUS" -ne 124 ] && grep -q 'in the call that made it; .*SPARSESHIM_MODE' "$WORK/err"
tap "$?" "... which PROGRESS=auto waits for in MPI_Init, until TIMEOUT, and says so"
finish
