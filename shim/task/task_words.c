/* Writes warnings, traces and error texts about calls. */
#include "shim/task/task_words.h"
#include "shim/mpi/errors.h"

#include <stdio.h>
#include <string.h>

#include "core/base/fpenv.h"
#include "core/base/launcher.h"
#include "shim/comm/partial_calls.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

/* ---- log lines ---- */

void shim_tell_mismatch(const struct shim_comm *comm)
{
    char differing[400];

    if (comm->rank != 0 || atomic_exchange(&shim.problems.mismatch_logged, true))
        return;
    shim_comm_differing(comm, differing, sizeof differing);
    shim_say(CFG_DEBUG_WARN,
             "communicator \"%s\" of %d ranks: %s must be equal on all ranks and is not; its calls "
             "pass through%s",
             comm->name, comm->size, differing, ss_launcher_advice());
}

/* If all ranks have the warning, the first one logs it. */
void shim_tell_warning(struct shim_comm *comm)
{
    char text[800];
    bool own;

    if (shim.settings.topk && ss_comm_warning(comm->core, text, sizeof text, &own) &&
        (own || comm->rank == 0))
        shim_say(CFG_DEBUG_WARN, "%s", text);
}

void shim_tell_decisions(struct shim_comm *comm)
{
    char text[1000];

    while (shim.settings.decisions && ss_comm_decision(comm->core, text, sizeof text))
        shim_say(CFG_DEBUG_INFO, "%s", text);
}

void shim_tell_wait(const struct shim_task *task, int status)
{
    char text[600];

    if (status == SS_PENDING && ss_call_waits(task->core, text, sizeof text))
        shim_say(CFG_DEBUG_WARN, "%s", text);
}

static void trace_line(const struct shim_task *task, int status)
{
    const struct ss_call *c = task->core;
    char density[32] = "density not looked at";
    const char *ran = "failed", *why = task->status < 0 ? ss_status_text(task->status) : "";

    if (task->status >= 0 && c) {
        bool native = status == SS_NATIVE;

        ran = native ? "native" : ss_algorithm_name(ss_call_algorithm(c));
        why = native ? ss_reason_name(ss_call_reason(c)) : "";
        if (ss_call_density(c) >= 0)
            snprintf(density, sizeof density, "density %.4g", ss_call_density(c));
    }
    shim_say(CFG_DEBUG_TRACE, "communicator \"%s\", call %llu: %lld %s, %s%s%s, %s, %.3f ms",
             task->comm->name, (unsigned long long)task->posted.number, (long long)task->call.count,
             ss_type_name(task->type), ran, *why ? ": " : "", why, density,
             1e3 * (shim_now() - task->posted.begin));
}

void shim_task_trace(const struct shim_task *task, int status)
{
    struct ss_fpenv_full saved;

    if (shim.options.debug < CFG_DEBUG_TRACE)
        return;
    ss_fpenv_enter_full(&saved);
    trace_line(task, status);
    ss_fpenv_leave_full(&saved);
}

/* ---- calls concurrent with partial ones ---- */

static bool are_counted(void)
{
    return shim.stats.timed && !shim_partial_idle();
}

/* Records a call; caller NULL: unknown. */
static void book_synchronous(enum ss_kind kind, int64_t count,
                             const struct shim_code_address *caller)
{
    struct ss_synchronous call = {.kind = kind, .count = (uint64_t)count, .calls = 1};

    if (caller) {
        memcpy(call.site, caller->name, sizeof call.site);
        memcpy(call.symbol, caller->symbol, sizeof call.symbol);
    }
    pthread_mutex_lock(&shim.stats.lock);
    ss_rounds_synchronous(&shim.stats.rounds, &call);
    pthread_mutex_unlock(&shim.stats.lock);
}

void shim_task_book_synchronous(const struct shim_task *task)
{
    if (are_counted() && task->core && ss_call_is_synchronous(task->core))
        book_synchronous(task->call.kind, task->call.count, &task->posted.caller);
}

void shim_book_synchronous(const struct shim_call *call)
{
    struct ss_call_site site;
    struct shim_code_address caller;
    int size;

    if (!are_counted() || shim_real.Comm_size((MPI_Comm)call->comm, &size) != MPI_SUCCESS ||
        size < 2)
        return;
    if (call->site)
        shim_site_find(call->site, &caller, &site);
    book_synchronous(call->kind, call->count, call->site ? &caller : NULL);
}

/* ---- errors ---- */

void shim_explain_failed(const struct shim_comm *comm, char *text, size_t size)
{
    struct ss_fpenv_full saved;

    ss_fpenv_enter_full(&saved);
    if (comm->status == SS_ERR_DEVICE)
        (void)snprintf(
            text, size,
            "rank %d: a call of communicator \"%s\" could not copy its buffers and was not "
            "made. This communicator has failed: the next call here would be matched with an "
            "earlier one of the other ranks",
            comm->rank, comm->name);
    else
        (void)snprintf(text, size,
                       "rank %d: %s waiting for the other ranks of communicator \"%s\" "
                       "(SPARSESHIM_TIMEOUT=%g s)",
                       comm->rank, ss_status_text(comm->status), comm->name, shim.settings.timeout);
    ss_fpenv_leave_full(&saved);
}

int shim_refuse(const struct shim_comm *comm)
{
    char text[300];

    shim_explain_failed(comm, text, sizeof text);
    atomic_fetch_add(&shim.stats.errors, 1);
    return shim_raise(comm->handle, comm->status, text);
}

/* Returns the communicator whose handler hears of an error: MPI_COMM_SELF if the application has
 * freed its own. */
static MPI_Comm handler_of(const struct shim_task *task)
{
    return atomic_load(&task->comm->freed) ? MPI_COMM_SELF : task->comm->handle;
}

int shim_task_code(struct shim_task *task)
{
    if (task->status < 0 && !task->raised) {
        task->raised = true;
        task->err = shim_raise(handler_of(task), task->status, task->text);
    } else if (task->refused && !task->raised) {
        task->raised = true;
        shim_real.Comm_call_errhandler(handler_of(task), task->err);
    }
    return task->err;
}
