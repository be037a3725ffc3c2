"""A small GPT-2 with transformers.Trainer, as scripts for torchrun are; prints the losses that Trainer logs."""
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        tokens = (torch.randint(0, 50, (1,), generator=torch.Generator().manual_seed(i)) + torch.arange(32) * (i % 3 + 1)) % 128
        return {"input_ids": tokens, "labels": tokens}


class Losses(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **others):
        if state.is_world_process_zero and "loss" in logs:
            print(f"trainer step {state.global_step} loss {float(logs['loss']):.4f}", flush=True)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=64, n_embd=128, n_layer=2, n_head=2))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, per_device_train_batch_size=8, num_train_epochs=1, logging_steps=2, seed=0,
                                      report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True)
        Trainer(model, arguments, train_dataset=Rows(), callbacks=[Losses()]).train()


main()
