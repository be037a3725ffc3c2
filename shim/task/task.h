/* Eligible calls under way, blocking and nonblocking, from their place in the queue of their
 * communicator to their result.
 *
 * The calls of a communicator start in the order in which the application made them, which is the
 * same on all ranks, and their parts in the MPI library do. Nonblocking ones run beside each other
 * as far as core has room for them (ss_comm_slot); a blocking one has the communicator to itself.
 * The communicator's lock guards its queue, its core and its transport; it is held for one step at
 * a time, and no MPI call under it waits.
 */
#ifndef SHIM_TASK_TASK_H
#define SHIM_TASK_TASK_H

#include <mpi.h>

#include "shim/comm/comm.h"
#include "shim/mpi/state.h"

enum shim_stage {
    SHIM_TASK_QUEUED,
    SHIM_TASK_CORE,   /* core steps it */
    SHIM_TASK_HELD,   /* the MPI library's; earlier calls may still become so, or are not posted */
    SHIM_TASK_WANTS,  /* images of its buffers are to be made, by who holds no lock */
    SHIM_TASK_IMAGES, /* buffers are copied for the MPI library's request */
    SHIM_TASK_NATIVE, /* the MPI library's request runs on the private communicator */
    SHIM_TASK_YOURS,  /* blocking: its caller is to run the MPI library's call */
    SHIM_TASK_DONE
};

struct shim_task {
    struct shim_task *next; /* in the queue, or among the finished */
    struct shim_comm *comm; /* with a reference */
    struct shim_call call;
    enum ss_type type;
    enum ss_op op;
    uint32_t *parts;      /* allgatherv: where the ranks' slices begin; owned. NULL: equal slices */
    void *lists;          /* nonblocking: its counts and displacements; owned */
    MPI_Datatype kept[2]; /* nonblocking: datatypes of ours for those the application made */
    uint64_t words;       /* all kinds but the allreduce: elements of all parts together */
    bool cannot;          /* this rank's arguments are not served */
    bool unread;          /* its buffers cannot be copied: it takes part with zeros, in pieces; */
    bool broken;          /* or in the vote alone, which then fails the communicator */
    bool blocking;
    bool at_once;            /* and nonblocking all the same: there was no memory for a request */
    bool off;                /* MPI_Pcontrol(0) when the call was made */
    bool environment;        /* a sum of floats, made with traps or a rounding mode */
    bool polled;             /* a nonblocking call was made on the communicator before */
    struct shim_place place; /* of the call site, MODE=topk */
    struct ss_call_site site;
    uint64_t number;  /* of the call on its communicator */
    uint64_t started; /* core calls begun there when it went to the MPI library */
    double begin;     /* of the call, where a trace is wanted */

    atomic_int stage;     /* enum shim_stage */
    struct ss_call *core; /* while it runs */
    uint64_t first, n;    /* the window in hand, in elements */
    MPI_Request native;
    double native_begin;
    double copying;        /* seconds, of the buffers into their images */
    const void *native_in; /* NULL: in place */
    int barriers;          /* still to come before it */
    bool assembling;       /* the request is that of a barrier */
    bool whole;            /* it is that of the call as it came, with all windows */
    bool waits;            /* call.own: it counts in shim.own_waiting; */
    bool bars;             /* it is posted, and bars threads of ours from MPI until it has ended */
    uint64_t piece;        /* elements that it gets at once, 0: all (shim/task/native_pieces.c); */
    uint64_t summed;       /* pieces that it has summed; */
    int lost;              /* one of them could not be copied or summed, here or on any rank */
    bool agrees;           /* which the ranks have been asked; */
    bool posted;           /* the request is of one of them, or of that question */
    int refusal;           /* the first error that the MPI library gave there */

    int err;             /* MPI_SUCCESS, or what the MPI library returned */
    bool refused;        /* it did so on the private communicator, whose handler says nothing */
    int status;          /* < 0: an error of ours */
    bool raised;         /* its MPI code stands in err */
    unsigned exceptions; /* of core/base/fpenv.h, to be raised in the thread that sees it end */

    /* Nonblocking: the request that the application holds. */
    MPI_Request request;
    struct shim_task **before, *after; /* among those with a request */
    atomic_int holders;    /* the queue's and the request's reference; the last one frees */
    atomic_int completion; /* enum shim_completion */
    atomic_bool completed; /* MPI knows */
    atomic_bool awaited;   /* MERGE: the program waits or tests for it */
    atomic_bool failed;    /* it has ended with an error, which its next poll is to raise */
    bool let_go;           /* the request is no longer the application's; under requests_lock */
    unsigned polls;

    char text[400]; /* of an error; last, so that the rest is cleared without it */
};

/* Makes an operation of a call on a served communicator, whose reference it takes over. False when
 * memory is short, which a blocking one does not need. */
bool shim_task_init(struct shim_task *task, const struct shim_call *call, struct shim_comm *comm,
                    enum ss_type type, enum ss_op sum, bool blocking);

/* shim/task/made.c: a call has its number, under the communicator's lock; the program has seen one
 * end, or let go of it, in any thread. */
void shim_task_made(struct shim_task *task);
void shim_task_seen(struct shim_task *task);

/* Raises what its sums have raised, in the thread of the program that sees it end: its own and
 * those of the MPI library's that threads of ours have made. */
void shim_task_raise(struct shim_task *task);

/* shim/task/layout.c: bytes that a call of another kind moves or reduces on `size` ranks, equal on
 * all of them; 0 where they cannot be told. And what core needs to know of it: words, parts,
 * cannot. */
uint64_t shim_bytes(const struct shim_call *call, int size);
/* The same if each rank's slice of an allgatherv were as long as the first rank's. */
uint64_t shim_even_bytes(const struct shim_call *call, int size);
void shim_layout(struct shim_task *task);

/* The application may free its datatypes before its nonblocking call has ended: from here on the
 * call names datatypes of the operation, until they are freed. Both outside of MPI's callbacks. */
void shim_layout_keep(struct shim_task *task);
void shim_layout_let_go(struct shim_task *task);

/* Frees what it owns. */
void shim_task_close(struct shim_task *task);

/* Puts it into the queue. */
void shim_task_post(struct shim_task *task);

/* A buffer cannot be copied to or from the host: the error of the call. */
void shim_task_fail_for_device(struct shim_task *task);

/* A call cannot be made, and the other ranks, whose calls wait for it, cannot be told: none that
 * follows may take its place. Under the lock. */
void shim_native_fail_comm(struct shim_comm *comm);

/* Blocking: steps until it is done, then gives the MPI code, raised where it is an error of ours.
 */
int shim_task_run(struct shim_task *task);

/* Steps the calls of a communicator, under its lock. Returns whether something moved; *left: what
 * is to be done next, without the lock. */
bool shim_task_step(struct shim_comm *comm, struct shim_left *left);
void shim_task_leave(const struct shim_left *left);

/* The MPI code of a finished operation; an error of ours is raised at the first call. */
int shim_task_code(struct shim_task *task);

/* The same for a communicator that can serve nothing any more. */
int shim_refuse(const struct shim_comm *comm);

/* shim/task/request.c: a nonblocking operation and its request, which the caller posts. NULL when
 * there is no memory. */
struct shim_task *shim_request_start(const struct shim_call *call, struct shim_comm *comm,
                                     enum ss_type type, enum ss_op sum, MPI_Request *request);
/* Without any lock. Whether images were given back: shim_staging()->trim is to follow. */
bool shim_request_deliver(struct shim_task *finished);

/* An eligible call on a communicator that has been met; takes over the reference. request NULL:
 * blocking. Returns the MPI code. */
int shim_on_known(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                  enum ss_op op, void *request);

/* shim/task/own.c: counts a nonblocking reduction with an operator of the program's on a served
 * communicator, whose nonblocking calls are the MPI library's from this one on, and returns true if
 * it can be posted at once: no call before it needs a thread of ours. If one does, changes nothing.
 */
bool shim_own_is_at_once(struct shim_comm *comm);
/* Makes a task of it, which is posted behind the calls of `comm` that are under way. False: no
 * memory. */
bool shim_own_queue(const struct shim_call *call, struct shim_comm *comm, MPI_Request *request);
/* Replaces the request of one that is posted already, with threads of ours barred, by one of ours,
 * whose end lets them in again. False: no memory. */
bool shim_own_adopt(const struct shim_call *call, MPI_Request *request);

/* Whether a nonblocking call may be taken over now. */
static inline bool shim_takes_requests(void)
{
    return shim.takes_requests && !atomic_load(&shim.finalizing);
}

/* Whether a request is one of ours. */
bool shim_request_is_ours(uintptr_t request);

#endif
