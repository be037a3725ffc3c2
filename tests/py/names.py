"""Every upper-case collective that the library wraps, with mpi4py's wheel: it calls the functions
of large counts where it finds them. Without numpy. Prints TAP on rank 0, and the same lines on any
MPI library, preloaded or not."""

import gc
import sys
from array import array

from mpi4py import MPI

COUNT = 3000


def sparse(rank, count=COUNT):
    """One entry in 50 is not zero; sums are exact."""
    return array("d", [float(rank + 1 + i) if i % 50 == 0 else 0.0 for i in range(count)])


def main():
    world = MPI.COMM_WORLD
    rank, size = world.rank, world.size
    tests = [0, 0]

    def ok(holds, name):
        everywhere = world.allgather(bool(holds))
        tests[0] += 1
        tests[1] += not all(everywhere)
        if rank == 0:
            print("ok" if all(everywhere) else "not ok", tests[0], "-", name, flush=True)

    def fresh(count=COUNT):
        return array("d", [77.0]) * count

    every = [sparse(r) for r in range(size)]
    total = array("d", map(sum, zip(*every)))
    joined = sum(every, array("d"))

    def gathers_of_pairs():
        pair = MPI.DOUBLE.Create_contiguous(2).Commit()
        right = True
        for _ in range(4):
            got, mine = fresh(size * COUNT), sparse(rank)
            world.Iallgather([mine, COUNT // 2, pair], [got, COUNT // 2, pair]).Wait()
            right = right and got == joined
        pair.Free()
        ok(right, "Iallgather of a type of two")

    for turn in range(4):
        got = fresh()
        world.Allreduce(sparse(rank), got)
        ok(got == total, f"Allreduce {turn}")
        got = sparse(rank)
        world.Allreduce(MPI.IN_PLACE, got)
        ok(got == total, f"Allreduce in place {turn}")
        got = fresh()
        world.Reduce(sparse(rank), got if rank == 0 else None, root=0)
        ok(rank != 0 or got == total, f"Reduce {turn}")
        got = sparse(rank)
        world.Reduce(MPI.IN_PLACE if rank == size - 1 else got, got, root=size - 1)
        ok(rank != size - 1 or got == total, f"Reduce in place {turn}")
        got = fresh()
        world.Reduce_scatter_block(joined, got)
        ok(got == array("d", [size * x for x in every[rank]]), f"Reduce_scatter_block {turn}")
        got = fresh()
        world.Reduce_scatter(joined, got, recvcounts=[COUNT] * size)
        ok(got == array("d", [size * x for x in every[rank]]), f"Reduce_scatter {turn}")
        got = fresh(size * COUNT)
        world.Allgather(sparse(rank), got)
        ok(got == joined, f"Allgather {turn}")

        counts = [COUNT // (1 + (r + turn) % 2) for r in range(size)]
        places = [r * (COUNT + turn) for r in range(size)]
        want = fresh(size * (COUNT + turn))
        for r in range(size):
            want[places[r]:places[r] + counts[r]] = every[r][:counts[r]]
        got = fresh(size * (COUNT + turn))
        world.Allgatherv(sparse(rank, counts[rank]), [got, counts, places, MPI.DOUBLE])
        ok(got == want, f"Allgatherv {turn}")

        got, more, mine = fresh(), fresh(size * COUNT), sparse(rank)
        requests = [world.Iallreduce(mine, got), world.Iallgather(mine, more)]
        MPI.Request.Waitall(requests)
        ok(got == total, f"Iallreduce {turn}")
        ok(more == joined, f"Iallgather {turn}")

    # Lists of their own for each of many calls that are under way together.
    sent, results, requests = [], [], []
    for call in range(60):
        counts = [(7 * call + r) % 40 for r in range(size)]
        places = [r * 40 for r in range(size)]
        sent.append(sparse(rank, counts[rank]))
        results.append((counts, fresh(size * 40)))
        requests.append(world.Iallgatherv(sent[-1], [results[-1][1], list(counts), places, MPI.DOUBLE]))
    gc.collect()
    scratch = [array("i", [-1]) * (2 * size) for _ in range(1000)]
    MPI.Request.Waitall(requests)
    right = True
    for counts, got in results:
        for r in range(size):
            right = right and got[40 * r:40 * r + counts[r]] == every[r][:counts[r]]
    ok(right and scratch, "Iallgatherv, 60 together")

    gathers_of_pairs()

    world.Allreduce([array("d"), 0, MPI.DOUBLE], [array("d"), 0, MPI.DOUBLE])
    ok(True, "Allreduce of nothing")

    def answer(call):
        try:
            call()
        except MPI.Exception as error:
            return MPI.Get_error_string(error.Get_error_class())
        except NotImplementedError:
            return "not there"
        return "done"

    got = fresh()
    ok(True, "Allreduce without an operator: "
       + answer(lambda: world.Allreduce(sparse(rank), got, MPI.OP_NULL)))
    ok(True, "Reduce to no rank: " + answer(lambda: world.Reduce(sparse(rank), got, root=size)))
    ok(True, "Allreduce_init: "
       + answer(lambda: world.Allreduce_init(sparse(rank), got).Free()))
    if rank == 0:
        print(f"1..{tests[0]}", flush=True)
    return tests[1] > 0


sys.exit(main())
