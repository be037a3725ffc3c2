"""Tensors as MPI sees them: contiguous memory, with MPI's types and operators."""
import torch
from mpi4py import MPI
from torch.distributed import ReduceOp

address_space = (MPI.buffer if hasattr(MPI, "buffer") else MPI.memory).fromaddress

TYPES = {
    torch.float32: MPI.FLOAT, torch.float64: MPI.DOUBLE, torch.complex64: MPI.C_FLOAT_COMPLEX,
    torch.complex128: MPI.C_DOUBLE_COMPLEX, torch.int8: MPI.INT8_T, torch.uint8: MPI.UINT8_T,
    torch.int16: MPI.INT16_T, torch.int32: MPI.INT32_T, torch.int64: MPI.INT64_T, torch.bool: MPI.UINT8_T,
}
HALVES = (torch.float16, torch.bfloat16)
SUM, AVG, PREMUL_SUM = ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM
OPERATORS = (
    (SUM, MPI.SUM), (AVG, MPI.SUM), (PREMUL_SUM, MPI.SUM), (ReduceOp.PRODUCT, MPI.PROD),
    (ReduceOp.MIN, MPI.MIN), (ReduceOp.MAX, MPI.MAX), (ReduceOp.BAND, MPI.BAND), (ReduceOp.BOR, MPI.BOR),
    (ReduceOp.BXOR, MPI.BXOR),
)
ON_BOOL = ((MPI.SUM, MPI.LOR), (MPI.MAX, MPI.LOR), (MPI.PROD, MPI.LAND), (MPI.MIN, MPI.LAND))


def span(tensor):
    """Returns the memory of a contiguous tensor, which the caller keeps alive. Nothing is read, so that it may lie on
    a device."""
    return address_space(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def raw(tensor):
    """Returns a contiguous tensor as bytes, for calls that move data and add nothing."""
    return [span(tensor), MPI.BYTE]


def typed(tensor):
    """Returns a contiguous tensor with its count and type. Raises TypeError if MPI has no such type."""
    if tensor.dtype not in TYPES:
        raise TypeError(f"type {tensor.dtype} is not supported")
    return [span(tensor), tensor.numel(), TYPES[tensor.dtype]]


def flat(tensor):
    """Returns the tensor, or a contiguous copy of it. Raises TypeError for sparse tensors."""
    if tensor.layout != torch.strided:
        raise TypeError("sparse tensors are not supported")
    return tensor.detach().contiguous()


class Output:
    """A tensor that a call writes: `flat` is its memory or a contiguous stand-in; back() copies that back."""

    def __init__(self, tensor, keep):
        """keep: the call also reads it."""
        self.tensor = tensor.detach()
        if keep or self.tensor.is_contiguous():
            self.flat = flat(tensor)
        else:
            self.flat = torch.empty_like(self.tensor, memory_format=torch.contiguous_format)

    def back(self):
        if self.flat is not self.tensor and self.flat.data_ptr() != self.tensor.data_ptr():
            self.tensor.copy_(self.flat)


def check(name, tensors, *pairs):
    """Raises ValueError unless the numbers of each pair are equal and the tensors have one type."""
    types = {tensor.dtype for tensor in tensors}
    if len(types) > 1:
        raise ValueError(f"sparseshim: {name}: tensors of unequal types: {', '.join(sorted(map(str, types)))}")
    for found, wanted in pairs:
        if found != wanted:
            raise ValueError(f"sparseshim: {name}: sizes do not match: {found}, not {wanted}")


def join(tensors):
    """Returns the elements of all tensors in a row, in new memory."""
    return torch.cat([flat(tensor).reshape(-1) for tensor in tensors])


def deal(row, tensors):
    """Copies the elements of a row into tensors, in their order."""
    for tensor, part in zip(tensors, row.split([tensor.numel() for tensor in tensors])):
        tensor.detach().copy_(part.view(tensor.shape))


class Reduction:
    """An operator of torch: prepare() returns what MPI adds up, finish() writes the result. 16-bit types are added
    up in 32 bits."""

    def __init__(self, operator, ranks, name):
        """name: of the call."""
        for known, self.operator in OPERATORS:
            if operator == known:
                break
        else:
            known = None
        self.ranks, self.is_sum, self.is_average = ranks, known is SUM, known is AVG
        self.factor = operator.__getstate__() if known is PREMUL_SUM else None  # None in PyTorch 1.13
        if known is None or (known is PREMUL_SUM and self.factor is None):
            raise ValueError(f"sparseshim: {name}: operator {operator} is not supported")

    def prepare(self, tensor):
        row = flat(tensor)
        if row.dtype in HALVES:
            row = row.float()
        if self.factor is not None:
            row = row * self.factor[1]
        return row

    def of(self, row):
        """Returns MPI's operator for the elements of a row."""
        if row.dtype != torch.bool:
            return self.operator
        return next((logical for operator, logical in ON_BOOL if operator == self.operator), self.operator)

    def finish(self, row, output):
        if self.is_average:
            exact = row.is_floating_point() or row.is_complex()
            row = row.div_(self.ranks) if exact else row.div_(self.ranks, rounding_mode="trunc")
        output = output.detach()
        if row.data_ptr() != output.data_ptr() or row.dtype != output.dtype:
            output.copy_(row.view(output.shape))
