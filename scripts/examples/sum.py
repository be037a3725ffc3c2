# sum.py: sums of which 1 % is not zero.
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine = np.zeros(1000000, np.float32)
mine[comm.rank::100] = 1
total = np.empty_like(mine)
for step in range(20):
    comm.Allreduce(mine, total)
if comm.rank == 0:
    print("sum", int(total.sum()))
