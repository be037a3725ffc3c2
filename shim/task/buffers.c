/* Finds the buffers of a call: those of the program on the host, copies of them there, or device
 * memory in which core serves the call. */
#include <stdio.h>

#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"
#include "shim/task/staged_call.h"
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
    const struct shim_staged *s = task->call.staged;

    return s ? (const char *)s->recv + task->first * ss_type_size(task->type) : NULL;
}

bool shim_task_is_away(const struct shim_task *task)
{
    return task->call.staged && task->call.staged->backend;
}

void shim_task_fail_for_device(struct shim_task *task)
{
    task->status = SS_ERR_DEVICE;
    if (task->text[0]) /* failed before */
        return;
    snprintf(task->text, sizeof task->text, "a buffer in device memory cannot be copied: %s",
             task->call.staged->why);
    atomic_fetch_add(&shim.stats.errors, 1);
    if (!task->blocking) /* raised when the program waits for this one; others may wait before */
        shim_say(CFG_DEBUG_WARN, "%s", task->text);
}

void shim_task_breaks(struct shim_task *task)
{
    task->call.staged->copies = SHIM_COPIES_NONE;
    task->call.staged->backend = NULL;
    task->broken = true;
    task->status = SS_OK;
}

/* Without a thread of ours nobody may come back to it: waits. */
bool shim_task_comes_in(struct shim_task *task)
{
    struct shim_staged *s = task->call.staged;
    int status = s && s->copies == SHIM_COPIES_COMING ? shim_staged_poll(s) : SS_OK;

    if (status == SS_PENDING && !task->blocking && shim_native_is_alone())
        status = shim_staged_finish(s) ? SS_OK : SS_ERR_DEVICE;
    if (status < 0)
        shim_task_fail_for_device(task);
    return status == SS_PENDING;
}

/* The caller of a blocking call brings its result. */
bool shim_task_goes_out(struct shim_task *task)
{
    struct shim_staged *s = task->call.staged;
    int status;

    if (!s || task->blocking || s->copies == SHIM_COPIES_NONE || task->status < 0 ||
        task->err != MPI_SUCCESS)
        return false;
    if (s->copies == SHIM_COPIES_FILLED)
        shim_staged_store(s, &task->call);
    status = shim_staged_poll(s);
    if (status < 0)
        shim_task_fail_for_device(task);
    return status == SS_PENDING;
}
