"""A PyTorch training as it is usually written: zero_grad(set_to_none=True), so that every step has
fresh gradient tensors; each is averaged over the ranks by mpi4py, in place.

usage: mpirun -n P python3 train_torch.py [STEPS]
"""

import sys

import numpy as np
import torch
from mpi4py import MPI

from half import Half

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 80
comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
torch.set_num_threads(1)

# Points of ten classes around centres of their own, each rank with points of its own.
torch.manual_seed(1)
centres = 0.6 * torch.randn(10, 64)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loss_of = torch.nn.CrossEntropyLoss()
points = torch.Generator().manual_seed(100 + rank)


def batch():
    label = torch.randint(10, (64,), generator=points)
    return centres[label] + torch.randn(64, 64, generator=points), label


half = Half(MPI, 4 * sum(p.numel() for p in model.parameters()))
losses = []
for step in range(steps):
    x, label = batch()
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model(x), label)
    loss.backward()
    for p in reversed(list(model.parameters())):
        comm.Allreduce(MPI.IN_PLACE, p.grad.numpy())
        p.grad /= ranks
    optimizer.step()
    losses.append(comm.allreduce(float(loss.detach())) / ranks)
    half.step(step, steps)

weights = np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])
same = comm.allgather(weights.tobytes())
assert all(w == same[0] for w in same), "the ranks hold different weights"
MPI.Finalize()
half.tell(losses)
