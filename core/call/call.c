/* A call from scan to result: scan, vote, calibrate where needed, plan, recipe. */
#include "core/call/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/call/call_impl.h"
#include "core/base/fpenv.h"

enum {
    STAGE_VOTE,
    STAGE_CALIBRATE,
    STAGE_VOTE_AGAIN,
    STAGE_RECIPE,
    STAGE_KEEP,
    STAGE_GUARD,
    STAGE_DRAIN,
    STAGE_OVER
};

/* ---- vote and plan ---- */

static void start_vote(struct ss_call *c, uint64_t flags)
{
    ss_ballot_fill(c, flags);
    ss_vote_start(&c->vote, c->t, c->number);
    c->mark = ss_call_now(c);
}

/* Hands the call to the MPI library on all ranks. */
static int go_native(struct ss_call *c, enum ss_reason reason)
{
    ss_topk_undo(c);
    if ((reason == SS_WHY_DENSE || reason == SS_WHY_CALLBACKS) && !c->unfit && !c->keeps)
        ss_residual_join(c);
    c->reason = reason;
    c->native = true;
    c->stage = STAGE_OVER;
    return SS_NATIVE;
}

/* As go_native where most likely the lane's next calls will end so, too: they go there without a
 * vote, unless a tensor of the lane is watched or registered. */
static int back_off(struct ss_call *c, enum ss_reason reason)
{
    if (!(c->vote.ballot.flags & SS_VOTE_INTEREST))
        ss_history_back_off(&c->lane->history);
    return go_native(c, reason);
}

/* The first failure on a communicator stays its status. */
static int end_failed(struct ss_call *c)
{
    struct ss_comm *comm = c->comm;

    ss_topk_fail(c);
    c->stage = STAGE_OVER;
    if (comm->status == SS_OK) {
        comm->status = c->failed;
        comm->failed_peer = c->failed_peer;
        comm->failed_phase = c->failed_phase;
        comm->failed_call = c->number;
    }
    return c->failed;
}

static int give_up(struct ss_call *c, int status, int peer, enum ss_phase phase)
{
    ss_fail(c, status, peer, phase);
    return end_failed(c);
}

/* This call fails because an earlier one did. */
static int fail_again(struct ss_call *c)
{
    const struct ss_comm *comm = c->comm;

    ss_topk_fail(c);
    ss_fail(c, comm->status, comm->failed_peer, comm->failed_phase);
    c->number = comm->failed_call;
    c->stage = STAGE_OVER;
    return c->failed;
}

static void book_predictions(struct ss_call *c)
{
    struct ss_lane_record *r = c->lane->record;

    if (!r)
        return;
    pthread_mutex_lock(&c->comm->stats->lock);
    for (int a = 0; a < SS_ALGORITHMS; a++) {
        bool runs = c->plan.seconds[a] >= 0; /* one call that could not run it spoils the mean */
        r->predicted_seconds[a] += runs ? c->plan.seconds[a] : (double)INFINITY;
        r->predicted_bytes[a] += runs ? c->plan.bytes[a] : (double)INFINITY;
    }
    double densest = ss_kind_density_max(c);
    if (densest > r->density_max)
        r->density_max = densest;
    pthread_mutex_unlock(&c->comm->stats->lock);
}

/* Work space of other collectives makes way where it may be needed. */
static void make_room(struct ss_call *c, double bytes)
{
    const struct ss_mem *mem = c->comm->mem;
    size_t used = atomic_load(&mem->used);

    if (mem->limit > 0 && (mem->limit <= used || bytes > (double)(mem->limit - used)))
        ss_work_drop(c->work);
}

/* A rank asks for the comparison: all take part. */
static void guard(struct ss_call *c)
{
    if (!(c->vote.ballot.flags & SS_VOTE_GUARD) || !c->topk || c->guarded)
        return;
    c->guarded = true;
    ss_guard_take(c);
}

static int vote_again(struct ss_call *c, int status)
{
    c->stage = STAGE_VOTE_AGAIN;
    start_vote(c, ss_ballot_flags(c, status));
    return SS_PENDING;
}

/* Its tensor rested, and the plan is sparse: what it claims is voted on. */
static int wake(struct ss_call *c)
{
    ss_topk_wake(c);
    return vote_again(c, ss_call_select(c));
}

static int start_recipe(struct ss_call *c)
{
    struct ss_history *h = &c->lane->history;
    struct ss_shape shape = ss_ballot_shape(c);
    bool observe = c->comm->settings->observe;

    h->result_nnz = c->vote.ballot.result_max;
    ss_history_measured(h, ss_bits_double(c->vote.ballot.last_min));
    ss_plan_make(&shape, h, &c->plan);
    if (c->resting && c->plan.algorithm != SS_DENSE)
        return wake(c);
    ss_scale_seen(c);
    if (c->plan.settled)
        ss_topk_planned(c, c->plan.algorithm == SS_DENSE);
    ss_history_planned(h, &c->plan, observe);
    book_predictions(c);
    if (observe) {
        ss_observe(c);
        return go_native(c, SS_WHY_OBSERVE);
    }
    if (c->resting && !c->plan.settled) /* how long dense takes is to be known first */
        return go_native(c, SS_WHY_DENSE);
    if (c->plan.algorithm == SS_DENSE)
        return back_off(c, c->plan.short_of_memory ? SS_WHY_CANNOT : SS_WHY_DENSE);
    c->stage = STAGE_RECIPE;
    c->step = 0;
    c->arena_used = 0;
    c->result_nnz = 0;
    memset(&c->u, 0, sizeof c->u);
    make_room(c, ss_plan_memory(&shape, c->plan.algorithm));
    ss_kind_recipe(c);
    ss_fill_start(c);
    ss_topk_recipe(c);
    guard(c);
    c->mark = ss_call_now(c);
    return SS_PENDING;
}

/* What sends a call to the MPI library before anything else is looked at. */
static const uint64_t NATIVE = SS_VOTE_OFF | SS_VOTE_CANNOT | SS_VOTE_LAYOUT | SS_VOTE_NOT_FINITE;

/* What the combined ballot says, in the order of precedence. */
static int decide(struct ss_call *c)
{
    struct ss_comm *comm = c->comm;
    const struct ss_ballot *b = &c->vote.ballot;

    if (b->flags & SS_VOTE_BROKEN) {
        comm->told = true;
        return comm->status < 0 ? fail_again(c) : give_up(c, SS_ERR_PEER, -1, SS_PHASE_VOTE);
    }
    if (!ss_ballot_same(b, SS_SAME_SETTINGS)) {
        comm->mismatch = true;
        return go_native(c, SS_WHY_SETTINGS);
    }
    if (!ss_ballot_same(b, SS_SAME_CALL) || !ss_ballot_same(b, SS_SAME_LANE)) {
        bool lane = ss_ballot_same(b, SS_SAME_CALL);

        comm->told = true;
        return give_up(c, lane ? SS_ERR_DIFFERENT : SS_ERR_PROTOCOL, -1, SS_PHASE_VOTE);
    }
    c->lane->holds = b->flags & SS_VOTE_HOLDS;
    bool calibrate = (b->flags & SS_VOTE_UNKNOWN) && c->stage == STAGE_VOTE;
    bool callbacks = comm->nonblocking && (b->flags & SS_VOTE_CALLBACKS);
    bool native = callbacks || (b->flags & NATIVE);
    enum ss_scaling scaling = SS_SCALE_KNOWN;
    if (c->stage == STAGE_VOTE && !calibrate && !native)
        scaling = ss_scale_look(c);
    if (scaling == SS_SCALE_CHANGED)
        return vote_again(c, c->resting ? SS_OK : ss_topk_select(c));
    bool agreed = (calibrate && !native) ||
                  (c->woken ? ss_topk_claimed(c, b->flags) : ss_topk_vote(c, b->flags));
    if (b->flags & SS_VOTE_OFF)
        return go_native(c, SS_WHY_OFF);
    if (b->flags & SS_VOTE_CANNOT)
        return go_native(c, SS_WHY_CANNOT);
    if (callbacks)
        return go_native(c, SS_WHY_CALLBACKS);
    if (b->flags & SS_VOTE_LAYOUT)
        return back_off(c, SS_WHY_BUFFER);
    if (!ss_ballot_same(b, SS_SAME_FORM))
        return back_off(c, SS_WHY_TYPE);
    if (b->flags & SS_VOTE_NOT_FINITE) {
        ss_scale_not_finite(c);
        return go_native(c, SS_WHY_NOT_FINITE);
    }
    if (!agreed || !ss_ballot_same(b, SS_SAME_KEEP))
        return go_native(c, SS_WHY_UNREGISTERED);
    if (c->unfit)
        return go_native(c, SS_WHY_UNFIT);
    if (scaling == SS_SCALE_OPEN)
        return go_native(c, SS_WHY_SCALE);
    if (b->flags & (SS_VOTE_UNLIKE | SS_VOTE_DRAIN))
        return go_native(c, SS_WHY_DENSE);
    if (calibrate) {
        c->stage = STAGE_CALIBRATE;
        c->step = 0;
        return SS_PENDING;
    }
    comm->costs_agreed = true;
    return start_recipe(c);
}

/* ---- stages ---- */

static int step_vote(struct ss_call *c)
{
    int status = ss_vote_step(&c->vote, &c->moved);

    if (status == SS_PENDING)
        return SS_PENDING;
    double now = ss_call_now(c);
    double seconds = now - c->mark;
    c->times.vote += seconds;
    if (c->comm->cost_vote == 0 || seconds < c->comm->cost_vote)
        c->comm->cost_vote = seconds;
    c->bytes_sent += c->vote.bytes;
    if (status != SS_OK) {
        ss_vote_cancel(&c->vote);
        return give_up(c, status, c->vote.peer, SS_PHASE_VOTE);
    }
    return decide(c);
}

static int step_calibrate(struct ss_call *c)
{
    int status = ss_calibrate_step(c);

    if (status == SS_PENDING)
        return SS_PENDING;
    c->times.vote += ss_call_now(c) - c->mark;
    if (status != SS_OK) {
        ss_calibrate_cancel(c);
        return give_up(c, status, c->t->rank, SS_PHASE_CALIBRATE);
    }
    return vote_again(c, SS_OK);
}

typedef int recipe(struct ss_call *c);

static recipe *const recipes[SS_ALGORITHMS] = {
    [SS_RECURSIVE_DOUBLING] = ss_recursive_doubling_step,
    [SS_SPLIT_ALLGATHER] = ss_split_allgather_step,
    [SS_DSAR] = ss_dsar_step,
    [SS_RING] = ss_ring_step,
    [SS_ALLGATHER] = ss_allgather_step,
    [SS_OKTOPK] = ss_oktopk_step,
    [SS_GTOPK] = ss_gtopk_step,
};

static int step_recipe(struct ss_call *c)
{
    recipe *step = c->kind == SS_KIND_ALLREDUCE ? recipes[c->plan.algorithm] : ss_kind_step;

    if (step(c) == SS_OK) {
        c->stage = STAGE_DRAIN;
        return SS_PENDING;
    }
    if (!c->moved && c->failed == 0)
        ss_fill_idle(c);
    return SS_PENDING;
}

/* What follows the recipe, one after the other: the kept elements, the comparison of GUARD. */
static bool start_extras(struct ss_call *c)
{
    if (c->topk && c->keep.count > 0 && !c->keep.done) {
        c->keep.done = true;
        c->stage = STAGE_KEEP;
        ss_keep_start(c);
        return true;
    }
    if (c->guarded) {
        c->guarded = false;
        c->stage = STAGE_GUARD;
        c->aside -= ss_call_now(c);
        ss_guard_start(c);
        return true;
    }
    return false;
}

static int step_extra(struct ss_call *c)
{
    bool guards = c->stage == STAGE_GUARD;

    if ((guards ? ss_guard_step(c) : ss_keep_step(c)) != SS_OK)
        return SS_PENDING;
    c->stage = STAGE_DRAIN;
    if (guards)
        c->aside += ss_call_now(c);
    return SS_PENDING;
}

/* What the plan is to predict: all of the call, from the look at its input until the residual is in
 * order, but of an ordinary selection and without GUARD. */
static double whole_seconds(const struct ss_call *c)
{
    double scan = c->topk ? ss_select_cost(c) * (double)c->n : c->times.scan;

    return scan + c->times.vote + (ss_call_now(c) - c->mark) - c->aside;
}

static int step_drain(struct ss_call *c)
{
    struct ss_history *h = &c->lane->history;

    if (c->failed == 0)
        ss_fill_range(c, c->out_first, c->out_first + c->out_n);
    if (ss_sends_reap(c) == SS_PENDING)
        return SS_PENDING;
    if (start_extras(c))
        return SS_PENDING;
    if (c->failed == 0)
        c->result_nnz = ss_kind_result(c);
    c->times.exchange += ss_call_now(c) - c->mark;
    c->stage = STAGE_OVER;
    if (c->failed < 0)
        return end_failed(c);
    ss_topk_commit(c);
    h->last_seconds = whole_seconds(c);
    if (c->plan.algorithm != SS_OKTOPK && c->plan.algorithm != SS_GTOPK) {
        h->result_nnz = c->result_nnz; /* tells how much the ranks' sets overlap */
        h->result_sum = c->vote.ballot.nnz_sum;
    }
    return SS_OK;
}

static int step_stage(struct ss_call *c)
{
    switch (c->stage) {
    case STAGE_VOTE:
    case STAGE_VOTE_AGAIN:
        return step_vote(c);
    case STAGE_CALIBRATE:
        return step_calibrate(c);
    case STAGE_RECIPE:
        return step_recipe(c);
    case STAGE_KEEP:
    case STAGE_GUARD:
        return step_extra(c);
    case STAGE_DRAIN:
        return step_drain(c);
    default:
        return c->failed < 0 ? c->failed : SS_OK;
    }
}

/* ---- the call ---- */

static int enter(struct ss_call *c, struct ss_comm *comm, const struct ss_collective *what,
                 unsigned window)
{
    int status = SS_OK;

    memset(c, 0, sizeof *c);
    c->comm = comm;
    c->work = &comm->work;
    c->t = comm->t;
    c->kernels = ss_kernels();
    ss_kind_init(c, what, window);
    c->stage = STAGE_OVER;
    if (comm->told)
        return fail_again(c);
    c->lane = ss_comm_lane(comm, &c->key, what->n, what->type);
    if (comm->mismatch)
        return go_native(c, SS_WHY_SETTINGS);
    if (comm->tensors && c->lane->number < SS_LANES && c->kind == SS_KIND_ALLREDUCE &&
        window == 0 && c->n < SS_WINDOW) /* windows of larger calls are exact */
        ss_topk_start(c);
    if (c->lane->history.skip > 0) {
        c->lane->history.skip--;
        return go_native(c, comm->settings->observe ? SS_WHY_OBSERVE : SS_WHY_BACKED_OFF);
    }
    c->number = ++comm->calls;
    c->stage = STAGE_VOTE;
    if (comm->status == SS_OK && !c->cannot)
        status = ss_call_prepare(c);
    start_vote(c, ss_ballot_flags(c, status));
    return SS_PENDING;
}

static int start(struct ss_call *c, struct ss_comm *comm, const struct ss_collective *what,
                 unsigned window)
{
    int status;

    comm->t->outside = ss_fpenv_enter();
    status = enter(c, comm, what, window);
    ss_fpenv_leave(comm->t->outside);
    return status;
}

int ss_call_start(struct ss_call *c, struct ss_comm *comm, enum ss_type type, enum ss_op op,
                  const void *in, void *out, uint64_t n, unsigned window)
{
    struct ss_collective what = {
        .kind = SS_KIND_ALLREDUCE, .type = type, .op = op, .in = in, .out = out, .n = n};

    return start(c, comm, &what, window);
}

int ss_call_start_kind(struct ss_call *c, struct ss_comm *comm, const struct ss_collective *what)
{
    return start(c, comm, what, 0);
}

/* Everything this call has under way is given up: TIMEOUT, or a transport that no longer answers.
 */
static int abandon(struct ss_call *c, int status, int peer, enum ss_phase phase)
{
    if (c->stage == STAGE_VOTE || c->stage == STAGE_VOTE_AGAIN)
        ss_vote_cancel(&c->vote);
    else if (c->stage == STAGE_CALIBRATE)
        ss_calibrate_cancel(c);
    else
        ss_flow_cancel(c);
    c->failed = 0;
    c->comm->told = true;
    return give_up(c, status, peer, phase);
}

/* The clock costs more than a step without news: it is looked at every so many of them. */
enum { LOOK_STEPS = 16 };

/* Another step that has not ended the call; it may have to give up. */
static int wait_on(struct ss_call *c)
{
    double timeout = c->comm->settings->timeout;
    int peer;

    c->waited = 0;
    c->idle_steps = c->moved ? 0 : c->idle_steps + 1;
    if (c->idle_steps == 0 || c->idle_steps % LOOK_STEPS != 0)
        return SS_PENDING;
    double now = ss_call_now(c);
    if (c->idle_steps == LOOK_STEPS)
        c->waiting_since = now;
    c->waited = now - c->waiting_since;
    if (timeout == 0 || c->waited <= timeout)
        return SS_PENDING;
    enum ss_phase phase = ss_call_phase(c, &peer);
    return abandon(c, SS_ERR_TIMEOUT, peer, phase);
}

int ss_call_step(struct ss_call *c)
{
    int status;

    c->t->outside = ss_fpenv_enter();
    c->moved = false;
    status = c->t->ops->poll(c->t);
    if (status != SS_OK) {
        status = abandon(c, status, -1, ss_call_phase(c, NULL));
    } else {
        status = step_stage(c);
        if (status == SS_PENDING)
            status = wait_on(c);
    }
    ss_fpenv_leave(c->t->outside);
    return status;
}

/* Where the call is, and whom it waits for (-1: nobody in particular). */
enum ss_phase ss_call_phase(struct ss_call *c, int *peer)
{
    int nobody;

    if (!peer)
        peer = &nobody;
    *peer = -1;
    if (c->stage == STAGE_VOTE || c->stage == STAGE_VOTE_AGAIN) {
        *peer = c->vote.peer;
        return SS_PHASE_VOTE;
    }
    if (c->stage == STAGE_CALIBRATE) {
        *peer = (c->t->rank + c->t->size - 1) % c->t->size;
        return SS_PHASE_CALIBRATE;
    }
    return ss_flow_waiting(c, peer);
}
