"""Callbacks of a Python program run in its own thread, and what it lets go is not used any more.
The output is compared with that of a run without the library."""

import os
import threading

import numpy as np
from mpi4py import MPI

COUNT = 70000
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
here = threading.get_native_id()
called = {"operator": 0, "delete": 0, "away": 0}


def at(what):
    called[what] += 1
    called["away"] += threading.get_native_id() != here


def add(a, b, datatype):
    at("operator")
    x, y = np.frombuffer(a, np.float64), np.frombuffer(b, np.float64)
    y += x


def deleted(comm, keyval, value):
    at("delete")


def say(text):
    os.write(1, f"[{rank}] {text}\n".encode())  # in one piece


def computed():
    return sum(i * i for i in range(20000)) == 2666466670000


plain = np.zeros(COUNT, np.float32)
plain[rank::16] = 1
operator = MPI.Op.Create(add, commute=True)
theirs = world.Dup()
good = still = True
for turn in range(20):
    x, y = np.full(100000, rank + 1.0), np.empty(100000)
    total = np.empty(COUNT, np.float32)
    requests = [
        world.Iallreduce(plain, total),
        theirs.Iallreduce(x, y, operator),
    ]
    still = computed() and still
    MPI.Request.Waitall(requests)
    good = good and (y == size * (size + 1) / 2).all() and total.sum() > 0
say(f"summed {good}, computed {still}, in another thread {called['away']}")
operator.Free()

keyval = MPI.Comm.Create_keyval(delete_fn=deleted)
for turn in range(10):
    comm = world.Dup()
    comm.Set_attr(keyval, "value")
    total = np.empty(COUNT, np.float32)
    request = comm.Iallreduce(plain, total)
    comm.Free()
    still = computed() and still
    request.Wait()
world.Barrier()
say(f"computed {still}, deleted {called['delete']}, in another thread {called['away']}")

for turn in range(10):
    comm = world.Dup()
    everything = np.empty(COUNT * size, np.float32)
    # Counts and displacements are temporary arrays of mpi4py's.
    request = comm.Iallgatherv(plain, [everything, [COUNT] * size, None, MPI.FLOAT])
    junk = [np.full(size, -1, np.int32) for _ in range(100)]
    request.Wait()
    good = good and (everything[rank * COUNT : (rank + 1) * COUNT] == plain).all()
    comm.Free()
say(f"gathered {good}, level {MPI.Query_thread()}")
