/* Eligible calls in progress, blocking and nonblocking, from the queue of their communicator to
 * their result.
 *
 * The calls of a communicator, and their calls of the MPI library, start in the order in which the
 * application made them, which is the same on all ranks. Nonblocking calls run concurrently as far
 * as core has room (ss_comm_slot); a blocking call has the communicator to itself. The
 * communicator's lock guards its queue, its core and its transport. It is held for one step at a
 * time, and no MPI call under it waits.
 */
#ifndef SHIM_TASK_TASK_H
#define SHIM_TASK_TASK_H

#include "shim/comm/comm.h"
#include "shim/mpi/mpi_names.h"
#include "shim/mpi/state.h"

enum shim_stage {
    SHIM_TASK_QUEUED,
    SHIM_TASK_CORE, /* core steps it */
    /* goes to the MPI library, after earlier calls that may still do so or are not posted */
    SHIM_TASK_HELD,
    SHIM_TASK_COPIES, /* buffers are copied for the MPI library's request */
    SHIM_TASK_NATIVE, /* the MPI library's request is active on the private communicator */
    SHIM_TASK_YOURS,  /* blocking: the caller must run the MPI library's call */
    SHIM_TASK_DONE
};

/* The content of the buffers. Set by shim/task/layout.c when the task is made. */
struct shim_content {
    uint64_t words; /* all kinds but the allreduce: elements of all slices together */
    /* allgatherv: first elements of the ranks' slices, owned; NULL: equal slices */
    uint32_t *parts;
    void *lists;          /* nonblocking: copies of counts and displacements, owned */
    MPI_Datatype kept[2]; /* nonblocking: copies of datatypes that the application made */
    bool cannot;          /* this rank's arguments are not served */
};

/* What held when the call was made. Set by shim_task_init and shim_task_post, and told to core with
 * each window. */
struct shim_posted {
    uint64_t number;                 /* number of the call on its communicator */
    double begin;                    /* time of the call, if a trace is wanted */
    bool off;                        /* MPI_Pcontrol(0) was in effect */
    bool environment;                /* a sum of floats with traps or a rounding mode */
    bool polled;                     /* a nonblocking call was made on the communicator before */
    struct shim_code_address caller; /* call site, MODE=topk */
    struct ss_call_site site;        /* its buffer is that of the window */
};

/* The window in pieces. Written by shim/task/native_pieces.c, under the communicator's lock. */
struct shim_pieces {
    uint64_t size;   /* elements that the MPI library gets at once, 0: all; set by native.c */
    uint64_t summed; /* pieces that it has summed */
    int lost;        /* one of them could not be copied or summed, here or on any rank */
    bool agrees;     /* the ranks have been asked for `lost` */
    bool posted;     /* the request is of a piece, or of that question */
    int refusal;     /* the first error that the MPI library gave there */
};

/* The part of the MPI library. Written by shim/task/native.c, under the communicator's lock; of a
 * blocking call in SHIM_TASK_YOURS, by its caller. */
struct shim_native {
    MPI_Request request;
    double begin;    /* time when it began */
    double copying;  /* seconds, of the buffers to the host */
    const void *in;  /* NULL: in place */
    int barriers;    /* barriers still to run before it */
    bool assembling; /* the request is a barrier */
    bool whole;      /* the request is the whole call with all its windows */
    struct shim_pieces pieces;
};

/* A reduction with an operator of the program: shim/task/user_operator.c. */
enum shim_user_stage {
    SHIM_USER_IDLE,  /* none, or it has ended */
    SHIM_USER_WAITS, /* counts in shim.callbacks.user_waiting */
    SHIM_USER_RUNS   /* posted: no thread of the shim calls MPI until it has ended */
};

/* Nonblocking: the request that the application holds. Written by shim/task/request.c. */
struct shim_request {
    MPI_Request handle;
    /* links among the tasks with a request, and if the application has freed this one: under the
     * lock of the requests */
    struct shim_task **before, *after;
    bool let_go;
    atomic_int holders;     /* references of the queue and of the request; the last one frees */
    atomic_int completion;  /* enum shim_completion */
    atomic_bool waited_for; /* MERGE: the program waits or tests for it */
    atomic_bool failed;     /* ended with an error, which the next poll raises */
    unsigned polls;         /* of the threads that wait for it */
};

/* Until it is posted a task belongs to the thread that makes it, then it is under its
 * communicator's lock. The caller of a blocking call reads `stage` without it, and owns the task in
 * SHIM_TASK_YOURS and SHIM_TASK_DONE. */
struct shim_task {
    struct shim_task *next; /* in the queue, or in the list of finished tasks */
    struct shim_comm *comm; /* with a reference */
    struct shim_call call;
    enum ss_type type;
    enum ss_op op;
    bool blocking;
    bool at_once; /* a nonblocking call without memory for a request */
    bool broken;  /* its buffers cannot be read: its vote fails the communicator */
    struct shim_content content;
    struct shim_posted posted;

    atomic_int stage;     /* enum shim_stage */
    struct ss_call *core; /* core call in progress */
    uint64_t first, n;    /* current window, in elements */
    struct shim_native native;
    enum shim_user_stage user;

    int err;      /* MPI_SUCCESS, or the error of the MPI library */
    bool refused; /* the error came on the private communicator, whose handler is silent */
    int status;   /* < 0: an error of this library */
    bool raised;  /* `err` is the MPI code of `status` */
    /* exceptions of core/base/fpenv.h, to be raised in the thread that sees the call end */
    unsigned exceptions;

    struct shim_request request;
    char text[400]; /* text of an error; last, so that initialisation can skip it */
};

/* Makes a task of a call on a served communicator, and takes over the caller's reference. Returns
 * false if memory is short; a blocking task needs none. */
bool shim_task_init(struct shim_task *task, const struct shim_call *call, struct shim_comm *comm,
                    enum ss_type type, enum ss_op sum, bool blocking);

/* Raises the exceptions of the call's sums in the thread of the program that sees it end. Includes
 * exceptions of sums that the MPI library has made in threads of the shim. */
void shim_task_raise(struct shim_task *task);

/* shim/task/layout.c: returns the bytes of an element; 0 for a handle that is no datatype. The type
 * of a call on an unknown communicator was accepted by the MPI library. */
uint64_t shim_size_of(uintptr_t type);
/* Returns the bytes that a call of another kind moves or reduces on `size`
 * ranks, equal on all ranks; 0 if they are unknown. */
uint64_t shim_bytes(const struct shim_call *call, int size);
/* Returns the same as if each rank's slice were as long as the first rank's. */
uint64_t shim_even_bytes(const struct shim_call *call, int size);
/* Returns false for a reduce_scatter whose ranks get different numbers of elements. */
bool shim_parts_are_equal(const struct shim_call *call, int size);
/* Sets type and content. */
void shim_layout(struct shim_task *task);

/* Replaces the lists and datatypes of a nonblocking call by copies, since the application may free
 * its own before the call has ended. Called outside of MPI's callbacks. Returns false if memory is
 * short. */
bool shim_layout_keep(struct shim_task *task);
/* Frees the copies of datatypes, outside of MPI's callbacks. */
void shim_layout_let_go(struct shim_content *content);

/* Frees the memory that the task owns. */
void shim_task_close(struct shim_task *task);

/* Appends the task to the queue. */
void shim_task_post(struct shim_task *task);

/* A buffer cannot be copied to or from the host: the error of the call. */
void shim_task_fail_for_device(struct shim_task *task);

/* Fails the communicator if this rank cannot make a call and cannot say so to the other ranks,
 * whose calls wait for it: no later call may take its place. Called under the lock. */
void shim_native_fail_comm(struct shim_comm *comm);

/* Steps the calls of a communicator, under its lock. Returns true if something moved. Sets *left to
 * the work that remains to be done without the lock. */
bool shim_task_step(struct shim_comm *comm, struct shim_left *left);
/* Does that work. */
void shim_task_leave(const struct shim_left *left);

/* Returns the MPI code of a finished task. The first call raises an error of this library. */
int shim_task_code(struct shim_task *task);

/* Returns the MPI code for a communicator that has failed, and raises it. */
int shim_refuse(const struct shim_comm *comm);

/* shim/task/request.c: makes a nonblocking task with its request, which the caller posts. Returns
 * NULL without memory. */
struct shim_task *shim_request_start(const struct shim_call *call, struct shim_comm *comm,
                                     enum ss_type type, enum ss_op sum, void *request);
/* Without any lock. */
void shim_request_deliver(struct shim_task *finished);

/* shim/task/serve.c: serves an eligible call on a communicator whose ranks have agreed, and takes
 * over the reference. request NULL: blocking. Returns the MPI code. */
int shim_serve(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
               enum ss_op op, void *request);

/* shim/task/user_operator.c: counts a nonblocking reduction with an operator of the program on a
 * served communicator, whose nonblocking calls go to the MPI library from this call on. Returns
 * true if it can be posted at once: no call before it needs a thread of the shim. Otherwise changes
 * nothing and returns false. */
bool shim_user_is_at_once(struct shim_comm *comm);
/* Makes a task that is posted after the calls of `comm` in progress. Returns false without
 * memory. */
bool shim_user_queue(const struct shim_call *call, struct shim_comm *comm, void *request);
/* Replaces the request of a reduction that is posted already, with threads of the shim stopped, by
 * a request whose end lets them in again. Returns false without memory. */
bool shim_user_adopt(const struct shim_call *call, void *request);

/* Returns true if a nonblocking call may be taken over now. */
static inline bool shim_takes_requests(void)
{
    return shim.requests.taken && !atomic_load(&shim.process.finalizing);
}

/* Returns true if a request belongs to this library. */
bool shim_request_is_ours(uintptr_t request);

#endif
