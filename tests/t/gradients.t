#!/usr/bin/env bash
# `sparseshim learn` names the gradients of trainings, in the ways they reduce them, and none of the
# sums of other programs.
set -u
. tests/t/lib.sh

PROGRAMS=$BUILD/tests/gradients
cd "$WORK" || exit 1
unset SPARSESHIM_REPORT SPARSESHIM_MIN_COUNT

# learned RANKS MIN_COUNT PROGRAM ARGUMENT...: the file is in $WORK/out, behind what the program prints,
# or in OUT.
learned() {
    within 100 env LD_PRELOAD="$YIELDS" "$BUILD/sparseshim" learn --min-count="$2" --out="${OUT:--}" -- \
        "$MPIRUN" -n "$1" "$PROGRAMS/$3" "${@:4}"
}

# names COUNT...: whether the rules of the file name each of them.
names() {
    local count
    [ "$STATUS" -eq 0 ] || return 1
    for count in "$@"; do
        grep -qE "^register = .*count=${count}[:,;]" "$WORK/out" && continue
        echo "not named: $count" >>"$WORK/err"
        return 1
    done
}

# From learn to a run under its file: lossy in nine tenths of the second half, a tensor for each layer.
while read -r program layers; do
    rm -f learned.conf
    OUT=learned.conf learned 2 32 positives "$program" 50 1 plain
    SPARSESHIM_CONFIG=./learned.conf SPARSESHIM_ALGORITHM=split_allgather within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" \
        "$PROGRAMS/positives" "$program" 50 1
    passed && [ "$(tensors state=registered)" = "$layers" ]
    tap "$?" "$program: learned, then $layers tensors lossy under $(sed -n 's/^register = //p' learned.conf)"
done <<'END'
kept 5
fresh 4
equal8 8
pairs 17
clipped 4
END
# Where learn finds nothing, its file has no rule in force, and a run under it makes nothing lossy.
for mode in power weights_1; do
    rm -f learned.conf
    OUT=learned.conf learned 2 512 negatives "$mode" float steps=60
    [ "$STATUS" -eq 1 ] && [ "$(grep -v '^#' learned.conf | grep register)" = 'register =' ] &&
        SPARSESHIM_CONFIG=./learned.conf within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" "$PROGRAMS/negatives" "$mode" float steps=60 &&
        [ "$(tensors topk_calls=0)" -gt 0 ] && [ "$(tensors topk_calls=0)" = "$(tensors)" ]
    tap "$?" "$mode: learn writes no rule, nothing is lossy"
done

# What trainings reduce, in the ways they reduce it.
turn=0
for program in $("$PROGRAMS/positives" list); do
    turn=$((turn + 1)) ranks=$((2 + turn % 3 / 2))
    learned "$ranks" 32 positives "$program" 50 "$turn" plain
    counts=$(sed -n 's/^# counts//p' "$WORK/out")
    # shellcheck disable=SC2086
    names $counts
    tap "$?" "$program on $ranks ranks: each gradient is named" 40
done

# Trainings of small networks: by small and large batches, very noisy and slowly turning.
turn=0
for kind in $("$PROGRAMS/trainings" list); do
    turn=$((turn + 1)) ranks=$((2 + turn % 3))
    learned "$ranks" 32 trainings "$kind" seed="$turn"
    rules=$(sed -n 's/^# counts //p' "$WORK/out" | tr ' ' '\n' | sort -un | sed 's/.*/count=&:calls=1/')
    [ -n "$rules" ] && [ "$(sed -n 's/^register = //p' "$WORK/out" | sed 's/; /\n/g' | sort -t= -k2n)" = "$rules" ]
    tap "$?" "$kind on $ranks ranks: each gradient and nothing else, with its calls per step: $(sed -n 's/^register = //p' "$WORK/out")" 40
done

# Other programs: solvers, statistics, averages, moments, outputs of divided layers.
turn=0
for mode in $("$PROGRAMS/negatives" list); do
    turn=$((turn + 1)) ranks=$((2 + turn % 3)) type=float
    # In double the compiler gives gradients and weights call sites of their own.
    [[ $mode == weights_* ]] || ((turn % 2)) || type=double
    learned "$ranks" 512 negatives "$mode" "$type" steps=60
    [ "$STATUS" -eq 1 ] && grep -qx 'register =' "$WORK/out" && grep -q '^#register += count=' "$WORK/out"
    tap "$?" "$mode in $type on $ranks ranks: no rule, $(sed -n 's/^  [0-9]* .* calls[^:]*: //p' "$WORK/err" | head -n 1)" 40
done
for mode in weights_1 weights_10 weights_600; do
    learned 2 512 negatives "$mode" float steps=60
    [ "$STATUS" -eq 1 ] && grep -q "inputs are alike.*, as in an average of weights" "$WORK/err"
    tap "$?" "$mode: averages of weights from the site and the buffer of gradients are named"
done
finish
