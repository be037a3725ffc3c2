/* Calls that make a communicator. In jobs that serve every nonblocking call, the ranks of the new
 * communicator make a first exchange in such a call, since they may wait for each other there: a
 * nonblocking call may not. All ranks see the same calls, so that a PMPI_ name counts as well,
 * whoever calls it (mpi_f08 of MPICH does). MPI_Comm_idup returns before the communicator is there,
 * and not every MPI library has MPI_Comm_create_from_group: nonblocking calls on their
 * communicators pass through. */
#include "shim/comm/at_creation.h"
#include "shim/entry/entry.h"

/* The ranks that make the call: all of the old communicator, which count its calls alike, or only
 * those of the new one. */
enum makers { ALL, SOME };

/* A call in progress. */
struct creation {
    uintptr_t comm;
    enum makers makers;
    void *made;       /* where MPI stores the communicator; NULL: the call does not matter here */
    uintptr_t before; /* what stood there */
};

/* No MPI library makes this handle. */
enum { NOT_STORED = 0x53 };

/* The communicator of this thread's last such call, until the next one begins: a profiler's MPI_X
 * returns what its PMPI_X has made. */
static _Thread_local uintptr_t last;

static struct creation begin(uintptr_t comm, enum makers makers, void *made)
{
    struct creation c = {.makers = makers};

    last = 0;
    if (!shim_prepare() || !shim_asked_for_requests() || !made)
        return c;
    c.comm = shim_abi_word(comm);
    c.made = made;
    if (shim.library.hides_errors) {
        c.before = shim_abi_load(made);
        shim_abi_store(made, NOT_STORED);
    }
    return c;
}

/* Returns true if the call has succeeded. MPICH 5 returns MPI_SUCCESS after an error that a handler
 * of the program has seen, and stores nothing. */
static bool has_succeeded(const struct creation *c, int err)
{
    if (shim.library.hides_errors && shim_abi_load(c->made) == NOT_STORED) {
        shim_abi_store(c->made, c->before);
        return false;
    }
    return err == 0;
}

/* Counts the call. Returns true if the ranks of the new communicator make a first exchange; sets
 * *number and *willing for that. */
static bool counts(const struct creation *c, unsigned *number, bool *willing)
{
    *number = 0;
    *willing = true;
    if (c->makers == ALL)
        return shim_comm_count_creation(c->comm, number);
    *willing = atomic_fetch_add(&shim.table.made_by_some, 1) < SHIM_CREATIONS;
    return true;
}

static int end(struct creation c, int err)
{
    uintptr_t made;
    unsigned number;
    bool willing;

    if (!c.made || !has_succeeded(&c, err))
        return err;
    made = shim_abi_load(c.made);
    if (made == last || shim_has_entry(made))
        return err;
    last = made;
    if (!counts(&c, &number, &willing) || !shim_is_communicator(made))
        return err;
    shim_job_start_if_up();
    return shim_comm_exchange_at_creation(made, number, willing);
}

#define CREATES(member, name, parameters, arguments, makers)                                       \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        const struct creation c = begin(comm, makers, made);                                       \
                                                                                                   \
        return end(c, shim.next.member arguments);                                                 \
    }                                                                                              \
    int PMPI_##name parameters                                                                     \
    {                                                                                              \
        const struct creation c = begin(comm, makers, made);                                       \
                                                                                                   \
        return end(c, shim.pmpi.member arguments);                                                 \
    }

SHIM_WRAPPED_CREATIONS(CREATES)
