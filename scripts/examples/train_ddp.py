# train_ddp.py: the classes of train_torch.py with DistributedDataParallel,
# as a script for torchrun is written.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1)
centres = 0.3 * torch.randn(10, 64)
model = DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 10)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(100 + rank)  # each rank has its own samples

for step in range(1, 101):
    label = torch.randint(10, (64,))
    points = centres[label] + torch.randn(64, 64)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(points), label)
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 25 == 0:
        print(f"step {step}: loss {loss:.2f}", flush=True)
dist.destroy_process_group()
