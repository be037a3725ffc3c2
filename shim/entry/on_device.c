/* Calls with buffers in device memory, which the MPI library does not know. */
#include <stdio.h>

#include "shim/entry/calls.h"
#include "shim/entry/learn.h"
#include "shim/job/job.h"
#include "shim/mpi/errors.h"
#include "shim/task/staged_call.h"

static const char *name_of(const struct shim_call *call)
{
    if (call->kind != SS_KIND_ALLGATHER)
        return "MPI_Iallreduce";
    return call->counts ? "MPI_Iallgatherv" : "MPI_Iallgather";
}

int shim_refuse_nonblocking(const struct shim_call *call)
{
    const bool own = atomic_load_explicit(&shim.callbacks.any, memory_order_relaxed);
    char text[400];

    if (shim_learns())
        (void)snprintf(text, sizeof text,
                       "%s with a buffer in device memory, which this MPI library does not know: "
                       "MODE=learn copies such buffers of blocking calls alone; let the trial run "
                       "make blocking calls",
                       name_of(call));
    else
        (void)snprintf(
            text, sizeof text,
            "%s with a buffer in device memory, which this MPI library does not know: it is "
            "served where nonblocking calls are taken over: SPARSESHIM_PROGRESS=watchdog, "
            "from MIN_COUNT elements on, after a blocking call of such a size on the "
            "communicator%s",
            name_of(call),
            own ? ", if that came before the program's own operators and callbacks" : "");
    return shim_raise((MPI_Comm)call->comm, SS_ERR_DEVICE, text);
}
