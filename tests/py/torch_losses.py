"""Prints the losses of a small training with DistributedDataParallel, as they are under any backend."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    parallel = DistributedDataParallel(model, bucket_cap_mb=.1)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-3)
    draw = torch.Generator().manual_seed(100 + rank)
    for step in range(12):
        inputs = torch.randn(16, 64, generator=draw)
        loss = nn.functional.cross_entropy(parallel(inputs), (inputs[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / dist.get_world_size():.7f}", flush=True)
    dist.destroy_process_group()


main()
