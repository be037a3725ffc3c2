#!/usr/bin/env bash
# mpi4py from PyPI, built against Debian's MPICH: Python opens MPI in a scope of its own.
set -u
. tests/t/lib.sh
. tests/t/python.sh

if ! have_mpi4py; then
    echo "1..0 # SKIP mpi4py could not be built from PyPI: $(tail -n 1 "$WORK/err")"
    exit 0
fi

python=("$VENV/bin/python" tests/py/allreduce.py)
within 120 "$MPIRUN" -n 3 "${python[@]}"
tap_passed "mpi4py, bare"
grep -q '^# MPICH Version:.*[0-9]\.' "$WORK/out"
tap "$?" "it runs on MPICH"
for ranks in 2 3; do
    SPARSESHIM_ALGORITHM=split_allgather within 120 "$MPIRUN" -n "$ranks" -genv LD_PRELOAD "$LIB $YIELDS" \
        "${python[@]}"
    # 3 sums of 4 types, each in place too; the first call of all is delegated.
    tap_passed "mpi4py on $ranks ranks, preloaded: calls are made sparse" 23
done
grep -q '^sparseshim [0-9.]*: allreduce.py, rank 0 ' "$WORK/err" && reported | grep -q allreduce.py
tap "$?" "mpi4py: the report is titled with the script"
SPARSESHIM_DISABLE=1 within 120 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" "${python[@]}"
tap_passed "mpi4py, preloaded with DISABLE=1"
within 120 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" "$VENV/bin/python" -c \
    'from mpi4py import MPI; assert MPI.COMM_WORLD.allreduce(2) == 4'
[ "$STATUS" -eq 0 ] && grep -q 'lower-case mpi4py calls such as comm.allreduce send pickled.*; comm.Allreduce, .*gloo or nccl' "$WORK/err"
tap "$?" "mpi4py's lower-case allreduce: the report says why it saw nothing"

# With every option at its default, nobody notices.
edges=("$VENV/bin/python" tests/py/edge.py)
unset SPARSESHIM_MIN_COUNT
within 120 "$MPIRUN" -n 2 "${edges[@]}"
sort "$WORK/out" >"$WORK/expected"
for progress in auto off; do
    for form in exact observe; do
        SPARSESHIM_PROGRESS=$progress SPARSESHIM_MODE=$form within 120 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR \
            "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" "${edges[@]}"
        result=0
        sort "$WORK/out" | cmp -s - "$WORK/expected" && [ "$STATUS" -eq 0 ] && [ ! -s "$WORK/err" ] ||
            result=1
        tap "$result" "Python's operators, callbacks and lists: as without the library ($form, $progress)"
    done
done
finish
