/* Where the buffers of a call are: the program's own on the host, images of them there, or device
 * memory in which core serves the call. */
#include <stdio.h>

#include "shim/device/bounce.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"
#include "shim/task/task_impl.h"

const void *shim_task_input(const struct shim_task *task)
{
    return shim_in_place(&task->call)
               ? NULL
               : (const char *)task->call.send + task->first * ss_type_size(task->type);
}

void *shim_task_output(const struct shim_task *task)
{
    return (char *)task->call.recv + task->first * ss_type_size(task->type);
}

const void *shim_task_known_as(const struct shim_task *task)
{
    const struct shim_bounce *b = task->call.bounce;

    return b ? (const char *)b->device_recv + task->first * ss_type_size(task->type) : NULL;
}

bool shim_task_is_away(const struct shim_task *task)
{
    return task->call.bounce && task->call.bounce->place;
}

int shim_task_start_core(struct shim_task *task)
{
    const struct shim_call *call = &task->call;
    const bool away = shim_task_is_away(task), in_place = shim_in_place(call);
    const struct shim_bounce *b = call->bounce;
    struct ss_place *place = away ? b->place : &ss_host;

    if (task->unread)
        return ss_call_start_kind(
            task->core, task->comm->core,
            &(struct ss_collective){.kind = call->kind,
                                    .type = task->type,
                                    .op = task->op,
                                    .root = call->root,
                                    .n = call->kind == SS_KIND_ALLREDUCE ? task->n : task->words,
                                    .cannot = true,
                                    .broken = task->broken});
    if (call->kind == SS_KIND_ALLREDUCE) /* what is away is one window */
        return ss_call_start(task->core, task->comm->core, place, task->type, task->op,
                             !away      ? shim_task_input(task)
                             : in_place ? NULL
                                        : b->device_send,
                             away ? b->device_recv : shim_task_output(task), task->n,
                             (unsigned)(task->first / SS_WINDOW));
    return ss_call_start_kind(task->core, task->comm->core,
                              &(struct ss_collective){
                                  .kind = call->kind,
                                  .type = task->type,
                                  .op = task->op,
                                  .root = call->root,
                                  .n = task->words,
                                  .parts = task->parts,
                                  .in = in_place ? NULL
                                        : away   ? b->device_send
                                                 : call->send,
                                  .out = away ? b->device_recv : call->recv,
                                  .place = place,
                                  .cannot = task->cannot,
                              });
}

void shim_task_fail_for_device(struct shim_task *task)
{
    task->status = SS_ERR_DEVICE;
    if (task->text[0]) /* told before */
        return;
    snprintf(task->text, sizeof task->text, "a buffer in device memory cannot be copied: %s",
             task->call.bounce->why);
    atomic_fetch_add(&shim.stats.errors, 1);
    if (!task->blocking) /* raised when the program waits for this one; others may wait before */
        shim_say(CFG_DEBUG_WARN, "%s", task->text);
}

static void go_on(struct shim_task *task)
{
    task->call.bounce->images = SHIM_IMAGES_EMPTY;
    task->call.bounce->place = NULL;
    task->unread = true;
    task->status = SS_OK;
}

bool shim_task_goes_on(struct shim_task *task)
{
    if (task->call.kind != SS_KIND_ALLREDUCE || !task->call.bounce ||
        (uint64_t)task->call.count >= SS_WINDOW || shim.settings.observe ||
        shim.settings.merge > 0 || shim.settings.quorum != SS_QUORUM_ALL || !shim_pieces_reserve())
        return false;
    go_on(task);
    return true;
}

void shim_task_breaks(struct shim_task *task)
{
    go_on(task);
    task->broken = true;
}

bool shim_task_comes_in(struct shim_task *task)
{
    struct shim_bounce *b = task->call.bounce;
    const int status = b && b->images == SHIM_IMAGES_COMING ? shim_bounce_poll(b) : 0;

    if (status < 0)
        shim_task_fail_for_device(task);
    return status > 0;
}

/* That of a blocking call is its caller's to bring. */
bool shim_task_goes_out(struct shim_task *task)
{
    struct shim_bounce *b = task->call.bounce;
    int status;

    if (!b || task->blocking || b->images == SHIM_IMAGES_EMPTY || task->status < 0 ||
        task->err != MPI_SUCCESS)
        return false;
    if (b->images == SHIM_IMAGES_FILLED)
        shim_bounce_out(b);
    status = shim_bounce_poll(b);
    if (status < 0)
        shim_task_fail_for_device(task);
    return status > 0;
}
