/* Decides what becomes of allgathers, reduce_scatters and reduces. In MPI, all ranks have the
 * same bytes of an allgather, but not the same datatypes; of a reduction they have the same counts,
 * datatype and operator. */
#include <limits.h>

#include "shim/entry/callbacks.h"
#include "shim/entry/calls.h"
#include "shim/entry/learn.h"
#include "shim/entry/route.h"
#include "shim/job/job.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"
#include "shim/task/task.h"

/* Returns the words to compare with MIN_COUNT: the smaller of all words, and of as many as there
 * would be if each rank's slice were the first rank's. */
static uint64_t deciding_words(const struct shim_call *call, int size, enum ss_type type)
{
    uint64_t bytes = shim_bytes(call, size), even = shim_even_bytes(call, size);

    return (even < bytes ? even : bytes) / ss_type_size(type);
}

/* Finds type and operator. If there are too few elements, asks MPI about no handle. */
static bool is_operation(const struct shim_call *call, int size, enum ss_type *type, enum ss_op *op)
{
    uint64_t elements = call->count > 0 ? (uint64_t)call->count : 0;

    if (call->kind == SS_KIND_REDUCE_SCATTER)
        elements *= (uint64_t)size;
    return elements < (uint64_t)shim.min_count ? shim_operation(call, type, op)
                                               : shim_operation_asked(call, type, op);
}

bool shim_slices_are_eligible(const struct shim_call *call, int size, enum ss_type *type,
                              enum ss_op *op, enum ss_reason *reason)
{
    uint64_t words;

    *type = SS_I32;
    *op = SS_BOR;
    *reason = SS_WHY_TYPE;
    if (call->kind != SS_KIND_ALLGATHER && !is_operation(call, size, type, op))
        return false;
    *reason = SS_WHY_BUFFER; /* an error that the library reports */
    if (call->kind == SS_KIND_REDUCE && (call->root < 0 || call->root >= size))
        return false;
    *reason = SS_WHY_SMALL;
    words = deciding_words(call, size, *type);
    if (words < (uint64_t)shim.min_count) {
        if (call->small && size > 1 && words > 0)
            *call->small = (struct shim_small){words, shim_bytes(call, size)};
        return false;
    }
    *reason = SS_WHY_BUFFER;
    if (call->kind == SS_KIND_REDUCE_SCATTER && !shim_parts_are_equal(call, size))
        return false;
    *reason = SS_WHY_TYPE; /* larger than one window */
    return shim_bytes(call, size) <= INT_MAX;
}

bool shim_is_little(int64_t count, uintptr_t type, int size)
{
    uint64_t bytes;

    return count >= 0 &&
           !__builtin_mul_overflow((uint64_t)count * (uint64_t)size, shim_size_of(type), &bytes) &&
           bytes / 4 < (uint64_t)shim.min_count;
}

bool shim_has_entry(uintptr_t comm)
{
    return shim_comm_known_size(comm) > 0;
}

bool shim_is_little_there(int64_t count, uintptr_t type, uintptr_t comm)
{
    const int size = shim_content_of(comm) ? shim_comm_known_size(comm) : 0;

    return size == 1 || (size > 1 && shim_is_little(count, type, size));
}

static bool is_predefined_type(uintptr_t type)
{
    return shim_handle_size(type) > 0;
}

/* Returns true if MPI refuses the buffers or datatypes of a gather on this rank, whatever the other
 * ranks pass. A blocking call is refused later (shim/task/layout.c); a nonblocking one must be
 * refused when it is made. Absolute addresses of a datatype may begin at NULL. */
static bool is_refused(const struct shim_call *call, const struct shim_comm *comm)
{
    if (call->kind != SS_KIND_ALLGATHER)
        return false;
    if (call->recv == MPI_IN_PLACE || (!call->recv && is_predefined_type(call->type)))
        return true;
    if (!is_predefined_type(call->type) && !shim_type_is_committed(call->type, comm))
        return true;
    if (shim_in_place(call) || call->send_count <= 0)
        return false;
    return is_predefined_type(call->send_type) ? !call->send
                                               : !shim_type_is_committed(call->send_type, comm);
}

struct shim_verdict shim_route_slices(const struct shim_call *call, const void *request)
{
    struct shim_verdict v = {.act = SHIM_ACT_PASS, .reason = SS_WHY_COMMUNICATOR};

    shim_job_start_if_up();
    if (call->kind != SS_KIND_ALLGATHER)
        shim_callbacks_operator(call->op);
    if (shim_learns())
        return shim_pass_because(SS_WHY_LEARN);
    if (request && !shim_takes_requests())
        return shim_pass_because(SS_WHY_NONBLOCKING);
    if (atomic_load_explicit(&shim.table.dropped, memory_order_relaxed))
        shim_comm_sweep();
    v.comm = shim_comm_agreed(call->comm);
    if (!v.comm)
        return (struct shim_verdict){.act = SHIM_ACT_FIRST_EXCHANGE};
    if (call->made) /* another thread has agreed meanwhile, which MPI does not allow */
        v.reason = SS_WHY_FIRST;
    else if (v.comm->size < 2 && !call->on_device)
        v.reason = SS_WHY_COMMUNICATOR;
    else if (request && is_refused(call, v.comm))
        v.reason = SS_WHY_BUFFER;
    else if (shim_slices_are_eligible(call, v.comm->size, &v.type, &v.op, &v.reason))
        return shim_route_on(call, v.comm, v.type, v.op, request);
    return v;
}
