"""Called when Python starts: sets the variables that torchrun would set, and waits for torch.distributed.

Every Python program that `sparseshim run` starts imports this file, which therefore imports nothing slow.
"""
import os
import sys

C10D = "torch.distributed.distributed_c10d"
# Set, as MASTER_ADDR is, until rank 0 has said where it is; to the user's MASTER_PORT.
PROVISIONAL = "MASTER_PORT_OF_SPARSESHIM"
THIS_HOST = "127.0.0.1"

JOBS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # a batch script has no step
)
LOCAL = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID")
LOCALS = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PALS_LOCAL_SIZE")


class Place:
    """Rank and ranks of the job, rank and ranks on this host. is_cut_off: a rank has started this process without the
    descriptor by which MPICH reaches its launcher."""

    def __init__(self, rank, ranks, local, locals_, is_cut_off=False):
        self.rank, self.ranks, self.local, self.locals = rank, ranks, local, locals_
        self.is_cut_off = is_cut_off


def number(names, otherwise):
    """Returns the number of the first variable that has one."""
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), otherwise)


def tasks_of_slurm(otherwise):
    """Returns the ranks of this host: Slurm writes 2(x3),1 for three hosts of two ranks, and one of one."""
    host = number(("SLURM_NODEID",), 0)
    for part in os.environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        tasks, _, times = part.rstrip(")").partition("(x")
        host -= int(times) if times.isdigit() else 1
        if host < 0 and tasks.isdigit():
            return int(tasks)
    return otherwise


def is_closed(descriptor):
    try:
        return descriptor is not None and os.fstat(descriptor) is None
    except OSError:
        return True


def place():
    """Returns the Place that the launcher has given this process: one rank, if there is no launcher of MPI."""
    for name, ranks in JOBS:
        if os.environ.get(name, "").isdigit() and os.environ.get(ranks, "").isdigit():
            rank, ranks = int(os.environ[name]), int(os.environ[ranks])
            is_cut_off = name == "PMI_RANK" and is_closed(number(("PMI_FD",), None))
            return Place(rank, ranks, number(LOCAL, rank), number(LOCALS, tasks_of_slurm(ranks)), is_cut_off)
    return Place(0, 1, 0, 1)


def set_variables(here):
    """Sets those that the user has not set. MASTER_ADDR is replaced when the group is made."""
    for name, value in (("RANK", here.rank), ("WORLD_SIZE", here.ranks), ("LOCAL_RANK", here.local),
                        ("LOCAL_WORLD_SIZE", here.locals)):
        os.environ.setdefault(name, str(value))
    if "MASTER_ADDR" not in os.environ:
        os.environ[PROVISIONAL] = os.environ.get("MASTER_PORT", "")
        os.environ["MASTER_ADDR"] = THIS_HOST
        os.environ.setdefault("MASTER_PORT", "29500")


class Finder:
    """In sys.meta_path until torch.distributed is imported; redirect.py changes it then."""

    def __init__(self, here):
        self.here = here  # None: torchrun has started this process

    def find_spec(self, name, path, target=None):
        if name != C10D:
            return None
        from importlib.util import find_spec

        from . import redirect

        sys.meta_path.remove(self)
        spec = find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            redirect.begin(module, self.here)

        spec.loader.exec_module = exec_module
        return spec


def begin():
    here = None if "TORCHELASTIC_RUN_ID" in os.environ else place()
    if here is not None and here.ranks > 1:
        set_variables(here)
    sys.meta_path.insert(0, Finder(here))
