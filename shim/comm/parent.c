/* The parent of private communicators under Open MPI: a copy of MPI_COMM_WORLD without the
 * program's attributes, on which no receive of the program waits. */
#include <sched.h>

#include "shim/comm/comm.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

/* Seconds after which a rank that waits for the others logs a warning. */
#define PATIENCE 30.0

/* Returns true once all ranks have come. */
static bool assemble(void)
{
    const double begin = shim_now();
    MPI_Request request = 0;
    bool warned = false;
    int done = 0;

    if (shim_real.Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS)
        return false;
    while (!done) {
        if (shim_real.Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (!done)
            sched_yield();
        if (!done && !warned && shim_now() - begin > PATIENCE) {
            warned = true;
            shim_say(CFG_DEBUG_WARN,
                     "MPI_Init has waited %.0f s for the other ranks; is the library preloaded on "
                     "every rank, with the same SPARSESHIM_PROGRESS and SPARSESHIM_MODE?",
                     PATIENCE);
        }
    }
    return true;
}

void shim_comm_make_parent(void)
{
    MPI_Group world = 0;
    MPI_Comm parent = MPI_COMM_NULL;

    if (!assemble() || shim_real.Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return;
    if (shim_real.Comm_create(MPI_COMM_WORLD, world, &parent) == MPI_SUCCESS &&
        parent != MPI_COMM_NULL) {
        shim_real.Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
        shim.parent = (uintptr_t)parent;
    }
    shim_real.Group_free(&world);
}

int shim_comm_make_child(MPI_Group group, long long number, MPI_Comm *made)
{
    const int tag = (int)(number & 0x7fff); /* every MPI library has these */

    return shim_real.Comm_create_group((MPI_Comm)shim.parent, group, tag, made);
}

void shim_comm_free_parent(void)
{
    MPI_Comm parent = (MPI_Comm)shim.parent;

    shim.parent = 0;
    if (parent != 0)
        shim_real.Comm_free(&parent);
}
