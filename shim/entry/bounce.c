/* Calls with buffers in device memory, which the MPI library does not know: it gets images of them
 * on the host. */
#include <sched.h>
#include <stdio.h>

#include "shim/device/memory.h"
#include "shim/device/span.h"
#include "shim/entry/calls.h"
#include "shim/job/job.h"
#include "shim/mpi/errors.h"
#include "shim/mpi/handles.h"

enum { IDLE_POLLS = 16 };

struct bounce {
    const struct gpu_staging *part;
    struct gpu_image *send, *recv; /* NULL: that buffer is the host's, or not touched */
    bool filled;                   /* the image of the receive buffer begins as its copy */
    char why[GPU_STAGING_WHY];
};

static const char *address(const void *buffer, const struct shim_span *span)
{
    return (const char *)((uintptr_t)buffer + (uintptr_t)span->from);
}

/* A buffer of the host stays as it is. False where there is no image to be had. */
static bool take(struct bounce *b, const void *buffer, const struct shim_span *span,
                 struct gpu_image **image)
{
    const char *begin = address(buffer, span);

    if (span->bytes == 0 || !shim_is_device(begin, begin))
        return true;
    *image = b->part->take(begin, span->bytes, shim.mem.limit / 2, false, b->why);
    return *image != NULL;
}

/* What the call is to see in place of a buffer. */
static void *seen(const struct bounce *b, const struct gpu_image *image,
                  const struct shim_span *span)
{
    return (void *)((uintptr_t)b->part->host(image) - (uintptr_t)span->from);
}

static bool prepare(struct bounce *b, struct shim_call *call, const struct shim_span *send,
                    const struct shim_span *recv)
{
    const bool in_place = shim_in_place(call), one = call->send == call->recv;

    if (!take(b, call->recv, recv, &b->recv) ||
        (!in_place && !one && !take(b, call->send, send, &b->send)))
        return false;
    b->filled = in_place || one || !recv->full;
    if (b->send)
        call->send = seen(b, b->send, send);
    if (b->recv) {
        call->known_as = call->recv;
        call->recv = seen(b, b->recv, recv);
    }
    if (one && b->recv)
        call->send = call->recv; /* an error, for the library to name */
    return true;
}

static bool wait_for(struct bounce *b, struct gpu_image *image)
{
    int status;

    for (unsigned turn = 1; (status = b->part->poll(image)) > 0; turn++)
        if (turn % IDLE_POLLS == 0)
            sched_yield();
    if (status < 0)
        (void)snprintf(b->why, sizeof b->why, "%s", b->part->error(image));
    return status == 0;
}

static bool come_in(struct bounce *b)
{
    bool done = true;

    if (b->send)
        b->part->download(b->send);
    if (b->recv && b->filled)
        b->part->download(b->recv);
    if (b->send)
        done = wait_for(b, b->send);
    if (b->recv && b->filled)
        done = wait_for(b, b->recv) && done;
    return done;
}

static bool go_out(struct bounce *b)
{
    if (!b->recv)
        return true;
    b->part->upload(b->recv);
    return wait_for(b, b->recv);
}

static void give_back(const struct bounce *b)
{
    if (b->send)
        b->part->give(b->send);
    if (b->recv)
        b->part->give(b->recv);
}

static int failed(const struct shim_call *call, const struct bounce *b)
{
    char text[300];

    (void)snprintf(text, sizeof text, "a buffer in device memory cannot be copied: %s", b->why);
    return shim_raise((MPI_Comm)call->comm, SS_ERR_DEVICE, text);
}

/* The error handler of the program may not return: it comes last. */
int shim_bounced(shim_route_fn *route, const struct shim_call *call)
{
    struct bounce b = {.part = shim_staging()};
    struct shim_span send, recv;
    struct shim_call on_host = *call;
    int err = MPI_SUCCESS;
    bool done;

    shim_job_start_if_up();
    if (!shim_spans(call, &send, &recv))
        return route(call, NULL);
    done = prepare(&b, &on_host, &send, &recv) && come_in(&b);
    if (done)
        err = route(&on_host, NULL);
    if (done && err == MPI_SUCCESS)
        done = go_out(&b);
    give_back(&b);
    return done ? err : failed(call, &b);
}

int shim_refuse_device(uintptr_t comm, const char *name)
{
    char text[300];

    (void)snprintf(text, sizeof text,
                   "%s with a buffer in device memory, which this MPI library does not know: "
                   "blocking calls are served",
                   name);
    return shim_raise((MPI_Comm)comm, SS_ERR_DEVICE, text);
}
