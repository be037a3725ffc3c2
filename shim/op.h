/* Eligible calls under way, blocking and nonblocking, from their place in the queue of their
 * communicator to their result.
 *
 * The calls of a communicator run in the order in which the application made them, which is the
 * same on all ranks. The communicator's lock guards its queue, its core and its transport; it is
 * held for one step at a time, and no MPI call under it waits.
 */
#ifndef SHIM_OP_H
#define SHIM_OP_H

#include <mpi.h>

#include "shim/comm.h"
#include "shim/shim.h"

enum shim_stage {
    SHIM_OP_QUEUED,
    SHIM_OP_CORE,   /* core steps it */
    SHIM_OP_NATIVE, /* the MPI library's request runs on the private communicator */
    SHIM_OP_YOURS,  /* blocking: its caller is to run the MPI library's call */
    SHIM_OP_DONE
};

struct shim_op {
    struct shim_op *next;   /* in the queue, or among the finished */
    struct shim_comm *comm; /* with a reference */
    struct shim_call call;
    enum ss_type type;
    enum ss_op op;
    bool blocking;
    bool off;                /* MPI_Pcontrol(0) when the call was made */
    bool polled;             /* a nonblocking call was made on the communicator before */
    struct shim_place place; /* of the call site, MODE=topk */
    struct ss_call_site site;
    uint64_t number; /* of the call on its communicator */
    double begin;    /* of the call, where a trace is wanted */

    atomic_int stage;     /* enum shim_stage */
    struct ss_call *core; /* while it runs */
    uint64_t first, n;    /* the window in hand, in elements */
    MPI_Request native;
    double native_begin;

    int err;     /* MPI_SUCCESS, or what the MPI library returned */
    int status;  /* < 0: an error of ours */
    bool raised; /* its MPI code stands in err */

    /* Nonblocking: the request that the application holds. */
    MPI_Request request;
    struct shim_op **before, *after; /* among those with a request */
    atomic_int holders;    /* the queue's and the request's reference; the last one frees */
    atomic_int completion; /* enum shim_completion */
    atomic_bool completed; /* MPI knows */
    unsigned polls;

    char text[400]; /* of an error; last, so that the rest is cleared without it */
};

/* Makes an operation of a call on a served communicator, whose reference it takes over. */
void shim_op_init(struct shim_op *op, const struct shim_call *call, struct shim_comm *comm,
                  enum ss_type type, enum ss_op sum, bool blocking);

/* Puts it into the queue. */
void shim_op_post(struct shim_op *op);

/* Blocking: steps until it is done, then gives the MPI code, raised where it is an error of ours.
 */
int shim_op_run(struct shim_op *op);

/* Steps the calls of a communicator, under its lock; those done are put in front of *finished.
 * Returns whether something moved. */
bool shim_op_step(struct shim_comm *comm, struct shim_op **finished);

/* The MPI code of a finished operation; an error of ours is raised at the first call. */
int shim_op_code(struct shim_op *op);

/* The same for a communicator that can serve nothing any more. first: it has just happened. */
int shim_refuse(const struct shim_comm *comm, bool first);

/* shim/request.c: a nonblocking operation and its request. NULL when there is no memory. */
struct shim_op *shim_request_start(const struct shim_call *call, struct shim_comm *comm,
                                   enum ss_type type, enum ss_op sum, MPI_Request *request);
void shim_request_deliver(struct shim_op *finished); /* without any lock */

/* Whether a request is one of ours. */
bool shim_request_is_ours(uintptr_t request);

#endif
