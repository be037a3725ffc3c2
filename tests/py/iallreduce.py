"""Nonblocking sums through mpi4py and numpy: float32, float64, in place; prints TAP on rank 0."""

import sys

import numpy as np
from mpi4py import MPI

COUNT = 4096


def whole(seed, rank, dtype, dense):
    """Small whole numbers, one entry in sixteen or all: their sums are exact in any order."""
    draw = np.random.default_rng([seed, rank])
    values = draw.integers(-31, 32, COUNT)
    return values.astype(dtype) if dense else (values * (draw.random(COUNT) < 1 / 16)).astype(dtype)


def main():
    world = MPI.COMM_WORLD
    checks = []

    def ok(holds, name):
        everywhere = world.gather(bool(holds), root=0)
        if world.rank == 0:
            checks.append(all(everywhere))
            print("ok" if checks[-1] else "not ok", len(checks), "-", name, flush=True)

    for dtype in (np.float32, np.float64):
        for seed in range(4):
            dense = seed % 2 == 1
            mine = whole(seed, world.rank, dtype, dense)
            want = sum(whole(seed, r, dtype, dense) for r in range(world.size))
            got = np.full(COUNT, 77, dtype)
            again = mine.copy()
            name = f"{dtype.__name__}, {'dense' if dense else 'sparse'}, {seed}"
            requests = [
                world.Iallreduce(mine, got, op=MPI.SUM),
                world.Iallreduce(MPI.IN_PLACE, again, op=MPI.SUM),
            ]
            if seed < 2:
                MPI.Request.Waitall(requests)
            else:
                requests[1].Wait()
                while not requests[0].Test():
                    pass
            ok((got == want).all(), f"{name}: Iallreduce")
            ok((again == want).all(), f"{name}: Iallreduce in place")
            got.fill(77)
            world.Allreduce(mine, got, op=MPI.SUM)
            ok((got == want).all(), f"{name}: Allreduce")
            world.Allreduce(MPI.IN_PLACE, mine, op=MPI.SUM)
            ok((mine == want).all(), f"{name}: Allreduce in place")
    pending = [np.full(COUNT, i, np.float64) for i in range(100)]
    MPI.Request.Waitall([world.Iallreduce(MPI.IN_PLACE, a) for a in pending])
    ok(all((a == i * world.size).all() for i, a in enumerate(pending)), "100 in one Waitall")
    if world.rank == 0:
        print(f"1..{len(checks)}", flush=True)
        return 0 if all(checks) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
