#!/usr/bin/env bash
# MPI_Iallreduce of Fortran's three interfaces and of mpi4py is taken over.
set -u
. tests/t/lib.sh

for program in nb_mpif nb_mpi nb_f08; do
    bare 2 "$program"
    tap_passed "$program on 2 ranks, bare"
    for progress in watchdog thread; do
        SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_PROGRESS=$progress preloaded 3 "$program"
        # 4 steps of 5 calls, the first delegated, some before the ranks have met.
        tap_taken "$program on 3 ranks, PROGRESS=$progress" 12 12
    done
done

# tests/t/interpose_python.t builds it.
PYTHON=$BUILD/venv/bin/python
if ! "$PYTHON" -c 'import mpi4py, numpy' 2>"$WORK/err"; then
    skip "mpi4py" "mpi4py and numpy are not in $BUILD/venv (prove tests/t/interpose_python.t installs them)"
    finish
    exit 0
fi
within 60 "$MPIRUN" -n 2 "$PYTHON" tests/py/iallreduce.py
tap_passed "mpi4py on 2 ranks, bare"
for progress in watchdog thread; do
    SPARSESHIM_PROGRESS=$progress within 60 "$MPIRUN" -n 3 -genv LD_PRELOAD "$LIB" "$PYTHON" \
        tests/py/iallreduce.py
    # 8 inputs with 2 calls each, and 100 in one Waitall.
    tap_taken "mpi4py on 3 ranks, PROGRESS=$progress" 100
done
finish
