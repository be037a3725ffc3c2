#include "shim/task/staged_call.h"

#include <sched.h>
#include <stdio.h>

#include "core/backend/backend_costs.h"
#include "core/base/fpenv.h"
#include "shim/device/memory.h"
#include "shim/device/span.h"
#include "shim/mpi/errors.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"

enum { IDLE_POLLS = 16 };

bool shim_staged_begin(struct shim_staged *s, const struct shim_call *call)
{
    const bool by_slices = call->kind == SS_KIND_ALLGATHER && call->counts;

    *s = (struct shim_staged){.send = call->send, .recv = call->recv};
    if (!shim_spans(call, &s->send_span, &s->recv_span))
        return false;
    s->slices = by_slices && !s->recv_span.full ? shim_slices(call) : 0;
    return true;
}

/* ---- served in device memory ---- */

static void tell_not_used(const char *why)
{
    shim_say(CFG_DEBUG_WARN,
             "a device is not used, its buffers are copied to the host and the results back: %s",
             why);
}

/* Returns the backend that both buffers have in common, or NULL. If a device has failed, sets
 * `why`. */
static struct ss_backend *find_backend(struct shim_staged *s, const void *a, const void *b)
{
    char why[GPU_WHY] = "";
    struct ss_backend *backend = shim_door()->backend(a, b, why);

    if (backend && why[0])
        tell_not_used(why);
    if (!backend && why[0])
        (void)snprintf(s->why, sizeof s->why, "%s", why);
    return backend;
}

static void learn_costs(struct ss_backend *backend)
{
    const struct ss_backend_costs *costs;

    if (!backend || ss_costs_fixed(&shim.settings) || !ss_backend_measure(backend))
        return;
    costs = ss_backend_costs(backend);
    const ss_fpenv program = ss_fpenv_enter();
    shim_say(CFG_DEBUG_TRACE,
             "costs in device memory: %.2g ns per entry encoded, %.2g decoded, %.2g put, %.2g ns "
             "per byte cleared, %.2g copied, %.2g us a message, %.2g us a wait",
             costs->encode * 1e9, costs->decode * 1e9, costs->put * 1e9, costs->fill * 1e9,
             costs->cross * 1e9, costs->message * 1e6, costs->wait * 1e6);
    ss_fpenv_leave(program);
}

void shim_staged_learn(const struct shim_staged *s)
{
    learn_costs(s->backend);
}

/* Returns true if two ranges do not overlap. */
static bool lie_apart(const void *a, size_t bytes, const void *b, size_t of_b)
{
    const uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;

    return first >= second ? first - second >= of_b : second - first >= bytes;
}

static struct ss_backend *backend_of(struct shim_staged *s, const struct shim_call *call,
                                     enum ss_type type)
{
    const bool in_place = shim_in_place(call);
    const void *send = in_place ? s->recv : s->send;
    /* A gather may be of words longer than those of `type`. */
    const size_t size = call->kind == SS_KIND_ALLGATHER ? sizeof(uint64_t) : ss_type_size(type);
    const struct shim_span *in = &s->send_span, *out = &s->recv_span;
    struct ss_backend *backend;

    if (((uintptr_t)send | (uintptr_t)s->recv) % size != 0 || in->from != 0 || out->from != 0 ||
        out->bytes == 0)
        return NULL;
    if (!in_place && !lie_apart(send, in->bytes, s->recv, out->bytes))
        return NULL;
    backend = find_backend(s, send, s->recv);
    return backend && backend->ops->reserve ? backend : NULL;
}

/* Logs once that an option has no effect on calls with buffers in device memory. */
static void tell_host_only(const char *option)
{
    if (shim.process.rank == 0 && !atomic_exchange(&shim.problems.host_only_logged, true))
        shim_say(CFG_DEBUG_INFO,
                 "SPARSESHIM_%s is for buffers of the host: calls with buffers in device memory "
                 "do without it",
                 option);
}

void shim_staged_backend(struct shim_staged *s, const struct shim_call *call, enum ss_type type)
{
    const bool one_window = call->kind != SS_KIND_ALLREDUCE || (uint64_t)call->count <= SS_WINDOW;

    if (shim.settings.quorum != SS_QUORUM_ALL)
        tell_host_only("QUORUM");
    else if (one_window)
        s->backend = backend_of(s, call, type);
    if (s->backend && shim.settings.merge > 0)
        tell_host_only("MERGE");
    learn_costs(s->backend);
}

/* ---- copies ---- */

static bool make(struct shim_staged *s, const void *buffer, const struct shim_span *span,
                 struct ss_staged *copy)
{
    const void *begin = (const void *)((uintptr_t)buffer + (uintptr_t)span->from);
    struct ss_backend *backend = s->backend;

    if (span->bytes == 0 || !shim_is_device(begin, begin))
        return true;
    if (!backend && !(backend = find_backend(s, begin, begin)))
        return false;
    if (ss_staged_make(copy, backend, begin, span->bytes))
        return true;
    (void)snprintf(s->why, sizeof s->why, "no memory on the host");
    return false;
}

/* Returns the address that the call gets in place of a buffer. */
static void *seen(const struct ss_staged *copy, const struct shim_span *span)
{
    return (void *)((uintptr_t)copy->host - (uintptr_t)span->from);
}

bool shim_staged_make(struct shim_staged *s, struct shim_call *call)
{
    const bool in_place = shim_in_place(call), one = call->send == call->recv;

    if (s->failed || !make(s, s->recv, &s->recv_span, &s->out) ||
        (!in_place && !one && !make(s, s->send, &s->send_span, &s->in))) {
        s->failed = true;
        return false;
    }
    s->filled = in_place || one || !s->recv_span.full;
    if (s->out.backend)
        call->recv = seen(&s->out, &s->recv_span);
    if (s->in.backend)
        call->send = seen(&s->in, &s->send_span);
    else if (one && s->out.backend)
        call->send = call->recv; /* MPI reports equal buffers as an error */
    return true;
}

void shim_staged_fetch(struct shim_staged *s, bool joined)
{
    s->copies = SHIM_COPIES_COMING;
    if (s->in.backend && !joined)
        ss_staged_fetch(&s->in);
    if (s->out.backend && (s->filled || joined))
        ss_staged_fetch(&s->out);
}

/* Leaves the gaps between the slices of an allgatherv alone: the program may change them meanwhile.
 */
void shim_staged_store(struct shim_staged *s, const struct shim_call *call)
{
    struct shim_span slice;

    s->copies = SHIM_COPIES_GOING;
    if (s->out.backend && s->slices == 0)
        ss_staged_store(&s->out, 0, s->out.bytes);
    for (int r = 0; s->out.backend && r < s->slices; r++)
        if (shim_slice(call, r, &slice))
            ss_staged_store(&s->out, (size_t)(slice.from - s->recv_span.from), slice.bytes);
}

int shim_staged_poll(struct shim_staged *s)
{
    const int in = ss_staged_poll(&s->in), out = ss_staged_poll(&s->out);

    if (in == SS_PENDING || out == SS_PENDING)
        return SS_PENDING;
    if (in < 0 || out < 0)
        (void)snprintf(s->why, sizeof s->why, "%s",
                       shim_door()->error(in < 0 ? s->in.backend : s->out.backend));
    else if (s->copies == SHIM_COPIES_COMING)
        s->copies = SHIM_COPIES_FILLED;
    return in < 0 ? in : out;
}

bool shim_staged_finish(struct shim_staged *s)
{
    int status;

    for (unsigned round = 1; (status = shim_staged_poll(s)) == SS_PENDING; round++)
        if (round % IDLE_POLLS == 0)
            sched_yield();
    return status == SS_OK;
}

bool shim_staged_fill(struct shim_call *call, bool joined)
{
    struct shim_staged *s = call->staged;

    if (!s)
        return true;
    if (s->copies == SHIM_COPIES_NONE && shim_staged_make(s, call))
        shim_staged_fetch(s, joined);
    if (!s->failed)
        s->failed = !shim_staged_finish(s);
    return !s->failed;
}

void shim_staged_free(struct shim_staged *s)
{
    ss_staged_free(&s->in);
    ss_staged_free(&s->out);
}

int shim_staged_failed(uintptr_t comm, const struct shim_staged *s)
{
    char text[300];

    (void)snprintf(text, sizeof text, "a buffer in device memory cannot be copied: %s", s->why);
    return shim_raise((MPI_Comm)comm, SS_ERR_DEVICE, text);
}
