/* Sizes of communicators that calls below MIN_COUNT are made on, so that they are told to be small
 * without a question to the MPI library. Where two communicators share a place the first keeps it
 * until it is freed. */
#include "shim/comm.h"

static _Atomic uint64_t *place_of(uintptr_t comm)
{
    return &shim.sizes[(uint32_t)comm % SHIM_SIZES];
}

void shim_size_remember(uintptr_t comm, int size)
{
    uint64_t nobody = 0, entry = (uint64_t)(uint32_t)comm << 32 | (uint32_t)size;

    if (shim.sessions || !atomic_compare_exchange_strong(place_of(comm), &nobody, entry))
        return;
    if ((MPI_Comm)comm != MPI_COMM_WORLD && (MPI_Comm)comm != MPI_COMM_SELF &&
        !shim_comm_attach((MPI_Comm)comm))
        shim_size_forget((MPI_Comm)comm);
}

void shim_size_forget(MPI_Comm comm)
{
    _Atomic uint64_t *place = place_of((uintptr_t)comm);
    uint64_t entry = atomic_load(place);

    if (entry >> 32 == (uint32_t)comm)
        atomic_compare_exchange_strong(place, &entry, 0);
}
