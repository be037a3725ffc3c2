#!/usr/bin/env bash
# MPI_Iallreduce of Fortran and of mpi4py is taken over.
set -u
. tests/t/lib.sh
. tests/t/python.sh

# nonblocking_mixed.t has the modules mpi and mpi_f08, too.
bare 2 nb_mpif
tap_passed "nb_mpif on 2 ranks, bare"
for progress in watchdog thread; do
    SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_PROGRESS=$progress preloaded 3 nb_mpif
    # 4 steps of 5 calls, the first delegated, some before the ranks have met.
    tap_taken "nb_mpif on 3 ranks, PROGRESS=$progress" 12 12
done

bare 4 nb_order_f08 5
tap_passed "nb_order_f08 on 4 ranks, bare"
SPARSESHIM_ALGORITHM=recursive_doubling SPARSESHIM_PROGRESS=watchdog preloaded 4 nb_order_f08 200
tap_taken "nb_order_f08 on 4 ranks, 200 times: a sum moves while its rank is in MPI_Recv" 190 190
SPARSESHIM_PROGRESS=thread preloaded 4 nb_order_f08 40
tap_taken "nb_order_f08 on 4 ranks, PROGRESS=thread" 30

if ! have_mpi4py; then
    skip "mpi4py" "it could not be built from PyPI: $(tail -n 1 "$WORK/err")"
    finish
    exit 0
fi
on_host "mpi4py comes by itself, device memory of Python is in device.t"
PYTHON=$VENV/bin/python
within 60 "$MPIRUN" -n 2 "$PYTHON" tests/py/iallreduce.py
tap_passed "mpi4py on 2 ranks, bare"
for progress in watchdog thread; do
    SPARSESHIM_PROGRESS=$progress within 60 "$MPIRUN" -n 3 -genv LD_PRELOAD "$LOADED $YIELDS" "$PYTHON" \
        tests/py/iallreduce.py
    # 8 inputs with 2 calls each, and 100 in one Waitall.
    tap_taken "mpi4py on 3 ranks, PROGRESS=$progress" 100
done
finish
