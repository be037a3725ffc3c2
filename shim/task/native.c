/* The part of a call that is the MPI library's. */
#include "shim/comm/progress.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task_impl.h"

/* ---- polled ---- */

/* Posts the window in hand on the private communicator, as internal traffic. in NULL: an allreduce
 * in place. */
static int post_window(struct shim_task *task, const void *in)
{
    struct shim_call part = task->call;

    part.comm = (uintptr_t)task->comm->private;
    part.pmpi = true;
    part.large = part.large && part.kind == SS_KIND_ALLGATHER && part.listed; /* else it fits */
    if (part.kind == SS_KIND_ALLREDUCE) {
        part.send = in ? in : MPI_IN_PLACE;
        part.recv = shim_task_output(task);
        part.count = (int64_t)task->n;
    }
    return shim_ipass(&part, &task->native.request);
}

void shim_native_next(struct shim_task *task)
{
    struct shim_native *native = &task->native;

    shim_task_set_stage(task, SHIM_TASK_NATIVE);
    native->assembling = native->barriers > 0;
    if (native->assembling) {
        native->barriers--;
        task->err = shim_real.Ibarrier(task->comm->private, &native->request);
    } else if (!native->pieces.size) {
        task->err = post_window(task, native->in);
    }
}

/* ---- whole, or not at all ---- */

static void post_whole(struct shim_task *task)
{
    struct shim_native *native = &task->native;
    struct shim_call call = task->call;

    if (task->comm->state == SHIM_COMM_SERVED)
        call.comm = (uintptr_t)task->comm->private;
    native->whole = true;
    native->pieces.size = 0;
    native->begin = shim_now();
    task->err = shim_ipass(&call, &native->request);
    if (!call.user) /* others are counted where they are made */
        atomic_fetch_add(
            &shim.stats.passed[task->comm->state == SHIM_COMM_SERVED ? SS_WHY_CALLBACKS
                                                                     : SS_WHY_COMMUNICATOR],
            1);
    shim_task_set_stage(task, SHIM_TASK_NATIVE);
}

void shim_native_fail_comm(struct shim_comm *comm)
{
    if (comm->state == SHIM_COMM_FAILED || (comm->state == SHIM_COMM_PASSES && comm->size < 2))
        return;
    comm->status = SS_ERR_DEVICE;
    comm->state = SHIM_COMM_FAILED;
}

static void give_up(struct shim_task *task)
{
    shim_native_fail_comm(task->comm);
    shim_task_set_stage(task, SHIM_TASK_DONE);
}

/* ---- copies ---- */

bool shim_native_is_alone(void)
{
    return !shim_progress_is_open() || shim_progress_refused();
}

static void begin_copies(struct shim_task *task)
{
    const bool in_place = !task->native.in;

    if (shim_staged_make(task->call.staged, &task->call))
        shim_staged_fetch(task->call.staged, in_place);
    else
        shim_task_fail_for_device(task);
    task->native.in = in_place ? NULL : shim_task_input(task);
    shim_task_set_stage(task, SHIM_TASK_COPIES);
    if (shim_native_is_alone())
        shim_native_copies(task);
}

static void filled(struct shim_task *task)
{
    struct shim_native *native = &task->native;

    native->copying = shim_now() - native->begin;
    native->begin += native->copying;
    if (native->whole)
        post_whole(task);
    else
        shim_native_next(task);
}

/* If the copies fail this rank's call ends; the others wait for it. */
bool shim_native_copies(struct shim_task *task)
{
    if (shim_task_comes_in(task))
        return false;
    if (task->status == SS_OK) {
        filled(task);
    } else if (task->native.whole) {
        give_up(task);
    } else {
        shim_native_fail_comm(task->comm);
        shim_task_end_window(task, SS_NATIVE, -1);
    }
    return true;
}

void shim_native_make_room(const struct shim_task *task)
{
    if (ss_call_reason(task->core) == SS_WHY_CANNOT && atomic_exchange(&shim.mem.refused, false))
        shim_comm_give_back();
}

void shim_native_start(struct shim_task *task, const void *in)
{
    struct shim_native *native = &task->native;

    shim_native_make_room(task);
    native->in = in;
    native->begin = shim_now();
    native->barriers = task->comm->first.agreed[SHIM_EXCHANGE_TIMEOUT] ? 2 : 0;
    native->pieces.size = ss_call_piece(task->core);
    if (native->pieces.size ? !shim_task_pieces_begin(task)
                            : task->broken) { /* nothing to take part with */
        shim_task_fail_for_device(task);
        shim_task_set_stage(task, SHIM_TASK_COPIES);
    } else if (shim_task_is_away(task) && !native->pieces.size) {
        begin_copies(task);
    } else {
        shim_native_next(task);
    }
}

bool shim_native_is_posted(const struct shim_task *task)
{
    const struct shim_native *native = &task->native;

    return !native->assembling && (!native->pieces.size || native->pieces.agrees);
}

/* The request in the MPI library. */
static bool is_done(struct shim_task *task)
{
    int done = task->err != MPI_SUCCESS; /* it was refused */

    if (!done) {
        int err = shim_real.Test(&task->native.request, &done, MPI_STATUS_IGNORE);

        if (err != MPI_SUCCESS) {
            task->err = err;
            done = 1;
        }
    }
    task->refused = task->err != MPI_SUCCESS && task->comm->state == SHIM_COMM_SERVED;
    return done;
}

static bool step_request(struct shim_task *task, bool *over)
{
    struct shim_native *native = &task->native;
    struct shim_comm *comm = task->comm;

    *over = is_done(task);
    if (*over && native->assembling && !task->refused) {
        shim_native_next(task);
        *over = false;
        return true;
    }
    if (!*over && native->assembling && shim_now() - native->begin > shim.settings.timeout) {
        comm->status = SS_ERR_TIMEOUT;
        comm->state = SHIM_COMM_FAILED;
        *over = true;
    }
    return *over;
}

bool shim_native_step(struct shim_task *task, bool *over, double *spent)
{
    const struct shim_native *native = &task->native;
    const bool moved = native->pieces.size && !native->assembling
                           ? shim_task_pieces_step(task, over)
                           : step_request(task, over);
    const bool failed = task->refused || task->status < 0 || native->assembling;

    if (*over)
        *spent = failed ? -1 : shim_now() - native->begin;
    return moved;
}

void shim_native_whole_later(struct shim_task *task)
{
    struct shim_native *native = &task->native;
    const struct shim_staged *s = task->call.staged;

    native->whole = true;
    native->pieces.size = 0;
    native->begin = shim_now();
    native->in = shim_in_place(&task->call) ? NULL : task->call.send;
    if (!s || s->copies == SHIM_COPIES_FILLED)
        post_whole(task);
    else
        begin_copies(task);
}

void shim_native_whole(struct shim_task *task)
{
    if (shim_staged_fill(&task->call, false)) {
        post_whole(task);
        return;
    }
    shim_task_fail_for_device(task);
    give_up(task);
}

void shim_native_remainder(struct shim_task *task)
{
    struct shim_call *call = &task->call;

    if (!shim_in_place(call))
        call->send = shim_task_input(task);
    call->recv = shim_task_output(task);
    call->count -= (int64_t)task->first;
    task->first = 0;
    post_whole(task);
}

/* ---- by the caller of a blocking call ---- */

bool shim_native_fill(struct shim_task *task)
{
    const double begin = task->call.staged ? shim_now() : 0;
    bool done;

    if (!task->call.staged)
        return true;
    done = shim_staged_fill(&task->call, task->core && ss_call_joined(task->core));
    task->native.copying = shim_now() - begin;
    return done;
}

int shim_native_window(const struct shim_task *task)
{
    struct shim_call part = task->call;

    if (ss_call_joined(task->core)) /* the input stands in the receive buffer */
        part.send = MPI_IN_PLACE;
    if (part.kind == SS_KIND_ALLREDUCE && task->n != (uint64_t)part.count) {
        if (!shim_in_place(&part))
            part.send = shim_task_input(task);
        part.recv = shim_task_output(task);
        part.count = (int64_t)task->n;
        part.large = false; /* a window fits an int */
    }
    return shim_pass(&part);
}
