"""Collectives through mpi4py of arrays in device memory (__cuda_array_interface__), on the driver
that the dynamic linker finds; nonblocking ones, too, where an argument says so. Prints TAP on
rank 0."""

import ctypes
import sys

import numpy as np
from allreduce import COUNT, whole
from mpi4py import MPI

STEPS = 6
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    error = getattr(cuda, name)(*arguments)
    if error != 0:
        sys.exit(f"{name}: error {error}")


class DeviceArray:
    """Elements in the memory of the first device."""

    def __init__(self, values):
        self.shape, self.dtype = values.shape, values.dtype
        self.bytes = ctypes.c_size_t(values.nbytes)
        self.pointer = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.pointer), self.bytes)
        call("cuMemcpyHtoD_v2", self.pointer, values.ctypes.data_as(ctypes.c_void_p), self.bytes)

    def __del__(self):
        call("cuMemFree_v2", self.pointer)

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer.value, False),
            "version": 3,
        }

    def get(self):
        values = np.empty(self.shape, self.dtype)
        call("cuMemcpyDtoH_v2", values.ctypes.data_as(ctypes.c_void_p), self.pointer, self.bytes)
        return values


def filled(count, dtype):
    return DeviceArray(np.full(count, 77, dtype))


def allreduce(world, mine, all_of):
    send, recv = DeviceArray(mine), filled(COUNT, mine.dtype)
    world.Allreduce(send, recv, op=MPI.SUM)
    right = (recv.get() == sum(all_of)).all() and (send.get() == mine).all()
    world.Allreduce(MPI.IN_PLACE, send, op=MPI.SUM)
    return right and (send.get() == sum(all_of)).all()


def iallreduce(world, mine, all_of):
    """Three at once, one in place."""
    send = [DeviceArray(mine) for _ in range(3)]
    recv = [filled(COUNT, mine.dtype) for _ in range(2)] + [send[2]]
    given = send[:2] + [MPI.IN_PLACE]
    MPI.Request.Waitall([world.Iallreduce(*pair, op=MPI.SUM) for pair in zip(given, recv)])
    right = all((array.get() == sum(all_of)).all() for array in recv)
    return right and all((array.get() == mine).all() for array in send[:2])


def allgather(world, mine, all_of):
    send, recv = DeviceArray(mine), filled(COUNT * world.size, mine.dtype)
    world.Allgather(send, recv)
    return (recv.get() == np.concatenate(all_of)).all() and (send.get() == mine).all()


def reduce(world, mine, all_of):
    root = world.size - 1
    send, recv = DeviceArray(mine), filled(COUNT, mine.dtype)
    world.Reduce(send, recv, op=MPI.SUM, root=root)
    want = sum(all_of) if world.rank == root else np.full(COUNT, 77, mine.dtype)
    return (recv.get() == want).all() and (send.get() == mine).all()


def reduce_scatter_block(world, mine, all_of):
    """A slice of COUNT for each rank: what it gives the next one is moved by one element."""
    moved = [np.concatenate([np.roll(one, r) for r in range(world.size)]) for one in all_of]
    send, recv = DeviceArray(moved[world.rank]), filled(COUNT, mine.dtype)
    world.Reduce_scatter_block(send, recv, op=MPI.SUM)
    want = np.roll(sum(all_of), world.rank)
    return (recv.get() == want).all() and (send.get() == moved[world.rank]).all()


CALLS = (allreduce, allgather, reduce, reduce_scatter_block)


def main():
    world = MPI.COMM_WORLD
    context = ctypes.c_void_p()
    checks = failed = 0
    calls = CALLS + ((iallreduce,) if "nonblocking" in sys.argv else ())

    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    for collective in calls:
        for dtype in (np.float32, np.float64, np.int32, np.int64):
            right = True
            for seed in range(STEPS):
                all_of = [whole(seed, r, dtype) for r in range(world.size)]
                right = collective(world, all_of[world.rank], all_of) and right
            right = all(world.allgather(bool(right)))
            checks += 1
            failed += not right
            if world.rank == 0:
                name = f"{collective.__name__}, {dtype.__name__}"
                print("ok" if right else "not ok", checks, "-", name, flush=True)
    if world.rank == 0:
        print(f"1..{checks}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
