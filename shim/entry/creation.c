/* Calls that make a communicator. In jobs that serve every nonblocking call, the ranks of the new
 * communicator make contact in such a call, since they may wait for each other there: a nonblocking
 * call may not. All ranks see the same calls, so that a PMPI_ name counts as well, whoever calls it
 * (mpi_f08 of MPICH does). MPI_Comm_idup returns before the communicator is there, and not every
 * MPI library has MPI_Comm_create_from_group: nonblocking calls on their communicators pass
 * through. */
#include <string.h>

#include "shim/comm/at_creation.h"
#include "shim/entry/entry.h"

/* A call in progress. */
struct creation {
    void *made;       /* where MPI stores the communicator; NULL: its ranks make no contact here */
    unsigned number;  /* of the communicators made from the same ancestors */
    bool willing;     /* this rank has not made too many */
    uintptr_t before; /* what stood there */
    struct operation {
        const char *name;
        uintptr_t comm;
    } outer; /* the call that it is made in */
};

/* The call that this thread is in. */
static _Thread_local struct operation operation;

/* No MPI library makes this handle. */
enum { NOT_STORED = 0x53 };

/* The ranks that make the call: all of the old communicator, which count their calls alike, or only
 * those of the new one. */
enum makers { ALL, SOME };

/* Returns true in the PMPI_X that a profiler's MPI_X calls: one call, which counts once. Callbacks
 * of the program may make other calls inside of it. */
static bool is_repeated(const char *name, uintptr_t comm)
{
    return operation.name && operation.comm == comm && strcmp(operation.name, name) == 0;
}

static struct creation begin(const char *name, uintptr_t comm, enum makers makers, void *made)
{
    struct creation c = {.willing = true, .outer = operation};

    if (!shim_prepare() || !shim_asked_for_requests() || !made || is_repeated(name, comm))
        return c;
    operation = (struct operation){name, comm};
    if (makers == SOME)
        c.willing = atomic_fetch_add(&shim.table.made_by_some, 1) < SHIM_CREATIONS;
    if (makers == SOME || shim_comm_count_creation(shim_abi_word(comm), &c.number))
        c.made = made;
    if (c.made && shim.library.hides_errors) {
        c.before = shim_abi_load(made);
        shim_abi_store(made, NOT_STORED);
    }
    return c;
}

/* Returns true if MPI has stored a communicator. MPICH 5 returns MPI_SUCCESS after an error that a
 * handler of the program has seen. */
static bool is_made(const struct creation *c, int err)
{
    uintptr_t made;

    if (!c->made)
        return false;
    made = shim_abi_load(c->made);
    if (shim.library.hides_errors && made == NOT_STORED) {
        shim_abi_store(c->made, c->before);
        return false;
    }
    return err == 0 && shim_is_communicator(made);
}

static int end(struct creation c, int err)
{
    operation = c.outer;
    if (!is_made(&c, err))
        return err;
    shim_job_start_if_up();
    return shim_comm_contact_at_creation(shim_abi_load(c.made), c.number, c.willing);
}

#define CREATES(member, name, parameters, arguments, makers)                                       \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        const struct creation c = begin(#name, comm, makers, made);                                \
                                                                                                   \
        return end(c, shim.next.member arguments);                                                 \
    }                                                                                              \
    int PMPI_##name parameters                                                                     \
    {                                                                                              \
        const struct creation c = begin(#name, comm, makers, made);                                \
                                                                                                   \
        return end(c, shim.pmpi.member arguments);                                                 \
    }

SHIM_WRAPPED_CREATIONS(CREATES)
