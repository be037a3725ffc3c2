#!/usr/bin/env bash
# When torch.distributed is not redirected to MPI, and how jobs end whose ranks do not all come to a call.
# Part of `make check-more PART=frameworks`.
set -u
. tests/t/torch.sh

# refused WORDS NAME WORD...: PyTorch stays with gloo, and one sentence with these words says why.
refused() {
    ranks 2 "${@:3}"
    [ "$STATUS" -eq 0 ] && cmp -s "$WORK/out" "$WORK/gloo" && [ "$(grep -c '^sparseshim: torch[.]distributed' "$WORK/err")" = 1 ] &&
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
soon = datetime.timedelta(seconds=.3)
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

if finds_torch; then
    by_gloo $((20000 + $$ % 20000))
    ranks 2 "${GLOO[@]}" "$PYTHON" tests/py/torch_losses.py
    cp "$WORK/out" "$WORK/gloo"
    mkdir "$WORK/none" && echo "raise ImportError(\"No module named 'mpi4py'\")" >"$WORK/none/mpi4py.py"
    TORCH_PATH=$WORK/none refused 'No module named .mpi4py.*pip install mpi4py' "without mpi4py" "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    refused 'without MPI_THREAD_MULTIPLE: ' "without MPI_THREAD_MULTIPLE" \
        env MPI4PY_RC_THREAD_LEVEL=serialized "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    CHILD='import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))'
    refused 'a rank of MPI has started this process' "in a process that a rank starts, as accelerate launch does" \
        "${RUN[@]}" "$PYTHON" -c "$CHILD" tests/py/torch_losses.py
    cat >"$WORK/spawn.py" <<PYTHON
import os, torch.distributed as dist, torch.multiprocessing
def work(rank):
    dist.init_process_group('gloo', 'file://$WORK/spawn' + os.environ['RANK'], rank=rank, world_size=2)
    dist.barrier()
    dist.destroy_process_group()
if __name__ == '__main__':
    torch.multiprocessing.spawn(work, nprocs=2)
PYTHON
    ranks 2 "${RUN[@]}" "$PYTHON" "$WORK/spawn.py"
    [ "$STATUS" -eq 0 ] && [ "$(grep -c '^sparseshim: .* stays with gloo: a rank of MPI has started this' "$WORK/err")" = 1 ]
    tap "$?" "and under torch.multiprocessing.spawn"
    # A rank on each of two hosts, whose children meet where the program says.
    sed -i "s/^def work.*/&\n    os.environ.update(MASTER_ADDR='localhost', MASTER_PORT=str($((20002 + $$ % 20000)) + int(os.environ['RANK'])))/
        s/'file:.*RANK'\], //" "$WORK/spawn.py"
    ranks 2 env MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0 "${RUN[@]}" "$PYTHON" "$WORK/spawn.py"
    [ "$STATUS" -eq 0 ] && [ "$(grep -c '^sparseshim: .* stays with gloo: a rank of MPI has started this' "$WORK/err")" = 2 ]
    tap "$?" "also with a MASTER_ADDR of the program's, on several hosts"
    PYTHONPATH=$TORCH_PATH within 60 "${RUN[@]}" "$PYTHON" -c "import torch.distributed as dist; dist.init_process_group('gloo')"
    [ "$STATUS" -eq 1 ] && [ "$(grep -c '^sparseshim: .* finds no RANK, .*: mpirun -n RANKS sparseshim' "$WORK/err")" = 1 ]
    tap "$?" "without mpirun: a sentence beside PyTorch's"
    by_gloo $((20000 + ($$ + 1) % 20000)) # Debian's torchrun does not start
    ranks 2 env TORCHELASTIC_RUN_ID=1 "${GLOO[@]}" "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    cmp -s "$WORK/out" "$WORK/gloo" && [ "$(grep -c '^sparseshim: torch.distributed stays as it is under torchrun' "$WORK/err")" = 1 ]
    tap "$?" "under torchrun nothing is redirected, and a line says why"
    ranks 2 "${RUN[@]}" "$PYTHON" -c "import os, torch.distributed as dist
dist.init_process_group('gloo', 'file://$WORK/alone' + os.environ['RANK'], rank=0, world_size=1)
assert dist.get_world_size() == 1"
    [ "$STATUS" -eq 0 ] && grep -q 'asked for 1 ranks, and mpirun started 2: ' "$WORK/err"
    tap "$?" "another world_size: a sentence, and gloo goes on"
    LIMIT=30 ranks 2 env RANK=1 "${RUN[@]}" "$PYTHON" tests/py/torch_losses.py
    [ "$STATUS" -eq 0 ] && cmp -s "$WORK/out" "$WORK/gloo" &&
        grep -qx "sparseshim: RANK names ranks 1, 1: mpirun's ranks count" "$WORK/err"
    tap "$?" "a RANK that is left over does not count, and a line says so"
    # shellcheck disable=SC2016 # of the inner shell
    ranks 2 bash -c 'export RANK=$((1 - PMI_RANK)); exec "$@"' - "${RUN[@]}" "$PYTHON" -c "
import os, torch, torch.distributed as dist
dist.init_process_group('gloo')
assert dist.get_rank() == int(os.environ['RANK']) == 1 - int(os.environ['PMI_RANK'])
x = torch.full((2,), float(dist.get_rank()))
dist.broadcast(x, 1)
assert x[0] == 1"
    [ "$STATUS" -eq 0 ] && ! grep -q 'RANK names' "$WORK/err"
    tap "$?" "another order of the ranks is kept"
    for backend in nccl mpi; do
        ranks 2 "${RUN[@]}" "$PYTHON" -c "
import torch, torch.distributed as dist
dist.init_process_group('$backend')
x = torch.ones(2000)
dist.all_reduce(x)
assert x[0] == 2"
        [ "$STATUS" -eq 0 ] && [ "$(counter calls.seen)" -gt 0 ]
        tap "$?" "a script that asks for $backend is served"
    done
    ranks 2 "${RUN[@]}" "$PYTHON" -c "import torch.distributed as dist; dist.init_process_group('nonsense')"
    [ "$STATUS" -ne 0 ] && grep -q 'stays with nonsense: gloo, nccl and mpi are redirected' "$WORK/err"
    tap "$?" "another backend: a sentence says which are"
    PYTHONPATH=$TORCH_PATH within 200 "$BUILD/sparseshim" learn --out="$WORK/ddp.conf" -- \
        "$MPIRUN" -n 2 "$PYTHON" scripts/examples/train_ddp.py
    [ "$STATUS" -eq 0 ] && grep -q '^register = ddp$' "$WORK/ddp.conf" && grep -q '^mode = quant$' "$WORK/ddp.conf"
    tap "$?" "learn writes the rule of DistributedDataParallel"
    ends 'ValueError: gone' "an exception of one rank" 'raise ValueError("gone")'
    ends 'all_reduce of group .* waits for rank 1, which has ended' "a rank that exits early" 'sys.exit(3)'
    LATER='dist.all_reduce(torch.ones(4), group=other, async_op=True)'
    ends 'all_reduce of group .* waits for rank 1, which has ended' "one with a call under way" "$LATER; sys.exit(3)"
    ends 'took longer than the timeout of 2 s' "a call at the end that no other rank makes" "$LATER" 'time.sleep(30)'
    # does NAME STATEMENTS STATEMENTS: two ranks execute them without an error.
    does() {
        by_rank 2 "${@:2}"
        [ "$STATUS" -eq 0 ]
        tap "$?" "$1"
    }
    SUM='x = torch.ones(4); work = dist.all_reduce(x, async_op=True)'
    TWICE='work.wait(); work.wait(); work.wait(soon); assert x[0] == 2 and work.is_completed() and work.get_future().wait()[0] is not None'
    does "a sum may be waited for again" "$SUM; $TWICE"
    TRIES='
try:
    %s
    raise SystemExit("no error")
except RuntimeError as error:
    assert "took longer than the timeout of 0.3 s" in str(error), error
'
    # Rank 1 comes when rank 0 tells it to.
    CALLS='dist.send(torch.zeros(1), 1)' COMES='dist.recv(torch.zeros(1), 0)'
    # shellcheck disable=SC2059
    does "a wait that ends by its time limit may be repeated" \
        "$SUM; $(printf "$TRIES" 'work.wait(soon)')
$CALLS
$TWICE" "$COMES; $SUM; $TWICE"
    # shellcheck disable=SC2059
    does "monitored_barrier says that a rank is late" \
        "$(printf "$TRIES" 'dist.monitored_barrier(timeout=soon)')
$CALLS" "$COMES; dist.barrier()"
    does "and passes if none is" "dist.monitored_barrier(timeout=datetime.timedelta(seconds=30))"
    # shellcheck disable=SC2059
    does "a receive ends by its time limit" "
x = torch.zeros(1)
work = dist.irecv(x, 1)
$(printf "$TRIES" 'work.wait(soon)')
dist.barrier()
assert work.wait() and x[0] == 5" "dist.barrier(); dist.send(torch.tensor([5.]), 0)"
    PART='dist.reduce(torch.ones(4), 0)'
    by_rank 3 "$PART" "$PART" "time.sleep(2); $PART"
    [ "$STATUS" -eq 0 ]
    tap "$?" "a rank that ends after its part of a long sum does not"
else
    skip "PyTorch" "python3-torch or mpi4py is missing; make check-more PART=frameworks installs them"
fi
finish
