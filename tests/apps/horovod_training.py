#!/usr/bin/env python3
"""Trains with Horovod on PyTorch: an embedding of words, whose gradient is zero but for the words of a
batch, or a dense network of several layers. Horovod packs gradients into its fusion buffer.

Usage: mpirun -n 4 python3 horovod_training.py embedding|dense [STEPS [GROUPS]]
GROUPS: num_groups of hvd.DistributedOptimizer, 0: none."""
import sys
import time

import horovod.torch as hvd
import torch
from torch.nn import functional

WORDS, WIDTH, CLASSES, BATCH = 32768, 32, 16, 256
LAYERS, UNITS, INPUTS = 6, 384, 256


def embedding():
    return torch.nn.Sequential(torch.nn.EmbeddingBag(WORDS, WIDTH), torch.nn.Linear(WIDTH, CLASSES))


def dense():
    layers = [torch.nn.Linear(INPUTS, UNITS), torch.nn.Tanh()]
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(UNITS, UNITS), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(UNITS, CLASSES))


def batch_of(kind, samples, teacher):
    """Inputs and labels: bags of 10 words drawn by Zipf's law, or points; a teacher labels them."""
    if kind == "embedding":
        x = (WORDS ** torch.rand(BATCH, 10, generator=samples)).long() - 1
        return x, (teacher[x].sum(1)).argmax(1)
    x = torch.randn(BATCH, INPUTS, generator=samples)
    return x, (x @ teacher).argmax(1)


def main():
    kind = sys.argv[1]
    steps, groups = (int(word) for word in (sys.argv[2:] + ["30", "0"][len(sys.argv) - 2 :]))
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = embedding() if kind == "embedding" else dense()
    teacher = torch.randn(WORDS if kind == "embedding" else INPUTS, CLASSES)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=5.0 if kind == "embedding" else 0.1),
        named_parameters=model.named_parameters(),
        num_groups=groups,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    samples = torch.Generator().manual_seed(100 + hvd.rank())
    begin, losses = time.monotonic(), []
    for _ in range(steps):
        x, y = batch_of(kind, samples, teacher)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    seconds = time.monotonic() - begin
    loss = hvd.allreduce(torch.stack(losses[-10:]).mean(), name="loss")
    weights = sum(w.numel() for w in model.parameters())
    if hvd.rank() == 0:
        print(f"result: loss={loss:.6f} steps={steps} weights={weights} total_s={seconds:.3f}", flush=True)


main()
