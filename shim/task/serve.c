/* Starts calls that are served: blocking ones run to their end. */
#include <stdlib.h>

#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task.h"

static int run(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
               enum ss_op op, bool at_once)
{
    struct shim_task operation;
    int err;

    shim_task_init(&operation, call, comm, type, op, true);
    operation.at_once = at_once;
    shim_task_post(&operation);
    err = shim_task_run(&operation);
    shim_task_close(&operation);
    return err;
}

/* The buffers of a blocking call cannot be copied to the host: it fails on all ranks. */
static int run_unread(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                      enum ss_op op)
{
    struct shim_task operation;
    int err;

    shim_task_init(&operation, call, comm, type, op, true);
    call->staged->failed = false; /* the operation raises it */
    call->staged->copies = SHIM_COPIES_NONE;
    shim_task_fail_for_device(&operation);
    shim_task_post(&operation);
    err = shim_task_run(&operation);
    shim_task_close(&operation);
    return err;
}

/* Runs a call to its end, without memory for a task of its own, and gives the application a request
 * that is complete. */
static int run_at_once(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                       enum ss_op op, void *request)
{
    int err = shim_real.Ibarrier(MPI_COMM_SELF, request);

    pthread_mutex_lock(&comm->lock);
    comm->queue.polled = true; /* as on ranks where it is nonblocking */
    pthread_mutex_unlock(&comm->lock);
    return err == MPI_SUCCESS ? run(call, comm, type, op, true) : err;
}

/* Starts a nonblocking call where its buffers lie, or with copies that are under way when this
 * returns. NULL: no memory. */
static struct shim_task *start_staged(const struct shim_call *call, struct shim_staged *s,
                                      struct shim_comm *comm, enum ss_type type, enum ss_op op,
                                      void *request)
{
    struct shim_call with = *call;
    struct shim_task *operation;

    if (!shim_staged_begin(s, call))
        return NULL;
    if (comm->state != SHIM_COMM_PASSES &&
        !atomic_load(&comm->queue.native_now)) /* else the MPI library's */
        shim_staged_backend(s, call, type);
    if (!s->backend)
        (void)shim_staged_make(s, &with);
    with.on_device = false;
    operation = shim_request_start(&with, comm, type, op, request);
    if (!operation) {
        shim_staged_free(s);
        return NULL;
    }
    operation->call.staged = s; /* owned by the operation from here on */
    if (s->failed)
        shim_task_fail_for_device(operation);
    else if (!s->backend)
        shim_staged_fetch(s, false);
    return operation;
}

static int serve_staged(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                        enum ss_op op, void *request)
{
    static const struct shim_staged no_memory = {.why = "no memory"};
    struct shim_staged *s = malloc(sizeof *s);
    struct shim_task *operation = s ? start_staged(call, s, comm, type, op, request) : NULL;
    int err;

    if (operation) {
        atomic_fetch_add(&shim.stats.nonblocking, 1);
        shim_task_post(operation);
        return MPI_SUCCESS;
    }
    shim_comm_put(comm);
    err = shim_staged_failed(call->comm, s && s->why[0] ? s : &no_memory);
    free(s);
    return err;
}

/* A blocking call. */
static int run_staged(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                      enum ss_op op)
{
    struct shim_call with = *call;

    shim_staged_backend(call->staged, call, type);
    if (call->staged->backend || shim_staged_fill(&with, false))
        return run(&with, comm, type, op, false);
    return run_unread(call, comm, type, op);
}

int shim_serve(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
               enum ss_op op, void *request)
{
    struct shim_task *operation;
    int err;

    if (call->on_device) {
        return serve_staged(call, comm, type, op, request);
    } else if (call->staged) {
        err = run_staged(call, comm, type, op);
    } else if (!request) {
        err = run(call, comm, type, op, false);
    } else if ((operation = shim_request_start(call, comm, type, op, request))) {
        atomic_fetch_add(&shim.stats.nonblocking, 1);
        shim_task_post(operation);
        return MPI_SUCCESS;
    } else {
        err = run_at_once(call, comm, type, op, request);
    }
    shim_comm_put(comm);
    return err;
}
