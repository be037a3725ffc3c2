"""torch.distributed over MPI, in programs that ask for gloo, nccl or mpi (shim/torch/README.md).

start.py runs when Python starts, redirect.py when the program imports torch.distributed, and the other files when it
makes its first group.
"""
