/* The core of a call: its wait for earlier calls, look, votes, run and end. Drivers do the work
 * with other ranks (struct ss_driver); core/call/decide.c decides after a vote. */
#include "core/call/call.h"

#include "core/base/fpenv.h"
#include "core/call/group.h"

/* ---- ends ---- */

static int end_failed(struct ss_call *call);

/* The backend has what the MPI library is to find: undone claims, a residual that joins. */
static int step_leave(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    const int status = ss_exchange_poll(x);

    if (status == SS_PENDING)
        return SS_PENDING;
    if (status < 0 && call->f.state == SS_TOPK_JOINED && call->f.c.in == call->f.c.out) {
        ss_fail(x, SS_ERR_DEVICE, x->t->rank, SS_PHASE_GATHER);
        return end_failed(call);
    }
    if (status < 0) /* the input is what it was; the residual is lost with its backend */
        ss_topk_move(&call->f.state, SS_ON_LEAVE);
    if (call->reason == SS_WHY_CANNOT)
        ss_in_flight_give_back(&call->flight);
    call->stage = SS_STAGE_OVER;
    ss_trace_begin(x, SS_SPAN_NATIVE, NULL, -1);
    return SS_NATIVE;
}

/* Returns true if residuals may join the input. A residual that joins an input with Inf or NaN is
 * lost, and before the sum of a host no rank has looked. */
static bool takes_residuals(const struct ss_feedback *f, enum ss_reason reason)
{
    if (ss_topk_differs(f) || (f->vote.ballot.flags & SS_VOTE_NOT_FINITE))
        return false;
    return reason == SS_WHY_DENSE || (reason == SS_WHY_CALLBACKS && !ss_host_sum_due(f));
}

/* Hands the call to the MPI library on all ranks. */
static int go_native(struct ss_call *call, enum ss_reason reason)
{
    struct ss_feedback *f = &call->f;
    struct ss_exchange *x = &f->c.x;

    ss_topk_undo(f);
    if (takes_residuals(f, reason))
        ss_join_start(f);
    call->reason = reason;
    call->native = call->decided = true;
    call->pieces = ss_ballot_pieces(f, reason);
    call->stage = SS_STAGE_LEAVE;
    x->ticket = x->backend->ops->latest(x->backend);
    return step_leave(call);
}

void ss_call_lost(struct ss_call *call)
{
    struct ss_comm *comm = call->f.comm;

    ss_comm_fail(comm, SS_ERR_DEVICE, comm->t->rank, SS_PHASE_VOTE, call->number);
}

static int end_failed(struct ss_call *call)
{
    const struct ss_exchange *x = &call->f.c.x;

    ss_topk_fail(&call->f);
    call->stage = SS_STAGE_OVER;
    ss_comm_fail(call->f.comm, x->failed, x->failed_peer, x->failed_phase, call->number);
    return x->failed;
}

/* What the backend is still at may end in the call's storage, and claims may be among it. */
static int step_given_up(struct ss_call *call)
{
    int status = ss_exchange_poll(&call->f.c.x);

    if (status == SS_PENDING)
        return SS_PENDING;
    ss_call_look_over(&call->look, status);
    return end_failed(call);
}

/* This call fails because an earlier one did. */
static int fail_again(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    const struct ss_comm *comm = call->f.comm;

    ss_topk_fail(&call->f);
    ss_fail(x, comm->status, comm->failed_peer, comm->failed_phase);
    call->failed_call = comm->failed_call;
    call->stage = SS_STAGE_OVER;
    return x->failed;
}

/* ---- votes and decisions ---- */

static int step_driver(struct ss_call *call);

static int step_look(struct ss_call *call)
{
    bool enters = call->member.merges && !call->revote;
    int status = ss_call_look(&call->look);

    if (status == SS_PENDING)
        return SS_PENDING;
    if (status == SS_ERR_DEVICE)
        ss_call_lost(call);
    ss_call_drive(call, enters ? &ss_group_vote_driver : &ss_vote_driver);
    return enters ? step_driver(call) : SS_PENDING;
}

static int start_look(struct ss_call *call, enum ss_look_from from)
{
    call->stage = SS_STAGE_LOOK;
    ss_call_look_start(&call->look, from);
    return step_look(call);
}

static int go_on(struct ss_call *call)
{
    switch (ss_call_decide(call)) {
    case SS_NEXT_ALGORITHM:
        call->decided = true;
        ss_call_drive(call, &ss_algorithm_driver);
        return SS_PENDING;
    case SS_NEXT_CALIBRATE:
        call->revote = true;
        ss_call_drive(call, &ss_calibrate_driver);
        return SS_PENDING;
    case SS_NEXT_HOST_SUM:
        call->revote = true;
        ss_call_drive(call, &ss_host_sum_driver);
        return SS_PENDING;
    case SS_NEXT_LOOK_INPUT:
        call->revote = true;
        return start_look(call, SS_LOOK_INPUT);
    case SS_NEXT_NATIVE:
        return go_native(call, call->reason);
    case SS_NEXT_FAIL:
        return end_failed(call);
    default:
        return fail_again(call);
    }
}

static int decide(struct ss_call *call)
{
    void (*decided)(struct ss_call *) = call->driver->decided;
    int status = go_on(call);

    if (decided)
        decided(call);
    return status;
}

static int step_driver(struct ss_call *call)
{
    int status = call->driver->step(call);

    if (status < 0)
        return end_failed(call);
    if (status == SS_PENDING)
        return SS_PENDING;
    switch (call->driver->then) {
    case SS_THEN_DECIDE:
        return decide(call);
    case SS_THEN_VOTE:
        ss_call_drive(call, &ss_vote_driver);
        return SS_PENDING;
    case SS_THEN_LOOK:
        return start_look(call, call->f.comm->status == SS_OK ? SS_LOOK_INPUT : SS_LOOK_EXTRAS);
    case SS_THEN_DRAIN:
        call->stage = SS_STAGE_DRAIN;
        return SS_PENDING;
    default:
        call->stage = SS_STAGE_OVER;
        return SS_OK;
    }
}

/* ---- the result ---- */

/* Returns the seconds that a plan predicts: from the look at the input until the residual is in
 * order, with an ordinary selection and without GUARD. begin: of the exchange. */
static double whole_seconds(const struct ss_feedback *f, double begin)
{
    const struct ss_exchange *x = &f->c.x;
    double scan = ss_topk_claims(f) ? ss_select_cost(f) * (double)f->select_n : x->spans.times.scan;

    return scan + f->host.seconds + x->spans.times.vote + (ss_now(x) - begin) - f->guard_seconds;
}

static int step_count(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;

    if (!ss_settled(x, SS_PHASE_GATHER))
        return SS_PENDING;
    if (x->failed == 0)
        c->result_nnz = ss_kind_result(&call->f, &call->result);
    ss_span_end(x, SS_SPAN_EXCHANGE, call->stage_begin);
    call->stage = SS_STAGE_OVER;
    if (x->failed < 0)
        return end_failed(call);
    ss_topk_commit(&call->f);
    ss_in_flight_book_seconds(&call->flight, whole_seconds(&call->f, call->stage_begin));
    /* the result tells how much the ranks' sets overlap */
    if (!ss_topk_global(&call->f, call->plan.algorithm))
        ss_in_flight_add_result(&call->flight);
    return SS_OK;
}

/* The result is written; the backend may still be at it. */
static int step_drain(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;

    if (x->failed == 0)
        ss_fill_range(c, c->out_first, c->out_first + c->out_n);
    if (ss_sends_reap(x) == SS_PENDING)
        return SS_PENDING;
    if (ss_after_start(&call->f)) {
        ss_call_drive(call, &ss_after_driver);
        return SS_PENDING;
    }
    x->ticket = x->backend->ops->latest(x->backend);
    if (x->failed == 0)
        ss_kind_count(c, &call->result);
    call->stage = SS_STAGE_COUNT;
    return step_count(call);
}

/* ---- when it begins ---- */

/* It begins. */
static int begin(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;
    struct ss_comm *comm = f->comm;

    ss_in_flight_begin(&call->flight);
    call->stage = SS_STAGE_OVER;
    if (comm->failure_agreed) { /* since it has entered */
        f->tensor = NULL;
        return fail_again(call);
    }
    ss_topk_start(f);
    if (ss_partial_is_next(f)) {
        ss_call_drive(call, &ss_round_driver);
        return SS_PENDING;
    }
    ss_partial_begin_full(f);
    if (ss_in_flight_starts_skipped(&call->flight)) {
        f->lane->history.skip--;
        return go_native(call, comm->settings->observe ? SS_WHY_OBSERVE : SS_WHY_BACKED_OFF);
    }
    f->c.x.number = ++comm->calls;
    if (call->broken)
        ss_call_lost(call);
    ss_group_assign(&call->member, f);
    bool looks = comm->status == SS_OK && !f->cannot;
    return start_look(call, looks ? SS_LOOK_ALL : SS_LOOK_EXTRAS);
}

static int step_wait(struct ss_call *call)
{
    if (!ss_in_flight_may_begin(&call->flight)) { /* waits for calls of this rank, not for others */
        ss_comm_wait_for_none(call->f.comm);
        call->wait.steps = 0;
        return SS_PENDING;
    }
    call->f.c.x.moved = true;
    return begin(call);
}

static int step_stage(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;

    switch (call->stage) {
    case SS_STAGE_WAIT:
        return step_wait(call);
    case SS_STAGE_LOOK:
        return step_look(call);
    case SS_STAGE_DRIVEN:
        return step_driver(call);
    case SS_STAGE_DRAIN:
        return step_drain(call);
    case SS_STAGE_COUNT:
        return step_count(call);
    case SS_STAGE_LEAVE:
        return step_leave(call);
    case SS_STAGE_GIVEN_UP:
        return step_given_up(call);
    default:
        return x->failed < 0 ? x->failed : SS_OK;
    }
}

/* ---- the call ---- */

static int enter(struct ss_call *call, struct ss_comm *comm, const struct ss_collective *what)
{
    struct ss_feedback *f = &call->f;

    ss_call_init(call, comm, what);
    if (comm->settings->trace)
        ss_trace_open(&call->f.c.x, comm->settings->trace, ss_kind_name(what->kind));
    ss_in_flight_enter(call);
    call->stage = SS_STAGE_OVER;
    comm->failure_agreed =
        comm->failure_agreed || ss_in_flight_is_from(&call->flight, comm->failure_from);
    if (comm->failure_agreed)
        return fail_again(call);
    if (ss_in_flight_is_from(&call->flight, comm->mismatch_from)) {
        f->lane = ss_comm_lane(comm, &f->key, f->reported_n, f->reported_type);
        return go_native(call, SS_WHY_SETTINGS);
    }
    call->stage = SS_STAGE_WAIT;
    return step_wait(call);
}

int ss_call_start(struct ss_call *call, struct ss_comm *comm, struct ss_backend *backend,
                  enum ss_type type, enum ss_op op, const void *in, void *out, uint64_t n,
                  unsigned window)
{
    struct ss_collective what = {.kind = SS_KIND_ALLREDUCE,
                                 .type = type,
                                 .op = op,
                                 .in = in,
                                 .out = out,
                                 .backend = backend,
                                 .n = n,
                                 .window = window};

    return ss_call_start_kind(call, comm, &what);
}

int ss_call_start_kind(struct ss_call *call, struct ss_comm *comm, const struct ss_collective *what)
{
    int status;

    comm->t->outside = ss_fpenv_enter();
    status = enter(call, comm, what);
    ss_transport_out(comm->t);
    return status;
}

/* Gives up the call's work in flight: after TIMEOUT, or if the transport no longer answers. */
static int abandon(struct ss_call *call, int status, int peer, enum ss_phase phase)
{
    struct ss_exchange *x = &call->f.c.x;
    void (*cancel)(struct ss_call *) = call->stage == SS_STAGE_DRIVEN ? call->driver->cancel : NULL;

    if (call->stage == SS_STAGE_WAIT) /* an earlier call of its tensor has not ended */
        call->f.tensor = NULL;
    x->failed = 0;
    ss_fail(x, status, peer, phase);
    if (cancel)
        cancel(call);
    else
        ss_exchange_cancel(x);
    call->f.comm->failure_agreed = true;
    call->stage = SS_STAGE_GIVEN_UP;
    x->ticket = x->backend->ops->latest(x->backend);
    return step_given_up(call);
}

/* The clock costs more than a step without news: it is looked at every so many of them. */
enum { LOOK_STEPS = 16 };

/* Another step that has not ended the call; it may have to give up. */
static int wait_on(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    struct ss_comm *comm = call->f.comm;
    double timeout = comm->settings->timeout;
    bool moved = x->moved || call->wait.moves != comm->moves; /* or one beside it did */
    int peer;

    comm->moves += x->moved;
    call->wait.moves = comm->moves;
    call->wait.seconds = 0;
    if (x->spans.trace)
        ss_call_trace_wait(call);
    call->wait.steps = moved ? 0 : call->wait.steps + 1;
    if (call->wait.steps == 0 || call->wait.steps % LOOK_STEPS != 0)
        return SS_PENDING;
    if (ss_call_backend_works(&call->f.c.x)) { /* until it is done no rank is missed */
        call->wait.steps = 0;
        return SS_PENDING;
    }
    double now = ss_now(x);
    if (call->wait.steps == LOOK_STEPS)
        call->wait.since = now;
    call->wait.seconds = now - call->wait.since;
    if (x->spans.trace)
        x->spans.trace->idle(x->spans.trace, now);
    if (timeout == 0 || call->wait.seconds <= timeout || ss_stage_waits_on_this_rank(call->stage))
        return SS_PENDING;
    enum ss_phase phase = ss_call_phase(call, &peer);
    return abandon(call, SS_ERR_TIMEOUT, peer, phase);
}

/* Unless another call has done so since this one was last stepped. */
static int poll_once(struct ss_comm *comm, struct ss_wait *wait)
{
    int status = SS_OK;

    if (wait->polls == comm->polls) {
        comm->polls++;
        status = comm->t->ops->poll(comm->t);
    }
    wait->polls = comm->polls;
    return status;
}

int ss_call_step(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    int status;

    x->t->outside = ss_fpenv_enter();
    x->moved = false;
    status = poll_once(call->f.comm, &call->wait);
    if (status != SS_OK && !ss_stage_waits_on_this_rank(call->stage)) {
        status = abandon(call, status, -1, ss_call_phase(call, NULL));
    } else {
        status = step_stage(call);
        if (status == SS_PENDING)
            status = wait_on(call);
    }
    ss_transport_out(x->t);
    return status;
}
