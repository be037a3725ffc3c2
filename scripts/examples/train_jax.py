# train_jax.py: ten classes of points, 150,794 weights.
import jax
import jax.numpy as jnp
import mpi4jax
import numpy as np
from jax.flatten_util import ravel_pytree
from mpi4py import MPI

comm = MPI.COMM_WORLD
jax.config.update("jax_platforms", "cpu")
same = np.random.default_rng(1)  # the same model on all ranks
centres = 0.6 * same.standard_normal((10, 64))
sizes = (64, 256), (256, 256), (256, 256), (256, 10)
weights = [(same.normal(0, (2 / m) ** 0.5, (m, n)).astype("f"),
            np.zeros(n, "f")) for m, n in sizes]
own = np.random.default_rng(100 + comm.rank)  # its own samples


def loss_of(weights, x, label):
    for w, b in weights[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = weights[-1]
    scores = jax.nn.log_softmax(x @ w + b)
    return -scores[jnp.arange(label.size), label].mean()


@jax.jit
def train(weights, x, label):
    loss, g = jax.value_and_grad(loss_of)(weights, x, label)
    flat, shaped = ravel_pytree(g)
    total = mpi4jax.allreduce(flat, op=MPI.SUM, comm=comm)
    return loss, jax.tree_util.tree_map(
        lambda w, g: w - 0.1 / comm.size * g, weights,
        shaped(total))


for step in range(1, 101):
    label = own.integers(10, size=64)
    x = centres[label] + own.standard_normal((64, 64))
    loss, weights = train(weights, x.astype("f"), label)
    if comm.rank == 0 and step % 25 == 0:
        print(f"step {step}: loss {loss:.2f}", flush=True)
