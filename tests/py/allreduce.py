"""Sums through mpi4py: float32, float64, in place, integers; prints TAP on rank 0."""

import sys

import numpy as np
from mpi4py import MPI

COUNT = 4096


def whole(seed, rank, dtype):
    """Small whole numbers, one entry in sixteen: their sums are exact in any order."""
    draw = np.random.default_rng([seed, rank])
    values = draw.integers(-31, 32, COUNT)
    return (values * (draw.random(COUNT) < 1 / 16)).astype(dtype)


def main():
    world = MPI.COMM_WORLD
    checks = []

    def ok(holds, name):
        everywhere = world.gather(bool(holds), root=0)
        if world.rank == 0:
            checks.append(all(everywhere))
            print("ok" if checks[-1] else "not ok", len(checks), "-", name, flush=True)

    if world.rank == 0:
        print("#", MPI.Get_library_version().splitlines()[0], flush=True)
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        for seed in range(3):
            mine = whole(seed, world.rank, dtype)
            want = sum(whole(seed, r, dtype) for r in range(world.size))
            got = np.full(COUNT, 77, dtype)
            before = mine.copy()
            world.Allreduce(mine, got, op=MPI.SUM)
            ok((got == want).all() and (mine == before).all(), f"{dtype.__name__} sum {seed}")
            world.Allreduce(MPI.IN_PLACE, mine, op=MPI.SUM)
            ok((mine == want).all(), f"{dtype.__name__} sum {seed} in place")
    ok(world.allreduce(world.rank, op=MPI.MAX) == world.size - 1, "a maximum of objects")
    if world.rank == 0:
        print(f"1..{len(checks)}", flush=True)
        return 0 if all(checks) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
