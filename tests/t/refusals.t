#!/usr/bin/env bash
# MODE=topk makes lossy what somebody has said may be lossy, and says what could be.
set -u
. tests/t/lib.sh
export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.05 SPARSESHIM_ALGORITHM=ring

# Three gradients of which nobody has said anything: they balance in every call, and are named with
# what accepts them, which works when pasted.
GRADIENTS=(conserve pattern=heavy steps=50 tensors=3 quiet=34 n=1801 form=scaled bound=exact)
for ranks in 2 3; do
    preloaded "$ranks" "${GRADIENTS[@]}" lossy=no
    tap_passed "$ranks ranks, REGISTER empty: every call gives the sum"
    [ "$(tensors topk_calls=0)" = "$(tensors)" ] && [ "$(tensors state=exact reason=offered)" = 3 ]
    tap "$?" "$ranks ranks: nothing is lossy, and the report says what looks like a gradient"
    [ "$(grep -c 'looks like a gradient and stays exact' "$WORK/err")" = 3 ]
    tap "$?" "$ranks ranks: each is named in one line"
    rules=$(sed -n "s/.*SPARSESHIM_REGISTER='\([^']*\)'.*/\1/p" "$WORK/err" | paste -sd ' ')
    [ -n "$rules" ] && SPARSESHIM_REGISTER=$rules preloaded "$ranks" "${GRADIENTS[@]}" lossy=yes
    tap_passed "$ranks ranks: the advice, pasted, registers them: $rules" 100
    tap "$(($(tensors state=registered) != 3))" "$ranks ranks: all three"
    SPARSESHIM_REGISTER=auto preloaded "$ranks" "${GRADIENTS[@]}" lossy=yes
    tap_passed "$ranks ranks, REGISTER=auto accepts them" 100
    [ "$(grep -c '^sparseshim.*top-k: [0-9]* float from .*, 5 % per call; SPARSESHIM_EXCLUDE=' "$WORK/err")" = 3 ]
    tap "$?" "$ranks ranks: each is told in one line"
done
exclude=$(sed -n "s/.*SPARSESHIM_EXCLUDE='\([^']*\)'.*/\1/p" "$WORK/err" | paste -sd ' ')
SPARSESHIM_REGISTER=auto SPARSESHIM_EXCLUDE=$exclude preloaded 3 "${GRADIENTS[@]}" lossy=no
tap_passed "EXCLUDE, pasted, keeps them exact"
tap "$(($(tensors reason=excluded) == 0))" "and the report says so: $exclude"
SPARSESHIM_REGISTER='count=1; auto' preloaded 2 "${GRADIENTS[@]}" lossy=yes
tap_passed "auto behind a rule: what the rule does not name is looked at" 100
finish
