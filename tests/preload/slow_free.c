/* Preloaded behind the library: MPI_Comm_free takes its time after the MPI library has given up the
 * handle, which other threads are then given for communicators of theirs. */
#include <mpi.h>
#include <unistd.h>

__attribute__((visibility("default"))) int MPI_Comm_free(MPI_Comm *comm)
{
    int err = PMPI_Comm_free(comm);

    usleep(3000);
    return err;
}
