#!/usr/bin/env bash
# torch.distributed over MPI (shim/torch), by `sparseshim run`.
set -u
. tests/t/torch.sh

# ---- Python programs without torch ----

cat >"$WORK/names.py" <<'PYTHON'
import os
import sys
try:
    import hidden
except ImportError:
    pass
print(*(f"{name}={os.environ.get(name)}" for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", *os.environ.get("SHOW", "").split(), "MASTER_ADDR")),
      *sorted({"torch", "mpi4py", "importlib.util", "inspect", "hidden"} & set(sys.modules)))
PYTHON
mkdir "$WORK/site"
mkdir "$WORK/more" && : >"$WORK/more/hidden.py"
echo "import sys; sys.path.append('$WORK/more')" >"$WORK/site/sitecustomize.py"
# starts WANTED NAME WORD...: the program prints WANTED.
starts() {
    within 30 "${@:3}" "$PYTHON3" "$WORK/names.py"
    [ "$STATUS" -eq 0 ] && [ "$(cat "$WORK/out")" = "$1" ]
    tap "$?" "$2"
}
NONE='RANK=None WORLD_SIZE=None LOCAL_RANK=None MASTER_ADDR=None'
starts "$NONE" "without a launcher nothing is set or imported" "${RUN[@]}"
starts "$NONE" "nor with one rank" env PMI_RANK=0 PMI_SIZE=1 "${RUN[@]}"
starts "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1" "several ranks get torchrun's variables, and nothing else" \
    env PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 "${RUN[@]}"
starts "RANK=7 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=other" "but not those that are set" \
    env PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 RANK=7 MASTER_ADDR=other "${RUN[@]}"
SLURM=(SLURM_STEP_NUM_TASKS=7 SLURM_LOCALID=0 'SLURM_STEP_TASKS_PER_NODE=2(x3),1')
starts "RANK=6 WORLD_SIZE=7 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1" "srun's ranks of this host" \
    env "${SLURM[@]}" SLURM_PROCID=6 SLURM_NODEID=3 SHOW=LOCAL_WORLD_SIZE "${RUN[@]}"
starts "RANK=4 WORLD_SIZE=7 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1" "and of one before it" \
    env "${SLURM[@]}" SLURM_PROCID=4 SLURM_NODEID=2 SHOW=LOCAL_WORLD_SIZE "${RUN[@]}"
starts "$NONE" "TORCH=off" env PMI_RANK=1 PMI_SIZE=2 "${RUN[@]}" --torch=off
starts "$NONE" "DISABLE=on" env PMI_RANK=1 PMI_SIZE=2 SPARSESHIM_DISABLE=on "${RUN[@]}"
starts "$NONE hidden" "a sitecustomize of the site is imported, and its additions to sys.path stay" env PYTHONPATH="$WORK/site" "${RUN[@]}"

# ---- with torch ----

tries() { # NAME
    ranks 2 "${RUN[@]}" "$PYTHON" tests/py/torch_calls.py
    tap_passed "$1: every collective"
    SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=ddp SPARSESHIM_DENSITY=0.1 SPARSESHIM_ALGORITHM=split_allgather \
        ranks 2 "${RUN[@]}" "$PYTHON" tests/py/torch_buckets.py
    tap_passed "$1: no residual meets another parameter" 150
    by_gloo $((20000 + $$ % 20000))
    ranks 2 "${GLOO[@]}" "$PYTHON" tests/py/torch_losses.py
    cp "$WORK/out" "$WORK/gloo"
    ranks 2 "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    [ "$STATUS" -eq 0 ] && [ -s "$WORK/gloo" ] && cmp -s "$WORK/out" "$WORK/gloo" && [ "$(counter calls.seen)" -gt 12 ]
    tap "$?" "$1: MODE=exact has gloo's losses in all digits"
    SPARSESHIM_MODE=quant SPARSESHIM_REGISTER=ddp SPARSESHIM_ALGORITHM=quantized \
        ranks 2 "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    [ "$STATUS" -eq 0 ] && [ "$(tensors state=registered type=float)" = "$(tensors state=registered)" ] && sparse_calls 10 &&
        paste -d' ' "$WORK/out" "$WORK/gloo" | awk '{ off = $4 - $8; bad += off > .02 || off < -.02 } END { exit bad > 0 || NR < 12 }'
    tap "$?" "$1: MODE=quant is near them"
}

if finds_torch; then
    tries "PyTorch of ${TORCH_PYTHON:-Debian}"
else
    skip "PyTorch" "python3-torch or mpi4py is missing; make check-more PART=frameworks installs them"
fi
finish
