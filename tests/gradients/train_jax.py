"""A jax training whose gradients mpi4jax adds up, within a compiled step: XLA decides where every
step's gradients lie.

usage: mpirun -n P python3 train_jax.py [STEPS]
"""

import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import mpi4jax
import numpy as np
from mpi4py import MPI

from half import Half

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 80
comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()

# Points of ten classes around centres of their own, each rank with points of its own.
shared = np.random.default_rng(1)
points = np.random.default_rng(100 + rank)
centres = 0.6 * shared.standard_normal((10, 64))
sizes = [64, 256, 256, 256, 10]
weights = [((shared.standard_normal((m, n)) * (2 / m) ** 0.5).astype(np.float32), np.zeros(n, np.float32))
           for m, n in zip(sizes, sizes[1:])]
moments = jax.tree_util.tree_map(np.zeros_like, weights)


def batch():
    label = points.integers(10, size=64)
    return (centres[label] + points.standard_normal((64, 64))).astype(np.float32), label


def loss_of(weights, x, label):
    for w, b in weights[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = weights[-1]
    scores = jax.nn.log_softmax(x @ w + b)
    return -scores[jnp.arange(label.shape[0]), label].mean()


def mean(g):
    total = mpi4jax.allreduce(g, op=MPI.SUM, comm=comm)
    return (total[0] if isinstance(total, tuple) else total) / ranks


@jax.jit
def train(weights, moments, x, label):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, label)
    gradients = jax.tree_util.tree_map(mean, gradients)
    moments = jax.tree_util.tree_map(lambda m, g: 0.9 * m + g, moments, gradients)
    weights = jax.tree_util.tree_map(lambda w, m: w - 0.05 * m, weights, moments)
    return weights, moments, loss


half = Half(MPI, 4 * sum(w.size + b.size for w, b in weights))
losses = []
for step in range(steps):
    weights, moments, loss = train(weights, moments, *batch())
    losses.append(comm.allreduce(float(loss)) / ranks)
    half.step(step, steps)

flat = np.concatenate([np.asarray(a).ravel() for layer in weights for a in layer])
same = comm.allgather(flat.tobytes())
assert all(w == same[0] for w in same), "the ranks hold different weights"
sys.stdout.flush()
MPI.Finalize()
half.tell(losses)
os._exit(0)  # jax may call MPI in handlers of its own, which comes after MPI_Finalize
