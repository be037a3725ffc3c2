#!/usr/bin/env python3
"""A small GPT with AdamW, data parallel: each rank computes the gradient of its own sequences, and
an allreduce adds them up. It learns to predict the next byte of Perl's manual (package perl-doc).

Usage: mpirun -n 4 python3 gpt.py [options]; --help lists them."""
import argparse
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import torch
from mpi4py import MPI
from torch.nn import functional

TEXT = "/usr/share/perl/5.*.*/pod/*.pod"  # without the link 5.36, so that no file comes twice
HELD_OUT = 20  # every so many files one is not trained on
WARMUP = 50  # steps in which the learning rate rises
LOG_STEPS = 10  # steps per line of a log
CHECKED = 64  # held-out sequences

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size


# ---- the model ----


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mixing = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = torch.nn.Linear(width, 3 * width)
        self.projection = torch.nn.Linear(width, width)
        self.wider, self.narrower = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.before_attention(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / (width / self.heads) ** 0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        seen = scores.masked_fill(later, float("-inf")).softmax(-1) @ value
        x = x + self.projection(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrower(functional.gelu(self.wider(self.before_mixing(x))))


class Gpt(torch.nn.Module):
    """Bytes in, logits of the next byte out. The output has the weights of the embedding."""

    def __init__(self, width, layers, context):
        super().__init__()
        self.embedding = torch.nn.Embedding(256, width)
        self.position = torch.nn.Embedding(context, width)
        self.blocks = torch.nn.Sequential(*[Block(width, width // 64) for _ in range(layers)])
        self.last = torch.nn.LayerNorm(width)
        for name, weights in self.named_parameters():
            if weights.dim() == 2:
                deep = name.endswith(("projection.weight", "narrower.weight"))
                torch.nn.init.normal_(weights, std=0.02 / (2 * layers) ** 0.5 if deep else 0.02)

    def forward(self, text):
        x = self.embedding(text) + self.position.weight[: text.shape[1]]
        return self.last(self.blocks(x)) @ self.embedding.weight.T


# ---- sums of gradients: dense in 32 bits, or in 16 bits as one would write it by hand ----


class Sums:
    """Adds vectors of 32-bit floats over the ranks; counts the seconds."""

    def __init__(self, how):
        self.add = getattr(self, how)
        self.seconds = 0.0
        if how == "operator16":
            self.operator = MPI.Op.Create(self.add_bf16, commute=True)

    def __call__(self, vectors):
        begin = time.monotonic()
        self.add(vectors)
        self.seconds += time.monotonic() - begin

    def allreduce(self, vectors):
        for vector in vectors:
            comm.Allreduce(MPI.IN_PLACE, vector.numpy())

    def iallreduce(self, vectors):
        MPI.Request.Waitall([comm.Iallreduce(MPI.IN_PLACE, vector.numpy()) for vector in vectors])

    def alltoall16(self, vectors):
        """Each rank adds up one part in 32 bits; both ways go in 16."""
        for vector in vectors:
            part = -(-vector.numel() // ranks)
            padded = functional.pad(vector, (0, ranks * part - vector.numel())).bfloat16().view(torch.int16)
            received = torch.empty_like(padded)
            comm.Alltoall(padded.numpy(), received.numpy())
            total = received.view(torch.bfloat16).view(ranks, part).float().sum(0)
            comm.Allgather(total.bfloat16().view(torch.int16).numpy(), padded.numpy())
            vector.copy_(padded.view(torch.bfloat16)[: vector.numel()])

    def operator16(self, vectors):
        for vector in vectors:
            sent = vector.bfloat16().view(torch.int16).numpy()
            received = np.empty_like(sent)
            comm.Allreduce(sent, received, self.operator)
            vector.copy_(torch.from_numpy(received).view(torch.bfloat16))

    @staticmethod
    def add_bf16(one, other, _):
        one, other = (torch.frombuffer(memory, dtype=torch.bfloat16) for memory in (one, other))
        other += one


# ---- training ----


def read_text():
    """Training and held-out bytes, the same on all ranks."""
    files = sorted(Path("/").glob(TEXT[1:]))
    if not files:
        sys.exit(f"gpt.py: no file {TEXT}: install the package perl-doc")
    texts = [file.read_bytes() for file in files]
    kept = [b"".join(t for i, t in enumerate(texts) if (i % HELD_OUT == 0) == held) for held in (False, True)]
    return [torch.frombuffer(bytearray(text), dtype=torch.uint8).long() for text in kept]


class Training:
    def __init__(self, options):
        self.options = options
        torch.manual_seed(options.seed)  # the same weights on all ranks
        self.model = Gpt(options.width, options.layers, options.context)
        self.weights = list(self.model.parameters())
        self.samples = torch.Generator().manual_seed(1000 * options.seed + rank)
        self.text, self.held_out = read_text()
        self.sums = Sums(options.sums)
        self.optimizer = torch.optim.AdamW(self.weights, lr=options.lr, betas=(0.9, 0.95), weight_decay=0.1)
        self.kept = self.flat(self.weights)  # the weights of the last sum of changes

    def flat(self, tensors):
        return torch.nn.utils.parameters_to_vector(tensors).detach()

    def loss_at(self, text, starts):
        windows = torch.stack([text[start : start + self.options.context + 1] for start in starts])
        logits = self.model(windows[:, :-1])
        return functional.cross_entropy(logits.reshape(-1, 256), windows[:, 1:].reshape(-1))

    def gradient(self):
        """Leaves this rank's gradient in the weights; returns its loss."""
        high = len(self.text) - self.options.context - 1
        starts = torch.randint(high, (self.options.sequences,), generator=self.samples).tolist()
        self.optimizer.zero_grad()
        loss = self.loss_at(self.text, starts)
        loss.backward()
        return float(loss)

    def add_up_gradients(self):
        """The mean over the ranks, as one vector or a parameter at a time, the last layer first."""
        gradients = [w.grad for w in reversed(self.weights)]
        vectors = [self.flat(gradients)] if self.options.form == "flat" else [g.view(-1) for g in gradients]
        self.sums(vectors)
        if self.options.form == "flat":
            torch.nn.utils.vector_to_parameters(vectors[0], gradients)
        for g in gradients:
            g /= ranks

    def add_up_changes(self):
        """Local steps: the weights move by the mean of what the ranks changed since the last sum."""
        change = self.flat(self.weights) - self.kept
        self.sums([change])
        self.kept = self.kept + change / ranks
        torch.nn.utils.vector_to_parameters(self.kept.clone(), self.weights)

    def step(self, number):
        loss = self.gradient()
        if self.options.clip_ranks:
            torch.nn.utils.clip_grad_norm_(self.weights, ranks**-0.5)
        if not self.options.local:
            self.add_up_gradients()
        if not self.options.clip_ranks:
            torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        for group in self.optimizer.param_groups:
            rest = max(0, number - WARMUP) / max(1, self.options.steps - WARMUP)
            group["lr"] = self.options.lr * min(1, number / WARMUP) * (1 - 0.9 * rest)
        self.optimizer.step()
        if self.options.local and (number % self.options.local == 0 or number == self.options.steps):
            self.add_up_changes()
        return loss

    @torch.no_grad()
    def held_out_bits(self):
        """Per byte."""
        apart = (len(self.held_out) - self.options.context - 1) // CHECKED
        mine = [apart * i for i in range(rank, CHECKED, ranks)]
        total = float(self.loss_at(self.held_out, mine)) * len(mine) if mine else 0
        return comm.allreduce(total) / CHECKED / np.log(2)


def train(options):
    training = Training(options)
    log = open(options.log, "w") if options.log and rank == 0 else None
    print("step,seconds,loss,held_out", file=log) if log else None
    begin, losses, bits = time.monotonic(), [], float("nan")
    for number in range(1, options.steps + 1):
        losses.append(training.step(number))
        if number % options.every == 0 or number == options.steps:
            bits = training.held_out_bits()
        if number % LOG_STEPS == 0:
            loss = comm.allreduce(sum(losses)) / len(losses) / ranks
            losses = []
            if log:
                print(f"{number},{time.monotonic() - begin:.3f},{loss:.6f},{bits:.6f}", file=log, flush=True)
    seconds = time.monotonic() - begin
    replicas = comm.allgather(zlib.crc32(training.flat(training.weights).numpy().tobytes()))
    if rank == 0:
        print(f"result: steps={options.steps} weights={len(training.kept)} held_out_bits={bits:.6f}"
              f" total_s={seconds:.3f} allreduce_s={training.sums.seconds:.3f}"
              f" replicas={'identical' if len(set(replicas)) == 1 else 'different'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--steps", type=int, default=800)
    add("--width", type=int, default=256, help="a multiple of 64, the size of a head (default %(default)s)")
    add("--layers", type=int, default=2)
    add("--context", type=int, default=128, help="bytes that a prediction sees (default %(default)s)")
    add("--sequences", type=int, default=4, help="of a rank in a step (default %(default)s)")
    add("--lr", type=float, default=1e-3)
    add("--clip-ranks", action="store_true",
        help="clip each rank's gradient before the sum, at 1 / sqrt(ranks) (DGC), not the mean after it, at 1")
    add("--form", choices=["flat", "layers"], default="flat", help="one sum per step, or one per parameter")
    add("--sums", choices=["allreduce", "iallreduce", "alltoall16", "operator16"], default="allreduce",
        help="of 32 bits; of bfloat16 by Alltoall and Allgather, or by an operator (default %(default)s)")
    add("--local", type=int, default=0, metavar="H", help="sum changes of weights every H steps, not gradients")
    add("--every", type=int, default=100, help="steps between looks at held-out text (default %(default)s)")
    add("--seed", type=int, default=1)
    add("--log", metavar="FILE", help="loss over steps, as CSV")
    torch.set_num_threads(1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
