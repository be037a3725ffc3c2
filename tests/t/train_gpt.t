#!/usr/bin/env bash
# The small GPT with AdamW of scripts/trainings (tests/apps/gpt.py): its sums in 16 bits are right, and
# its gradients, whole or by layers, and its changes of weights after local steps are sent as top-k, and
# its gradients in few bits.
set -u
SPARSESHIM_MIN_COUNT=1024
. tests/t/lib.sh
. tests/t/python.sh
. tests/t/train.sh
STEPS=20
SMALL=(--steps "$STEPS" --width 64 --context 32 --every "$STEPS")

if ! have_torch || ! compgen -G '/usr/share/perl/5.*/pod/perl.pod' >/dev/null; then
    skip "GPT" "python3-torch, perl-doc or mpi4py is missing; make check-more PART=frameworks installs them"
    finish
    exit
fi

# The sums are shorter than MIN_COUNT, and made in front of a training: to load PyTorch takes 2.7 s of
# processor time.
cat >"$WORK/sums.py" <<'SUMS'
import torch
from gpt import Sums, comm, main, ranks

inputs = [torch.randn(1001, generator=torch.Generator().manual_seed(r)) for r in range(ranks)]
right = torch.stack(inputs).sum(0)
for how in ("allreduce", "iallreduce", "alltoall16", "operator16"):
    vector = inputs[comm.rank].clone()
    Sums(how)([vector])
    off = float((vector - right).abs().max() / right.abs().max())
    same = len(set(comm.allgather(vector.numpy().tobytes()))) == 1
    bits = how.endswith("16")
    right_here = same and off < (0.02 if bits else 1e-6) and (off > 1e-6) == bits
    everywhere = comm.allgather(right_here or off)  # one rank prints: lines of several may mix
    if comm.rank == 0:
        print(f"{how} {'right' if all(x is True for x in everywhere) else everywhere}")
main()
SUMS

GPT=tests/apps/gpt.py
# learns NAME ARGUMENT...: most calls of the gradients are lossy, and the training learns.
learns() {
    rm -rf "$WORK/report"
    PYTHONPATH=$WORK/path:tests/apps SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$WORK/report within 120 "$MPIRUN" -n 2 \
        -genv LD_PRELOAD "$LIB $YIELDS" "$PYTHON3" "$GPT" "${SMALL[@]}" "${@:2}"
    trained "$1"
    awk -v bits="$(value held_out_bits)" 'BEGIN { exit !(bits > 1 && bits < 7.8) }'
    tap "$?" "$1: $(value held_out_bits) bits a byte, 8 at the start"
}

# lossy NAME CALLS DENSITY: of its calls at least so many were lossy, with about this density.
lossy() {
    read -r calls density _ < <(topk_calls)
    awk -v calls="$calls" -v least="$2" -v density="$density" -v aim="$3" \
        'BEGIN { exit !(calls >= least && density > 0.4 * aim && density < 2 * aim) }'
    tap "$?" "$1: $calls lossy calls of a rank, $density of their elements"
}

export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.05 SPARSESHIM_ALGORITHM=oktopk
GPT=$WORK/sums.py SPARSESHIM_REGISTER='*:calls=1' learns 'one gradient a step'
for how in allreduce iallreduce alltoall16 operator16; do
    grep -qx "$how right" "$WORK/out"
    tap "$?" "sums by $how on 2 ranks"
done
lossy 'one gradient a step' 15 0.05
SPARSESHIM_REGISTER='count=16384:calls=5; count=12288:calls=2; count=4096:calls=2' \
    learns 'a sum per parameter' --form layers --sums iallreduce
lossy 'a sum per parameter' 120 0.05
SPARSESHIM_REGISTER='*:calls=1' learns 'local steps' --local 3
lossy 'local steps' 1 0.05

export SPARSESHIM_MODE=quant SPARSESHIM_DENSITY=1 SPARSESHIM_ALGORITHM=quantized
SPARSESHIM_REGISTER='*:calls=1' learns 'quant'
lossy 'quant' 15 1
finish
