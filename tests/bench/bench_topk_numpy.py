"""What a Python user has today: top-k with error feedback by numpy, allgather by mpi4py.

usage: bench_topk_numpy.py COUNT DENSITY CALLS

Prints the median over the calls of the slowest rank's time of a dense Allreduce and of this, and the
bytes that the busiest rank's interface eth0 sent per call. For comparison with scripts/bench-topk.
"""

import sys
import time

import numpy as np
from mpi4py import MPI


def sent_bytes():
    with open("/proc/self/net/dev", encoding="ascii") as table:
        for line in table:
            name, _, numbers = line.partition(":")
            if name.strip() == "eth0":
                return int(numbers.split()[8])
    return 0


def topk_allreduce(comm, gradient, residual, k, result):
    residual += gradient
    index = np.argpartition(np.abs(residual), residual.size - k)[-k:].astype(np.int32)
    value = residual[index]
    residual[index] = 0
    indices = np.empty((comm.size, k), np.int32)
    values = np.empty((comm.size, k), np.float32)
    comm.Allgather(index, indices)
    comm.Allgather(value, values)
    result[:] = 0
    for rank in range(comm.size):
        result[indices[rank]] += values[rank]


def main():
    count, density, calls = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    comm = MPI.COMM_WORLD
    k = max(1, round(density * count))
    random = np.random.default_rng(comm.rank)
    gradients = [random.standard_t(3, count).astype(np.float32) for _ in range(3)]
    residual = np.zeros(count, np.float32)
    result = np.empty(count, np.float32)
    ways = {
        "dense Allreduce": lambda g: comm.Allreduce(g, result),
        "numpy top-k, Allgather": lambda g: topk_allreduce(comm, g, residual, k, result),
    }
    times = {name: [] for name in ways}
    sent = {name: [] for name in ways}
    for call in range(calls + 1):
        for name, way in ways.items():
            comm.Barrier()
            before, begin = sent_bytes(), time.perf_counter()
            way(gradients[call % 3])
            seconds = time.perf_counter() - begin
            slowest = comm.allreduce(seconds, MPI.MAX)
            most = comm.allreduce(sent_bytes() - before, MPI.MAX)
            if call > 0:
                times[name].append(slowest)
                sent[name].append(most)
    if comm.rank == 0:
        dense = np.median(times["dense Allreduce"])
        for name in ways:
            print(f"  {name:24s} {1e3 * np.median(times[name]):10.2f} ms "
                  f"{np.median(sent[name]):12.0f} bytes per call, "
                  f"{dense / np.median(times[name]):6.2f} times as fast as dense")


main()
