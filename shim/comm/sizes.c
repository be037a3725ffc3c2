/* Communicators that calls below MIN_COUNT are made on. Where two share a place the first keeps it
 * until it is freed. */
#include "shim/comm/comm.h"

struct shim_sizes shim_sizes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */

/* Bytes of one rank, of `ranks`, from which MIN_COUNT words of 4 bytes are reached. */
static uint64_t limit_of(uint64_t least, uint64_t ranks)
{
    uint64_t bytes = (4 * least + ranks - 1) / ranks;

    return least > INT64_MAX / 8 || bytes > UINT32_MAX ? UINT32_MAX : bytes;
}

void shim_size_remember(uintptr_t comm, int size)
{
    int64_t least = atomic_load(&shim.min_fast);
    size_t place = (uint8_t)comm;
    bool room;

    if (shim.sessions || least <= 0 || least == INT64_MAX || shim_comm_is_going(comm))
        return;
    pthread_mutex_lock(&lock);
    room = atomic_load(&shim_sizes.limits[place]) == 0;
    if (room) {
        atomic_store(&shim_sizes.limits[place],
                     limit_of((uint64_t)least, (uint64_t)size) << 32 | (uint32_t)comm);
    }
    pthread_mutex_unlock(&lock);
    if (room && (MPI_Comm)comm != MPI_COMM_WORLD && (MPI_Comm)comm != MPI_COMM_SELF &&
        !shim_comm_attach((MPI_Comm)comm))
        shim_size_forget((MPI_Comm)comm);
}

void shim_size_forget(MPI_Comm comm)
{
    _Atomic uint64_t *place = &shim_sizes.limits[(uint8_t)comm];
    uint64_t entry = atomic_load(place);

    if ((uint32_t)entry == (uint32_t)comm)
        atomic_compare_exchange_strong(place, &entry, 0);
}

bool shim_size_known(MPI_Comm comm)
{
    return (uint32_t)atomic_load(&shim_sizes.limits[(uint8_t)comm]) == (uint32_t)comm;
}
