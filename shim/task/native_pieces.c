/* The MPI library's part of a call in pieces that all ranks have agreed on (ss_call_piece), on the
 * private communicator: a row of sums, polled, and behind them a word from every rank whether its
 * part in them was what the call was made with. A rank whose buffers lie in device memory has
 * pieces of them on the host; one that cannot copy them any more takes part all the same, with
 * zeros, and says so in the end: the call is an error on all ranks. */
#include <stdio.h>

#include "shim/device/bounce.h"
#include "shim/mpi/real.h"
#include "shim/task/task_impl.h"

/* NULL: the buffers, or images of all of them, are the host's. */
static struct shim_pieces *copies(const struct shim_task *task)
{
    struct shim_bounce *b = task->call.bounce;

    if (task->unread)
        return &b->pieces;
    return shim_task_is_away(task) && !b->taken ? &b->pieces : NULL;
}

bool shim_task_pieces_want(const struct shim_task *task)
{
    return !task->unread && copies(task);
}

void shim_task_pieces_take(struct shim_task *task)
{
    const size_t size = ss_type_size(task->type);
    const struct shim_bounce *b = task->call.bounce;

    shim_pieces_take(copies(task), task->native_in ? b->device_send : NULL, b->device_recv,
                     task->n * size, task->piece * size);
}

void shim_task_pieces_begin(struct shim_task *task)
{
    const size_t size = ss_type_size(task->type);
    struct shim_pieces *p = copies(task);

    task->summed = 0;
    task->lost = 0;
    task->posted = task->agrees = false;
    task->refusal = MPI_SUCCESS;
    task->native = MPI_REQUEST_NULL;
    if (task->unread)
        shim_pieces_give_up(p, task->n * size, task->piece * size);
    else if (p)
        shim_pieces_open(p);
}

/* What follows is done all the same: the other ranks do. */
static void note(struct shim_task *task, int err)
{
    if (task->refusal == MPI_SUCCESS)
        task->refusal = err;
    if (err != MPI_SUCCESS)
        task->native = MPI_REQUEST_NULL;
}

static void post_piece(struct shim_task *task)
{
    const size_t from = task->summed * task->piece, size = ss_type_size(task->type);
    const uint64_t left = task->n - from;
    const struct shim_pieces *p = copies(task);
    const char *in = task->native_in;
    void *out;

    if (p) {
        in = shim_pieces_in(p, task->summed);
        out = shim_pieces_out(p, task->summed);
    } else {
        in = in ? in + from * size : NULL;
        out = (char *)shim_task_output(task) + from * size;
    }
    note(task, shim_real.Iallreduce(in ? in : MPI_IN_PLACE, out,
                                    (int)(left < task->piece ? left : task->piece),
                                    (MPI_Datatype)task->call.type, (MPI_Op)task->call.op,
                                    task->comm->private, &task->native));
}

static void post_agreement(struct shim_task *task)
{
    const struct shim_pieces *p = copies(task);

    task->lost = task->refusal != MPI_SUCCESS || (p && p->failed);
    task->agrees = true;
    note(task, shim_real.Iallreduce(MPI_IN_PLACE, &task->lost, 1, MPI_INT, MPI_MAX,
                                    task->comm->private, &task->native));
}

static void fail_for_peer(struct shim_task *task)
{
    task->status = SS_ERR_PEER;
    (void)snprintf(task->text, sizeof task->text,
                   "rank %d: another rank could not copy or sum its piece of a buffer",
                   task->comm->rank);
    atomic_fetch_add(&shim.stats.errors, 1);
}

static void finish(struct shim_task *task)
{
    struct shim_pieces *p = copies(task);

    if (task->refusal != MPI_SUCCESS) {
        task->err = task->refusal;
        task->refused = true;
    } else if (p && p->failed) {
        if (!task->unread)
            (void)snprintf(task->call.bounce->why, sizeof p->why, "%s", p->why);
        shim_task_fail_for_device(task);
    } else if (task->lost) {
        fail_for_peer(task);
    }
    if (p)
        shim_pieces_close(p);
}

/* Of what was posted last, unless it was refused. */
static bool is_under_way(struct shim_task *task)
{
    int done = 1;

    if (task->native != MPI_REQUEST_NULL)
        note(task, shim_real.Test(&task->native, &done, MPI_STATUS_IGNORE));
    return !done && task->native != MPI_REQUEST_NULL;
}

bool shim_task_pieces_step(struct shim_task *task, bool *over)
{
    struct shim_pieces *p = copies(task);
    bool moved = false;

    if (p)
        p->moved = false;
    if (task->posted) {
        if (is_under_way(task) || (p && !task->agrees && shim_pieces_holds(p, task->summed)))
            return p && p->moved;
        task->posted = false;
        if (task->agrees) {
            finish(task);
            *over = true;
            return true;
        }
        if (p)
            shim_pieces_take_back(p, task->summed);
        task->summed++;
        moved = true;
    }
    if (task->summed * task->piece < task->n) {
        if (p && shim_pieces_comes(p, task->summed))
            return moved || p->moved;
        post_piece(task);
    } else {
        if (p && shim_pieces_go(p))
            return moved || p->moved;
        post_agreement(task);
    }
    task->posted = true;
    return true;
}
