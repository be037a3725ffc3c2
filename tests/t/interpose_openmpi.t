#!/usr/bin/env bash
# Open MPI, whose handles are addresses: blocking calls are served.
set -u
. tests/t/lib.sh

if ! command -v mpicc.openmpi >"$WORK/out" || ! command -v mpirun.openmpi >"$WORK/out"; then
    echo "1..0 # SKIP Open MPI is not installed (openmpi-bin, libopenmpi-dev)"
    exit 0
fi
export SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9
OPEN=(mpirun.openmpi --oversubscribe --mca btl "self,vader,tcp")
[ "$(id -u)" -eq 0 ] && OPEN+=(--allow-run-as-root)

# program NAME SPARSE [ARGUMENT...]: it prints the same bare and preloaded, and at least SPARSE calls
# are made sparse.
program() {
    local name=$1 least=$2 result=0
    shift 2
    within 60 mpicc.openmpi -std=c17 -D_GNU_SOURCE -I. -pthread -o "$WORK/$name" tests/mpi/*/"$name.c" -lm -ldl
    tap "$STATUS" "$name is built with Open MPI"
    within 60 "${OPEN[@]}" -n 3 "$WORK/$name" "$@"
    cp "$WORK/out" "$WORK/bare"
    tap_passed "$name under Open MPI, bare"
    within 60 "${OPEN[@]}" -n 3 -x "LD_PRELOAD=$LIB" "$WORK/$name" "$@"
    [ "$STATUS" -eq 0 ] && diff "$WORK/bare" "$WORK/out" >>"$WORK/err" && sparse_calls "$least" || result=1
    tap "$result" "$name under Open MPI, preloaded: the same output, and at least $least sparse calls"
}
program fewcalls 0
program comms 2
program special 10
program threads 1
program attributes 2

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
