#!/usr/bin/env bash
# `sparseshim learn` names the gradients of trainings, in the ways they reduce them, and none of the
# sums of other programs. One run of learn serves all that is asked of a program.
set -u
. tests/t/lib.sh

PROGRAMS=$BUILD/tests/gradients
cd "$WORK" || exit 1
unset SPARSESHIM_REPORT SPARSESHIM_MIN_COUNT

# learned RANKS MIN_COUNT PROGRAM ARGUMENT...: its file is learned.conf.
learned() {
    rm -f learned.conf
    within 100 env LD_PRELOAD="$YIELDS" "$BUILD/sparseshim" learn --min-count="$2" --out=learned.conf -- \
        "$MPIRUN" -n "$1" "$PROGRAMS/$3" "${@:4}"
}

# under_rules RANKS PROGRAM ARGUMENT...: a run with learned.conf.
under_rules() {
    SPARSESHIM_CONFIG=./learned.conf SPARSESHIM_MODE=topk SPARSESHIM_ALGORITHM=split_allgather within 60 "$MPIRUN" -n "$1" \
        -genv LD_PRELOAD "$LIB $YIELDS" "$PROGRAMS/$2" "${@:3}"
}

# names COUNT...: whether the rules of the file name each of them.
names() {
    local count
    [ "$STATUS" -eq 0 ] || return 1
    for count in "$@"; do
        grep -qE "^register = .*count=${count}[:,;]" learned.conf && continue
        echo "not named: $count" >>"$WORK/err"
        return 1
    done
}

# What trainings reduce, in the ways they reduce it. Some run again under their file: lossy in nine
# tenths of the second half, a tensor for each of so many layers.
declare -A LAYERS=([kept]=5 [fresh]=4 [equal8]=8 [pairs]=17 [clipped]=4)
turn=0
for program in $("$PROGRAMS/positives" list); do
    turn=$((turn + 1)) ranks=$((2 + turn % 3 / 2))
    # Of 96 layers 24 steps, since learn takes seconds for all calls of 50; it judges from 16 calls on.
    steps=50
    [[ $program != *96 ]] || steps=24
    learned "$ranks" 32 positives "$program" "$steps" "$turn" plain
    counts=$(sed -n 's/^# counts//p' "$WORK/out")
    # shellcheck disable=SC2086
    names $counts
    tap "$?" "$program on $ranks ranks: each gradient is named" 40
    [ -n "${LAYERS[$program]:-}" ] || continue
    under_rules "$ranks" positives "$program" 50 "$turn"
    passed && [ "$(tensors state=registered)" = "${LAYERS[$program]}" ]
    tap "$?" "$program: learned, then ${LAYERS[$program]} tensors lossy under $(sed -n 's/^register = //p' learned.conf)"
done

# Trainings of small networks: by small and large batches, very noisy and slowly turning.
turn=0
for kind in $("$PROGRAMS/trainings" list); do
    turn=$((turn + 1)) ranks=$((2 + turn % 3))
    learned "$ranks" 32 trainings "$kind" seed="$turn"
    rules=$(sed -n 's/^# counts //p' "$WORK/out" | tr ' ' '\n' | sort -un | sed 's/.*/count=&:calls=1/')
    [ -n "$rules" ] && [ "$(sed -n 's/^register = //p' learned.conf | sed 's/; /\n/g' | sort -t= -k2n)" = "$rules" ]
    tap "$?" "$kind on $ranks ranks: each gradient and nothing else, with its calls per step: $(sed -n 's/^register = //p' learned.conf)" 40
done

# Other programs: solvers, statistics, averages, moments, outputs of divided layers. No sum of them gets
# a live rule; in float, since no sum in double ever does.
turn=0
for mode in $("$PROGRAMS/negatives" list); do
    turn=$((turn + 1)) ranks=$((2 + turn % 3))
    learned "$ranks" 512 negatives "$mode" float steps=60
    [ "$STATUS" -eq 1 ] && grep -qx 'register =' learned.conf && grep -q '^#register += count=' learned.conf
    tap "$?" "$mode on $ranks ranks: no rule, $(sed -n 's/^  [0-9]* .* calls[^:]*: //p' "$WORK/err" | head -n 1)" 40
    if [[ $mode == weights_@(1|10|600) ]]; then
        grep -q "inputs are alike.*, as in an average of weights" "$WORK/err"
        tap "$?" "$mode: averages of weights from the site and the buffer of gradients are named"
    fi
    if [[ $mode == @(power|weights_1) ]]; then
        under_rules "$ranks" negatives "$mode" float steps=60
        [ "$STATUS" -eq 0 ] && [ "$(tensors topk_calls=0)" -gt 0 ] && [ "$(tensors topk_calls=0)" = "$(tensors)" ]
        tap "$?" "$mode: learn writes no rule, nothing is lossy"
    fi
done
finish
