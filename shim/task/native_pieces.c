/* The MPI library's part of a call in pieces that all ranks have agreed on (ss_call_piece), on the
 * private communicator: a row of sums, polled, and behind them a word from every rank whether its
 * part in them was what the call was made with. A rank whose buffers lie in device memory has
 * pieces of them on the host. One whose device has failed takes part all the same, with zeros, and
 * says so in the end: the call is an error on all ranks, and the next vote fails the communicator.
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
    const size_t size = ss_type_size(task->type);
    const struct shim_staged *s = task->call.staged;
    struct ss_pieces *p = copies(task);

    task->summed = 0;
    task->lost = 0;
    task->posted = task->agrees = false;
    task->refusal = MPI_SUCCESS;
    task->native = MPI_REQUEST_NULL;
    return !p || ss_pieces_open(p, task->broken ? &ss_host : s->backend,
                                task->native_in ? s->send : NULL, s->recv, task->n * size,
                                task->piece * size, task->broken ? SS_ERR_DEVICE : SS_OK) == SS_OK;
}

/* Notes the first error. The call goes on, since the other ranks do. */
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
    const struct ss_pieces *p = copies(task);
    const char *in = task->native_in;
    void *out;

    if (p) {
        in = ss_pieces_in(p, task->summed);
        out = ss_pieces_out(p, task->summed);
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
    const struct ss_pieces *p = copies(task);

    task->lost = task->refusal != MPI_SUCCESS || (p && p->status < 0);
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
    struct ss_pieces *p = copies(task);

    if (task->refusal != MPI_SUCCESS) {
        task->err = task->refusal;
        task->refused = true;
    } else if (p && p->status < 0) {
        struct shim_staged *s = task->call.staged;

        if (!task->broken)
            (void)snprintf(s->why, sizeof s->why, "%s", shim_door()->error(s->backend));
        shim_task_fail_for_device(task);
    } else if (task->lost) {
        fail_for_peer(task);
    }
    if (task->lost)
        ss_call_lost(task->core);
    if (p)
        ss_pieces_close(p);
}

/* Returns true if the request that was posted last has not ended. */
static bool is_under_way(struct shim_task *task)
{
    int done = 1;

    if (task->native != MPI_REQUEST_NULL)
        note(task, shim_real.Test(&task->native, &done, MPI_STATUS_IGNORE));
    return !done && task->native != MPI_REQUEST_NULL;
}

bool shim_task_pieces_step(struct shim_task *task, bool *over)
{
    struct ss_pieces *p = copies(task);
    bool moved = false;

    if (task->posted) {
        if (is_under_way(task) || (p && !task->agrees && ss_pieces_holds(p, task->summed)))
            return false;
        task->posted = false;
        if (task->agrees) {
            finish(task);
            *over = true;
            return true;
        }
        if (p)
            ss_pieces_take_back(p, task->summed);
        task->summed++;
        moved = true;
    }
    if (task->summed * task->piece < task->n) {
        if (p && ss_pieces_comes(p, task->summed))
            return moved;
        post_piece(task);
    } else {
        if (p && ss_pieces_go(p))
            return moved;
        post_agreement(task);
    }
    task->posted = true;
    return true;
}
