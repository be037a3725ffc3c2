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

# A program of MPICH that Open MPI's mpirun starts: jobs of one rank each, as without us.
singletons='Open MPI.s mpirun has started 3 processes .* start it by the mpirun of its own MPI library'
within 60 env -u SPARSESHIM_REPORT "${OPEN[@]}" -n 3 -x "LD_PRELOAD=$LIB" -x SPARSESHIM_MIN_COUNT "$PROGRAMS/fewcalls" 4
[ "$STATUS" -eq 0 ] && [ "$(grep -o 'gives the sum' "$WORK/out" | wc -l)" -eq 12 ]
tap "$?" "a program of MPICH under mpirun of Open MPI: each process gets its sums"
[ "$(grep -c "^sparseshim.*$singletons" "$WORK/err")" -eq 1 ]
tap "$?" "that its ranks have not met is said once, with the remedy"
for ranks in 1 2; do
    OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 SPARSESHIM_ALGORITHM=ring preloaded "$ranks" fewcalls 4
    passed && ! grep -q "$singletons" "$WORK/err" && [ "$(counter calls.sparse)" -eq $((3 * ranks - 3)) ]
    tap "$?" "started by MPICH's mpirun in a job of Open MPI, $ranks ranks: nothing is said"
done
finish
