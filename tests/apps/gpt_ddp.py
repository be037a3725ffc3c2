#!/usr/bin/env python3
"""The training of gpt.py with DistributedDataParallel. Its logs are summed by mpi4py, under gloo as well.

Usage: mpirun -n 4 [sparseshim run] python3 gpt_ddp.py [options of gpt.py] [--hook bf16] [--cap MB]"""
import argparse
import os
import sys

import gpt
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


class Training(gpt.Training):
    def __init__(self, options):
        super().__init__(options)
        self.parallel = DistributedDataParallel(self.model, bucket_cap_mb=CAP)
        if HOOK == "bf16":
            self.parallel.register_comm_hook(None, default_hooks.bf16_compress_hook)

    def loss_at(self, text, starts):
        """The reducer sums gradients in backward; held-out text has none."""
        whole, self.model = self.model, self.parallel if torch.is_grad_enabled() else self.model
        try:
            return super().loss_at(text, starts)
        finally:
            self.model = whole

    def add_up_gradients(self):
        """Has been done in backward."""


def set_variables():
    """Those of torchrun, where `sparseshim run` has not set them: the program is measured over gloo."""
    if "RANK" not in os.environ:
        address = gpt.comm.bcast(os.environ.get("RANK_0", os.uname().nodename))
        os.environ.update(RANK=str(gpt.rank), WORLD_SIZE=str(gpt.ranks), MASTER_ADDR=address, MASTER_PORT="29577")


parser = argparse.ArgumentParser(add_help=False)
parser.add_argument("--hook", choices=["none", "bf16"], default="none")
parser.add_argument("--cap", type=float, default=25.0, help="megabytes of a bucket")
own, sys.argv[1:] = parser.parse_known_args()
HOOK, CAP = own.hook, own.cap
set_variables()
dist.init_process_group("gloo")
gpt.Training = Training
gpt.main()
dist.destroy_process_group()
