# shellcheck shell=bash
# Sourced by the files that run torch.distributed over MPI (shim/torch) with Debian's PyTorch.
. tests/t/lib.sh
. tests/t/python.sh
on_host "PyTorch is built without CUDA"
export SPARSESHIM_MIN_COUNT=1000 LD_PRELOAD=$YIELDS
# shellcheck disable=SC2034 # of those files
RUN=("$BUILD/sparseshim" run)

# ranks RANKS WORD... PROGRAM: a program of torch; PYTHON is its interpreter.
ranks() {
    local ranks=$1
    shift
    PYTHONPATH=$TORCH_PATH:$PWD/tests/py within "${LIMIT:-60}" "$MPIRUN" -n "$ranks" "$@"
}

# by_gloo PORT: the words that run a program as torchrun would.
by_gloo() {
    # shellcheck disable=SC2016,SC2034 # of the inner shell; of those files
    GLOO=(bash -c 'export RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE MASTER_ADDR=127.0.0.1 MASTER_PORT='"$1"'; exec "$@"' -)
}
