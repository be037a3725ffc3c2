"""A numpy training as one writes it with mpi4py: every gradient is a temporary that lies where it
happens to, and all are averaged by one helper, so that the call sites of all look alike.

usage: mpirun -n P python3 train_numpy.py [STEPS]
"""

import sys

import numpy as np
from mpi4py import MPI

from half import Half

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 80
comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()

# Points of ten classes around centres of their own, each rank with points of its own. Two layers
# between are of one size.
shared = np.random.default_rng(1)
points = np.random.default_rng(100 + rank)
centres = 0.6 * shared.standard_normal((10, 64))
sizes = [64, 128, 128, 128, 10]
weights = [(shared.standard_normal((m, n)) * (2 / m) ** 0.5).astype(np.float32)
           for m, n in zip(sizes, sizes[1:])]
moments = [np.zeros_like(w) for w in weights]


def mean(gradient):
    total = np.empty_like(gradient)
    comm.Allreduce(gradient, total)
    return total / np.float32(ranks)


def batch():
    label = points.integers(10, size=64)
    return (centres[label] + points.standard_normal((64, 64))).astype(np.float32), label


def gradients(x, label):
    """The loss, and the gradients from the last layer to the first."""
    seen = [x]
    for w in weights[:-1]:
        seen.append(np.maximum(seen[-1] @ w, 0))
    scores = seen[-1] @ weights[-1]
    scores -= scores.max(axis=1, keepdims=True)
    share = np.exp(scores)
    share /= share.sum(axis=1, keepdims=True)
    loss = -np.log(share[np.arange(len(label)), label]).mean()
    share[np.arange(len(label)), label] -= 1
    back = share / len(label)
    found = []
    for k in range(len(weights) - 1, -1, -1):
        found.append(mean(seen[k].T @ back))
        back = (back @ weights[k].T) * (seen[k] > 0)
    return loss, found[::-1]


half = Half(MPI, 4 * sum(w.size for w in weights))
losses = []
for step in range(steps):
    loss, found = gradients(*batch())
    for w, m, g in zip(weights, moments, found):
        m *= np.float32(0.9)
        m += g
        w -= np.float32(0.05) * m
    losses.append(comm.allreduce(float(loss)) / ranks)
    half.step(step, steps)

flat = np.concatenate([w.ravel() for w in weights])
same = comm.allgather(flat.tobytes())
assert all(w == same[0] for w in same), "the ranks hold different weights"
MPI.Finalize()
half.tell(losses)
