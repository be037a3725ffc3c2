#define _GNU_SOURCE 1
#include "shim/op.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fpenv.h"
#include "shim/handles.h"
#include "shim/job.h"
#include "shim/log.h"
#include "shim/op_words.h"
#include "shim/progress.h"
#include "shim/real.h"

/* Steps without a result after which the processor is offered to others: on a host with more ranks
 * than cores the message waited for may be theirs to send. */
enum { IDLE_STEPS = 128 };

/* The application may let go of its arrays as soon as its nonblocking call has returned. */
static bool keep_lists(struct shim_op *op)
{
    struct shim_call *call = &op->call;
    size_t bytes = (size_t)op->comm->size * (call->large ? sizeof(int64_t) : sizeof(int));

    if (op->blocking || !call->counts || !call->displs)
        return true;
    op->lists = malloc(2 * bytes);
    if (!op->lists)
        return false;
    memcpy(op->lists, call->counts, bytes);
    memcpy((char *)op->lists + bytes, call->displs, bytes);
    call->counts = op->lists;
    call->displs = (char *)op->lists + bytes;
    return true;
}

bool shim_op_init(struct shim_op *op, const struct shim_call *call, struct shim_comm *comm,
                  enum ss_type type, enum ss_op sum, bool blocking)
{
    memset(op, 0, offsetof(struct shim_op, text));
    op->call = *call;
    op->comm = comm;
    op->type = type;
    op->op = sum;
    op->blocking = blocking;
    op->off = atomic_load(&shim.off);
    op->native = MPI_REQUEST_NULL;
    op->kept[0] = op->kept[1] = MPI_DATATYPE_NULL;
    op->text[0] = '\0';
    if (shim.options.debug >= CFG_DEBUG_TRACE)
        op->begin = shim_now();
    if (shim.settings.topk && call->kind == SS_KIND_ALLREDUCE)
        shim_site_find(call->site, &op->place, &op->site);
    if (!keep_lists(op))
        return false;
    shim_layout(op);
    if (!blocking)
        shim_layout_keep(op);
    return true;
}

void shim_op_close(struct shim_op *op)
{
    free(op->parts);
    free(op->lists);
}

/* ---- windows ---- */

static void set_stage(struct shim_op *op, enum shim_stage stage)
{
    atomic_store_explicit(&op->stage, (int)stage, memory_order_release);
}

static enum shim_stage stage_of(const struct shim_op *op)
{
    return (enum shim_stage)atomic_load_explicit(&op->stage, memory_order_acquire);
}

static const void *input_of(const struct shim_op *op)
{
    return shim_in_place(&op->call)
               ? NULL
               : (const char *)op->call.send + op->first * ss_type_size(op->type);
}

static void *output_of(const struct shim_op *op)
{
    return (char *)op->call.recv + op->first * ss_type_size(op->type);
}

/* The communicator can serve nothing any more: for an operation that has not run, or whose native
 * part was given up. */
static void fail_for_comm(struct shim_op *op)
{
    op->status = op->comm->status;
    shim_explain_failed(op->comm, op->text, sizeof op->text);
    atomic_fetch_add(&shim.stats.errors, 1);
    set_stage(op, SHIM_OP_DONE);
}

static void start_window(struct shim_op *op);

/* A window is over. status: of core's call. seconds: spent in the MPI library after SS_NATIVE, < 0
 * where that failed. */
static void end_window(struct shim_op *op, int status, double seconds)
{
    struct shim_comm *comm = op->comm;
    struct ss_call *c = op->core;

    ss_call_end(c, seconds);
    shim_tell_warning(comm);
    if (status == SS_NATIVE && ss_call_reason(c) == SS_WHY_SETTINGS)
        shim_tell_mismatch(comm);
    if (status < 0) {
        op->status = status;
        ss_call_explain(c, op->text, sizeof op->text);
        shim_say(CFG_DEBUG_WARN, "%s", op->text);
    } else if (comm->state == SHIM_COMM_FAILED) {
        op->status = comm->status;
        shim_explain_failed(comm, op->text, sizeof op->text);
        shim_say(CFG_DEBUG_WARN, "%s", op->text);
        atomic_fetch_add(&shim.stats.errors, 1);
    }
    op->first += op->n;
    if (op->status == SS_OK && op->err == MPI_SUCCESS && op->first < (uint64_t)op->call.count) {
        start_window(op);
        return;
    }
    shim_op_trace(op, status);
    shim_comm_keep_costs(comm);
    shim_tell_op_refusals(op);
    set_stage(op, SHIM_OP_DONE);
}

static int post_allgather(struct shim_op *op)
{
    const struct shim_call *c = &op->call;
    MPI_Comm comm = op->comm->private;

    if (!c->counts)
        return shim_real.Iallgather(c->send, (int)c->send_count, (MPI_Datatype)c->send_type,
                                    c->recv, (int)c->count, (MPI_Datatype)c->type, comm,
                                    &op->native);
    if (!c->large)
        return shim_real.Iallgatherv(c->send, (int)c->send_count, (MPI_Datatype)c->send_type,
                                     c->recv, c->counts, c->displs, (MPI_Datatype)c->type, comm,
                                     &op->native);
    return shim_real_iallgatherv_c(c->send, c->send_count, (MPI_Datatype)c->send_type, c->recv,
                                   c->counts, c->displs, (MPI_Datatype)c->type, comm, &op->native);
}

static int post_reduction(struct shim_op *op, const void *in)
{
    const struct shim_call *c = &op->call;
    MPI_Datatype type = (MPI_Datatype)c->type;
    MPI_Op sum = (MPI_Op)c->op;
    MPI_Comm comm = op->comm->private;

    switch (c->kind) {
    case SS_KIND_REDUCE_SCATTER:
        return shim_real.Ireduce_scatter_block(c->send, c->recv, (int)c->count, type, sum, comm,
                                               &op->native);
    case SS_KIND_REDUCE:
        return shim_real.Ireduce(c->send, c->recv, (int)c->count, type, sum, c->root, comm,
                                 &op->native);
    default:
        return shim_real.Iallreduce(in ? in : MPI_IN_PLACE, output_of(op), (int)op->n, type, sum,
                                    comm, &op->native);
    }
}

/* Runs the window as the MPI library's collective on the private communicator. */
static void post_native(struct shim_op *op)
{
    op->err =
        op->call.kind == SS_KIND_ALLGATHER ? post_allgather(op) : post_reduction(op, op->native_in);
}

/* The next of the barriers that come first where every rank has a TIMEOUT (as shim_comm_assemble
 * has them): a rank is missed there, not in a collective that may take as long as it takes. */
static void post_next(struct shim_op *op)
{
    if (op->barriers > 0) {
        op->barriers--;
        op->assembling = true;
        op->err = shim_real.Ibarrier(op->comm->private, &op->native);
    } else {
        op->assembling = false;
        post_native(op);
    }
}

static void go_native(struct shim_op *op, const void *in)
{
    op->native_in = in;
    op->native_begin = shim_now();
    op->barriers = op->comm->agreed[SHIM_MEET_TIMEOUT] ? 2 : 0;
    post_next(op);
    set_stage(op, SHIM_OP_NATIVE);
}

/* The call as it came, in the MPI library: on the application's communicator where that is not
 * served, else on the private one. */
static void post_whole(struct shim_op *op)
{
    struct shim_call call = op->call;

    if (op->comm->state == SHIM_COMM_SERVED)
        call.comm = (uintptr_t)op->comm->private;
    op->whole = true;
    op->native_begin = shim_now();
    op->err = shim_ipass(&call, &op->native);
    atomic_fetch_add(&shim.stats.passed[op->comm->state == SHIM_COMM_SERVED ? SS_WHY_CALLBACKS
                                                                            : SS_WHY_COMMUNICATOR],
                     1);
    set_stage(op, SHIM_OP_NATIVE);
}

/* Nonblocking calls that wait for their turn, in their order: from here on no call waits for
 * another. */
static void post_waiting(struct shim_comm *comm)
{
    for (struct shim_op *op = comm->queue; op; op = op->next)
        if (!op->blocking && stage_of(op) == SHIM_OP_QUEUED)
            post_whole(op);
}

/* A rank has said in the vote of a call that nonblocking ones are the MPI library's from there on.
 */
static void heed_callbacks(struct shim_op *op)
{
    struct shim_comm *comm = op->comm;

    if (!ss_call_callbacks(op->core) || atomic_load(&comm->natively))
        return;
    post_waiting(comm);
    atomic_store(&comm->natively, true);
}

/* Whether later calls may go to the MPI library before the windows of this one that follow. */
static bool is_overtaken(const struct shim_op *op)
{
    return !op->blocking && ss_call_reason(op->core) == SS_WHY_CALLBACKS &&
           op->first + op->n < (uint64_t)op->call.count;
}

/* What is left of it at once, so that the order is the same on all ranks. */
static void post_rest(struct shim_op *op)
{
    struct shim_call *call = &op->call;

    ss_call_end(op->core, 0);
    if (!shim_in_place(call))
        call->send = input_of(op);
    call->recv = output_of(op);
    call->count -= (int64_t)op->first;
    op->first = 0;
    post_whole(op);
}

static void take_status(struct shim_op *op, int status)
{
    if (status == SS_PENDING)
        return;
    if (status != SS_NATIVE) {
        if (status == SS_OK)
            heed_callbacks(op);
        end_window(op, status, 0);
    } else if (op->blocking && !op->polled && !ss_call_polled(op->core)) {
        heed_callbacks(op);
        set_stage(op, SHIM_OP_YOURS);
    } else if (is_overtaken(op)) {
        post_rest(op);
        heed_callbacks(op);
    } else {
        go_native(op, ss_call_joined(op->core) ? NULL : input_of(op));
        heed_callbacks(op);
    }
}

static int start_core(struct shim_op *op)
{
    const struct shim_call *call = &op->call;

    if (call->kind == SS_KIND_ALLREDUCE)
        return ss_call_start(op->core, op->comm->core, op->type, op->op, input_of(op),
                             output_of(op), op->n, (unsigned)(op->first / SS_WINDOW));
    return ss_call_start_kind(op->core, op->comm->core,
                              &(struct ss_collective){
                                  .kind = call->kind,
                                  .type = op->type,
                                  .op = op->op,
                                  .root = call->root,
                                  .n = op->words,
                                  .parts = op->parts,
                                  .in = shim_in_place(call) ? NULL : call->send,
                                  .out = call->recv,
                                  .cannot = op->cannot,
                              });
}

/* Whether other calls may be under way while this one is the MPI library's. Its allreduce to be
 * polled may add in another order: what is under way at the moment must not matter then. */
static bool must_poll(void)
{
    return ss_costs_fixed(&shim.settings) ? atomic_load(&shim.nonblocking_made)
                                          : !shim_progress_idle();
}

static void start_window(struct shim_op *op)
{
    struct shim_comm *comm = op->comm;
    uint64_t left = (uint64_t)op->call.count - op->first;

    /* Windows are of the allreduce; calls of another kind are one. */
    op->n = left < SS_WINDOW || op->call.kind != SS_KIND_ALLREDUCE ? left : SS_WINDOW;
    ss_comm_set_off(comm->core, op->off);
    ss_comm_set_polled(comm->core, op->polled || must_poll());
    ss_comm_set_callbacks(comm->core, atomic_load(&shim.callbacks), !op->blocking);
    if (shim.settings.topk)
        ss_comm_set_site(comm->core, &op->site);
    op->core = ss_comm_call(comm->core);
    comm->started++;
    set_stage(op, SHIM_OP_CORE);
    take_status(op, start_core(op));
}

static void begin(struct shim_op *op)
{
    struct shim_comm *comm = op->comm;

    if (comm->state == SHIM_COMM_FAILED) {
        fail_for_comm(op);
    } else if (comm->state == SHIM_COMM_PASSES) {
        set_stage(op, SHIM_OP_YOURS); /* a blocking one: the others have been posted */
    } else if (ss_comm_status(comm->core) < 0) {
        /* What ended that call still stands in its storage. */
        op->status = ss_comm_status(comm->core);
        ss_call_explain(ss_comm_call(comm->core), op->text, sizeof op->text);
        atomic_fetch_add(&shim.stats.errors, 1);
        set_stage(op, SHIM_OP_DONE);
    } else {
        start_window(op);
    }
}

/* The request in the MPI library: done, or given up by TIMEOUT. */
static bool step_native(struct shim_op *op)
{
    struct shim_comm *comm = op->comm;
    double spent;
    int done = op->err != MPI_SUCCESS; /* it was refused */

    if (!done) {
        int err = shim_real.Test(&op->native, &done, MPI_STATUS_IGNORE);

        if (err != MPI_SUCCESS) {
            op->err = err;
            done = 1;
        }
    }
    op->refused = op->err != MPI_SUCCESS && comm->state == SHIM_COMM_SERVED;
    spent = shim_now() - op->native_begin;
    if (done && op->assembling && !op->refused) {
        post_next(op);
        return true;
    }
    if (!done && op->assembling && spent > shim.settings.timeout) {
        comm->status = SS_ERR_TIMEOUT;
        comm->state = SHIM_COMM_FAILED;
        spent = -1;
        done = 1;
    }
    if (!done)
        return false;
    if (op->refused)
        spent = -1;
    if (op->whole)
        set_stage(op, SHIM_OP_DONE);
    else
        end_window(op, SS_NATIVE, spent);
    return true;
}

static bool step(struct shim_op *op)
{
    int status;

    switch (stage_of(op)) {
    case SHIM_OP_QUEUED:
        begin(op);
        return true;
    case SHIM_OP_CORE:
        status = ss_call_step(op->core);
        shim_tell_wait(op, status);
        bool moved = status != SS_PENDING || ss_call_moved(op->core);
        take_status(op, status);
        return moved;
    case SHIM_OP_NATIVE:
        return step_native(op);
    default:
        return false;
    }
}

/* A meeting that this rank can take nothing from is still under way. */
static bool waits_for_others(const struct shim_comm *comm)
{
    return comm->state == SHIM_COMM_PASSES && comm->meeting != MPI_REQUEST_NULL;
}

static void meet(struct shim_comm *comm, bool *moved)
{
    if (shim_comm_meet_step(comm, moved) != SS_ERR_PEER || comm->state != SHIM_COMM_MEETING)
        return;
    /* Who sees the new state makes its calls in the MPI library: behind these. */
    for (struct shim_op *op = comm->queue; op; op = op->next)
        if (!op->blocking)
            post_whole(op);
    comm->state = SHIM_COMM_PASSES;
}

bool shim_op_step(struct shim_comm *comm, struct shim_op **finished)
{
    bool moved = false;
    struct shim_op *op;

    if (comm->state == SHIM_COMM_MEETING || waits_for_others(comm)) {
        meet(comm, &moved);
        if (comm->state == SHIM_COMM_MEETING)
            return moved;
    }
    while ((op = comm->queue) && stage_of(op) != SHIM_OP_YOURS) {
        moved = step(op) || moved;
        if (stage_of(op) != SHIM_OP_DONE)
            break;
        comm->queue = op->next;
        if (!comm->queue)
            comm->queue_end = NULL;
        if (!op->blocking) { /* a blocking one belongs to its caller, who looks at its stage */
            op->next = *finished;
            *finished = op;
        }
    }
    return moved;
}

void shim_op_post(struct shim_op *op)
{
    struct shim_comm *comm = op->comm;
    struct shim_op *finished = NULL;

    pthread_mutex_lock(&comm->lock);
    op->number = ++comm->calls;
    op->polled = comm->polled;
    if (!op->blocking) {
        comm->polled = true;
        atomic_store(&shim.nonblocking_made, true);
    }
    if (comm->queue_end)
        comm->queue_end->next = op;
    else
        comm->queue = op;
    comm->queue_end = op;
    if (!op->blocking) {
        if (comm->state == SHIM_COMM_PASSES || atomic_load(&comm->natively))
            post_whole(op); /* since the caller looked */
        shim_progress_enter(comm);
        if (!shim.own_thread)
            shim_op_step(comm, &finished);
    }
    pthread_mutex_unlock(&comm->lock);
    shim_request_deliver(finished);
}

/* ---- blocking ---- */

/* The window in the MPI library, as the application called it. */
static int native_window(const struct shim_op *op)
{
    struct shim_call part = op->call;

    if (ss_call_joined(op->core)) /* the input stands in the receive buffer already */
        part.send = MPI_IN_PLACE;
    if (part.kind != SS_KIND_ALLREDUCE || op->n == (uint64_t)part.count)
        return shim_pass(&part);
    if (!shim_in_place(&part))
        part.send = input_of(op);
    part.recv = output_of(op);
    part.count = (int64_t)op->n;
    part.large = false; /* a window fits an int */
    return shim_pass(&part);
}

/* The MPI library's call may not return, where an error handler of the application jumps out of it,
 * or may make calls from there: while it runs the operation, which lies on the caller's stack, is
 * not in the queue. */
static void leave_queue(struct shim_op *op)
{
    struct shim_comm *comm = op->comm;

    pthread_mutex_lock(&comm->lock);
    comm->queue = op->next;
    if (!comm->queue)
        comm->queue_end = NULL;
    op->started = comm->started;
    pthread_mutex_unlock(&comm->lock);
}

/* Ends its window, unless core has begun another call meanwhile; the next one goes ahead of what
 * waits. Under the lock. */
static void come_back(struct shim_op *op, double spent)
{
    struct shim_comm *comm = op->comm;

    set_stage(op, SHIM_OP_CORE);
    if (op->core && comm->started == op->started)
        end_window(op, SS_NATIVE, spent);
    else
        set_stage(op, SHIM_OP_DONE);
    if (stage_of(op) == SHIM_OP_DONE)
        return;
    op->next = comm->queue;
    comm->queue = op;
    if (!comm->queue_end)
        comm->queue_end = op;
}

static void run_native(struct shim_op *op)
{
    double spent = -1; /* until it has succeeded */
    struct shim_op *finished = NULL;

    leave_queue(op);
    if (!op->core) { /* its communicator passes */
        op->err = shim_pass(&op->call);
    } else if (shim_comm_assemble(op->comm) == SS_OK) {
        double begin = shim_now();

        op->err = native_window(op);
        if (op->err == MPI_SUCCESS)
            spent = shim_now() - begin;
    }
    pthread_mutex_lock(&op->comm->lock);
    come_back(op, spent);
    shim_op_step(op->comm, &finished);
    pthread_mutex_unlock(&op->comm->lock);
    shim_request_deliver(finished);
}

/* One round for the caller of a blocking operation. Other communicators only where they have calls
 * under way, and less often: their own threads step them, too. */
static void wait_a_turn(struct shim_op *op, unsigned turn)
{
    struct shim_op *finished = NULL;

    if (pthread_mutex_trylock(&op->comm->lock) == 0) {
        shim_op_step(op->comm, &finished);
        pthread_mutex_unlock(&op->comm->lock);
        shim_request_deliver(finished);
    }
    if (turn % 4 == 0 && !shim_progress_idle())
        shim_progress();
    if (turn % IDLE_STEPS == 0)
        sched_yield();
}

int shim_op_run(struct shim_op *op)
{
    enum shim_stage stage;

    for (unsigned turn = 1; (stage = stage_of(op)) != SHIM_OP_DONE; turn++) {
        if (stage == SHIM_OP_YOURS)
            run_native(op);
        else
            wait_a_turn(op, turn);
    }
    /* Whoever finished it has then taken it out of the queue. */
    pthread_mutex_lock(&op->comm->lock);
    pthread_mutex_unlock(&op->comm->lock);
    return shim_op_code(op);
}
