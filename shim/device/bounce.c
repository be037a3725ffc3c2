#include "shim/device/bounce.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/fpenv.h"
#include "core/place/place_costs.h"
#include "shim/device/held.h"
#include "shim/device/memory.h"
#include "shim/device/span.h"
#include "shim/mpi/errors.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"

enum { IDLE_POLLS = 16 };

/* A buffer of the host stays as it is. False where there is no image to be had. */
static bool take(struct shim_bounce *b, const void *buffer, const struct shim_span *span, bool wait,
                 struct gpu_image **image)
{
    const void *begin = (const void *)((uintptr_t)buffer + (uintptr_t)span->from);

    if (span->bytes == 0 || !shim_is_device(begin, begin))
        return true;
    *image = shim_staging()->take(begin, span->bytes, shim.mem.limit / 2, !wait, b->why);
    return *image != NULL;
}

/* What the call is to see in place of a buffer. */
static void *seen(const struct gpu_image *image, const struct shim_span *span)
{
    return (void *)((uintptr_t)shim_staging()->host(image) - (uintptr_t)span->from);
}

bool shim_bounce_begin(struct shim_bounce *b, const struct shim_call *call)
{
    struct shim_span send, recv;

    *b = (struct shim_bounce){.device_send = call->send, .device_recv = call->recv};
    return shim_spans(call, &send, &recv);
}

/* What lies between the slices of an allgatherv is the program's, and may change meanwhile. */
static bool list_written(struct shim_bounce *b, const struct shim_call *call,
                         const struct shim_span *recv)
{
    struct shim_span *slices;

    if (!b->recv || call->kind != SS_KIND_ALLGATHER || !call->counts || recv->full)
        return true;
    slices = shim_slices(call, &b->ranges);
    b->written = slices ? calloc(b->ranges + 1, sizeof *b->written) : NULL;
    for (size_t i = 0; b->written && i < b->ranges; i++)
        b->written[i] = (struct gpu_range){(size_t)(slices[i].from - recv->from), slices[i].bytes};
    free(slices);
    if (!b->written)
        (void)snprintf(b->why, sizeof b->why, "no memory");
    return b->written != NULL;
}

static bool take_both(struct shim_bounce *b, struct shim_call *call, bool wait)
{
    const bool in_place = shim_in_place(call), one = call->send == call->recv;
    struct shim_span send, recv;

    if (!shim_spans(call, &send, &recv) || !take(b, call->recv, &recv, wait, &b->recv) ||
        (!in_place && !one && !take(b, call->send, &send, wait, &b->send)) ||
        !list_written(b, call, &recv))
        return false;
    b->filled = in_place || one || !recv.full;
    b->host_send = b->send ? seen(b->send, &send) : call->send;
    b->host_recv = b->recv ? seen(b->recv, &recv) : call->recv;
    if (one && b->recv)
        b->host_send = b->host_recv; /* an error, for the library to name */
    return true;
}

bool shim_bounce_take(struct shim_bounce *b, struct shim_call *call, bool wait)
{
    if (!b->taken)
        b->lacking = !take_both(b, call, wait);
    b->taken = true;
    b->failed = b->failed || b->lacking;
    if (b->frame && !b->held && (b->send || b->recv))
        b->held = shim_hold(b, b->frame);
    if (b->failed)
        return false;
    call->send = b->host_send;
    call->recv = b->host_recv;
    return true;
}

/* The same range is one buffer; others have nothing in common. */
static bool lie_apart(const void *a, size_t bytes, const void *b, size_t of_b)
{
    const uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;

    return first >= second ? first - second >= of_b : second - first >= bytes;
}

static void tell_not_used(const char *why)
{
    shim_say(CFG_DEBUG_WARN,
             "a device is not used, its buffers are copied to the host and the results back: %s",
             why);
}

static void learn_costs(struct ss_place *place)
{
    const struct ss_place_costs *costs;

    if (!place || ss_costs_fixed(&shim.settings) || !ss_place_measure(place))
        return;
    (void)shim_staging()->lacked(place); /* no call of the program's */
    costs = ss_place_costs(place);
    const ss_fpenv program = ss_fpenv_enter();
    shim_say(CFG_DEBUG_TRACE,
             "costs in device memory: %.2g ns per entry encoded, %.2g decoded, %.2g put, %.2g ns "
             "per byte cleared, %.2g copied, %.2g us a message, %.2g us a wait",
             costs->encode * 1e9, costs->decode * 1e9, costs->put * 1e9, costs->fill * 1e9,
             costs->cross * 1e9, costs->message * 1e6, costs->wait * 1e6);
    ss_fpenv_leave(program);
}

static struct ss_place *place_of(struct shim_bounce *b, const struct shim_call *call,
                                 enum ss_type type)
{
    const bool in_place = shim_in_place(call);
    const void *send = in_place ? b->device_recv : b->device_send;
    /* A gather may be of words longer than those of `type`. */
    const size_t size = call->kind == SS_KIND_ALLGATHER ? sizeof(uint64_t) : ss_type_size(type);
    struct shim_span in, out;
    char why[GPU_STAGING_WHY] = "";
    struct ss_place *place;

    if (((uintptr_t)send | (uintptr_t)b->device_recv) % size != 0 || !shim_spans(call, &in, &out) ||
        in.from != 0 || out.from != 0 || out.bytes == 0)
        return NULL;
    if (!in_place && !lie_apart(send, in.bytes, b->device_recv, out.bytes))
        return NULL;
    place = shim_staging()->place(send, in_place ? out.bytes : in.bytes, b->device_recv, out.bytes,
                                  why);
    if (why[0])
        tell_not_used(why);
    learn_costs(place);
    return place;
}

void shim_bounce_learn(const struct shim_bounce *b)
{
    learn_costs(b->place);
}

/* Merged calls have their buffers on the host. */
static void tell_alone(const struct shim_bounce *b)
{
    if (!b->place || shim.settings.merge == 0 || shim.rank != 0 ||
        atomic_exchange(&shim.alone_device_told, true))
        return;
    shim_say(CFG_DEBUG_INFO, "SPARSESHIM_MERGE is for buffers of the host: calls with buffers "
                             "in device memory are sent each by itself");
}

void shim_bounce_tell_memory(const struct shim_bounce *b, const struct shim_call *call,
                             enum ss_type type)
{
    char why[GPU_STAGING_WHY];

    if (!b || !b->place || atomic_load(&shim.memory_device_told) ||
        !shim_staging()->lacked(b->place) || atomic_exchange(&shim.memory_device_told, true))
        return;
    (void)snprintf(why, sizeof why,
                   "no memory on it for a call of %lld %s, as for others that need so much",
                   (long long)call->count, ss_type_name(type));
    tell_not_used(why);
}

bool shim_bounce_is_long(const struct shim_call *call, enum ss_type type)
{
    return call->kind == SS_KIND_ALLREDUCE && (uint64_t)call->count * ss_type_size(type) > SS_PIECE;
}

void shim_bounce_place(struct shim_bounce *b, const struct shim_call *call, enum ss_type type)
{
    const bool one_window = call->kind != SS_KIND_ALLREDUCE || (uint64_t)call->count <= SS_WINDOW;
    const bool whole = shim.settings.quorum == SS_QUORUM_ALL; /* partial calls are the host's */

    if (!whole && shim.rank == 0 && !atomic_exchange(&shim.quorum_device_told, true))
        tell_not_used("SPARSESHIM_QUORUM has its rounds on the host");
    b->place = one_window && whole ? place_of(b, call, type) : NULL;
    if (b->place && call->kind == SS_KIND_ALLREDUCE && !shim_pieces_reserve())
        b->place = NULL;
    tell_alone(b);
}

static void come_behind(struct gpu_image *image)
{
    if (image)
        shim_staging()->behind(image);
}

/* The result goes back behind the same: what the program queues meanwhile may wait for this call.
 */
void shim_bounce_in(struct shim_bounce *b, bool joined)
{
    b->images = SHIM_IMAGES_COMING;
    come_behind(b->send);
    come_behind(b->recv);
    if (b->send && !joined)
        shim_staging()->download(b->send);
    if (b->recv && (b->filled || joined))
        shim_staging()->download(b->recv);
}

void shim_bounce_out(struct shim_bounce *b)
{
    b->images = SHIM_IMAGES_GOING;
    if (b->recv)
        shim_staging()->upload(b->recv, b->written, b->ranges);
}

static int poll_one(struct shim_bounce *b, struct gpu_image *image)
{
    const int status = image ? shim_staging()->poll(image) : 0;

    if (status < 0)
        (void)snprintf(b->why, sizeof b->why, "%s", shim_staging()->error(image));
    b->moved = b->moved || status > 1;
    return status;
}

int shim_bounce_poll(struct shim_bounce *b)
{
    int status, other;

    b->moved = false;
    status = poll_one(b, b->send);
    other = poll_one(b, b->recv);
    if (status == 0 || other > 0) /* nothing is over before both are */
        status = other;
    if (status == 0 && b->images == SHIM_IMAGES_COMING)
        b->images = SHIM_IMAGES_FILLED;
    return status;
}

bool shim_bounce_finish(struct shim_bounce *b)
{
    int status;

    for (unsigned turn = 1; (status = shim_bounce_poll(b)) > 0; turn++)
        if (turn % IDLE_POLLS == 0)
            sched_yield();
    return status == 0;
}

bool shim_bounce_fill(struct shim_call *call, bool joined)
{
    struct shim_bounce *b = call->bounce;

    if (!b)
        return true;
    if (!shim_bounce_take(b, call, true))
        return false;
    if (b->images == SHIM_IMAGES_EMPTY)
        shim_bounce_in(b, joined);
    b->failed = !shim_bounce_finish(b);
    return !b->failed;
}

void shim_bounce_give(const struct shim_bounce *b)
{
    if (b->send)
        shim_staging()->give(b->send);
    if (b->recv)
        shim_staging()->give(b->recv);
    free(b->written);
}

int shim_bounce_failed(uintptr_t comm, const struct shim_bounce *b)
{
    char text[300];

    (void)snprintf(text, sizeof text, "a buffer in device memory cannot be copied: %s", b->why);
    return shim_raise((MPI_Comm)comm, SS_ERR_DEVICE, text);
}
