"""The MPI job: where rank 0 is, and how the job ends.

A rank that ends by an exception ends the job, as the others would wait for it. A rank that ends otherwise says so
in torch's store, with the numbers of its calls; ranks whose calls take long look there. The keys, each with a number:

    sparseshim/ended                    of ranks that have ended, which is all that is read before the first does
    sparseshim/ended/RANK               1: the program has ended; 2: so have its calls
    sparseshim/made/RANK/LABEL/DEPTH    of calls made in a lane, and one more
"""
import atexit
import collections
import os
import socket
import sys
import threading
import time

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
LOOKS = 1.0  # seconds between two looks of the watch
PATIENCE = 5.0  # seconds that a call takes before the watch asks for ranks that have ended
PID = os.getpid()
groups = []
made = collections.Counter()  # calls by "LABEL/DEPTH", of a group's label and a lane's depth
state = {"failed": False, "store": None, "watch": None}


def set_master(port):
    """Sets MASTER_ADDR and MASTER_PORT on all ranks: rank 0's, with `port`, or, if that is empty, one that its system
    says is free."""
    host = WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    where, is_alone = None, host.size == WORLD.size
    host.Free()
    if WORLD.rank == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            where = "127.0.0.1" if is_alone else address(), port or str(probe.getsockname()[1])
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = WORLD.bcast(where)


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
            work, seconds = group.under_way()
            if work is None:
                continue
            if seconds > group.limit:
                group.give_up(f"{work.name} took longer than the timeout of {group.limit:g} s")
            elif seconds > PATIENCE:
                try:
                    raise_if_ended(group.world_ranks, work.name, work)
                except RuntimeError as error:
                    group.give_up(str(error).replace("sparseshim: ", ""))


def raise_if_ended(ranks, name, work=None):
    """Raises RuntimeError if one of these ranks of the world has ended without this call: it would wait for ever.
    work: of a collective; None: a message."""
    try:
        late = look_up("ended") > 0 and [rank for rank in ranks if rank != WORLD.rank and has_left(rank, work)]
    except Exception:
        return  # rank 0, which keeps the store, is dying: its launcher ends the job
    if late:
        raise RuntimeError(f"sparseshim: {name} waits for rank {late[0]}, which has ended")


def has_left(rank, work):
    """Returns true if the rank has ended without this call."""
    ended = look_up(f"ended/{rank}")
    if ended == 0 or work is None:
        return ended > 0
    calls = look_up(f"made/{rank}/{work.lane.key}")
    is_known = calls > 0 or ended > 1 or work.lane.depth == 0  # without the key it has made none
    return is_known and calls - 1 <= work.number


def look_up(key, more=0):
    """Returns the number of a key, after `more` is added."""
    return state["store"].add(f"sparseshim/{key}", more) if state["store"] is not None else 0


def count(key):
    """Counts a call of a lane. Returns its number."""
    made[key] += 1
    return made[key] - 1


def abort(why):
    """Ends the job at once, as the other ranks wait for this one."""
    print(f"sparseshim: rank {WORLD.rank}: {why}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    WORLD.Abort(1)


# ---- the end ----


def uncaught(kind, value, trace, before=sys.excepthook):
    before(kind, value, trace)
    state["failed"] = True


def say_ended(keys):
    """Says that this rank makes no more calls in these lanes; called twice."""
    try:
        for key in keys:
            look_up(f"made/{WORLD.rank}/{key}", made[key] + 1)
        if look_up(f"ended/{WORLD.rank}", 1) == 1:
            look_up("ended", 1)
    except Exception:  # rank 0 has ended, and the store with it
        pass


def end():
    """Before mpi4py calls MPI_Finalize, which waits for all ranks."""
    if os.getpid() != PID:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    if MPI.Is_finalized():
        return
    if WORLD.size > 1 and state["failed"]:
        WORLD.Abort(1)
    shallow = [key for key in made if key.endswith("/0")]  # the callbacks of calls under way may call deeper
    say_ended(shallow)
    for group in groups[:]:
        group.stop()
    for group in groups:
        if group.broken:
            abort(str(group.broken).replace("sparseshim: ", ""))
    say_ended(made.keys() - shallow)
    MPI.Finalize()


sys.excepthook = uncaught
atexit.register(end)
