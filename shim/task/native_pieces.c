/* The MPI library's part of a call in pieces that all ranks have agreed on (ss_call_piece), on the
 * private communicator: sums, one after the other, polled, and behind them a word from every rank
 * whether its part in them was what the call was made with. A rank whose buffers lie in device
 * memory has pieces of them on the host. One whose device has failed takes part all the same, with
 * zeros, and says so in the end: the call is an error on all ranks, and the next vote fails the
 * communicator.
 */
#include <stdio.h>

#include "shim/device/memory.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task_impl.h"

/* NULL: the buffers, or copies of all of them, are the host's. */
static struct ss_pieces *copies(const struct shim_task *task)
{
    return task->broken || shim_task_is_away(task) ? &task->call.staged->pieces : NULL;
}

bool shim_task_pieces_begin(struct shim_task *task)
{
    struct shim_pieces *pieces = &task->native.pieces;
    const size_t size = ss_type_size(task->type);
    const struct shim_staged *s = task->call.staged;
    struct ss_pieces *p = copies(task);

    pieces->summed = 0;
    pieces->lost = 0;
    pieces->posted = pieces->agrees = false;
    pieces->refusal = MPI_SUCCESS;
    task->native.request = MPI_REQUEST_NULL;
    return !p || ss_pieces_open(p, task->broken ? &ss_host : s->backend,
                                task->native.in ? s->send : NULL, s->recv, task->n * size,
                                pieces->size * size, task->broken ? SS_ERR_DEVICE : SS_OK) == SS_OK;
}

/* Notes the first error. The call goes on, since the other ranks do. */
static void note(struct shim_task *task, int err)
{
    struct shim_pieces *pieces = &task->native.pieces;

    if (pieces->refusal == MPI_SUCCESS)
        pieces->refusal = err;
    if (err != MPI_SUCCESS)
        task->native.request = MPI_REQUEST_NULL;
}

static void post_piece(struct shim_task *task)
{
    struct shim_pieces *pieces = &task->native.pieces;
    const size_t from = pieces->summed * pieces->size, size = ss_type_size(task->type);
    const uint64_t left = task->n - from;
    const struct ss_pieces *p = copies(task);
    const char *in = task->native.in;
    void *out;

    if (p) {
        in = ss_pieces_in(p, pieces->summed);
        out = ss_pieces_out(p, pieces->summed);
    } else {
        in = in ? in + from * size : NULL;
        out = (char *)shim_task_output(task) + from * size;
    }
    note(task, shim_real.Iallreduce(in ? in : MPI_IN_PLACE, out,
                                    (int)(left < pieces->size ? left : pieces->size),
                                    (MPI_Datatype)task->call.type, (MPI_Op)task->call.op,
                                    task->comm->private, &task->native.request));
}

static void post_last(struct shim_task *task)
{
    struct shim_pieces *pieces = &task->native.pieces;
    const struct ss_pieces *p = copies(task);

    pieces->lost = pieces->refusal != MPI_SUCCESS || (p && p->status < 0);
    pieces->agrees = true;
    note(task, shim_real.Iallreduce(MPI_IN_PLACE, &pieces->lost, 1, MPI_INT, MPI_MAX,
                                    task->comm->private, &task->native.request));
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
    struct shim_pieces *pieces = &task->native.pieces;
    struct ss_pieces *p = copies(task);

    if (pieces->refusal != MPI_SUCCESS) {
        task->err = pieces->refusal;
        task->refused = true;
    } else if (p && p->status < 0) {
        struct shim_staged *s = task->call.staged;

        if (!task->broken)
            (void)snprintf(s->why, sizeof s->why, "%s", shim_door()->error(s->backend));
        shim_task_fail_for_device(task);
    } else if (pieces->lost) {
        fail_for_peer(task);
    }
    if (pieces->lost)
        ss_call_lost(task->core);
    if (p)
        ss_pieces_close(p);
}

/* Returns true if the request that was posted last has not ended. */
static bool is_under_way(struct shim_task *task)
{
    int done = 1;

    if (task->native.request != MPI_REQUEST_NULL)
        note(task, shim_real.Test(&task->native.request, &done, MPI_STATUS_IGNORE));
    return !done && task->native.request != MPI_REQUEST_NULL;
}

bool shim_task_pieces_step(struct shim_task *task, bool *over)
{
    struct shim_pieces *pieces = &task->native.pieces;
    struct ss_pieces *p = copies(task);
    bool moved = false;

    if (pieces->posted) {
        if (is_under_way(task) || (p && !pieces->agrees && ss_pieces_has(p, pieces->summed)))
            return false;
        pieces->posted = false;
        if (pieces->agrees) {
            finish(task);
            *over = true;
            return true;
        }
        if (p)
            ss_pieces_take_back(p, pieces->summed);
        pieces->summed++;
        moved = true;
    }
    if (pieces->summed * pieces->size < task->n) {
        if (p && ss_pieces_comes(p, pieces->summed))
            return moved;
        post_piece(task);
    } else {
        if (p && ss_pieces_go(p))
            return moved;
        post_last(task);
    }
    pieces->posted = true;
    return true;
}
