# shellcheck shell=bash
# Sourced by the files that run torch.distributed over MPI (shim/torch), with Debian's PyTorch, or with the one of
# TORCH_PYTHON, an interpreter that has mpi4py, too.
. tests/t/lib.sh
. tests/t/python.sh
on_host "PyTorch is built without CUDA"
export SPARSESHIM_MIN_COUNT=1000 LD_PRELOAD=$YIELDS
# shellcheck disable=SC2034 # of those files
RUN=("$BUILD/sparseshim" run)

# Finds PYTHON, with PyTorch, and with mpi4py by TORCH_PATH.
# shellcheck disable=SC2034 # of those files
finds_torch() {
    PYTHON=${TORCH_PYTHON:-$PYTHON3} TORCH_PATH=$WORK/path
    [ -n "${TORCH_PYTHON:-}" ] || have_torch
}

# ranks RANKS WORD... PROGRAM: a program of torch, without what gloo of 2.8 prints on its standard output.
ranks() {
    local ranks=$1
    shift
    PYTHONPATH=$TORCH_PATH:$PWD/tests/py within "${LIMIT:-60}" "$MPIRUN" -n "$ranks" "$@"
    sed -i '/^\[Gloo\] /d' "$WORK/out"
}

# by_gloo PORT: the words that run a program as torchrun would.
by_gloo() {
    # shellcheck disable=SC2016,SC2034 # of the inner shell; of those files
    GLOO=(bash -c 'export RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE MASTER_ADDR=127.0.0.1 MASTER_PORT='"$1"'; exec "$@"' -)
}
