"""Sums through mpi4py of arrays in device memory (__cuda_array_interface__), on the driver that the
dynamic linker finds; prints TAP on rank 0."""

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


def main():
    world = MPI.COMM_WORLD
    context = ctypes.c_void_p()
    failed = 0

    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    types = (np.float32, np.float64, np.int32, np.int64)
    for number, dtype in enumerate(types, 1):
        right = True
        for seed in range(STEPS):
            mine = whole(seed, world.rank, dtype)
            want = sum(whole(seed, r, dtype) for r in range(world.size))
            send, recv = DeviceArray(mine), DeviceArray(np.full(COUNT, 77, dtype))
            world.Allreduce(send, recv, op=MPI.SUM)
            right = right and (recv.get() == want).all() and (send.get() == mine).all()
            world.Allreduce(MPI.IN_PLACE, send, op=MPI.SUM)
            right = right and (send.get() == want).all()
        right = all(world.allgather(bool(right)))
        failed += not right
        if world.rank == 0:
            print("ok" if right else "not ok", number, "-", dtype.__name__, flush=True)
    if world.rank == 0:
        print(f"1..{len(types)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
