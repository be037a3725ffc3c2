/* The part of a call that is the MPI library's. */
#include "shim/comm/progress.h"
#include "shim/device/bounce.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"
#include "shim/task/task_impl.h"

/* ---- polled ---- */

static int post_allgather(struct shim_task *task)
{
    const struct shim_call *c = &task->call;
    MPI_Comm comm = task->comm->private;

    if (!c->counts)
        return shim_real.Iallgather(c->send, (int)c->send_count, (MPI_Datatype)c->send_type,
                                    c->recv, (int)c->count, (MPI_Datatype)c->type, comm,
                                    &task->native);
    if (!c->large)
        return shim_real.Iallgatherv(c->send, (int)c->send_count, (MPI_Datatype)c->send_type,
                                     c->recv, c->counts, c->displs, (MPI_Datatype)c->type, comm,
                                     &task->native);
    return shim_real_iallgatherv_c(c->send, c->send_count, (MPI_Datatype)c->send_type, c->recv,
                                   c->counts, c->displs, (MPI_Datatype)c->type, comm,
                                   &task->native);
}

static int post_reduction(struct shim_task *task, const void *in)
{
    const struct shim_call *c = &task->call;
    MPI_Datatype type = (MPI_Datatype)c->type;
    MPI_Op sum = (MPI_Op)c->op;
    MPI_Comm comm = task->comm->private;

    switch (c->kind) {
    case SS_KIND_REDUCE_SCATTER:
        return shim_real.Ireduce_scatter_block(c->send, c->recv, (int)c->count, type, sum, comm,
                                               &task->native);
    case SS_KIND_REDUCE:
        return shim_real.Ireduce(c->send, c->recv, (int)c->count, type, sum, c->root, comm,
                                 &task->native);
    default:
        return shim_real.Iallreduce(in ? in : MPI_IN_PLACE, shim_task_output(task), (int)task->n,
                                    type, sum, comm, &task->native);
    }
}

/* Who holds no lock makes its images: one of us for a nonblocking call, else its caller. */
static void want_images(struct shim_task *task)
{
    if (!task->blocking)
        task->comm->wants = task;
    shim_task_set_stage(task, SHIM_TASK_WANTS);
}

void shim_native_next(struct shim_task *task)
{
    shim_task_set_stage(task, SHIM_TASK_NATIVE);
    task->assembling = task->barriers > 0;
    if (task->assembling) {
        task->barriers--;
        task->err = shim_real.Ibarrier(task->comm->private, &task->native);
    } else if (task->piece && shim_task_pieces_want(task)) {
        want_images(task);
    } else if (task->piece) {
        shim_task_pieces_begin(task);
    } else {
        task->err = task->call.kind == SS_KIND_ALLGATHER ? post_allgather(task)
                                                         : post_reduction(task, task->native_in);
    }
}

/* ---- images ---- */

static void begin_images(struct shim_task *task)
{
    const bool in_place = !task->native_in;

    if (!shim_bounce_take(task->call.bounce, &task->call, true))
        shim_task_fail_for_device(task);
    else
        shim_bounce_in(task->call.bounce, in_place);
    task->native_in = in_place ? NULL : shim_task_input(task);
    shim_task_set_stage(task, SHIM_TASK_IMAGES);
}

bool shim_native_is_alone(void)
{
    return !shim_progress_is_open() || shim_progress_refused();
}

void shim_native_take(struct shim_task *task)
{
    struct shim_call as_seen = task->call;

    if (task->piece)
        shim_task_pieces_take(task);
    else if (task->whole && shim_native_is_alone())
        (void)shim_bounce_fill(&as_seen, false);
    else
        (void)shim_bounce_take(task->call.bounce, &as_seen, true);
}

void shim_native_taken(struct shim_task *task)
{
    const struct shim_bounce *b = task->call.bounce;

    task->native_begin = shim_now();
    if (task->whole && (b->failed || b->images == SHIM_IMAGES_FILLED)) {
        shim_native_whole(task);
        return;
    }
    if (!task->piece) {
        begin_images(task);
        return;
    }
    shim_task_pieces_begin(task);
    shim_task_set_stage(task, SHIM_TASK_NATIVE);
}

/* Of a nonblocking call they may have been made when it was called. */
static bool has_images(const struct shim_task *task)
{
    return task->call.bounce->taken;
}

void shim_native_make_room(const struct shim_task *task)
{
    if (ss_call_reason(task->core) == SS_WHY_CANNOT && atomic_exchange(&shim.mem.refused, false))
        shim_comm_give_back();
}

void shim_native_start(struct shim_task *task, const void *in)
{
    shim_native_make_room(task);
    task->native_in = in;
    task->native_begin = shim_now();
    task->barriers = task->comm->agreed[SHIM_MEET_TIMEOUT] ? 2 : 0;
    task->piece = ss_call_piece(task->core);
    if (task->unread && (task->broken || !task->piece)) { /* nothing was voted on */
        shim_task_fail_for_device(task);
        shim_task_set_stage(task, SHIM_TASK_IMAGES);
        return;
    }
    if (shim_task_is_away(task) && has_images(task))
        begin_images(task);
    else if (shim_task_is_away(task) && !task->piece)
        want_images(task);
    else
        shim_native_next(task);
}

bool shim_native_is_posted(const struct shim_task *task)
{
    return !task->assembling && (!task->piece || task->agrees);
}

/* The request in the MPI library. */
static bool is_done(struct shim_task *task)
{
    int done = task->err != MPI_SUCCESS; /* it was refused */

    if (!done) {
        int err = shim_real.Test(&task->native, &done, MPI_STATUS_IGNORE);

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
    struct shim_comm *comm = task->comm;

    *over = is_done(task);
    if (*over && task->assembling && !task->refused) {
        shim_native_next(task);
        *over = false;
        return true;
    }
    if (!*over && task->assembling && shim_now() - task->native_begin > shim.settings.timeout) {
        comm->status = SS_ERR_TIMEOUT;
        comm->state = SHIM_COMM_FAILED;
        *over = true;
    }
    return *over;
}

bool shim_native_step(struct shim_task *task, bool *over, double *spent)
{
    const bool moved = task->piece && !task->assembling ? shim_task_pieces_step(task, over)
                                                        : step_request(task, over);
    const bool failed = task->refused || task->status < 0 || task->assembling;

    if (*over)
        *spent = failed ? -1 : shim_now() - task->native_begin;
    return moved;
}

static void post_whole(struct shim_task *task)
{
    struct shim_call call = task->call;

    if (task->comm->state == SHIM_COMM_SERVED)
        call.comm = (uintptr_t)task->comm->private;
    task->whole = true;
    task->piece = 0;
    task->native_begin = shim_now();
    task->err = shim_ipass(&call, &task->native);
    if (!call.own) /* others are counted where they are made */
        atomic_fetch_add(
            &shim.stats.passed[task->comm->state == SHIM_COMM_SERVED ? SS_WHY_CALLBACKS
                                                                     : SS_WHY_COMMUNICATOR],
            1);
    shim_task_set_stage(task, SHIM_TASK_NATIVE);
}

void shim_native_whole_later(struct shim_task *task)
{
    const struct shim_bounce *b = task->call.bounce;

    task->whole = true;
    task->piece = 0;
    task->native_begin = shim_now();
    task->native_in = shim_in_place(&task->call) ? NULL : task->call.send;
    if (!b || b->images == SHIM_IMAGES_FILLED)
        post_whole(task);
    else if (has_images(task) && !shim_native_is_alone())
        begin_images(task);
    else
        want_images(task);
}

void shim_native_fail_comm(struct shim_comm *comm)
{
    if (comm->state == SHIM_COMM_FAILED || (comm->state == SHIM_COMM_PASSES && comm->size < 2))
        return;
    comm->status = SS_ERR_DEVICE;
    comm->state = SHIM_COMM_FAILED;
}

void shim_native_give_up(struct shim_task *task)
{
    shim_native_fail_comm(task->comm);
    shim_task_set_stage(task, SHIM_TASK_DONE);
}

/* Of a call with images they are filled, but where that was not foreseen. */
void shim_native_whole(struct shim_task *task)
{
    if (shim_bounce_fill(&task->call, false)) {
        post_whole(task);
        return;
    }
    shim_task_fail_for_device(task);
    shim_native_give_up(task);
}

void shim_native_filled(struct shim_task *task)
{
    task->copying = shim_now() - task->native_begin;
    task->native_begin += task->copying;
    if (task->whole)
        post_whole(task);
    else
        shim_native_next(task);
}

void shim_native_rest(struct shim_task *task)
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
    struct shim_bounce *b = task->call.bounce;
    const double begin = b ? shim_now() : 0;
    bool filled;

    if (!b)
        return true;
    filled = shim_bounce_fill(&task->call, task->core && ss_call_joined(task->core));
    task->copying = shim_now() - begin;
    return filled;
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
