# train_torch.py: ten classes of points, 150,794 weights.
import torch
from mpi4py import MPI
from torch.nn.utils import parameters_to_vector as joined
from torch.nn.utils import vector_to_parameters as spread

comm = MPI.COMM_WORLD
torch.set_num_threads(1)
torch.manual_seed(1)  # the same model on all ranks
centres = 0.6 * torch.randn(10, 64)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 10))
weights = list(model.parameters())
optimizer = torch.optim.SGD(weights, lr=0.05, momentum=0.9)
torch.manual_seed(100 + comm.rank)  # each rank has its own samples

for step in range(1, 101):
    label = torch.randint(10, (64,))
    points = centres[label] + torch.randn(64, 64)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(points), label)
    loss.backward()
    gradient = joined(w.grad for w in weights)
    comm.Allreduce(MPI.IN_PLACE, gradient.numpy())
    gradient /= comm.size
    spread(gradient, [w.grad for w in weights])
    optimizer.step()
    if comm.rank == 0 and step % 25 == 0:
        print(f"step {step}: loss {loss:.2f}", flush=True)
