#include "shim/device/span.h"

#include "shim/device/memory.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"

/* A range of elements of a datatype, by number; `last` is one past the end. */
struct elements {
    int64_t first, last;
    bool full; /* no element in the range is left out */
};

/* Returns true for a handle of MPICH: of a predefined datatype, of one made at run time, or of a
 * predefined pair. Refuses other words. */
static bool is_datatype(uintptr_t type)
{
    return shim_handle_size(type) > 0 || shim_is_derived(type);
}

static bool span_of(uintptr_t type, struct elements e, struct shim_span *span)
{
    MPI_Count lower, extent, true_lower, true_extent, size;
    const MPI_Datatype handle = (MPI_Datatype)type;
    int64_t low, high;

    *span = (struct shim_span){.full = true};
    if (e.first >= e.last)
        return true;
    if (!is_datatype(type) || shim_real.Type_get_extent_x(handle, &lower, &extent) != MPI_SUCCESS ||
        shim_real.Type_get_true_extent_x(handle, &true_lower, &true_extent) != MPI_SUCCESS ||
        shim_real.Type_size_x(handle, &size) != MPI_SUCCESS)
        return false;
    if (__builtin_mul_overflow(e.first, (int64_t)extent, &low) ||
        __builtin_mul_overflow(e.last - 1, (int64_t)extent, &high))
        return false;
    if (low > high) { /* an extent below zero */
        const int64_t swapped = low;
        low = high;
        high = swapped;
    }
    span->from = low + (int64_t)true_lower;
    span->bytes = (size_t)(high - low + (int64_t)true_extent);
    span->full = e.full && size == extent && size == true_extent;
    return true;
}

/* Sets the range of all slices of an allgatherv. Slices do not overlap, so that they fill the range
 * if their elements are as many. */
static bool slices(const struct shim_call *call, int ranks, struct elements *e)
{
    int64_t elements = 0;

    *e = (struct elements){INT64_MAX, INT64_MIN, false};
    for (int r = 0; r < ranks; r++) {
        const int64_t count = shim_list_entry(call->counts, call->large, r);
        const int64_t at = count > 0 ? shim_list_entry(call->displs, call->large, r) : 0;
        int64_t end;

        if (count < 0 || __builtin_add_overflow(at, count, &end))
            return false;
        if (count == 0)
            continue;
        e->first = at < e->first ? at : e->first;
        e->last = end > e->last ? end : e->last;
        elements += count;
    }
    e->full = e->first < e->last && elements == e->last - e->first;
    return true;
}

/* Returns the number of ranks whose slices an allgather gets, of the other group if there are two;
 * 0: unknown. */
static int ranks_of(const struct shim_call *call, bool *two_groups)
{
    const MPI_Comm comm = (MPI_Comm)call->comm;
    int inter = 0, ranks = 0, err;

    *two_groups = false;
    if (shim_real.Comm_test_inter(comm, &inter) != MPI_SUCCESS)
        return 0;
    *two_groups = inter != 0;
    err = inter && call->kind == SS_KIND_ALLGATHER ? shim_real.Comm_remote_size(comm, &ranks)
                                                   : shim_real.Comm_size(comm, &ranks);
    return err == MPI_SUCCESS ? ranks : 0;
}

static bool gathers(const struct shim_call *call, int ranks, struct elements *in,
                    struct elements *out)
{
    *in = (struct elements){0, shim_in_place(call) ? 0 : call->send_count, true};
    if (call->counts)
        return call->displs && slices(call, ranks, out);
    *out = (struct elements){0, 0, true};
    return !__builtin_mul_overflow(call->count, (int64_t)ranks, &out->last);
}

/* Sets the elements of all parts, and those of this rank's; in place the receive buffer has all. */
static bool scatters(const struct shim_call *call, int ranks, struct elements *in,
                     struct elements *out)
{
    const bool in_place = shim_in_place(call);
    int64_t part = call->count, all = 0;
    int rank = 0;

    if (call->counts && shim_real.Comm_rank((MPI_Comm)call->comm, &rank) != MPI_SUCCESS)
        return false;
    for (int r = 0; r < ranks; r++) {
        const int64_t count =
            call->counts ? shim_list_entry(call->counts, call->large, r) : call->count;

        if (count < 0 || __builtin_add_overflow(all, count, &all))
            return false;
        part = r == rank ? count : part;
    }
    *in = (struct elements){0, in_place ? 0 : all, true};
    *out = (struct elements){0, in_place ? all : part, true};
    return true;
}

static bool reduces(const struct shim_call *call, bool two_groups, struct elements *in,
                    struct elements *out)
{
    int rank = -1;
    bool gets = true, gives = !shim_in_place(call);

    *in = *out = (struct elements){0, call->count, true};
    if (call->kind == SS_KIND_REDUCE) {
        if (!two_groups && shim_real.Comm_rank((MPI_Comm)call->comm, &rank) != MPI_SUCCESS)
            return false;
        gets = two_groups ? call->root == MPI_ROOT : call->root == rank;
        gives = gives && !(two_groups && call->root < 0);
    }
    in->last = gives ? in->last : 0;
    out->last = gets ? out->last : 0;
    return true;
}

bool shim_spans(const struct shim_call *call, struct shim_span *send, struct shim_span *recv)
{
    const bool gather = call->kind == SS_KIND_ALLGATHER;
    struct elements in, out;
    bool two_groups = false, known;
    int ranks = 1;

    if (call->count < 0 || (call->send_count < 0 && !shim_in_place(call)))
        return false;
    if (call->kind != SS_KIND_ALLREDUCE && (ranks = ranks_of(call, &two_groups)) == 0)
        return false;
    if (gather)
        known = gathers(call, ranks, &in, &out);
    else if (call->kind == SS_KIND_REDUCE_SCATTER)
        known = scatters(call, ranks, &in, &out);
    else
        known = reduces(call, two_groups, &in, &out);
    return known && span_of(gather ? call->send_type : call->type, in, send) &&
           span_of(call->type, out, recv);
}

static const void *begin_of(const void *buffer, const struct shim_span *span)
{
    return span->bytes > 0 ? (const void *)((uintptr_t)buffer + (uintptr_t)span->from) : NULL;
}

/* Returns true if the call touches device memory. An empty buffer may lie anywhere. The MPI library
 * reports a call that it refuses. */
static bool touches_device(const struct shim_call *call)
{
    struct shim_span send, recv;

    if (!shim_spans(call, &send, &recv))
        return false;
    if (shim_in_place(call) || (send.bytes > 0 && recv.bytes > 0))
        return recv.bytes > 0;
    return shim_is_device(begin_of(call->send, &send), begin_of(call->recv, &recv));
}

bool shim_lies_on_device(const struct shim_call *call)
{
    return shim_is_device(call->send, call->recv) && touches_device(call);
}

int shim_slices(const struct shim_call *call)
{
    bool two_groups;

    return ranks_of(call, &two_groups);
}

bool shim_slice(const struct shim_call *call, int rank, struct shim_span *slice)
{
    const int64_t count = shim_list_entry(call->counts, call->large, rank);
    const int64_t at = count > 0 ? shim_list_entry(call->displs, call->large, rank) : 0;

    return count > 0 && span_of(call->type, (struct elements){at, at + count, true}, slice);
}
