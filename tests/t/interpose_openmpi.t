#!/usr/bin/env bash
# Under Open MPI, whose handles are pointers, everything passes through intact.
set -u
. tests/t/lib.sh

if ! command -v mpicc.openmpi >"$WORK/out" || ! command -v mpirun.openmpi >"$WORK/out"; then
    echo "1..0 # SKIP Open MPI is not installed (openmpi-bin, libopenmpi-dev)"
    exit 0
fi
OPEN=(mpirun.openmpi --oversubscribe --mca btl "self,vader,tcp")
[ "$(id -u)" -eq 0 ] && OPEN+=(--allow-run-as-root)

for program in fewcalls comms special threads attributes; do
    within 60 mpicc.openmpi -std=c17 -D_GNU_SOURCE -I. -pthread -o "$WORK/$program" \
        tests/mpi/*/"$program.c" -ldl
    tap "$STATUS" "$program is built with Open MPI"
    arguments=()
    [ "$program" = special ] && arguments=(native)
    within 60 "${OPEN[@]}" -n 3 "$WORK/$program" "${arguments[@]}"
    cp "$WORK/out" "$WORK/bare"
    tap_passed "$program under Open MPI, bare"
    within 60 "${OPEN[@]}" -n 3 -x "LD_PRELOAD=$LIB" -x SPARSESHIM_MIN_COUNT "$WORK/$program" \
        "${arguments[@]}"
    result=0
    [ "$STATUS" -eq 0 ] && diff "$WORK/bare" "$WORK/out" >"$WORK/difference" || result=1
    tap "$result" "$program under Open MPI, preloaded: the same output"
    [ "$(grep -c 'sparseshim.*Open MPI.*passes through' "$WORK/err")" -eq 1 ]
    tap "$?" "$program: that every call passes through is said once"
done
finish
