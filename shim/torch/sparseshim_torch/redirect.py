"""Lets torch.distributed run over MPI in a program that asks for gloo, nccl or mpi.

Three functions of torch.distributed are wrapped: init_process_group, the one that makes every group, and
destroy_process_group.
"""
import functools
import inspect
import os
import sys

from .start import PROVISIONAL, THIS_HOST

SERVED = {"", "none", "undefined", "gloo", "nccl", "mpi"}
REMEDY = "mpirun -n RANKS sparseshim run python SCRIPT"


def begin(c10d, place):
    """Called when the module of torch.distributed has been made. place: None under torchrun."""
    if place is None:
        if os.environ.get("RANK") == "0":
            say(f"torch.distributed stays as it is under torchrun, which starts no MPI: {REMEDY}")
    elif place.ranks == 1:
        wrap_alone(c10d)
    else:
        wrap(c10d, place)


def say(text):
    print(f"sparseshim: {text}", file=sys.stderr, flush=True)


def is_served(backend):
    """Returns true if all parts of a name such as cpu:gloo,cuda:nccl are known."""
    return all(part.rpartition(":")[2].strip().lower() in SERVED for part in str(backend or "").split(","))


def wrap_alone(c10d):
    """Replaces init_process_group where it would be the first to say that no launcher has started ranks."""
    init = c10d.init_process_group

    @functools.wraps(init)
    def init_process_group(*arguments, **named):
        asked = inspect.signature(init).bind(*arguments, **named).arguments
        if is_by_environment(asked) and asked.get("rank", -1) == -1 and "RANK" not in os.environ:
            say(f"torch.distributed finds no RANK, since no launcher known here has started several ranks: {REMEDY}")
        return init(*arguments, **named)

    c10d.init_process_group = init_process_group


def is_by_environment(asked):
    """Returns true if RANK and the like are to tell what the arguments do not."""
    return asked.get("init_method") in (None, "env://") and asked.get("store") is None


def wrap(c10d, place):
    """Replaces three functions. A refusal is said once on each host, and the program's own backend goes on."""
    make, init, destroy = c10d._new_process_group_helper, c10d.init_process_group, c10d.destroy_process_group
    redirected = []  # the module group, once the world is made of it

    @functools.wraps(init)
    def init_process_group(*arguments, **named):
        asked = inspect.signature(init).bind(*arguments, **named).arguments
        refusal = refuse(asked, place)
        provisional = os.environ.pop(PROVISIONAL, None)
        by_environment = is_by_environment(asked)
        if refusal:
            if place.local == 0 and (not place.is_cut_off or asked.get("rank") in (None, -1, 0)):
                say(f"torch.distributed stays with {asked.get('backend') or 'its own backend'}: {refusal}")
            if provisional is not None and place.locals < place.ranks and not place.is_cut_off and \
                    os.environ.get("MASTER_ADDR") == THIS_HOST:
                del os.environ["MASTER_ADDR"]  # not the program's; torch.distributed says that it is missing
            return init(*arguments, **named)
        from . import group, job

        if by_environment and asked.get("rank", -1) == -1:
            take_ranks(place, job.WORLD)
        if provisional is not None and by_environment:
            job.set_master(provisional)
        redirected[:] = [group]
        if str(asked.get("backend")).lower() == "mpi":
            asked["backend"] = "gloo"  # until the wrapper below
        return init(**asked)

    @functools.wraps(make)
    def _new_process_group_helper(size, rank, ranks, backend, *others, **named):
        if not redirected:
            return make(size, rank, ranks, backend, *others, **named)
        if not is_served(backend):
            if place.local == 0:
                say(f"a group stays with {backend}: gloo, nccl and mpi are redirected")
            return make(size, rank, ranks, backend, *others, **named)
        named.pop("device_id", None)  # of a backend that is not made
        result = make(size, rank, ranks, redirected[0].NAME, *others, **named)
        group = result[0] if isinstance(result, tuple) else result
        if isinstance(group, redirected[0].MpiGroup):
            group.finish_creation()
            rename(c10d, group, "nccl" if "nccl" in str(backend).lower() else "gloo")
        return result

    @functools.wraps(destroy)
    def destroy_process_group(group=None):
        """PyTorch before 2.4 shuts no group down."""
        groups = known(c10d)
        gone = [group] if group is not None and group is not c10d.GroupMember.WORLD else list(groups)
        destroy(group)
        for each in gone:
            if redirected and isinstance(each, redirected[0].MpiGroup):
                each.shutdown()

    for wrapper, wrapped in ((init_process_group, init), (_new_process_group_helper, make), (destroy_process_group, destroy)):
        setattr(c10d, wrapped.__name__, wrapper)


def take_ranks(place, world):
    """Takes mpirun's ranks if RANK is left over from another launcher, so that two ranks would be one and wait for ever.
    Another order of the ranks stays as it is."""
    named = world.allgather(os.environ.get("RANK", "none"))
    if sorted(named) == sorted(map(str, range(world.size))):
        return
    if place.rank == 0:
        say(f"RANK names ranks {', '.join(named[:8])}{' ...' * (len(named) > 8)}: mpirun's ranks count")
    os.environ.update(RANK=str(place.rank), LOCAL_RANK=str(place.local), LOCAL_WORLD_SIZE=str(place.locals))


def refuse(asked, place):
    """Returns the reason for which init_process_group is not redirected, with the remedy; None if it is.
    asked: its arguments by name."""
    if not is_served(asked.get("backend")):
        return "gloo, nccl and mpi are redirected, alone or by device, as in cpu:gloo,cuda:nccl"
    if place.is_cut_off:
        return ("a rank of MPI has started this process, as torch.multiprocessing.spawn and accelerate launch do: "
                f"start the script by {REMEDY}")
    sizes = {asked.get("world_size"), int(os.environ.get("WORLD_SIZE", -1))}
    other = sorted(sizes - {-1, None, place.ranks})
    if other:
        return (f"it is asked for {other[0]} ranks, and mpirun started {place.ranks}: leave world_size and WORLD_SIZE "
                f"to mpirun, or start {other[0]} ranks")
    from . import usable

    return usable.refuse(place)


def known(c10d):
    """Returns torch's table of groups."""
    world = getattr(c10d, "_world", None)
    return world.pg_map if world is not None else c10d._pg_map


def rename(c10d, group, name):
    """Makes get_backend() return the name that the program asked for."""
    groups = known(c10d)
    groups[group] = (name, *groups[group][1:])
