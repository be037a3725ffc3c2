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

/* Which ranks make the call: all of the old communicator, which count their calls alike, or only
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
        c.willing = atomic_fetch_add(&shim.made_by_some, 1) < SHIM_CREATIONS;
    if (makers == SOME || shim_comm_count_creation(shim_abi_word(comm), &c.number))
        c.made = made;
    if (c.made && shim.hides_errors) {
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
    if (shim.hides_errors && made == NOT_STORED) {
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

/* Defines MPI_X and PMPI_X. The communicator that the new one is made from is `comm`. */
#define CREATES(name, member, makers, parameters, ...)                                             \
    EXPORT __typeof__(*shim.next.member) MPI_##name, PMPI_##name;                                  \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        const struct creation c = begin(#name, comm, makers, made);                                \
                                                                                                   \
        return end(c, shim.next.member(__VA_ARGS__));                                              \
    }                                                                                              \
    int PMPI_##name parameters                                                                     \
    {                                                                                              \
        const struct creation c = begin(#name, comm, makers, made);                                \
                                                                                                   \
        return end(c, shim.pmpi.member(__VA_ARGS__));                                              \
    }

CREATES(Comm_dup, comm_dup, ALL, (uintptr_t comm, void *made), comm, made)
CREATES(Comm_dup_with_info, comm_dup_info, ALL, (uintptr_t comm, uintptr_t info, void *made), comm,
        info, made)
CREATES(Comm_split, comm_split, ALL, (uintptr_t comm, int colour, int key, void *made), comm,
        colour, key, made)
CREATES(Comm_split_type, comm_split_type, ALL,
        (uintptr_t comm, int type, int key, uintptr_t info, void *made), comm, type, key, info,
        made)
CREATES(Comm_create, comm_create, ALL, (uintptr_t comm, uintptr_t group, void *made), comm, group,
        made)
CREATES(Comm_create_group, comm_create_group, SOME,
        (uintptr_t comm, uintptr_t group, int tag, void *made), comm, group, tag, made)
CREATES(Cart_create, cart_create, ALL,
        (uintptr_t comm, int dims, const int *sizes, const int *periods, int reorder, void *made),
        comm, dims, sizes, periods, reorder, made)
CREATES(Cart_sub, cart_sub, ALL, (uintptr_t comm, const int *remain, void *made), comm, remain,
        made)
CREATES(Graph_create, graph_create, ALL,
        (uintptr_t comm, int nodes, const int *index, const int *edges, int reorder, void *made),
        comm, nodes, index, edges, reorder, made)
CREATES(Dist_graph_create, dist_graph, ALL,
        (uintptr_t comm, int count, const int *sources, const int *degrees, const int *destinations,
         const int *weights, uintptr_t info, int reorder, void *made),
        comm, count, sources, degrees, destinations, weights, info, reorder, made)
CREATES(Dist_graph_create_adjacent, dist_graph_adjacent, ALL,
        (uintptr_t comm, int indegree, const int *sources, const int *source_weights, int outdegree,
         const int *destinations, const int *destination_weights, uintptr_t info, int reorder,
         void *made),
        comm, indegree, sources, source_weights, outdegree, destinations, destination_weights, info,
        reorder, made)
CREATES(Intercomm_merge, intercomm_merge, SOME, (uintptr_t comm, int high, void *made), comm, high,
        made)
