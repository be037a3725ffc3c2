/* MPI_Comm_idup and its form with_info, wrapped for the sake of Open MPI (shim_comm_copied). */
#include "shim/entry/entry.h"

EXPORT shim_comm_idup_fn MPI_Comm_idup, PMPI_Comm_idup;
EXPORT shim_comm_idup_info_fn MPI_Comm_idup_with_info, PMPI_Comm_idup_with_info;

int MPI_Comm_idup(uintptr_t comm, void *made, void *request)
{
    shim_prepare();
    return shim_comm_copied(comm, shim.next.comm_idup(comm, made, request));
}

int PMPI_Comm_idup(uintptr_t comm, void *made, void *request)
{
    const bool seen = FROM_FORTRAN;
    const int err = shim.pmpi.comm_idup(comm, made, request);

    return seen ? shim_comm_copied(comm, err) : err;
}

int MPI_Comm_idup_with_info(uintptr_t comm, uintptr_t info, void *made, void *request)
{
    shim_prepare();
    return shim_comm_copied(comm, shim.next.comm_idup_info(comm, info, made, request));
}

int PMPI_Comm_idup_with_info(uintptr_t comm, uintptr_t info, void *made, void *request)
{
    const bool seen = FROM_FORTRAN;
    const int err = shim.pmpi.comm_idup_info(comm, info, made, request);

    return seen ? shim_comm_copied(comm, err) : err;
}
