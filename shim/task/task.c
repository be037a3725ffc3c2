/* The queue of a communicator and the stages of its calls: windows in core, windows in the MPI
 * library. */
#include "shim/task/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fpenv.h"
#include "shim/comm/progress.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task_impl.h"
#include "shim/task/task_words.h"

/* Within this time of a step of all calls, the watchdog's interval, a post steps its own call
 * alone. Otherwise posts of one layer after the other would poll more often than messages can
 * arrive. */
static const double STEPPED_LATELY = 1e-3;

/* Returns true if the environment of the calling thread changes the result. An allgather adds
 * nothing up. */
static bool has_environment(const struct shim_task *task)
{
    return task->call.kind != SS_KIND_ALLGATHER && ss_type_is_float(task->type) &&
           ss_fpenv_is_unusual(ss_fpenv_now());
}

bool shim_task_init(struct shim_task *task, const struct shim_call *call, struct shim_comm *comm,
                    enum ss_type type, enum ss_op sum, bool blocking)
{
    memset(task, 0, offsetof(struct shim_task, text));
    task->call = *call;
    task->comm = comm;
    task->type = type;
    task->op = sum;
    task->blocking = blocking;
    task->posted.off = atomic_load(&shim.off);
    task->posted.environment = has_environment(task);
    task->native.request = MPI_REQUEST_NULL;
    task->content.kept[0] = task->content.kept[1] = MPI_DATATYPE_NULL;
    task->text[0] = '\0';
    if (shim.options.debug >= CFG_DEBUG_TRACE)
        task->posted.begin = shim_now();
    if (shim.settings.topk && call->kind == SS_KIND_ALLREDUCE && !call->user)
        shim_site_find(call->site, &task->posted.caller, &task->posted.site);
    shim_layout(task);
    return blocking || shim_layout_keep(task);
}

void shim_task_close(struct shim_task *task)
{
    free(task->content.parts);
    free(task->content.lists);
    if (!task->blocking)
        free(task->call.staged);
}

/* ---- windows ---- */

/* Ends a task that has not run, or whose native part was given up, on a communicator that has
 * failed. */
static void fail_for_comm(struct shim_task *task)
{
    task->status = task->comm->status;
    shim_explain_failed(task->comm, task->text, sizeof task->text);
    atomic_fetch_add(&shim.stats.errors, 1);
    shim_task_set_stage(task, SHIM_TASK_DONE);
}

static void start_window(struct shim_task *task);

void shim_task_end_window(struct shim_task *task, int status, double seconds)
{
    struct shim_comm *comm = task->comm;
    struct ss_call *c = task->core;
    const bool more = task->first + task->n < (uint64_t)task->call.count;

    /* The time of the MPI library includes the copies; those back take as long as those there. */
    ss_call_end(c,
                seconds >= 0 && status == SS_NATIVE ? seconds + 2 * task->native.copying : seconds);
    task->exceptions |= ss_call_exceptions(c);
    shim_tell_warning(comm);
    shim_tell_decisions(comm);
    if (status == SS_NATIVE && ss_call_reason(c) == SS_WHY_SETTINGS)
        shim_tell_mismatch(comm);
    if (status < 0) {
        task->status = status;
        ss_call_explain(c, comm->failed, sizeof comm->failed);
        if (!task->broken) /* else its text says what has */
            memcpy(task->text, comm->failed, sizeof task->text);
        shim_say(CFG_DEBUG_WARN, "%s", comm->failed);
    } else if (comm->state == SHIM_COMM_FAILED && task->status == SS_OK && (seconds < 0 || more)) {
        task->status = comm->status;
        shim_explain_failed(comm, task->text, sizeof task->text);
        shim_say(CFG_DEBUG_WARN, "%s", task->text);
        atomic_fetch_add(&shim.stats.errors, 1);
    }
    task->first += task->n;
    if (task->status == SS_OK && task->err == MPI_SUCCESS &&
        task->first < (uint64_t)task->call.count) {
        start_window(task);
        return;
    }
    shim_task_trace(task, status);
    shim_task_book_synchronous(task);
    shim_comm_keep_costs(comm);
    shim_task_set_stage(task, SHIM_TASK_DONE);
}

void shim_task_raise(struct shim_task *task)
{
    unsigned exceptions = task->exceptions;

    if (atomic_load_explicit(&shim.watch.raised, memory_order_relaxed))
        exceptions |= atomic_exchange(&shim.watch.raised, 0);
    task->exceptions = 0;
    if (exceptions)
        ss_fpenv_raise(exceptions);
}

/* Returns true if the call is nonblocking on all ranks. */
static bool is_nonblocking(const struct shim_task *task)
{
    return !task->blocking || task->at_once;
}

/* Sets native_from after a rank has said in the vote that nonblocking calls must go to the MPI
 * library: to the first call that no rank can have started before this call has ended on it. */
static void heed_callbacks(struct shim_task *task)
{
    struct shim_comm *comm = task->comm;

    if (ss_call_callbacks(task->core))
        shim_queue_native_from(&comm->queue,
                               task->posted.number +
                                   (is_nonblocking(task) ? ss_comm_most_in_flight(comm->core) : 1));
}

/* Returns true if the call has nothing more to post in the MPI library on the private
 * communicator. */
static bool is_past(const struct shim_task *task)
{
    switch (shim_task_stage(task)) {
    case SHIM_TASK_CORE:
        return ss_call_is_sparse(task->core);
    case SHIM_TASK_NATIVE:
        return shim_native_is_posted(task);
    case SHIM_TASK_YOURS:
    case SHIM_TASK_DONE:
        return true;
    default:
        return false;
    }
}

/* Returns true if all calls before this one are past: the order of the MPI library's calls is the
 * same on all ranks. */
static bool is_next_native(const struct shim_task *task)
{
    const struct shim_task *before = task->comm->queue.first;

    while (before != task && is_past(before))
        before = before->next;
    return before == task;
}

static bool is_the_librarys(const struct shim_task *task)
{
    const struct shim_comm *comm = task->comm;

    return is_nonblocking(task) && comm->state == SHIM_COMM_SERVED && comm->queue.native_from > 0 &&
           task->posted.number >= comm->queue.native_from;
}

/* Sets native_now if no call waits for another from now on. */
static void stop_waiting(struct shim_comm *comm)
{
    struct shim_queue *queue = &comm->queue;
    const struct shim_task *task = queue->first;

    if (comm->state == SHIM_COMM_FAILED || queue->native_from == 0 ||
        queue->calls + 1 < queue->native_from)
        return;
    while (task && is_past(task))
        task = task->next;
    if (!task)
        atomic_store(&queue->native_now, true);
}

/* Returns true if the following windows, like all later calls, go to the MPI library without a
 * vote. */
static bool is_overtaken(const struct shim_task *task)
{
    return is_nonblocking(task) && ss_call_reason(task->core) == SS_WHY_CALLBACKS &&
           task->first + task->n < (uint64_t)task->call.count;
}

static bool step_held(struct shim_task *task)
{
    if (!is_next_native(task))
        return false;
    if (is_overtaken(task)) {
        ss_call_end(task->core, 0); /* passes the remainder at once */
        shim_native_remainder(task);
    } else {
        shim_native_start(task, ss_call_joined(task->core) ? NULL : shim_task_input(task));
    }
    return true;
}

static void take_status(struct shim_task *task, int status)
{
    if (status == SS_PENDING)
        return;
    if (status != SS_NATIVE) {
        if (status == SS_OK)
            heed_callbacks(task);
        shim_task_end_window(task, status, 0);
    } else if (task->blocking && !task->posted.polled && !ss_call_polled(task->core) &&
               ss_call_piece(task->core) == 0) {
        heed_callbacks(task);
        shim_task_set_stage(task, SHIM_TASK_YOURS);
    } else {
        heed_callbacks(task);
        shim_task_set_stage(task, SHIM_TASK_HELD);
        step_held(task);
    }
}

/* Returns true if other calls may be in progress while this one is in the MPI library. A polled
 * allreduce may add in another order; with fixed costs the answer must therefore not depend on the
 * calls in progress. */
static bool must_poll(void)
{
    return ss_costs_fixed(&shim.settings) ? atomic_load(&shim.requests.made)
                                          : !shim_progress_idle();
}

/* Starts core's call with the window, where the buffers lie. Returns its status. */
static int start_core(struct shim_task *task)
{
    const struct shim_call *call = &task->call;
    const bool away = shim_task_is_away(task), in_place = shim_in_place(call);
    const struct shim_staged *s = call->staged;
    struct ss_backend *backend = away ? s->backend : &ss_host;

    if (task->broken || (task->content.cannot && call->kind == SS_KIND_ALLREDUCE))
        return ss_call_start_kind(
            task->core, task->comm->core,
            &(struct ss_collective){.kind = call->kind,
                                    .type = task->type,
                                    .op = task->op,
                                    .root = call->root,
                                    .n = call->kind == SS_KIND_ALLREDUCE ? task->n
                                                                         : task->content.words,
                                    .window = (unsigned)(task->first / SS_WINDOW),
                                    .cannot = true,
                                    .broken = task->broken});
    if (call->kind == SS_KIND_ALLREDUCE) /* what is away is one window */
        return ss_call_start(task->core, task->comm->core, backend, task->type, task->op,
                             !away      ? shim_task_input(task)
                             : in_place ? NULL
                                        : s->send,
                             away ? s->recv : shim_task_output(task), task->n,
                             (unsigned)(task->first / SS_WINDOW));
    return ss_call_start_kind(task->core, task->comm->core,
                              &(struct ss_collective){
                                  .kind = call->kind,
                                  .type = task->type,
                                  .op = task->op,
                                  .root = call->root,
                                  .n = task->content.words,
                                  .parts = task->content.parts,
                                  .in = in_place ? NULL
                                        : away   ? s->send
                                                 : call->send,
                                  .out = away ? s->recv : call->recv,
                                  .backend = backend,
                                  .cannot = task->content.cannot,
                              });
}

static void start_window(struct shim_task *task)
{
    struct shim_comm *comm = task->comm;
    uint64_t left = (uint64_t)task->call.count - task->first;

    /* only the allreduce has windows; calls of other kinds are one window */
    task->n = left < SS_WINDOW || task->call.kind != SS_KIND_ALLREDUCE ? left : SS_WINDOW;
    if (shim.settings.topk)
        task->posted.site.buffer = shim_task_known_as(task);
    ss_comm_set_caller(comm->core,
                       &(struct ss_caller){.off = task->posted.off,
                                           .environment = task->posted.environment,
                                           .polled = task->posted.polled || must_poll(),
                                           .callbacks = atomic_load(&shim.callbacks.any),
                                           .nonblocking = is_nonblocking(task),
                                           .number = task->posted.number,
                                           .site = task->posted.site});
    if (task == comm->queue.first) {
        ss_comm_begin_anew(comm->core);
        task->core = ss_comm_call(comm->core);
    } else {
        task->core = ss_comm_slot(comm->core);
    }
    comm->queue.started++;
    shim_task_set_stage(task, SHIM_TASK_CORE);
    take_status(task, start_core(task));
}

static void begin(struct shim_task *task)
{
    struct shim_comm *comm = task->comm;
    const bool unread = task->status < 0; /* its buffers cannot be */

    if (unread && comm->state == SHIM_COMM_PASSES)
        shim_native_fail_comm(comm);
    if (unread && (comm->state != SHIM_COMM_SERVED || ss_comm_status(comm->core) < 0)) {
        shim_task_set_stage(task, SHIM_TASK_DONE);
        return;
    }
    if (unread)
        shim_task_breaks(task);
    if (comm->state == SHIM_COMM_FAILED) {
        fail_for_comm(task);
    } else if (comm->state == SHIM_COMM_PASSES) {
        shim_task_set_stage(task,
                            /* a blocking one; nonblocking ones have been posted */
                            SHIM_TASK_YOURS);
    } else if (ss_comm_status(comm->core) < 0) {
        task->status = ss_comm_status(comm->core);
        snprintf(task->text, sizeof task->text, "%s", comm->failed);
        atomic_fetch_add(&shim.stats.errors, 1);
        shim_task_set_stage(task, SHIM_TASK_DONE);
    } else {
        start_window(task);
    }
}

static bool step_native(struct shim_task *task)
{
    double spent = 0;
    bool over = false;
    const bool moved = shim_native_step(task, &over, &spent);

    if (over && task->native.whole)
        shim_task_set_stage(task, SHIM_TASK_DONE);
    else if (over)
        shim_task_end_window(task, SS_NATIVE, spent);
    return moved;
}

static void post_whole(struct shim_task *task)
{
    if (task->call.user)
        shim_user_post(task);
    else
        shim_native_whole(task);
}

static bool step(struct shim_task *task)
{
    int status;

    if (shim_is_out() && shim_task_stage(task) != SHIM_TASK_QUEUED)
        return false;
    switch (shim_task_stage(task)) {
    case SHIM_TASK_QUEUED:
        if (shim_task_comes_in(task))
            return false;
        if (is_the_librarys(task) && task->call.user)
            return shim_user_try_post(task);
        if (is_the_librarys(task))
            shim_native_whole_later(task);
        else
            begin(task);
        return true;
    case SHIM_TASK_CORE:
        if (ss_call_follows(task->core))
            return false;
        if (atomic_load_explicit(&task->request.waited_for, memory_order_relaxed))
            ss_call_wait_for_none(task->core);
        shim_tell_wait(task, status = ss_call_step(task->core));
        bool moved = status != SS_PENDING || ss_call_moved(task->core);
        if (moved && task->next) { /* before other calls log more */
            shim_tell_warning(task->comm);
            shim_tell_decisions(task->comm);
        }
        take_status(task, status);
        return moved;
    case SHIM_TASK_HELD:
        return step_held(task);
    case SHIM_TASK_COPIES:
        return shim_native_copies(task);
    case SHIM_TASK_NATIVE:
        return step_native(task);
    default:
        return false;
    }
}

/* Returns true if a task may be stepped. A task that has not started may start first in the queue,
 * or when core has room for one more concurrent call; later tasks follow it. */
static bool may_step(const struct shim_task *task)
{
    struct shim_comm *comm = task->comm;
    enum shim_stage stage = shim_task_stage(task);

    if (stage != SHIM_TASK_QUEUED || task == comm->queue.first)
        return stage != SHIM_TASK_YOURS;
    if (is_the_librarys(task))
        return task->call.user ? shim_user_is_next(task) : is_next_native(task);
    return !task->blocking && comm->state == SHIM_COMM_SERVED &&
           (uint64_t)task->call.count < SS_WINDOW && ss_comm_status(comm->core) == SS_OK &&
           shim_transport_reserve(&comm->transport, (int)ss_comm_most_in_flight(comm->core)) &&
           ss_comm_slot(comm->core);
}

static bool never_merges(const struct shim_task *task)
{
    return task->blocking || (uint64_t)task->call.count >= SS_WINDOW || is_the_librarys(task);
}

void shim_task_leave(const struct shim_left *left)
{
    shim_request_deliver(left->finished);
}

bool shim_task_step(struct shim_comm *comm, struct shim_left *left)
{
    struct shim_queue *queue = &comm->queue;
    bool moved = false;
    struct shim_task *task, **link, *before = NULL;

    for (link = &queue->first; (task = *link) && may_step(task);) {
        moved = step(task) || moved;
        if (shim_task_stage(task) == SHIM_TASK_QUEUED)
            break;
        if (shim_task_stage(task) != SHIM_TASK_DONE || shim_task_goes_out(task)) {
            before = task;
            link = &task->next;
            continue;
        }
        *link = task->next;
        if (queue->last == task)
            queue->last = before;
        if (task->call.user)
            shim_user_end(task);
        if (!task->blocking) { /* a blocking task belongs to its caller, which reads its stage */
            task->next = left->finished;
            left->finished = task;
        }
    }
    if (task && shim.settings.merge > 0 && comm->core && never_merges(task))
        ss_comm_wait_for_none(comm->core); /* it waits for the calls before it */
    stop_waiting(comm);
    queue->stepped = shim_now();
    return moved;
}

/* Returns true if a posted call is stepped alone: all calls before it have started and were stepped
 * a moment ago. If there is no thread, calls move in the program's calls alone. */
static bool starts_alone(const struct shim_task *before, const struct shim_task *task)
{
    const struct shim_comm *comm = task->comm;

    return before && shim_task_stage(before) == SHIM_TASK_CORE && comm->state == SHIM_COMM_SERVED &&
           !never_merges(task) && !shim_progress_refused() &&
           shim_now() - comm->queue.stepped < STEPPED_LATELY;
}

/* Steps a posted call as far as it gets without other ranks. */
static void step_posted(struct shim_task *before, struct shim_task *task, struct shim_left *left)
{
    if (!starts_alone(before, task)) {
        shim_task_step(task->comm, left);
    } else if (may_step(task)) {
        step(task);
    }
}

static bool is_native_at_once(const struct shim_task *task)
{
    struct shim_comm *comm = task->comm;

    return comm->state == SHIM_COMM_PASSES ||
           (comm->state == SHIM_COMM_SERVED && atomic_load(&comm->queue.native_now));
}

/* Its copies are waited for here, without the lock. */
static void fill_at_once(struct shim_task *task)
{
    struct shim_staged *s = task->call.staged;
    struct shim_call as_seen = task->call;

    if (!task->blocking && s && !s->backend && is_native_at_once(task))
        (void)shim_staged_fill(&as_seen, false);
}

void shim_task_post(struct shim_task *task)
{
    struct shim_comm *comm = task->comm;
    struct shim_queue *queue = &comm->queue;
    struct shim_left left = {.finished = NULL};
    struct shim_task *before;

    fill_at_once(task);
    if (task->posted.environment)
        shim_progress_round_as(ss_fpenv_now());
    pthread_mutex_lock(&comm->lock);
    task->posted.number = ++queue->calls;
    if (task->posted.number == 1 && comm->first.at_creation) /* the program has named it since */
        shim_comm_read_name(comm);
    if (task->call.user) /* on all ranks, which make the same call */
        shim_queue_native_from(queue, task->posted.number);
    task->posted.polled = queue->polled;
    if (!task->blocking) {
        if (shim.settings.merge > 0) /* held only if a thread of the shim steps it meanwhile */
            atomic_store(&task->request.waited_for, shim_progress_refused());
        queue->polled = true;
        atomic_store(&shim.requests.made, true);
    }
    before = queue->last;
    *(before ? &before->next : &queue->first) = task;
    queue->last = task;
    if (!task->blocking) {
        if (is_native_at_once(task))
            post_whole(task); /* native_now may have changed since the caller looked */
        shim_progress_enter(comm);
        if (!shim.requests.by_thread || !shim_progress_is_open())
            step_posted(before, task, &left);
    }
    pthread_mutex_unlock(&comm->lock);
    shim_task_leave(&left);
}
