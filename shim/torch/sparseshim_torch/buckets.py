"""The buckets of DistributedDataParallel, and what the library is told of them (sparseshim_identify).

A bucket is the memory in which DDP's reducer sums gradients, the same in every step. After the first step DDP makes
its buckets anew, in the order in which gradients come. The library is therefore told of a bucket when it
returns: all sums of the first step are exact, and no residual meets another order of parameters. When the memory of a
bucket is freed, the library forgets it.

A rank without inputs takes part in the sums of the others by DDP's join hook (join()), with zeros in other memory.
"""
import ctypes
import functools
import sys
import weakref

import torch

from .memory import HALVES

REDUCER, JOIN = "reducer", "join"
CALLERS = {"torch/autograd/__init__.py": REDUCER, "torch/autograd/graph.py": REDUCER,
           "torch/nn/parallel/distributed.py": JOIN}
TYPES = (torch.float32, torch.float64, *HALVES)

try:
    identify = ctypes.CDLL(None).sparseshim_1_identify
    identify.argtypes = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
    unregister = ctypes.CDLL(None).sparseshim_1_unregister
    unregister.argtypes = (ctypes.c_void_p,)
except AttributeError:  # the library is not preloaded
    identify = None


@functools.lru_cache(maxsize=None)
def active():
    """Returns true if the library may take buckets; its options, and so the answer, are alike on all ranks."""
    if identify is None:
        return False
    probe = ctypes.c_float()
    try:
        return identify(ctypes.addressof(probe), 1, 1) == 0
    finally:
        unregister(ctypes.addressof(probe))


def caller(depth):
    """Returns the part of DDP that calls the function `depth` frames up: REDUCER (in backward, from C++) or JOIN; None
    if DDP does not call it."""
    try:
        file = sys._getframe(depth + 1).f_code.co_filename
    except ValueError:  # a thread of autograd
        return REDUCER
    return part_of(file)


@functools.lru_cache(maxsize=None)
def part_of(file):
    return next((part for name, part in CALLERS.items() if file.endswith(name)), None)


class Bucket:
    """A bucket that is alive. `sum` is what MPI adds up: the bucket, or its elements in 32 bits."""

    def __init__(self, tensor):
        self.tensor, self.sum = weakref.ref(tensor, self.freed), None
        self.address, self.told = None, False

    def tell(self, tensor, position):
        """Tells the library, once. Returns true if it has a place for the bucket."""
        row = tensor.detach().float() if tensor.dtype in HALVES else tensor
        self.told = True
        if identify(row.data_ptr(), row.numel(), position) != 0:
            return False
        self.address, self.sum = row.data_ptr(), None if row is tensor else row
        return True

    def freed(self, _=None):
        if self.address is not None:
            unregister(self.address)
        self.address = None


class Buckets:
    """The buckets of one communicator. All ranks meet theirs in the same order, and give them equal positions."""

    def __init__(self):
        self.known, self.positions = {}, 0

    def meet(self, tensor):
        """Returns the memory in 32 bits in which a bucket of 16-bit elements is to be summed; None if MPI sums the
        tensor as it is."""
        if not active() or tensor.dtype not in TYPES or not tensor.is_contiguous():
            return None
        key = tensor.data_ptr(), tensor.numel(), tensor.dtype
        bucket = self.known.get(key)
        if bucket is None or bucket.tensor() is not tensor:
            if bucket is not None:
                bucket.freed()
            self.forget_freed()
            self.known[key] = Bucket(tensor)
            return None
        if not bucket.told and bucket.tell(tensor, self.positions + 1):
            self.positions += 1
        return bucket.sum

    def forget_freed(self):
        self.known = {key: bucket for key, bucket in self.known.items() if bucket.tensor() is not None}
