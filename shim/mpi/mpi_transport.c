/* The transport: a dense array of MPI requests, polled by MPI_Testsome. */
#include "shim/mpi/mpi_transport.h"

#include <limits.h>
#include <stdlib.h>

#include "shim/mpi/real.h"
#include "shim/mpi/state.h"

/* Bits of a tag, from high to low: call, phase, round. Rounds are distinguished mod 64
 * (core/net/transport.h). A call has up to 32 sends and 16 receives in flight
 * (core/call/call_impl.h). The table has room for them from the start, so that no call lacks memory
 * for it after the vote. */
enum { PHASE_BITS = 4, ROUND_BITS = 6, CALL_BITS = 5, FIRST_CAPACITY = 64 };
enum { MERGED_BITS = 10 }; /* with MERGE: more than SS_MERGED calls twice */
_Static_assert(1 << MERGED_BITS >= 2 * SS_MERGED, "calls in flight are distinguished");

_Static_assert((SHIM_TAG_CLOCK >> ROUND_BITS) >= SS_PHASES &&
                   (SHIM_TAG_CLOCK >> ROUND_BITS) < 1 << PHASE_BITS,
               "no phase has it");

static MPI_Request *request_at(const struct shim_transport *t, int i)
{
    return (MPI_Request *)((char *)t->requests + (size_t)i * shim_abi.handle);
}

static MPI_Status *status_at(const struct shim_transport *t, int i)
{
    return (MPI_Status *)((char *)t->statuses + (size_t)i * shim_abi.status);
}

static int tag_of(const struct shim_transport *t, struct ss_tag tag)
{
    uint32_t call = tag.call & ((1u << t->call_bits) - 1);
    uint32_t phase = tag.phase & ((1u << PHASE_BITS) - 1);
    uint32_t round = tag.round & ((1u << ROUND_BITS) - 1);

    return (int)(((call << PHASE_BITS | phase) << ROUND_BITS) | round);
}

static int grow(struct shim_transport *t)
{
    int capacity = t->capacity == 0 ? FIRST_CAPACITY : 2 * t->capacity;
    size_t n = (size_t)capacity;
    void *p;

    if (!(p = realloc(t->requests, n * shim_abi.handle)))
        return SS_ERR_MEMORY;
    t->requests = p;
    if (!(p = realloc(t->owners, n * sizeof *t->owners)))
        return SS_ERR_MEMORY;
    t->owners = p;
    if (!(p = realloc(t->receives, n * sizeof *t->receives)))
        return SS_ERR_MEMORY;
    t->receives = p;
    if (!(p = realloc(t->indices, n * sizeof *t->indices)))
        return SS_ERR_MEMORY;
    t->indices = p;
    if (!(p = realloc(t->statuses, n * shim_abi.status)))
        return SS_ERR_MEMORY;
    t->statuses = p;
    t->capacity = capacity;
    return SS_OK;
}

bool shim_transport_reserve(struct shim_transport *t, int calls)
{
    while (t->capacity < calls * FIRST_CAPACITY)
        if (grow(t) != SS_OK)
            return false;
    return true;
}

static void start(struct shim_transport *t, struct ss_request *request, bool receive)
{
    *request = (struct ss_request){.active = true, .status = SS_OK, .slot = t->count};
    t->receives[t->count] = receive;
    t->owners[t->count++] = request;
}

/* Removes request i and moves the last one into its slot. */
static void drop(struct shim_transport *t, int i)
{
    int last = --t->count;

    shim_abi_store(request_at(t, i), shim_abi_load(request_at(t, last)));
    t->owners[i] = t->owners[last];
    t->receives[i] = t->receives[last];
    if (t->owners[i])
        t->owners[i]->slot = i;
}

static int post_send(struct shim_transport *t, int dst, struct ss_tag tag, const void *buf,
                     size_t len, struct ss_request *request)
{
    if (t->count == t->capacity && grow(t) != SS_OK)
        return SS_ERR_MEMORY;
    if (len > INT_MAX || shim_real.Isend(buf, (int)len, MPI_BYTE, dst, tag_of(t, tag), t->comm,
                                         request_at(t, t->count)) != MPI_SUCCESS)
        return SS_ERR_TRANSPORT;
    start(t, request, false);
    return SS_OK;
}

static int post_recv(struct shim_transport *t, int src, struct ss_tag tag, void *buf,
                     size_t capacity, struct ss_request *request)
{
    if (t->count == t->capacity && grow(t) != SS_OK)
        return SS_ERR_MEMORY;
    if (capacity > INT_MAX || shim_real.Irecv(buf, (int)capacity, MPI_BYTE, src, tag_of(t, tag),
                                              t->comm, request_at(t, t->count)) != MPI_SUCCESS)
        return SS_ERR_TRANSPORT;
    start(t, request, true);
    return SS_OK;
}

static void finish(struct shim_transport *t, int i, MPI_Status *status, bool failed)
{
    struct ss_request *owner = t->owners[i];
    int bytes = 0;

    if (!owner)
        return;
    owner->active = false;
    owner->status = SS_OK;
    if (failed ||
        (t->receives[i] && shim_real.Get_count(status, MPI_BYTE, &bytes) != MPI_SUCCESS) ||
        bytes < 0)
        owner->status = SS_ERR_TRANSPORT;
    owner->bytes = owner->status == SS_OK ? (size_t)bytes : 0;
}

/* Polls without a request of this communicator: the call waits for memory, and the rank that it
 * waits for may wait for a message of this rank that the library has not sent yet. A look for any
 * message moves all of them. */
static void poll_idle(struct shim_transport *t)
{
    enum { SELDOM = 256 };
    int found;

    if (++t->idle_polls % SELDOM == 0)
        shim_real.Iprobe(t->base.rank, 0, t->comm, &found, MPI_STATUS_IGNORE);
}

/* Polls the requests. MPICH 4.0.2 raises an error of a completion routine on the handler of the
 * world, whatever handler the request's communicator has. Under the default handler a broken
 * connection, or a message longer than its receive, thus ends the job, as in the native
 * allreduce. */
static int poll_all(struct shim_transport *t)
{
    int done = 0;
    int err;

    if (shim_is_out())
        return SS_OK;
    if (t->count == 0) {
        poll_idle(t);
        return SS_OK;
    }
    t->idle_polls = 0;
    err = shim_real.Testsome(t->count, t->requests, &done, t->indices, t->statuses);
    if (err != MPI_SUCCESS && done <= 0)
        return SS_ERR_TRANSPORT;
    for (int j = 0; j < done; j++)
        finish(t, t->indices[j], status_at(t, j),
               err != MPI_SUCCESS &&
                   shim_abi_member(status_at(t, j), shim_abi.error) != MPI_SUCCESS);
    if (done > 0)
        for (int i = t->count - 1; i >= 0; i--)
            if (shim_abi_load(request_at(t, i)) == (uintptr_t)MPI_REQUEST_NULL)
                drop(t, i);
    return SS_OK;
}

/* Cancels a request. A cancelled receive usually ends at once. A send cannot be cancelled: it stays
 * without an owner until it is done. */
static void cancel(struct shim_transport *t, struct ss_request *request)
{
    int i = request->slot;
    int done = 0;

    if (!request->active)
        return;
    request->active = false;
    request->status = SS_ERR_TRANSPORT;
    t->owners[i] = NULL;
    if (t->receives[i] && shim_real.Cancel(request_at(t, i)) == MPI_SUCCESS &&
        shim_real.Test(request_at(t, i), &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
        drop(t, i);
}

/* ---- as core calls it ---- */

static int mpi_send(struct ss_transport *base, int dst, struct ss_tag tag, const void *buf,
                    size_t len, struct ss_request *request)
{
    int status;

    ss_transport_out(base);
    status = post_send((struct shim_transport *)base, dst, tag, buf, len, request);
    ss_transport_back(base);
    return status;
}

static int mpi_recv(struct ss_transport *base, int src, struct ss_tag tag, void *buf,
                    size_t capacity, struct ss_request *request)
{
    int status;

    ss_transport_out(base);
    status = post_recv((struct shim_transport *)base, src, tag, buf, capacity, request);
    ss_transport_back(base);
    return status;
}

static int mpi_poll(struct ss_transport *base)
{
    int status;

    ss_transport_out(base);
    status = poll_all((struct shim_transport *)base);
    ss_transport_back(base);
    return status;
}

static void mpi_cancel(struct ss_transport *base, struct ss_request *request)
{
    ss_transport_out(base);
    cancel((struct shim_transport *)base, request);
    ss_transport_back(base);
}

static double mpi_now(struct ss_transport *base)
{
    (void)base;
    return shim_now();
}

static const struct ss_transport_ops ops = {mpi_send, mpi_recv, mpi_poll, mpi_cancel, mpi_now};

int shim_transport_open(struct shim_transport *t, int rank, int size)
{
    *t = (struct shim_transport){.base = {.rank = rank, .size = size, .ops = &ops},
                                 .comm = MPI_COMM_NULL};
    return grow(t);
}

void shim_transport_use(struct shim_transport *t, MPI_Comm comm)
{
    int *upper = NULL;
    int found = 0;
    int bound = 32767; /* the least value that MPI allows */

    t->comm = comm;
    t->call_bits = shim.settings.merge > 0 ? MERGED_BITS : CALL_BITS;
    if (shim_real.Comm_get_attr(comm, MPI_TAG_UB, &upper, &found) == MPI_SUCCESS && found)
        bound = *upper;
    while (t->call_bits > 1 && (1 << (t->call_bits + PHASE_BITS + ROUND_BITS)) - 1 > bound)
        t->call_bits--;
    t->base.calls = 1u << t->call_bits;
}

void shim_transport_free(struct shim_transport *t)
{
    free(t->requests);
    free(t->owners);
    free(t->receives);
    free(t->indices);
    free(t->statuses);
    *t = (struct shim_transport){0};
}

bool shim_transport_close(struct shim_transport *t)
{
    bool idle;

    if (t->count > 0)
        poll_all(t);
    idle = t->count == 0;
    for (int i = 0; i < t->count; i++)
        shim_real.Request_free(request_at(t, i));
    shim_transport_free(t);
    return idle;
}
