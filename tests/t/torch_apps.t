#!/usr/bin/env bash
# What people run with PyTorch, by the wheel: README.md's command installs it, and stock scripts for torchrun
# (tests/apps/torch_*.py) have gloo's losses over MPI. Part of `make check-more PART=torch`; 8 GB are installed from
# PyPI, in $BUILD/torch-venv. TORCH_VENV names another environment with all packages, MPI_WHEEL another MPI library.
set -u
. tests/t/lib.sh
. tests/t/python.sh
ENV=${TORCH_VENV:-$BUILD/torch-venv}
unset LD_PRELOAD MPIR_CVAR_NOLOCAL UCX_TLS
export SPARSESHIM_MIN_COUNT=1000 PYTHONWARNINGS=ignore TRANSFORMERS_OFFLINE=1

# installs WORD...
installs() {
    within 1500 "$ENV/bin/pip" install -q --disable-pip-version-check "$@"
    tap "$STATUS" "pip install ${*##*/}"
}

within 600 flock "$BUILD/install.lock" make --no-print-directory BUILD="$(realpath --relative-to=. "$BUILD")" GPU_ARCHS=90 wheel
WHEEL=$(tail -n 1 "$WORK/out")
[ "$STATUS" -eq 0 ] && [[ $WHEEL == *manylinux_2_*.whl ]]
tap "$?" "make wheel"
if [ -n "${TORCH_VENV:-}" ]; then
    installs --force-reinstall --no-deps "$WHEEL"
else # an empty environment
    within 100 "$PYTHON3" -m venv --clear "$ENV"
    installs "${WHEEL}[torch]" "${MPI_WHEEL:-mpich}"
fi
PATH=$ENV/bin:$PATH
MPIRUN=mpirun

# losses: the lines of losses in an output.
losses() {
    grep -o '[a-z_0-9]* [a-z].* loss [0-9.]*$' "$1"
}

# tries RANKS SCRIPT LOSSY [ARGUMENT...]: under torchrun, over MPI, and with MODE=quant, where at least so many buckets
# are lossy.
tries() {
    local ranks=$1 script=(tests/apps/"torch_$2.py" "${@:4}") name="$2${4+ $4} on $1 ranks"
    within 300 python -m torch.distributed.run --nproc_per_node "$ranks" "${script[@]}"
    losses "$WORK/out" >"$WORK/gloo"
    within 300 "$MPIRUN" -n "$ranks" sparseshim run python "${script[@]}"
    losses "$WORK/out" >"$WORK/mpi"
    # gloo adds up bfloat16 in 16 bits.
    [ "$STATUS" -eq 0 ] && [ -s "$WORK/gloo" ] && [ "$(counter calls.seen)" -gt 3 ] &&
        paste -d' ' "$WORK/mpi" "$WORK/gloo" | awk '
            { most = $1 == "bf16" ? 2e-2 : 1e-4; off = $(NF / 2) - $NF
              bad += off > most * $NF || off < -most * $NF || $1 != $(NF / 2 + 1) }
            END { exit bad > 0 || NR < 3 }'
    tap "$?" "$name: gloo's losses"
    SPARSESHIM_MODE=quant SPARSESHIM_REGISTER=ddp SPARSESHIM_ALGORITHM=quantized \
        within 300 "$MPIRUN" -n "$ranks" sparseshim run python "${script[@]}"
    [ "$STATUS" -eq 0 ] && [ "$(losses "$WORK/out" | wc -l)" = "$(wc -l <"$WORK/gloo")" ] &&
        [ "$(tensors state=registered)" -ge "$3" ]
    tap "$?" "$name: its buckets are lossy with MODE=quant"
}

tries 2 ddp 2 plain
[ -n "${TORCH_VENV:-}" ] || installs accelerate transformers lightning numpy
tries 2 ddp 8
tries 4 ddp 8
tries 2 accelerate 1
tries 2 trainer 1
tries 2 lightning 1
finish
