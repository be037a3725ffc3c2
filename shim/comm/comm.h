/* Communicators of the application that have been seen in an eligible call, and the private ones
 * behind them.
 *
 * The table is our own: a handle is never asked about before the MPI library has accepted it in a
 * call. An attribute without copy function on the application's communicator tells when that is
 * freed.
 */
#ifndef SHIM_COMM_COMM_H
#define SHIM_COMM_COMM_H

#include <mpi.h>

#include "shim/mpi/mpi_transport.h"
#include "shim/mpi/state.h"

enum shim_communicator {
    SHIM_COMM_SERVED,
    SHIM_COMM_PASSES, /* one rank, intercommunicator, or refused on some rank */
    SHIM_COMM_SEEN, /* in one eligible nonblocking call: the ranks meet in the next eligible call */
    SHIM_COMM_MEETING, /* first contact in a nonblocking call: the ranks have not all met yet */
    SHIM_COMM_FAILED   /* a wait outside of core ran out, or this rank could not make a call that
                          others wait for: every later eligible call returns an error */
};

/* What the ranks tell each other at first contact, reduced by MIN: single entries, and for each of
 * up to SHIM_SHARED options that must be equal the hash of its value and the negative of that. */
enum shim_meet {
    SHIM_MEET_OK,
    SHIM_MEET_PROTOCOL_MIN,
    SHIM_MEET_PROTOCOL_MAX, /* negated */
    SHIM_MEET_COSTS,        /* costs of the network are known */
    SHIM_MEET_TIMEOUT,      /* a TIMEOUT is set */
    SHIM_MEET_NONBLOCKING,  /* nonblocking calls are taken over */
    SHIM_MEET_QUORUM,       /* partial calls can be served */
    SHIM_MEET_TRACE,        /* a TRACE is wanted */
    SHIM_MEET_NUMBER,       /* of the first rank: no other first contact under way has it */
    SHIM_MEETING
};

/* Of the private communicator, made by a thread of ours where the first contact is nonblocking. */
enum shim_creation { SHIM_NOT_CREATED, SHIM_CREATING, SHIM_CREATED, SHIM_NOT_TO_BE_HAD };

enum { SHIM_SHARED = 32 };

/* MPICH has about 2044 communicators for a process: a program is left at least 1960 of them. */
enum { SHIM_PRIVATES = 64 };

struct shim_comm {
    struct shim_comm *next; /* in its bucket, or among the dropped */
    MPI_Comm handle;        /* the application's */
    unsigned refs;          /* under table_lock: the table's, and one for each call under way */
    _Atomic(enum shim_communicator) state; /* changes under `lock`; status stands before FAILED */
    uint64_t number;                       /* in order of first contact */

    /* Under `lock`, as are core and transport. */
    pthread_mutex_t lock;
    uint64_t calls; /* eligible ones so far, the first contact among them */
    _Atomic uint64_t under_way[SS_UNDER_WAY]; /* MODE=topk: by number % SS_UNDER_WAY, the last call
                                                 if the program has not seen it end, else 0 */
    uint64_t started;                         /* core calls begun */
    struct shim_task *queue, *queue_end;      /* those that have started come first */
    struct shim_task *wants;                  /* images; who steps it is to make them next */
    double stepped;                           /* when all of it was stepped last */
    bool polled;                              /* a nonblocking call was made */
    bool listed;                              /* among the active */
    bool nonblocking;                         /* nonblocking calls are taken over, on all ranks */
    bool same_settings;                       /* SERVED: all ranks have the same options */
    bool blocked;         /* a blocking call has ended: contact was over then, on
                             all ranks at the same of their calls */
    uint64_t native_from; /* no more from that call on, 0 = they still are: a rank has callbacks
                             (shim/entry/callbacks.h). They go to the MPI library, on the private
                             communicator, behind those taken over */
    atomic_bool natively; /* the next call is one of these, and none waits for another any more */
    atomic_bool freed;    /* by the application */
    bool freeing;         /* under table_lock: `freer` is in MPI_Comm_free, from which on another
                             thread may be given the handle for a communicator of its own */
    pthread_t freer;

    int status;       /* FAILED: < 0 */
    char failed[400]; /* text of the last call that core has ended with an error */
    int rank;
    int size;
    char name[64]; /* MPI name, cut */

    MPI_Comm private, private_rounds; /* the second one of partial calls alone */
    struct shim_transport transport, rounds;
    struct ss_comm *core;
    bool transport_open, rounds_open;
    struct shim_comm *next_in[SHIM_LISTS]; /* under table_lock */
    bool costs_told;                       /* by DEBUG=info */
    bool costs_kept;
    bool reserved;     /* one of the private communicators that a process may have is its own */
    bool warned;       /* of a meeting that takes long */
    bool follows;      /* made after another was freed that took residuals along */
    bool spare;        /* one of those set aside, never freed */
    bool within_world; /* all its ranks are of MPI_COMM_WORLD */
    MPI_Group group;
    MPI_Request meeting; /* may outlive the call */
    double met;          /* when a nonblocking one began */
    atomic_int creation; /* enum shim_creation */
    struct ss_costs costs;
    long long proposal[SHIM_MEETING + 2 * SHIM_SHARED];
    long long agreed[SHIM_MEETING + 2 * SHIM_SHARED];
};

/* Writes the names and this rank's values of the options that differ between the ranks. */
void shim_comm_differing(const struct shim_comm *c, char *text, size_t size);

/* The entry of a handle with a reference for the caller, or NULL. */
struct shim_comm *shim_comm_get(uintptr_t handle);
void shim_comm_put(struct shim_comm *c);
/* The same inside a callback of MPI, where it may be called with its lock held: makes no MPI call,
 * the next eligible call or the end of the job does. */
void shim_comm_put_later(struct shim_comm *c);

/* All entries, the first met first, each with a reference for the caller; *list is to be freed. 0
 * when memory is short. */
size_t shim_comm_all(struct shim_comm ***list);

/* For first contact. An entry, all zero but for its lock and null handles; NULL when memory and the
 * spares are used up. */
struct shim_comm *shim_comm_allocate(void);
void shim_comm_insert(struct shim_comm *c);
/* Attaches what tells when the application frees the communicator. */
bool shim_comm_attach(MPI_Comm comm);
/* Before MPI_Finalize goes on: no more of the keys that attributes need. */
void shim_comm_end_keys(void);
/* Whether this thread is in the MPI_Comm_free of it. */
bool shim_comm_is_going(uintptr_t handle);
/* After MPI_Finalize: frees the memory of communicators that it has ended. MPI_COMM_WORLD is served
 * until then: of its attributes MPI deletes ours before the application's on one rank, behind them
 * on another, and their callbacks find it served on all ranks or on none. */
void shim_comm_bury(void);
/* Around the application's MPI_Comm_free, in which the entry, NULL where there is none, stays for
 * this thread and its callbacks. *outer is for the end: one such call may be made inside another.
 */
struct shim_comm *shim_comm_begin_free(uintptr_t handle, uintptr_t *outer);
void shim_comm_end_free(struct shim_comm *c, uintptr_t handle, uintptr_t outer, bool freed);
/* Frees what stands behind the entry. Buffers of messages that never ended stay allocated: the MPI
 * library may still read them. */
void shim_comm_release(struct shim_comm *c);

/* shim/comm/ask.c. Whether the delegated call was made on a communicator. Its return value does
 * not tell under MPICH 5, which returns MPI_SUCCESS once a handler of the application has seen the
 * error. Of the question a handler of the application's hears under MPICH 5 alone, once, where the
 * handle is one that was freed. */
bool shim_comm_exists(uintptr_t handle);

/* Whether MPI takes a datatype in a call; no handler of the application's hears of the question.
 * True where no communicator is left to ask on. */
bool shim_type_is_committed(uintptr_t type, const struct shim_comm *c);

/* As shim_operation, also for types of MPI_Type_create_f90_real and _integer, which other ranks may
 * name otherwise. Asks MPI about these, and whether it takes pairs of shim_is_disputed: once each,
 * locally, and no handler of the application's hears of it. After the start of the job. */
bool shim_operation_asked(const struct shim_call *call, enum ss_type *type, enum ss_op *op);
void shim_pairs_forget(void); /* before the MPI library ends: handles may come again */

/* Whether one more communicator is to be had in this process; where its ranks have made the same
 * ones, they all know. */
bool shim_comm_has_room(void);

/* Whether all ranks of a group are in MPI_COMM_WORLD. The ranks of a communicator that reaches
 * beyond it (MPI_Comm_spawn and MPI_Intercomm_merge) all say no: each lacks another's. */
bool shim_comm_within_world(MPI_Group group, int size);

/* Ranks of an intracommunicator that exists; 0 for an intercommunicator. */
int shim_comm_size_of(uintptr_t handle);

/* shim/comm/contact.c. First contact: called by all ranks in the same call, after the native call
 * succeeded. Collective over the communicator; a rank without memory meets the others too. Returns
 * an MPI error code; not MPI_SUCCESS only after a TIMEOUT, bad settings under STRICT, or where no
 * rank can be met any more for want of memory; raised already. */
int shim_comm_contact(uintptr_t handle);

/* The same in a nonblocking call, after the native one was posted; only where the user has asked
 * every rank to take nonblocking calls over (shim_asked_for_requests): a rank at a lower thread
 * level would not come, and nothing can be waited for here. Since the private communicator costs
 * more than a call, it is left to the second eligible call (`seen`). The communicator is MEETING
 * until shim_comm_meet_step has seen all ranks, and calls made meanwhile are queued; or it PASSES
 * at once where this rank cannot, which the others are told. */
int shim_comm_contact_nonblocking(uintptr_t handle, bool seen);

/* The entry with a reference for the caller, or NULL; also where the communicator was only SEEN,
 * and *seen set. */
struct shim_comm *shim_comm_met(uintptr_t handle, bool *seen);
/* For first contact, once the call is known to be in order: one that MPI refuses on some ranks
 * leaves the communicator SEEN on all. */
void shim_comm_forget_seen(uintptr_t handle);

/* Under its lock. A step of the meeting: SS_PENDING, SS_OK where it is SERVED from now on, or why
 * it is not: SS_ERR_PEER, or SS_ERR_TIMEOUT and then it has FAILED. The caller changes the state to
 * PASSES once the calls in the queue are in the MPI library. */
int shim_comm_meet_step(struct shim_comm *c, bool *moved);

/* Where every rank has a TIMEOUT: waits for all ranks before a blocking call of the MPI library, in
 * which no wait can be bounded. Two barriers, polled: a rank that gave up in the first, or in the
 * vote, is missed in the second even where its last message still arrives. SS_OK, or < 0 and c is
 * FAILED. */
int shim_comm_assemble(struct shim_comm *c);

/* shim/comm/group_costs.c: costs measured over the same ranks before; remembers them for later
 * communicators; forgets all. */
struct ss_costs shim_costs_of(MPI_Comm comm);
void shim_comm_keep_costs(struct shim_comm *c);
void shim_costs_forget(void);

/* Frees the private communicators of those the application has freed. */
void shim_comm_sweep(void);

/* Whether the ranks still meet, behind a nonblocking call. */
bool shim_comm_meets(struct shim_comm *c);

/* shim/comm/sizes.c: remembers the size of a communicator until it is freed, as far as there is
 * room. */
void shim_size_remember(uintptr_t comm, int size);
void shim_size_forget(MPI_Comm comm);
bool shim_size_known(MPI_Comm comm);

/* The system has refused this rank memory, and the MPI library may need some next: frees the work
 * space of all communicators that is idle. Communicators that another thread steps keep theirs. The
 * caller may hold the lock of one. */
void shim_comm_give_back(void);

/* Forgets all communicators: the end of a session's. */
void shim_comm_close_all(void);

/* shim/comm/comm_words.c */
/* One warning per job, of rank 0: tensors that automatic registration has refused. */
void shim_tell_refusals(struct ss_comm *comm);
/* Once: what tensors of it that have left top-k still hold back, as it goes or the job ends. */
void shim_tell_held_back(struct ss_comm *comm);
/* It goes before the job ends: what is lost with it is told once, where communicators are made anew
 * all the time. */
void shim_tell_freed(const struct shim_comm *c);
/* And what lay on a device that has failed since the last call. */
void shim_tell_lost(struct ss_comm *comm);

#endif
