/* Private communicators that a thread makes, under Open MPI. */
#include "shim/comm/comm.h"
#include "shim/mpi/real.h"

/* Open MPI matches messages of these tags with no receive of the program, not even one of
 * MPI_ANY_TAG. It has no messages of its own with them: they are below the tags of its collectives,
 * and keep their sign where the network has 24 bits for a tag. */
enum { FIRST_TAG = -0x50000000 - 0x400000, TAGS = 0x200000 };

int shim_comm_make_quietly(MPI_Group group, long long number, MPI_Comm *made)
{
    return shim_real_create_group(MPI_COMM_WORLD, group, FIRST_TAG - (int)(number % TAGS), made);
}
