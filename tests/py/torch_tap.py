"""TAP of a program of torch.distributed, by rank 0."""
import torch
import torch.distributed as dist


class Tap:
    def __init__(self):
        torch.set_num_threads(1)
        self.rank, self.ranks, self.results = dist.get_rank(), dist.get_world_size(), []

    def ok(self, holds, name):
        """All ranks call it; the test passes if it holds on all."""
        everywhere = [None] * self.ranks
        dist.all_gather_object(everywhere, holds if isinstance(holds, str) else bool(holds))
        self.results.append(all(holds is True for holds in everywhere))
        if self.rank == 0:
            print("ok" if self.results[-1] else "not ok", len(self.results), "-", name, flush=True)
            if not self.results[-1]:
                print("#", everywhere, flush=True)

    def case(self, name, check):
        """check() returns True, or raises; then the exception is shown."""
        try:
            holds = check()
        except Exception as error:
            holds = f"{type(error).__name__}: {error}"
        self.ok(holds, name)

    def finish(self):
        if self.rank == 0:
            print(f"1..{len(self.results)}", flush=True)
        dist.barrier()
        dist.destroy_process_group()
