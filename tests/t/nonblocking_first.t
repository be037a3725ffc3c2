#!/usr/bin/env bash
# The first exchange of programs that make nonblocking calls alone, under MPICH and Debian's Open MPI:
# nothing that the program sees belongs to the library, and a wait for a rank without it ends.
set -u
YIELDS='' # Open MPI yields by itself
. tests/t/lib.sh
on_host "the calls are of the host"
export SPARSESHIM_PROGRESS=watchdog SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9

first_exchanges() {
    preloaded 3 nb_first wild
    tap_passed "$NAME: no receive of the program gets a message of the library" 5
    preloaded 3 nb_first attribute
    tap_passed "$NAME: no copy function of the program runs"
    within 60 "$MPIRUN" -n 1 env LD_PRELOAD="$LIB" SPARSESHIM_TIMEOUT=1 "$PROGRAMS/nb_first" wild : \
        -n 1 "$PROGRAMS/nb_first" wild
    [ "$STATUS" -ne 0 ] && [ "$STATUS" -ne 124 ] &&
        grep -q 'has waited .* in the call that made it; .*PROGRESS.*TIMEOUT has ended the wait' "$WORK/err"
    tap "$?" "$NAME: TIMEOUT ends the wait for a rank without the library in MPI_Init"
}

NAME=MPICH
first_exchanges
if command -v mpicc.openmpi >"$WORK/out" && command -v mpirun.openmpi >"$WORK/out"; then
    use_flavour openmpi4
    NAME="Open MPI 4.1" PROGRAMS=$WORK
    mpicc.openmpi -std=c17 -D_GNU_SOURCE -I. -o "$WORK/nb_first" tests/mpi/nonblocking/nb_first.c 2>"$WORK/err"
    first_exchanges
    preloaded 2 nb_first handler
    tap_passed "$NAME: an error handler that waits for other calls does not lose the error"
else
    skip "Open MPI 4.1" "it is not installed (openmpi-bin, libopenmpi-dev)"
fi
finish
