"""mixed.py nonblocking|blocking: the mpi4py rank of a job of several languages. See nb_mixed.c."""

import sys

import numpy as np
from mpi4py import MPI

N, STEPS, CALLS = 2048, 20, 5


def values(of, call):
    i = np.arange(N)
    return np.where((i + of + call) % 50 < 2, (i + call) % 31 + of + 1, 0).astype(np.float32)


def main():
    world = MPI.COMM_WORLD
    bad = 0

    def fill(step):
        mine = [values(world.rank, CALLS * step + k) for k in range(CALLS)]
        return mine, [np.full(N, -7, np.float32) for _ in mine]

    def wrong(step, sums):
        """Entries of the sums of a step that are wrong."""
        return sum(
            int((got != sum(values(of, CALLS * step + k) for of in range(world.size))).sum())
            for k, got in enumerate(sums)
        )

    if sys.argv[1:] == ["blocking"]:
        mine, got = fill(0)
        world.Allreduce(mine[0], got[0])
        bad += wrong(0, got[:1])
    for step in range(1, STEPS + 1):
        mine, got = fill(step)
        requests = [world.Iallreduce(mine[k], got[k]) for k in (0, 1)]
        world.Allreduce(mine[2], got[2])
        requests.append(world.Iallreduce(mine[3], got[3]))
        while not requests[2].Test():
            pass
        MPI.Request.Waitall(requests)
        bad += sum(request != MPI.REQUEST_NULL for request in requests)
        last = world.Iallreduce(mine[4], got[4])
        token = np.full(1, -step, np.int32)
        if world.rank == 0:
            world.Recv(token, source=2, tag=5)
            bad += int(token[0] != -step)
        last.Wait()
        if world.rank == 2:
            world.Send(token, dest=0, tag=5)
        bad += wrong(step, got)
    all_bad = np.zeros(1, np.int32)
    world.Reduce(np.full(1, bad, np.int32), all_bad)
    if world.rank == 0:
        if all_bad[0] == 0:
            print("ok 1 - sums of a job of several languages, rank 0 in Python")
        else:
            print(f"not ok 1 - {all_bad[0]} wrong entries, tokens or requests")
        print("1..1", flush=True)
    return int(world.rank == 0 and all_bad[0] != 0)


if __name__ == "__main__":
    sys.exit(main())
