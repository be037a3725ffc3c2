/* Decides which allgathers, reduce_scatters and reduces are eligible. In MPI, all ranks have the
 * same bytes of an allgather, but not the same datatypes; of a reduction they have the same counts,
 * datatype and operator. */
#include <limits.h>

#include "shim/device/span.h"
#include "shim/entry/callbacks.h"
#include "shim/entry/calls.h"
#include "shim/entry/learn.h"
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

static bool is_eligible(const struct shim_call *call, int size, enum ss_type *type, enum ss_op *op,
                        enum ss_reason *reason)
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

/* Passes a call on an unknown communicator, whose size can be asked for after the MPI library has
 * accepted the call. */
static int on_unknown(const struct shim_call *call, void *request)
{
    enum ss_reason reason;
    enum ss_type type;
    enum ss_op op;
    int size, err;

    if (request)
        return shim_pass_for(call, shim_unmet(), request);
    err = shim_pass_for(call, SS_WHY_FIRST, NULL);
    if (err != MPI_SUCCESS || !shim_comm_exists(call->comm))
        return err;
    size = shim_comm_size_of(call->comm);
    reason = SS_WHY_COMMUNICATOR;
    if (size == 0 || !is_eligible(call, size, &type, &op, &reason)) {
        atomic_fetch_sub(&shim.stats.passed[SS_WHY_FIRST], 1);
        atomic_fetch_add(&shim.stats.passed[reason], 1);
        return err;
    }
    return shim_comm_contact(call->comm);
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

static int route(const struct shim_call *call, void *request)
{
    struct shim_comm *comm;
    enum ss_reason reason;
    enum ss_type type;
    enum ss_op op;
    int err;

    shim_job_start_if_up();
    if (call->kind != SS_KIND_ALLGATHER)
        shim_callbacks_operator(call->op);
    if (shim_learns())
        return shim_pass_for(call, SS_WHY_LEARN, request);
    if (request && !shim_takes_requests())
        return shim_pass_for(call, SS_WHY_NONBLOCKING, request);
    if (atomic_load_explicit(&shim.dropped, memory_order_relaxed))
        shim_comm_sweep();
    comm = shim_comm_met(call->comm);
    if (!comm)
        return on_unknown(call, request);
    if (call->made) { /* met by another thread during the call, which MPI does not allow */
        shim_comm_put(comm);
        return MPI_SUCCESS;
    }
    if (comm->size < 2 && !call->on_device)
        reason = SS_WHY_COMMUNICATOR;
    else if (request && is_refused(call, comm))
        reason = SS_WHY_BUFFER;
    else if (is_eligible(call, comm->size, &type, &op, &reason))
        return shim_on_known(call, comm, type, op, request);
    err = shim_pass_for(call, reason, request);
    shim_comm_put(comm);
    return err;
}

static int staged(const struct shim_call *call, void *request)
{
    (void)request;
    return shim_staged_call(route, call);
}

int shim_collective(const struct shim_call *call, void *request)
{
    struct shim_call placed = *call;
    bool device;

    if (!shim_prepare() && call->made)
        return MPI_SUCCESS;
    if (!shim_prepare())
        return request ? shim_ipass(call, request) : shim_pass(call);
    device = shim_lies_on_device(call);
    placed.on_device = device && request;
    return shim_timed(device && !request ? staged : route, &placed, request);
}
