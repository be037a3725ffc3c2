#!/usr/bin/env bash
# A send that fails under way, at every position of the schedule in turn: all ranks get an error in
# the same call, and nobody hangs.
set -u
. tests/t/lib.sh

# With the costs of the network given nothing is measured first.
export SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-9 SPARSESHIM_TIMEOUT=3
[ -n "$LAYOUT" ] || export SPARSESHIM_NODE_AGGREGATION=off # allgather sends, too

# failing RANKS RANK CALL [alone]: passes. Where the send was reached, either every rank returned an error,
# and in the collective because it was told, not by TIMEOUT; or none did and all sums are right (a
# vote that could be sent after all, or took the call to the MPI library).
failing() {
    local ranks=$1 result=0 at how="was not reached"
    PRELOAD="$LIB $PROGRAMS/failing.so" FAILING_RANK=$2 FAILING_CALL=$3 LIMIT=40 \
        preloaded "$ranks" until_error 3000 "${@:4}"
    passed || result=1
    at=$(sed -n 's/^# failed at call //p' "$WORK/out")
    if ! grep -q '^failing:' "$WORK/err"; then
        [ "$at" = 0 ] || result=1
    elif [ "$at" = 0 ]; then
        how="fails and is made up for"
    elif grep "rank $2:" "$WORK/err" | grep -q 'in the \(vote\|calibration\) of'; then
        how="fails in the vote or before"
    else
        how="fails in the collective"
        IN_COLLECTIVE=$((IN_COLLECTIVE + 1))
        [ "${FAILING_FOREVER:-0}" = 1 ] || ! grep -q 'timeout' "$WORK/err" || result=1
    fi
    tap "$result" "$SPARSESHIM_ALGORITHM on $ranks ranks: send $3 of rank $2 $how"
}

IN_COLLECTIVE=0
turn=0
mapfile -t algorithms < <(algorithms EXACT)
for ranks in 2 3 4 5; do
    for number in 2 3 4 5 7 10; do
        [ "$ranks" -eq 5 ] && [ $((number % 2)) -eq 0 ] && continue
        turn=$((turn + 1))
        export SPARSESHIM_ALGORITHM=${algorithms[$((turn % ${#algorithms[@]}))]}
        failing "$ranks" $((turn % ranks)) "$number"
    done
done
[ "$IN_COLLECTIVE" -ge 10 ]
tap "$?" "$IN_COLLECTIVE of these runs failed in the collective itself"
SPARSESHIM_ALPHA=measured SPARSESHIM_BETA=measured failing 3 1 4

# Every send of a rank fails from one on: it cannot even say so, TIMEOUT tells the others.
for ranks in 2 3; do
    FAILING_FOREVER=1 failing "$ranks" 1 5
done

# MODE=quant: in 16 bits these sums are whole numbers and exact.
export SPARSESHIM_MODE=quant SPARSESHIM_VALUE_TYPE=bf16 SPARSESHIM_ALGORITHM=quantized SPARSESHIM_REGISTER='*:calls=1' \
    SPARSESHIM_TEST=identity_steps=1
IN_COLLECTIVE=0
for number in 3 4 5 7; do
    failing 3 $((number % 3)) "$number"
done
# Here MPI_COMM_WORLD has met in MPI_Init, and fails as well.
FAILING_FOREVER=1 failing 2 1 5 alone
FAILING_FOREVER=1 failing 3 1 7 alone
[ "$IN_COLLECTIVE" -ge 3 ]
tap "$?" "$IN_COLLECTIVE of these runs failed in the collective of MODE=quant"
finish
