"""The MPI job: where rank 0 is, and how the job ends.

A rank that ends by an exception ends the job, as the others would wait for it. A rank that ends otherwise says so
in torch's store, where ranks that wait for it look.
"""
import atexit
import os
import socket
import sys
import threading
import time

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
LOOKS = 1.0  # seconds between two looks of the watch
PATIENCE = 5.0  # seconds that a call takes before the watch asks for ranks that have ended
groups = []
state = {"failed": False, "store": None, "watch": None}


def set_master(place):
    """Sets MASTER_ADDR and MASTER_PORT on all ranks: rank 0's, with a port that its system says is free."""
    where = None
    if WORLD.rank == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            where = "127.0.0.1" if place.locals == place.ranks else address(), probe.getsockname()[1]
    host, port = WORLD.bcast(where)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = host, str(port)


def address():
    """Returns an address of this host that others reach, or else its name."""
    try:
        found = socket.gethostbyname(socket.gethostname())
        if not found.startswith("127."):
            return found
    except OSError:
        pass
    return interface_address() or socket.gethostname()


def interface_address():
    """Returns the IPv4 address of the first interface that has one and is not the loopback; None without."""
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                reply = fcntl.ioctl(asking, 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue
            found = socket.inet_ntoa(reply[20:24])
            if not found.startswith("127."):
                return found
    return None


# ---- the watch: calls that take too long ----


def watch(group):
    """Adds a group to those whose calls are watched."""
    groups.append(group)
    if state["watch"] is None:
        state["watch"] = threading.Thread(target=look, name="sparseshim watch", daemon=True)
        state["watch"].start()


def look():
    while True:
        time.sleep(LOOKS)
        for group in groups[:]:
            call, seconds = group.under_way()
            if call is None:
                continue
            if seconds > group.limit:
                group.give_up(f"{call} took longer than the timeout of {group.limit:g} s")
            elif seconds > PATIENCE:
                try:
                    raise_if_ended(group.world_ranks, call)
                except RuntimeError as error:
                    group.give_up(str(error).replace("sparseshim: ", ""))


def raise_if_ended(ranks, call):
    """Raises RuntimeError if one of these ranks of the world has ended: the call would wait for ever."""
    store = state["store"]
    for rank in ranks:
        try:
            ended = store is not None and rank != WORLD.rank and store.add(f"sparseshim/ended/{rank}", 0) > 0
        except Exception:
            return  # rank 0, which keeps the store, is dying: its launcher ends the job
        if ended:
            raise RuntimeError(f"sparseshim: {call} waits for rank {rank}, which has ended")


def abort(why):
    """Ends the job at once, as the other ranks wait for this one."""
    print(f"sparseshim: rank {WORLD.rank}: {why}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    WORLD.Abort(1)


# ---- the end ----


def uncaught(kind, value, trace, before=sys.excepthook):
    before(kind, value, trace)
    state["failed"] = True


def end():
    """Before mpi4py calls MPI_Finalize, which waits for all ranks."""
    sys.stdout.flush()
    sys.stderr.flush()
    if MPI.Is_finalized():
        return
    if WORLD.size > 1 and (state["failed"] or any(group.broken for group in groups)):
        WORLD.Abort(1)
    for group in groups:
        group.stop()
    try:
        if state["store"]:
            state["store"].add(f"sparseshim/ended/{WORLD.rank}", 1)
    except Exception:  # rank 0 has ended, and the store with it
        pass
    MPI.Finalize()


sys.excepthook = uncaught
atexit.register(end)
