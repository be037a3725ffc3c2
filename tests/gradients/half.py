"""What the training programs in Python share: the share of gradient bytes that were sent as top-k
from step 20 to the half of the steps, and in the second half, by the library's own report."""

import glob
import json
import os


FOUND = 20


class Half:
    """Use: half = Half(MPI, bytes of a step's gradients); half.step(s, steps) after every step;
    half.tell(losses) after MPI.Finalize(). Reports come from REPORT=rank0 and REPORT_DIR."""

    def __init__(self, MPI, step_bytes):
        self.MPI = MPI
        self.rank = MPI.COMM_WORLD.Get_rank()
        self.step_bytes = step_bytes
        self.found = 0
        self.first = 0
        self.steps = 0

    def step(self, step, steps):
        self.steps = steps
        if step + 1 == FOUND:
            self.found = self.so_far()
        if step + 1 == steps // 2:
            self.first = self.so_far()

    def so_far(self):
        self.MPI.Pcontrol(2)  # writes a report of what was so far
        return self.sparse_bytes()

    def sparse_bytes(self):
        """Bytes of the calls that were sent as top-k."""
        size = {"float": 4, "double": 8}
        total = 0
        for path in glob.glob(os.path.join(os.environ.get("SPARSESHIM_REPORT_DIR", ""), "*.json")):
            with open(path) as file:
                for t in json.load(file).get("tensors", []):
                    total += t["topk_calls"] * t["count"] * size[t["type"]]
        return total

    def tell(self, losses):
        if self.rank != 0:
            return
        rest = self.steps - self.steps // 2
        share = (self.sparse_bytes() - self.first) / (rest * self.step_bytes)
        early = (self.first - self.found) / ((self.steps // 2 - FOUND) * self.step_bytes)
        tenth = max(1, len(losses) // 10)
        first = sum(losses[:tenth]) / tenth
        last = sum(losses[-tenth:]) / tenth
        print(f"result: first_loss={first:.6f} last_loss={last:.6f} "
              f"sparse_share={share:.4f} early_share={early:.4f}", flush=True)
