/* Calls with buffers in device memory, which the MPI library does not know: it gets images of them
 * on the host. */
#include <stdio.h>

#include "shim/device/held.h"
#include "shim/device/memory.h"
#include "shim/entry/calls.h"
#include "shim/job/job.h"
#include "shim/mpi/errors.h"

static void let_go(struct shim_bounce *b)
{
    (void)shim_bounce_finish(b);
    shim_bounce_give(b);
    shim_staging()->trim();
}

/* Who needs the images makes and fills them: shim_pass_for, and the operation of a call that is
 * served. The error handler of the program may not return: it comes last. */
int shim_bounced(shim_route_fn *route, const struct shim_call *call)
{
    struct shim_call bounced = *call;
    struct shim_bounce b;
    bool done;
    int err;

    shim_job_start_if_up();
    shim_give_abandoned(&b);
    if (!shim_bounce_begin(&b, call))
        return route(call, NULL);
    b.frame = &b;
    bounced.bounce = &b;
    err = route(&bounced, NULL);
    done = !b.failed;
    if (done && err == MPI_SUCCESS && b.images == SHIM_IMAGES_FILLED) {
        shim_bounce_out(&b);
        done = shim_bounce_finish(&b);
    }
    shim_unhold(b.held);
    let_go(&b);
    if (done && err == MPI_SUCCESS)
        shim_bounce_learn(&b);
    return done ? err : shim_bounce_failed(call->comm, &b);
}

static const char *name_of(const struct shim_call *call)
{
    if (call->kind != SS_KIND_ALLGATHER)
        return "MPI_Iallreduce";
    return call->counts ? "MPI_Iallgatherv" : "MPI_Iallgather";
}

int shim_refuse_nonblocking(const struct shim_call *call)
{
    const bool own = atomic_load_explicit(&shim.callbacks, memory_order_relaxed);
    char text[400];

    (void)snprintf(text, sizeof text,
                   "%s with a buffer in device memory, which this MPI library does not know: it is "
                   "served where nonblocking calls are taken over: SPARSESHIM_PROGRESS=watchdog, "
                   "from MIN_COUNT elements on, after a blocking call of such a size on the "
                   "communicator%s",
                   name_of(call),
                   own ? ", if that came before the program's own operators and callbacks" : "");
    return shim_raise((MPI_Comm)call->comm, SS_ERR_DEVICE, text);
}
