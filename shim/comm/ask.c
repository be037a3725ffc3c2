/* What is asked of the MPI library about handles, so that no handler of the application's hears of
 * it.
 */
#include <stdlib.h>

#include "shim/comm/comm.h"
#include "shim/mpi/real.h"

/* A communicator of ours of this rank alone, under MPI_ERRORS_RETURN. MPI_COMM_NULL where the MPI
 * library makes none, as before MPI 4. */
static MPI_Comm make_single(void)
{
    MPI_Comm single = MPI_COMM_NULL;
    MPI_Group group;

    if (!shim_real_create_from_group)
        return MPI_COMM_NULL;
    if (shim_real.Comm_group(MPI_COMM_SELF, &group) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    if (shim_real_create_from_group(group, "sparseshim", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                    &single) != MPI_SUCCESS)
        single = MPI_COMM_NULL;
    shim_real.Group_free(&group);
    return single;
}

/* The same for all questions. MPI_COMM_NULL where there is none to be had. */
static MPI_Comm single(void)
{
    pthread_mutex_lock(&shim.single_lock);
    if (shim.single == 0)
        shim.single = (uintptr_t)make_single();
    pthread_mutex_unlock(&shim.single_lock);
    return (MPI_Comm)shim.single;
}

/* One for a moment, freed by the caller. */
static MPI_Comm make_probe(void)
{
    MPI_Comm probe;

    pthread_mutex_lock(&shim.single_lock);
    probe = make_single();
    pthread_mutex_unlock(&shim.single_lock);
    return probe;
}

/* A handle that was freed is told by a call that fails. MPICH 5 has a handler of the application's
 * hear of that, whatever communicator the call begins with, and hides the error when it returns:
 * then nothing was written. */
bool shim_comm_exists(uintptr_t handle)
{
    int result = MPI_UNDEFINED;

    if (!shim.hides_errors || shim.sessions || atomic_load(&shim.finalizing))
        return true;
    if ((MPI_Comm)handle == MPI_COMM_NULL)
        return false;
    return single() == MPI_COMM_NULL ||
           (shim_real.Comm_compare(single(), (MPI_Comm)handle, &result) == MPI_SUCCESS &&
            result != MPI_UNDEFINED);
}

/* Asked by packing one element, on a communicator whose handlers are ours. Where the ranks still
 * meet there is none: it is made for the question alone, since one that stays could bear the handle
 * of a communicator that the program has freed, which must go on failing. Where none can be made
 * the type counts as committed: the MPI library raises the error. */
bool shim_type_is_committed(uintptr_t type, const struct shim_comm *c)
{
    MPI_Comm made = MPI_COMM_NULL, comm = c->private;
    bool committed = true;
    int position = 0;
    char byte = 0;

    if (comm == MPI_COMM_NULL)
        comm = made = make_probe();
    if (comm != MPI_COMM_NULL)
        committed =
            shim_real.Pack(&byte, 0, (MPI_Datatype)type, &byte, 1, &position, comm) == MPI_SUCCESS;
    if (made != MPI_COMM_NULL)
        shim_real.Comm_free(&made);
    return committed;
}

bool shim_comm_has_room(void)
{
    MPI_Comm probe = make_probe();

    if (probe == MPI_COMM_NULL)
        return false;
    shim_real.Comm_free(&probe);
    return true;
}

bool shim_comm_within_world(MPI_Group group, int size)
{
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks), *found = ranks + size;
    bool within = ranks != NULL;
    MPI_Group world;

    for (int i = 0; within && i < size; i++)
        ranks[i] = i;
    within = within && shim_real.Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS;
    if (within) {
        within = shim_real.Group_translate_ranks(group, size, ranks, world, found) == MPI_SUCCESS;
        for (int i = 0; within && i < size; i++)
            within = found[i] != MPI_UNDEFINED;
        shim_real.Group_free(&world);
    }
    free(ranks);
    return within;
}

int shim_comm_size_of(uintptr_t handle)
{
    MPI_Comm comm = (MPI_Comm)handle;
    int inter = 1, size = 0;

    if (shim_real.Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter ||
        shim_real.Comm_size(comm, &size) != MPI_SUCCESS)
        return 0;
    return size;
}
