"""A network with Lightning, as scripts for torchrun are; prints the mean loss of each epoch."""
import os

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))

    def training_step(self, batch, _):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True, on_epoch=True, on_step=False)
        return loss

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            print(f"lightning epoch {self.current_epoch} loss {self.trainer.callback_metrics['loss'].item():.6f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    torch.set_num_threads(1)
    lightning.seed_everything(0, verbose=False)
    inputs = torch.randn(512, 64)
    data = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=32, shuffle=True)
    trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_epochs=3,
                                num_nodes=int(os.environ["WORLD_SIZE"]) // int(os.environ["LOCAL_WORLD_SIZE"]), logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Model(), data)


main()
