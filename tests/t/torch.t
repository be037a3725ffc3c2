#!/usr/bin/env bash
# torch.distributed over MPI (shim/torch), by `sparseshim run`, with Debian's PyTorch.
set -u
. tests/t/lib.sh
. tests/t/python.sh
on_host "PyTorch is built without CUDA"
export SPARSESHIM_MIN_COUNT=1000 LD_PRELOAD=$YIELDS
RUN=("$BUILD/sparseshim" run)

# ---- Python programs without torch ----

cat >"$WORK/names.py" <<'PYTHON'
import os
import sys
try:
    import hidden
except ImportError:
    pass
print(*(f"{name}={os.environ.get(name)}" for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")),
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
starts "$NONE" "TORCH=off" env PMI_RANK=1 PMI_SIZE=2 "${RUN[@]}" --torch=off
starts "$NONE" "DISABLE=on" env PMI_RANK=1 PMI_SIZE=2 SPARSESHIM_DISABLE=on "${RUN[@]}"
starts "$NONE hidden" "a sitecustomize of the site is imported, and its additions to sys.path stay" env PYTHONPATH="$WORK/site" "${RUN[@]}"

# ---- with torch ----

# ranks RANKS WORD... PROGRAM: a program of torch; PYTHON is its interpreter.
ranks() {
    local ranks=$1
    shift
    PYTHONPATH=$TORCH_PATH:$PWD/tests/py within "${LIMIT:-60}" "$MPIRUN" -n "$ranks" "$@"
}

# by_gloo PORT: the words that run a program as torchrun would.
by_gloo() {
    # shellcheck disable=SC2016 # of the inner shell
    GLOO=(bash -c 'export RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE MASTER_ADDR=127.0.0.1 MASTER_PORT='"$1"'; exec "$@"' -)
}

# refused WORDS NAME WORD...: PyTorch stays with gloo, and one sentence with these words says why.
refused() {
    ranks 2 "${@:3}"
    [ "$STATUS" -eq 0 ] && cmp -s "$WORK/out" "$WORK/gloo" && [ "$(grep -c '^sparseshim: torch' "$WORK/err")" = 1 ] &&
        grep -q "^sparseshim: torch.distributed stays .*$1" "$WORK/err"
    tap "$?" "$2: a sentence, and gloo goes on"
}

# by_rank RANKS STATEMENTS...: ranks 0, 1, ... execute these, the last ones the last; the watch is impatient.
cat >"$WORK/by_rank.py" <<'PYTHON'
import datetime, sys, time, torch, torch.distributed as dist
dist.init_process_group('gloo')
other = dist.new_group(timeout=datetime.timedelta(seconds=2))
from sparseshim_torch import job
job.LOOKS, job.PATIENCE = .1, .5
exec(sys.argv[1:][min(dist.get_rank(), len(sys.argv) - 2)])
PYTHON
by_rank() {
    ranks "$1" "${RUN[@]}" "$PYTHON" "$WORK/by_rank.py" "${@:2}"
}

# ends WORDS NAME STATEMENTS [STATEMENTS]: rank 1 executes the first and does not come to the sum of rank 0, or to
# the second, which end the job.
ends() {
    by_rank 2 "${4:-dist.all_reduce(torch.ones(4))}" "$3"
    [ "$STATUS" -ne 0 ] && [ "$STATUS" -ne 124 ] && grep -q "$1" "$WORK/err"
    tap "$?" "$2 ends the job"
}

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

if have_torch; then
    TORCH_PATH=$WORK/path PYTHON=$PYTHON3
    tries "PyTorch of Debian"
    TORCH_PATH='' refused 'No module named .mpi4py.*pip install mpi4py' "without mpi4py" "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    refused 'without MPI_THREAD_MULTIPLE: ' "without MPI_THREAD_MULTIPLE" \
        env MPI4PY_RC_THREAD_LEVEL=serialized "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    by_gloo $((20000 + ($$ + 1) % 20000)) # Debian's torchrun does not start
    ranks 2 env TORCHELASTIC_RUN_ID=1 "${GLOO[@]}" "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    cmp -s "$WORK/out" "$WORK/gloo" && [ "$(grep -c '^sparseshim: torch.distributed stays as it is under torchrun' "$WORK/err")" = 1 ]
    tap "$?" "under torchrun nothing is redirected, and a line says why"
    ranks 2 "${RUN[@]}" "$PYTHON" -c "import os, torch.distributed as dist
dist.init_process_group('gloo', 'file://$WORK/alone' + os.environ['RANK'], rank=0, world_size=1)
assert dist.get_world_size() == 1"
    [ "$STATUS" -eq 0 ] && grep -q 'asked for 1 ranks, and mpirun started 2: ' "$WORK/err"
    tap "$?" "another world_size: a sentence, and gloo goes on"
    ends 'ValueError: gone' "an exception of one rank" 'raise ValueError("gone")'
    ends 'all_reduce of group .* waits for rank 1, which has ended' "a rank that exits early" 'sys.exit(3)'
    LATER='dist.all_reduce(torch.ones(4), group=other, async_op=True)'
    ends 'all_reduce of group .* waits for rank 1, which has ended' "one with a call under way" "$LATER; sys.exit(3)"
    ends 'took longer than the timeout of 2 s' "a call at the end that no other rank makes" "$LATER" 'time.sleep(30)'
    PART='dist.reduce(torch.ones(4), 0)'
    by_rank 3 "$PART" "$PART" "time.sleep(2); $PART"
    [ "$STATUS" -eq 0 ]
    tap "$?" "a rank that ends after its part of a long sum does not"
else
    skip "PyTorch" "python3-torch or mpi4py is missing; make check-more PART=frameworks installs them"
fi
finish
