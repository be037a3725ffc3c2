"""The buckets of DistributedDataParallel, and what the library is told of them (sparseshim_identify).

A bucket is the memory in which DDP's reducer sums gradients, the same in every step. After the first step DDP makes
its buckets anew, in the order in which gradients come. The library is therefore told of a bucket when it
returns: all sums of the first step are exact, and no residual meets another order of parameters. When the memory of a
bucket is freed, the library forgets it.
"""
import ctypes
import sys
import weakref

import torch

from .memory import HALVES

BACKWARD = ("torch/autograd/__init__.py", "torch/autograd/graph.py")
TYPES = (torch.float32, torch.float64, *HALVES)

try:
    identify = ctypes.CDLL(None).sparseshim_1_identify
    identify.argtypes = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
    unregister = ctypes.CDLL(None).sparseshim_1_unregister
    unregister.argtypes = (ctypes.c_void_p,)
except AttributeError:  # the library is not preloaded
    identify = None


def by_reducer(depth):
    """Returns true if DDP's reducer calls the function `depth` frames up: in backward, from C++."""
    try:
        caller = sys._getframe(depth + 1)
    except ValueError:  # a thread of autograd
        return True
    return caller.f_code.co_filename.endswith(BACKWARD)


class Bucket:
    """A bucket that is alive. `sum` is what MPI adds up: the bucket, or its elements in 32 bits."""

    def __init__(self, tensor):
        self.tensor, self.sum = weakref.ref(tensor, self.freed), None
        self.address = None

    def tell(self, tensor, position):
        """Tells the library. If no rule may take it, 16-bit elements need no memory of their own."""
        self.sum = tensor.float() if tensor.dtype in HALVES else tensor.detach()
        address = self.sum.data_ptr()
        if identify(address, self.sum.numel(), position) == 0:
            self.address = address
        if self.address is None or self.sum.data_ptr() == tensor.data_ptr():
            self.sum = None

    def freed(self, _):
        if self.address is not None:
            unregister(self.address)


class Buckets:
    """The buckets of one communicator. All ranks meet theirs in the same order, and give them equal positions."""

    def __init__(self):
        self.known, self.positions = {}, 0

    def meet(self, tensor):
        """Returns the memory in 32 bits in which a bucket of 16-bit elements is to be summed; None if MPI sums the
        tensor as it is."""
        if identify is None or tensor.dtype not in TYPES or not tensor.is_contiguous():
            return None
        key = tensor.data_ptr(), tensor.numel(), tensor.dtype
        bucket = self.known.get(key)
        if bucket is None or bucket.tensor() is not tensor:
            self.forget_freed()
            self.known[key] = Bucket(tensor)
            return None
        if bucket.address is None:
            self.positions += 1
            bucket.tell(tensor, self.positions)
        return bucket.sum

    def forget_freed(self):
        self.known = {key: bucket for key, bucket in self.known.items() if bucket.tensor() is not None}
