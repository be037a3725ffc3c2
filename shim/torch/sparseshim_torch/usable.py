"""Finds out if mpi4py is there, belongs to the MPI of this job, and allows calls in several threads."""


def refuse(place):
    """Imports mpi4py, which calls MPI_Init_thread. Returns the reason why torch.distributed cannot use it, with the
    remedy; None if it can."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        return (f"mpi4py cannot be imported ({error}): pip install mpi4py, or, if its wheel does not find this MPI library, "
                "MPICC=mpicc pip install --no-binary mpi4py mpi4py")
    if MPI.COMM_WORLD.size != place.ranks:
        library = MPI.Get_library_version().split("\n")[0].strip("\0 ")
        return (f"mpirun started {place.ranks} ranks, and mpi4py sees {MPI.COMM_WORLD.size} by {library}: "
                "start the job by that library's mpirun, or install mpi4py for the library of this one")
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        return ("MPI runs without MPI_THREAD_MULTIPLE: leave mpi4py.rc.thread_level as it is, "
                "or take an MPI library built with it")
    return None
