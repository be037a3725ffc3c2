/* Communicators of the application that had a first exchange at creation or were used in an
 * eligible call, and their private communicators.
 *
 * The table is the shim's own: a handle is looked up only after the MPI library has accepted it in
 * a call. An attribute without a copy function on the application's communicator tells the shim
 * when the communicator is freed.
 */
#ifndef SHIM_COMM_COMM_H
#define SHIM_COMM_COMM_H

#include "core/net/peer_memory.h"
#include "core/net/shared_memory.h"
#include "shim/mpi/mpi_names.h"
#include "shim/mpi/mpi_transport.h"
#include "shim/mpi/state.h"

enum shim_communicator {
    SHIM_COMM_SERVED,
    SHIM_COMM_PASSES, /* for good: one rank, an intercommunicator, or refused in a blocking call */
    /* refused at creation: nonblocking calls pass, and a blocking one makes the first exchange once
       more */
    SHIM_COMM_LATER,
    /* a wait outside of core has timed out, or this rank could not make a call that other ranks
     * wait for: every later eligible call returns an error */
    SHIM_COMM_FAILED
};

/* Values that the ranks combine in the first exchange, reduced by MIN: these entries, and, for each
 * of up to SHIM_SHARED options that must be equal, the hash of its value and the negative of the
 * hash. */
enum shim_exchange {
    SHIM_EXCHANGE_OK,
    SHIM_EXCHANGE_PROTOCOL_MIN,
    SHIM_EXCHANGE_PROTOCOL_MAX, /* negated */
    SHIM_EXCHANGE_COSTS,        /* this rank knows the costs of the network */
    SHIM_EXCHANGE_TIMEOUT,      /* this rank has a TIMEOUT */
    SHIM_EXCHANGE_NONBLOCKING,  /* this rank takes nonblocking calls over */
    SHIM_EXCHANGE_QUORUM,       /* this rank can serve partial calls */
    SHIM_EXCHANGE_TRACE,        /* this rank wants a TRACE */
    /* from the first rank: a number that no other first exchange in progress has */
    SHIM_EXCHANGE_NUMBER,
    SHIM_EXCHANGED
};

enum { SHIM_SHARED = 32 };

/* Private communicators of a process: so many that were agreed on where the program made theirs,
 * and as many that were agreed on in a blocking call. MPICH has about 2044 communicators per
 * process. */
enum { SHIM_PRIVATES = 64 };

/* The entry's part in the table and the lists. Written by shim/comm/comm.c and lists.c, under the
 * lock of the table. */
struct shim_in_table {
    struct shim_comm *next; /* in the bucket, or in the list of dropped entries */
    struct shim_comm *next_in[SHIM_LISTS];
    unsigned refs;   /* one for the table, one for each list and each call in progress */
    uint64_t number; /* order of the first exchange */
    /* `freer` is in MPI_Comm_free, and another thread may get the handle for a new communicator */
    bool freeing;
    pthread_t freer;
    bool spare; /* one of the static entries, never freed; does not change */
};

/* What the ranks exchange in the first exchange. Written by shim/comm/first_exchange.c before the
 * entry is in the table, and read by all; only `created` changes later. */
struct shim_first_exchange {
    bool at_creation;  /* made where the program made the communicator */
    bool within_world; /* all ranks are in MPI_COMM_WORLD */
    /* `request` may outlive the call and writes to `agreed` */
    MPI_Request request;
    long long proposal[SHIM_EXCHANGED + 2 * SHIM_SHARED];
    long long agreed[SHIM_EXCHANGED + 2 * SHIM_SHARED];
    bool same_settings; /* all ranks have the same options */
    /* communicators that the program has made from it and from its ancestors, equal on its ranks */
    atomic_uint created;
};

/* The hosts of the ranks, and what the ranks of a host share. Set in the first exchange
 * (first_exchange.c, peers.c, shared.c), and read by core. */
struct shim_hosts {
    struct ss_layout *layout;
    struct ss_peers *peers;  /* NULL: ranks do not read each other's memory */
    struct ss_shared shared; /* memory that all ranks share; zero: none */
};

/* What partial calls need. Written by shim/comm/partial_calls.c; after the first exchange under the
 * communicator's lock. */
struct shim_rounds {
    MPI_Comm comm; /* a second private communicator */
    struct shim_transport transport;
    bool open; /* there is a transport, which counts as one of the SHIM_PRIVATES */
};

/* The calls of a communicator, under its lock. Written by shim/task; shim/entry/act.c counts the
 * calls that pass, shim/comm/progress.c lists communicators with calls in progress. */
struct shim_queue {
    struct shim_task *first, *last; /* started tasks come first */
    uint64_t calls;                 /* eligible calls so far, including the first exchange */
    uint64_t started;               /* core calls started */
    double stepped;                 /* time when all of it was last stepped */
    bool polled;                    /* a nonblocking call was made */
    bool listed;                    /* in the list of active communicators */
    /* Number of the call from which nonblocking calls go to the MPI library, on the private
     * communicator, behind those taken over, since a rank has callbacks (shim/entry/callbacks.h).
     * 0: they are taken over. */
    uint64_t native_from;
    /* The next call is such a call, and no taken-over call is waiting. Read without the lock. */
    atomic_bool native_now;
};

struct shim_comm {
    struct shim_in_table in_table;
    MPI_Comm handle; /* handle of the application */
    int rank;
    int size;
    char name[64]; /* MPI name, shortened */
    MPI_Group group;

    _Atomic(enum shim_communicator) state; /* changes under `lock`; `status` is set before FAILED */
    int status;                            /* FAILED: status < 0 */
    char failed[400];  /* text of the last call that core has ended with an error; under `lock` */
    atomic_bool freed; /* the application has freed it */
    pthread_mutex_t lock; /* guards the queue, core and the transports */
    struct shim_queue queue;

    MPI_Comm private;
    struct shim_transport transport; /* on it */
    struct ss_comm *core;
    struct shim_rounds rounds;
    struct shim_hosts hosts;
    struct shim_first_exchange first;
    atomic_int *reserved; /* counts here as one of the SHIM_PRIVATES; NULL: does not count */
    bool follows;         /* made after a communicator with residuals was freed */
    bool costs_logged;    /* DEBUG=info has logged the costs in the first exchange */
    bool costs_kept;      /* shim/comm/group_costs.c has them */
};

/* Writes the names and this rank's values of the options that differ between the ranks. */
void shim_comm_differing(const struct shim_comm *c, char *text, size_t size);

/* Returns the entry of a handle with a reference for the caller, or NULL. */
struct shim_comm *shim_comm_get(uintptr_t handle);
/* Acts like shim_comm_get, but returns NULL before the ranks have agreed. */
struct shim_comm *shim_comm_agreed(uintptr_t handle);
/* Removes an entry in the state SHIM_COMM_LATER, for another first exchange. */
void shim_comm_forget(uintptr_t handle);
/* Returns the number of ranks of a communicator that has an entry; 0 if it has none. */
int shim_comm_known_size(uintptr_t handle);
/* Drops a reference. */
void shim_comm_put(struct shim_comm *c);
/* Drops a reference inside a callback of MPI, which may hold the library's lock: makes no MPI call.
 * The next eligible call or the end of the job frees the entry. */
void shim_comm_put_later(struct shim_comm *c);

/* Sets *list to all entries in order of the first exchange, each with a reference for the caller,
 * who frees the list. Returns their number; 0 if memory is short. */
size_t shim_comm_all(struct shim_comm ***list);

/* Returns a new entry for a first exchange: zero except its lock and null handles. Returns NULL if
 * memory and the static entries are used up. */
struct shim_comm *shim_comm_allocate(void);
void shim_comm_insert(struct shim_comm *c);
/* Attaches the attribute that reports when the application frees the communicator. */
bool shim_comm_attach(MPI_Comm comm);
/* Frees the key of the attributes before MPI_Finalize goes on. */
void shim_comm_end_keys(void);
/* Returns true if this thread is in MPI_Comm_free of the handle. */
bool shim_comm_is_going(uintptr_t handle);
/* Frees the memory of communicators that MPI_Finalize has ended, after it. MPI_COMM_WORLD is served
 * until then. MPI deletes this library's attribute before those of the application on one rank, and
 * after them on another; callbacks of the application thus find it served on all ranks or on
 * none. */
void shim_comm_bury(void);
/* Begins the application's MPI_Comm_free. The entry, NULL if there is none, stays for this thread
 * and its callbacks. *outer is an argument of shim_comm_end_free, since such calls may be
 * nested. */
struct shim_comm *shim_comm_begin_free(uintptr_t handle, uintptr_t *outer);
/* Ends the application's MPI_Comm_free; `freed` says if it succeeded. */
void shim_comm_end_free(struct shim_comm *c, uintptr_t handle, uintptr_t outer, bool freed);
/* Frees what the entry owns. Buffers of messages that never ended stay allocated, since the MPI
 * library may still read them. */
void shim_comm_release(struct shim_comm *c);

/* shim/comm/ask.c. Returns true if the communicator exists, after a call was passed on. The return
 * value of that call does not tell: MPICH 5 returns MPI_SUCCESS once a handler of the application
 * has seen the error. Under MPICH 5 alone, a handler of the application sees this query once if the
 * handle was freed. */
bool shim_comm_exists(uintptr_t handle);

/* Returns true if MPI accepts a datatype in a call, and if no communicator is left to ask with. No
 * handler of the application sees the query. */
bool shim_type_is_committed(uintptr_t type, const struct shim_comm *c);

/* How a datatype was made. */
struct shim_form {
    int combiner;
    int64_t integers, types; /* arguments */
    bool others;             /* addresses or large counts are among the arguments */
};

/* Asks how a datatype was made, whose handle is valid. No handler of the application sees the
 * query. Returns false if the MPI library does not tell. */
bool shim_type_form(MPI_Datatype type, struct shim_form *form);

/* Acts like shim_operation, and also finds types of MPI_Type_create_f90_real and _integer, which
 * other ranks may name by other handles. Asks MPI about these, and about the pairs of
 * shim_is_disputed: once each, locally, unseen by handlers of the application. Called after the
 * start of the job. */
bool shim_operation_asked(const struct shim_call *call, enum ss_type *type, enum ss_op *op);
/* Forgets the answers before the MPI library ends, since handles may be used again. */
void shim_pairs_forget(void);

/* Makes a temporary communicator of this rank alone, which the caller frees. Returns MPI_COMM_NULL
 * if the MPI library cannot make one. */
MPI_Comm shim_comm_make_probe(void);

/* shim/comm/prove.c: returns true if the MPI library works as its ABI says; local, tested once. */
bool shim_comm_proves_abi(void);

/* Returns true if all ranks of a group are in MPI_COMM_WORLD. On a communicator that reaches beyond
 * it (MPI_Comm_spawn and MPI_Intercomm_merge) all ranks get false, since each lacks another's. */
bool shim_comm_within_world(MPI_Group group, int size);

/* Reads the name that the program has given. */
void shim_comm_read_name(struct shim_comm *c);
/* Returns the number of ranks of an existing intracommunicator; 0 for an intercommunicator. */
int shim_comm_size_of(uintptr_t handle);

/* shim/comm/first_exchange.c. First exchange: called by all ranks in the same call, after the
 * native call has succeeded. Collective over the communicator; a rank without memory takes part
 * too. Returns MPI_SUCCESS, or an MPI error code that was raised: after a TIMEOUT, for bad settings
 * under STRICT, or if this rank has no memory for it. */
int shim_comm_first_exchange(uintptr_t handle);
/* Returns the number of this process's host. `rank`, of the communicator or the world, matters only
 * where a test gives the layout. */
uint64_t shim_comm_host(int rank);

/* Lets the calls of a communicator without a first exchange pass through, on all ranks together.
 * Returns MPI_SUCCESS, or an MPI error code that was raised if memory is short. */
int shim_comm_leave_out(uintptr_t handle);

/* Raises the error of a bad setting under STRICT=on, in the first eligible call alone. */
int shim_comm_raise_settings(uintptr_t handle);

/* If every rank has a TIMEOUT, waits for all ranks before a blocking call of the MPI library, in
 * which no wait is bounded. Runs two polled barriers: a rank that gave up in the first, or in the
 * vote, is missing in the second, even if its last message still arrives. Returns SS_OK, or an
 * error < 0 with the state FAILED. */
int shim_comm_assemble(struct shim_comm *c);

/* shim/comm/group_costs.c: returns the costs measured before over the same ranks. */
struct ss_costs shim_costs_of(MPI_Comm comm);
/* Keeps the costs of a communicator for later ones. */
void shim_comm_keep_costs(struct shim_comm *c);
/* Forgets all costs. */
void shim_costs_forget(void);

/* Frees the private communicators of those that the application has freed. */
void shim_comm_sweep(void);

/* Frees the idle work space of all communicators, after the system has refused memory to this rank
 * and the MPI library may need some. Communicators that another thread steps keep theirs. The
 * caller may hold the lock of a communicator. */
void shim_comm_give_back(void);

/* Forgets all communicators at the end of a session. */
void shim_comm_close_all(void);

/* shim/comm/comm_words.c */
/* Warns once of residuals of tensors that have left top-k, when the communicator is freed or the
 * job ends. */
void shim_tell_unsent(struct ss_comm *comm);
/* Warns once of residuals that are lost with communicators that the program frees and makes
 * anew. */
void shim_tell_freed(const struct shim_comm *c);
/* Warns of residuals on a device that has failed since the last call. */
void shim_tell_lost(struct ss_comm *comm);

#endif
