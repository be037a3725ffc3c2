"""A network with Accelerate, as scripts for `accelerate launch` are; prints the losses of the ranks' mean."""
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    inputs = torch.randn(512, 64)
    data = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
    model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3), data)
    for epoch in range(2):
        for step, (x, y) in enumerate(data):
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
            accelerator.print(f"accelerate epoch {epoch} step {step} loss {mean:.6f}")
    accelerator.end_training()


main()
