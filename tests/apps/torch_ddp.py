"""A small transformer with DistributedDataParallel, as scripts for torchrun are: LOCAL_RANK, RANK and WORLD_SIZE come
from the environment. Each way of training prints its losses, the mean over the ranks.
usage: torch_ddp.py WAY...  (plain, bf16, accumulate, fp16_hook, powersgd, zero, fsdp, fsdp2)"""
import contextlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

WAYS = ("plain", "bf16", "accumulate", "fp16_hook", "powersgd", "zero", "fsdp", "fsdp2")
STEPS, WIDTH, LAYERS, CONTEXT = 12, 96, 2, 24


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, 64)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def wrap(way, model):
    if way == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"))
    if way == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    # PowerSGD calls sums in callbacks, and gloo hangs if there are several buckets.
    model = DDP(model, bucket_cap_mb=25 if way == "powersgd" else 0.2)
    if way == "fp16_hook":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if way == "powersgd":
        model.register_comm_hook(powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=3), powerSGD_hook.powerSGD_hook)
    return model


def train(way):
    torch.manual_seed(0)
    model = wrap(way, Model())
    if way == "zero":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    draw, parts = torch.Generator().manual_seed(dist.get_rank()), 3 if way == "accumulate" else 1
    for step in range(STEPS):
        total = torch.zeros(1)
        for part in range(parts):
            first = torch.randint(64, (8, 1), generator=draw)
            tokens = (first + torch.arange(CONTEXT + 1) * (1 + first % 3)) % 64
            with model.no_sync() if part < parts - 1 else contextlib.nullcontext(), \
                    torch.autocast("cpu", torch.bfloat16, enabled=way == "bf16"):
                logits = model(tokens[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) / parts
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"{way} step {step} loss {total.item() / dist.get_world_size():.6f}", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for way in sys.argv[1:] or WAYS:
        train(way)
    dist.destroy_process_group()


main()
