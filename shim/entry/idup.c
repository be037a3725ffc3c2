/* MPI_Comm_idup, wrapped for the sake of Open MPI (shim_comm_idup). */
#include "shim/entry/entry.h"

EXPORT shim_comm_idup_fn MPI_Comm_idup, PMPI_Comm_idup;

int MPI_Comm_idup(uintptr_t comm, void *made, void *request)
{
    shim_prepare();
    return shim_comm_idup(shim.next.comm_idup, comm, made, request);
}

int PMPI_Comm_idup(uintptr_t comm, void *made, void *request)
{
    return FROM_FORTRAN ? shim_comm_idup(shim.pmpi.comm_idup, comm, made, request)
                        : shim.pmpi.comm_idup(comm, made, request);
}
