"""Every collective of torch.distributed against values that are known; for group.py of shim/torch. What PyTorch
1.13 does not have is left out there."""
import functools
import gc
import math
import weakref

import torch
import torch.distributed as dist
from torch_tap import Tap

dist.init_process_group("gloo")
tap = Tap()
rank, ranks, op = tap.rank, tap.ranks, dist.ReduceOp
total = ranks * (ranks + 1) // 2
NEW = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 5)


def full(count, value, dtype=torch.float32):
    return torch.full((count,), value).to(dtype)


def summed(tensor, want, operator=op.SUM, **named):
    dist.all_reduce(tensor, operator, **named)
    return torch.equal(tensor, want)


def one_and_mine(operator, want):
    return summed(full(5, 1 if rank else 3, torch.int64), full(5, want, torch.int64), operator)


# ---- sums ----

for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
              torch.int64, torch.complex64):
    tap.case(f"all_reduce of {dtype}", lambda: summed(full(7, rank + 1, dtype), full(7, total, dtype)))
for dtype in (torch.float16, torch.bfloat16):
    tap.case(f"all_reduce of {dtype}, long",
             lambda: summed(full(70001, rank + 1, dtype), full(70001, total, dtype)))
mixed = torch.tensor([rank == 0, False, True])
for operator in (op.SUM, op.MAX):
    tap.case(f"all_reduce of bool, {operator}", lambda: summed(mixed.clone(), torch.tensor([True, False, True]), operator))
for operator, want in ((op.PRODUCT, math.factorial(ranks)), (op.MIN, 1), (op.MAX, ranks), (op.AVG, total / ranks)):
    tap.case(f"all_reduce, {operator}", lambda: summed(full(5, float(rank + 1)), full(5, float(want)), operator))
tap.case("all_reduce, BOR", lambda: one_and_mine(op.BOR, 3))
tap.case("all_reduce, BAND", lambda: one_and_mine(op.BAND, 1))
tap.case("all_reduce, BXOR", lambda: one_and_mine(op.BXOR, functools.reduce(lambda x, _: x ^ 1, range(ranks - 1), 3)))
if NEW:
    tap.case("all_reduce, PREMUL_SUM",
             lambda: summed(full(4, float(rank + 1)), full(4, total * .5), dist._make_nccl_premul_sum(.5)))
tap.case("all_reduce of no element", lambda: summed(torch.ones(0), torch.ones(0)))


def strided():
    tensor = (torch.arange(12.).view(3, 4) * (rank + 1)).t()
    return not tensor.is_contiguous() and summed(tensor, torch.arange(12.).view(3, 4).t() * total)


def leaves():
    """Autograd records no call: tensors that require gradients stay leaves, and no result depends on them."""
    given = [full(count, float(rank + 1), dtype).requires_grad_()
             for count in (7, 70001) for dtype in (torch.float32, torch.bfloat16)]
    made = [torch.empty_like(tensor) for tensor in given]
    for tensor, part in zip(given, made):
        dist.reduce_scatter(part, [tensor] * ranks)
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, op.AVG)
        dist.broadcast(tensor, 0)
    return all(tensor.is_leaf and tensor[0] == part[0] == total for tensor, part in zip(given, made)) and \
        not any(part.requires_grad for part in made)


def several():
    tensors = [full(100000, float(i * (rank + 1))) for i in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    waited = [work.wait() and work.is_completed() for work in works]
    return all(waited) and all(torch.equal(tensor, full(100000, float(i * total))) for i, tensor in enumerate(tensors))


def then():
    """What waits for a result may itself wait for later collectives (PowerSGD)."""
    first, second = full(5, float(rank + 1)), full(5, float(rank + 1))

    def again(future):
        dist.all_reduce(second, async_op=True).get_future().wait()
        return future.value()[0] + second

    future = dist.all_reduce(first, async_op=True).get_future().then(again)
    return torch.equal(future.wait(), full(5, 2. * total))


def chains():
    """Callbacks call sums of unequal sizes while the program goes on: all ranks have the same order."""
    done = []
    for i in range(12):
        later = full(3 + i, float(rank + 1))

        def again(future, later=later):
            dist.all_reduce(later, async_op=True).get_future().wait()
            return dist.all_reduce(later)

        done.append((later, dist.all_reduce(full(1000 + i, 1.), async_op=True).get_future().then(again)))
    waited = [future.wait() for _, future in done]
    return len(waited) == 12 and all(torch.equal(later, full(3 + i, float(total * ranks)))
                                     for i, (later, _) in enumerate(done))


def freed():
    tensor = torch.ones(5)
    seen, work = weakref.ref(tensor), dist.all_reduce(tensor, async_op=True)
    work.get_future().wait()
    del tensor, work
    dist.barrier()
    gc.collect()
    return seen() is None


def reduced():
    tensor = full(5, float(rank + 1))
    dist.reduce(tensor, 1)
    return rank != 1 or torch.equal(tensor, full(5, float(total)))


def scattered(counts):
    output = torch.empty(counts[rank])
    dist.reduce_scatter(output, [full(count, float(i)) for i, count in enumerate(counts)])
    return torch.equal(output, full(counts[rank], float(rank * ranks)))


def scattered_single(dtype, operator, want):
    output, tensor = torch.empty(3, dtype=dtype), (torch.arange(3. * ranks) * 0 + rank + 1).to(dtype)
    getattr(dist, "reduce_scatter_tensor", getattr(dist, "_reduce_scatter_base", None))(output, tensor, op=operator)
    return torch.equal(output, full(3, want, dtype))


tap.case("all_reduce of a strided tensor", strided)
tap.case("no call is recorded for gradients", leaves)
tap.case("all_reduce, eight at once", several)
tap.case("a future's callback waits for a later all_reduce", then)
tap.case("callbacks call sums in one order", chains)
tap.case("a sum that has ended keeps no tensor", freed)
tap.case("reduce", reduced)
tap.case("reduce_scatter", lambda: scattered([3] * ranks))
tap.case("reduce_scatter of unequal parts", lambda: scattered([i + 1 for i in range(ranks)]))
tap.case("reduce_scatter_tensor", lambda: scattered_single(torch.float32, op.SUM, float(total)))
tap.case("reduce_scatter_tensor, bfloat16, AVG", lambda: scattered_single(torch.bfloat16, op.AVG, total / ranks))

# ---- data ----


def broadcast(dtype):
    tensor = full(5, rank, dtype)
    dist.broadcast(tensor, 1)
    return torch.equal(tensor, full(5, 1, dtype))


def gathered(counts):
    parts = [torch.empty(count) for count in counts]
    dist.all_gather(parts, full(counts[rank], float(rank)))
    return all(torch.equal(part, full(count, float(i))) for i, (part, count) in enumerate(zip(parts, counts)))


def gathered_single(where):
    output = torch.empty(3 * ranks)
    tensor = output[3 * rank:3 * rank + 3] if where == "in place" else output[:3] if where == "alias" else torch.empty(3)
    tensor.fill_(rank)
    getattr(dist, "all_gather_into_tensor", getattr(dist, "_all_gather_base", None))(output, tensor)
    return torch.equal(output, torch.arange(float(ranks)).repeat_interleave(3))


def gathered_on_one():
    parts = [torch.empty(3) for _ in range(ranks)] if rank == 1 else None
    dist.gather(full(3, float(rank)), parts, dst=1)
    return rank != 1 or all(torch.equal(part, full(3, float(i))) for i, part in enumerate(parts))


def dealt():
    output = torch.empty(3)
    dist.scatter(output, [full(3, float(i)) for i in range(ranks)] if rank == 1 else None, src=1)
    return torch.equal(output, full(3, float(rank)))


def exchanged():
    outputs = [torch.empty(2) for _ in range(ranks)]
    dist.all_to_all(outputs, [full(2, float(rank * 10 + i)) for i in range(ranks)])
    return all(torch.equal(output, full(2, float(i * 10 + rank))) for i, output in enumerate(outputs))


def exchanged_single():
    sizes = [i + 1 for i in range(ranks)]
    output = torch.empty((rank + 1) * ranks, 2)
    dist.all_to_all_single(output, torch.full((sum(sizes), 2), float(rank)), [rank + 1] * ranks, sizes)
    return torch.equal(output[:, 0], torch.arange(float(ranks)).repeat_interleave(rank + 1))


def ring(count):
    sent, received = full(count, float(rank)), torch.empty(count)
    work = dist.isend(sent, (rank + 1) % ranks)
    dist.irecv(received, (rank - 1) % ranks).wait()
    work.wait()
    return torch.equal(received, full(count, float((rank - 1) % ranks)))


def batch():
    sent, received = full(4, float(rank)), torch.empty(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, (rank + 1) % ranks),
                                        dist.P2POp(dist.irecv, received, (rank - 1) % ranks)]):
        work.wait()
    return torch.equal(received, full(4, float((rank - 1) % ranks)))


def from_any():
    if rank > 0:
        dist.send(full(2, float(rank)), 0)
        return True
    tensor = torch.empty(2)
    return all([dist.recv(tensor) == tensor[0] for _ in range(ranks - 1)])


def objects():
    there, one = [None] * ranks, [None]
    dist.all_gather_object(there, {"rank": rank, "text": "y" * rank})
    dist.scatter_object_list(one, list(range(ranks)) if rank == 0 else [None] * ranks, src=0)
    both = [0, "a"] if rank == 0 else [None, None]
    dist.broadcast_object_list(both, 0)
    return (there == [{"rank": i, "text": "y" * i} for i in range(ranks)], one, both) == (True, [rank], [0, "a"])


tap.case("broadcast", lambda: broadcast(torch.float32))
tap.case("broadcast of bool", lambda: broadcast(torch.bool))
tap.case("all_gather", lambda: gathered([3] * ranks))
tap.case("all_gather of unequal parts", lambda: gathered([i + 1 for i in range(ranks)]))
for where in ("apart", "in place", "alias"):
    tap.case(f"all_gather_into_tensor, {where}", lambda: gathered_single(where))
tap.case("gather", gathered_on_one)
tap.case("scatter", dealt)
tap.case("all_to_all", exchanged)
tap.case("all_to_all_single of unequal parts", exchanged_single)
tap.case("barrier", lambda: dist.barrier() is None)
tap.case("send and recv in a ring", lambda: ring(4))
tap.case("send and recv of 2 MB in a ring", lambda: ring(500000))
tap.case("batch_isend_irecv", batch)
tap.case("recv from any rank", from_any)
tap.case("objects", objects)

# ---- groups ----


def pairs():
    good = True
    for first in range(ranks - 1):
        group = dist.new_group([first, first + 1])
        if rank in (first, first + 1):
            good = good and summed(full(3, float(rank)), full(3, 2. * first + 1), group=group)
            good = good and dist.get_rank(group) == rank - first
    return good


def crossed():
    """Two groups of the same ranks, used in another order on rank 0."""
    group, here, there = dist.new_group(), torch.ones(1000), torch.ones(1000)
    calls = [lambda: dist.all_reduce(here, async_op=True), lambda: dist.all_reduce(there, group=group, async_op=True)]
    works = [call() for call in (calls if rank else calls[::-1])]
    return all([work.wait() for work in works]) and torch.equal(here + there, full(1000, 2. * ranks))


def split():
    halves = [list(range(ranks // 2)), list(range(ranks // 2, ranks))]
    group = dist.split_group(split_ranks=halves)
    mine = halves[0] if rank in halves[0] else halves[1]
    return summed(full(3, 1.), full(3, float(len(mine))), group=group) and dist.get_world_size(group) == len(mine)


def meshes():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    whole = torch.arange(8. * ranks).view(2 * ranks, 4)
    part = distribute_tensor(whole, init_device_mesh("cpu", (ranks,)), [Shard(0)])
    return torch.equal(part.redistribute(placements=[Replicate()]).to_local(), whole)


def destroyed():
    """A group that is destroyed is forgotten."""
    from sparseshim_torch import job

    before = len(job.groups)
    for _ in range(5):
        group = dist.new_group()
        summed(torch.ones(3), torch.ones(3), group=group)
        dist.destroy_process_group(group)
    return len(job.groups) == before


def mismatched():
    """Sizes are checked before a call, on the thread that makes it."""
    calls = (lambda: dist.all_gather([torch.empty(3)] * ranks, torch.ones(4)),
             lambda: dist.reduce_scatter(torch.empty(3), [torch.ones(4)] * ranks, async_op=True),
             lambda: dist.all_to_all_single(torch.empty(ranks + 1), torch.ones(ranks + 1)))
    refused = 0
    for call in calls:
        try:
            call()
        except (ValueError, RuntimeError) as error:
            refused += "sizes do not match" in str(error)
    return refused == len(calls)


def sparse():
    try:
        dist.all_reduce(torch.eye(3).to_sparse())
    except TypeError as error:
        return "all_reduce" in str(error)
    return False


tap.case("new_group", pairs)
tap.case("two groups in crossed order", crossed)
if NEW and hasattr(dist.ProcessGroup, "split_group"):  # 2.5 splits groups of NCCL alone, and refuses gloo's as ours
    tap.case("split_group", split)
if NEW:
    tap.case("DTensor", meshes)
tap.case("destroy_process_group frees a group", destroyed)
tap.case("sizes that do not match are exceptions", mismatched)
tap.case("a sparse tensor is an exception that names the call", sparse)
tap.case("get_backend() is what the program asked for", lambda: dist.get_backend() == "gloo")
tap.case("the group is the one of shim/torch", lambda: type(dist.distributed_c10d._get_default_group()).__name__ == "MpiGroup")
tap.finish()
