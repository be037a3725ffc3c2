#!/usr/bin/env bash
# Trainings in numpy, PyTorch (Debian's) and jax (from PyPI), whose gradients are other arrays in each
# step: rules with their calls per step make them lossy. `make
# check-more PART=frameworks` installs what is needed and sets FRAMEWORKS=install; without that the first run
# of each alone, since each takes seconds.
set -u
SPARSESHIM_MIN_COUNT=1000
. tests/t/lib.sh
. tests/t/python.sh
export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.05 SPARSESHIM_ALGORITHM=split_allgather

value() {
    sed -n "s/^result: .*\<$1=\([^ ]*\).*/\1/p" "$WORK/out"
}

# The share of the bytes that is lossy at least. Of PyTorch these are the layers without an equal: where the
# allocator exchanges the memory of equal ones, the library takes that for a missing call, and theirs are exact.
LEAST=0.9

# found NAME: the training learned, and LEAST of its gradients' bytes in the second half of the steps were
# sent as top-k.
found() {
    awk -v status="$STATUS" -v least="$LEAST" -v share="$(value sparse_share)" -v first="$(value first_loss)" -v last="$(value last_loss)" \
        'BEGIN { exit !(status == 0 && share >= least && last > 0 && last < first / 3) }'
    tap "$?" "$1: $(value sparse_share) of the bytes, loss $(value first_loss) to $(value last_loss)"
}

# trains NAME PYTHON PROGRAM COUNT: two layers are of COUNT elements, each other one is alone.
trains() {
    local name=$1 program=$3
    local python=("$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" "$2" "tests/gradients/$3.py")

    SPARSESHIM_REGISTER="count=$4:calls=2; *:calls=1" within 240 "${python[@]}"
    found "$name, rules by count"
    [ "${FRAMEWORKS:-}" = install ] || return
    SPARSESHIM_REGISTER='' within 240 "${python[@]}"
    [ "$STATUS" -eq 0 ] && [ "$(value sparse_share)" = 0.0000 ]
    tap "$?" "$name, REGISTER empty: nothing is lossy"
    rm -f "$WORK/$program.conf"
    (cd "$WORK" && PYTHONPATH=$OLDPWD/tests/gradients:${PYTHONPATH:-} within 240 env -u SPARSESHIM_REPORT \
        -u SPARSESHIM_REPORT_DIR "$BUILD/sparseshim" learn -- "$MPIRUN" -n 2 "$2" "$OLDPWD/tests/gradients/$3.py")
    SPARSESHIM_CONFIG=$WORK/$program.conf within 240 "${python[@]}"
    found "$name, as sparseshim learn has it in $program.conf"
}

# Temporaries that one helper reduces: also from step 20 on, and on three ranks.
if have_mpi4py; then
    for ranks in 2 3; do
        SPARSESHIM_REGISTER='count=16384:calls=2; *:calls=1' within 240 "$MPIRUN" -n "$ranks" -genv LD_PRELOAD "$LIB $YIELDS" \
            "$VENV/bin/python" tests/gradients/train_numpy.py
        found "numpy, $ranks ranks"
        awk -v share="$(value early_share)" 'BEGIN { exit !(share >= 0.9) }'
        tap "$?" "numpy, $ranks ranks: found within 20 steps"
    done
else
    skip "numpy" "mpi4py is missing and could not be built"
fi
if have_torch; then
    LEAST=0.12 PYTHONPATH=$WORK/path trains PyTorch "$PYTHON3" train_torch 65536
else
    skip "PyTorch" "python3-torch or mpi4py is missing; make check-more PART=frameworks installs them"
fi
if have_jax; then
    trains jax "$VENV/bin/python" train_jax 65536
else
    skip "jax and mpi4jax" "they are missing; make check-more PART=frameworks installs them"
fi
finish
