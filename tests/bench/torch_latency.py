"""Microseconds of a synchronous all_reduce of COUNT floats by torch.distributed, and of mpi4py's Allreduce on the same
ranks, the median of ROUNDS. usage: mpirun -n 2 sparseshim run python torch_latency.py [COUNT] [ROUNDS]"""
import statistics
import sys
import time

import torch
import torch.distributed as dist
from mpi4py import MPI

count, rounds = (int(sys.argv[i]) if len(sys.argv) > i else otherwise for i, otherwise in ((1, 8), (2, 3000)))
torch.set_num_threads(1)
dist.init_process_group("gloo")
tensor = torch.zeros(count)
array = tensor.numpy()


def median(call):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(times)


bare = median(lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array))
ours = median(lambda: dist.all_reduce(tensor))
if dist.get_rank() == 0:
    print(f"result: {count} floats, mpi4py {bare:.1f} us, torch.distributed {ours:.1f} us, {type(dist.group.WORLD).__name__}")
dist.destroy_process_group()
