/* A call from scan to result: scan, vote, calibrate where needed, plan, recipe. */
#include "core/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/call_impl.h"
#include "core/fpenv.h"

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

static uint64_t lane_hash(const struct ss_call *c)
{
    uint64_t fields[] = {c->n, (uint64_t)c->type, (uint64_t)c->op, c->lane ? c->lane->window : 0};
    uint64_t h = 0xcbf29ce484222325ULL;

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        h ^= fields[i];
        h *= 0x100000001b3ULL;
        h ^= h >> 29;
    }
    return h;
}

/* Bytes this rank can give to a recipe and the own stream together, as the plan counts both. */
static uint64_t memory_left(const struct ss_call *c)
{
    const struct ss_mem *mem = c->comm->mem;
    const struct ss_work *w = c->work;
    size_t used = atomic_load(&mem->used), kept = ss_work_kept(w);
    size_t own = (size_t)ss_plan_own(c->n, c->type, c->scan.nnz);

    if (mem->limit == 0)
        return UINT64_MAX;
    return (mem->limit > used ? mem->limit - used : 0) + kept + own;
}

static void fill_ballot(struct ss_call *c, uint64_t flags)
{
    struct ss_comm *comm = c->comm;
    struct ss_ballot *b = &c->vote.ballot;

    ss_ballot_init(b);
    b->flags = flags;
    b->same_min[SS_SAME_SETTINGS] = b->same_max[SS_SAME_SETTINGS] = comm->settings->hash;
    b->same_min[SS_SAME_LANE] = b->same_max[SS_SAME_LANE] = lane_hash(c);
    b->same_min[SS_SAME_CALL] = b->same_max[SS_SAME_CALL] = c->number;
    b->nnz_sum = b->nnz_max = c->scan.nnz;
    b->k_max = c->k;
    b->same_min[SS_SAME_JUMP] = ss_residual_jump(c);
    b->same_min[SS_SAME_KEEP] = ss_keep_code(c);
    b->same_min[SS_SAME_FORCED] = ss_topk_forced(c);
    b->same_min[SS_SAME_STATE] = c->topk ? ss_agreed_hash(&c->tensor->agreed, c->t->size) : 0;
    for (int i = SS_SAME_STATE; i < SS_SAMES; i++)
        b->same_max[i] = b->same_min[i];
    b->ratio_max = ss_double_bits(ss_residual_ratio_square(c));
    b->norm_max = ss_double_bits(c->input_square);
    b->part_max = c->part_max;
    b->memory_min = memory_left(c);
    b->costs[SS_COST_ALPHA] = ss_double_bits(comm->network.alpha);
    b->costs[SS_COST_BETA] = ss_double_bits(comm->network.beta);
    b->costs[SS_COST_SCAN] = ss_double_bits(comm->cost_scan);
    b->costs[SS_COST_VOTE] = ss_double_bits(comm->cost_vote);
    const struct ss_local_costs *local = ss_local_costs();
    b->costs[SS_COST_CODE] = ss_double_bits(local->code);
    b->costs[SS_COST_MERGE] = ss_double_bits(local->merge);
    b->costs[SS_COST_FILL] = ss_double_bits(local->fill);
    if (c->lane) {
        b->result_max = c->lane->history.result_nnz;
        b->last_min = ss_double_bits(c->lane->history.last_seconds);
    }
}

static void start_vote(struct ss_call *c, uint64_t flags)
{
    fill_ballot(c, flags);
    ss_vote_start(&c->vote, c->t, c->number);
    c->mark = ss_call_now(c);
}

static uint64_t own_flags(struct ss_call *c, int status)
{
    struct ss_comm *comm = c->comm;
    uint64_t flags = 0;

    if (status != SS_OK || !c->lane)
        flags |= SS_VOTE_CANNOT;
    if (c->scan.not_finite)
        flags |= SS_VOTE_NOT_FINITE;
    if (comm->off)
        flags |= SS_VOTE_OFF;
    if (comm->polled)
        flags |= SS_VOTE_POLLED;
    if (comm->status < 0)
        flags |= SS_VOTE_BROKEN;
    if (!comm->network.known)
        flags |= SS_VOTE_UNKNOWN;
    if (comm->tensors)
        flags |= ss_topk_flags(c);
    return flags;
}

/* With ALPHA and BETA given nothing measured enters the plan, so that runs repeat; the local costs
 * are then round figures for a current core. */
static void fixed_costs(struct ss_shape *shape, const struct ss_settings *settings, int rounds)
{
    shape->learn = false;
    shape->alpha = settings->alpha;
    shape->beta = settings->beta;
    shape->scan = 1e-10;
    shape->code = 4e-9;
    shape->merge = 2e-9;
    shape->fill = 1e-10;
    shape->vote = rounds * settings->alpha;
}

static enum ss_algorithm forced(const struct ss_call *c)
{
    const struct ss_ballot *b = &c->vote.ballot;
    uint64_t by_rule = b->same_min[SS_SAME_FORCED];

    return ss_ballot_same(b, SS_SAME_FORCED) && by_rule > 0 ? (enum ss_algorithm)(by_rule - 1)
                                                            : c->comm->settings->algorithm;
}

static struct ss_shape shape_of(const struct ss_call *c)
{
    const struct ss_ballot *b = &c->vote.ballot;
    const struct ss_settings *settings = c->comm->settings;
    struct ss_shape shape = {
        .n = c->n,
        .size = c->t->size,
        .type = c->type,
        .coding = settings->coding,
        .forced = forced(c),
        .topk = c->topk,
        .k = b->k_max,
        .values = c->topk ? settings->values : SS_VALUES_SAME,
        .quant = c->topk ? settings->quant : SS_VALUES_SAME,
        .bucket = settings->quant_bucket,
        .learn = true,
        .nnz_sum = b->nnz_sum,
        .nnz_max = b->nnz_max,
        .part_max = b->part_max,
        .memory_min = b->memory_min,
        .alpha = settings->alpha >= 0 ? settings->alpha : ss_bits_double(b->costs[SS_COST_ALPHA]),
        .beta = settings->beta >= 0 ? settings->beta : ss_bits_double(b->costs[SS_COST_BETA]),
        .scan = ss_bits_double(b->costs[SS_COST_SCAN]),
        .code = ss_bits_double(b->costs[SS_COST_CODE]),
        .merge = ss_bits_double(b->costs[SS_COST_MERGE]),
        .fill = ss_bits_double(b->costs[SS_COST_FILL]),
        .vote = ss_bits_double(b->costs[SS_COST_VOTE]),
    };

    if (settings->alpha >= 0 && settings->beta >= 0)
        fixed_costs(&shape, settings, ss_fold_rounds(&c->vote.fold));
    return shape;
}

/* Hands the call to the MPI library on all ranks. */
static int go_native(struct ss_call *c, enum ss_reason reason)
{
    ss_topk_undo(c);
    if (reason == SS_WHY_DENSE)
        ss_residual_join(c);
    c->reason = reason;
    c->native = true;
    c->stage = STAGE_OVER;
    return SS_NATIVE;
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
    double densest = (double)c->vote.ballot.nnz_max / (double)c->n;
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

static int start_recipe(struct ss_call *c)
{
    struct ss_history *h = &c->lane->history;
    struct ss_shape shape = shape_of(c);
    bool observe = c->comm->settings->observe;

    h->result_nnz = c->vote.ballot.result_max;
    ss_history_measured(h, ss_bits_double(c->vote.ballot.last_min));
    ss_plan_make(&shape, h, &c->plan);
    ss_history_planned(h, &c->plan, observe);
    if (c->vote.ballot.flags &
        SS_VOTE_INTEREST) /* a tensor that is watched or registered must vote */
        h->skip = 0;
    book_predictions(c);
    if (observe)
        return go_native(c, SS_WHY_OBSERVE);
    if (c->plan.algorithm == SS_DENSE)
        return go_native(c, c->plan.short_of_memory ? SS_WHY_CANNOT : SS_WHY_DENSE);
    c->stage = STAGE_RECIPE;
    c->step = 0;
    c->arena_used = 0;
    c->result_nnz = 0;
    memset(&c->u, 0, sizeof c->u);
    make_room(c, ss_plan_memory(&shape, c->plan.algorithm));
    ss_fill_start(c);
    ss_topk_recipe(c);
    guard(c);
    c->mark = ss_call_now(c);
    return SS_PENDING;
}

static int vote_again(struct ss_call *c, int status)
{
    c->stage = STAGE_VOTE_AGAIN;
    start_vote(c, own_flags(c, status));
    return SS_PENDING;
}

/* What sends a call to the MPI library before anything else is looked at. */
static const uint64_t NATIVE = SS_VOTE_OFF | SS_VOTE_CANNOT | SS_VOTE_NOT_FINITE;

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
        comm->told = true;
        return give_up(c, SS_ERR_PROTOCOL, -1, SS_PHASE_VOTE);
    }
    bool calibrate = (b->flags & SS_VOTE_UNKNOWN) && c->stage == STAGE_VOTE;
    if (c->stage == STAGE_VOTE && !calibrate && !(b->flags & NATIVE) && ss_residual_rescale(c))
        return vote_again(c, ss_topk_select(c));
    bool native = b->flags & NATIVE;
    bool agreed = (calibrate && !native) || ss_topk_vote(c, b->flags);
    if (b->flags & SS_VOTE_OFF)
        return go_native(c, SS_WHY_OFF);
    if (b->flags & SS_VOTE_CANNOT)
        return go_native(c, SS_WHY_CANNOT);
    if (b->flags & SS_VOTE_NOT_FINITE) {
        ss_residual_not_finite(c);
        return go_native(c, SS_WHY_NOT_FINITE);
    }
    if (!agreed || !ss_ballot_same(b, SS_SAME_KEEP))
        return go_native(c, SS_WHY_UNREGISTERED);
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
    if (recipes[c->plan.algorithm](c) == SS_OK) {
        c->stage = STAGE_DRAIN;
        return SS_PENDING;
    }
    if (!c->moved && c->failed == 0)
        ss_fill_idle(c);
    return SS_PENDING;
}

/* Where the recipe did not see the size of the result: counted in the own part. */
static uint64_t estimate_result(const struct ss_call *c)
{
    uint64_t lo = ss_call_part(c, c->t->rank), hi = ss_call_part(c, c->t->rank + 1);
    struct ss_scan seen = {0};

    if (lo == hi)
        return 0;
    c->kernels->scan(c->type, SS_SUM, c->out + lo * c->esize, (size_t)(hi - lo), 0, NULL, NULL, 0,
                     &seen);
    return (uint64_t)((double)seen.nnz * (double)c->n / (double)(hi - lo));
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
        ss_guard_start(c);
        return true;
    }
    return false;
}

static int step_extra(struct ss_call *c)
{
    if ((c->stage == STAGE_KEEP ? ss_keep_step(c) : ss_guard_step(c)) == SS_OK)
        c->stage = STAGE_DRAIN;
    return SS_PENDING;
}

static int step_drain(struct ss_call *c)
{
    struct ss_history *h = &c->lane->history;

    if (c->failed == 0)
        ss_fill_range(c, 0, c->n);
    if (ss_sends_reap(c) == SS_PENDING)
        return SS_PENDING;
    if (start_extras(c))
        return SS_PENDING;
    if (c->failed == 0 && (c->result_nnz == 0 || c->dense_seen))
        c->result_nnz = estimate_result(c);
    c->times.exchange += ss_call_now(c) - c->mark;
    c->stage = STAGE_OVER;
    if (c->failed < 0)
        return end_failed(c);
    ss_topk_commit(c);
    h->last_seconds = c->times.scan + c->times.vote + c->times.exchange;
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

int ss_call_start(struct ss_call *c, struct ss_comm *comm, enum ss_type type, enum ss_op op,
                  const void *in, void *out, uint64_t n, unsigned window)
{
    ss_fpenv saved;
    int status;

    memset(c, 0, sizeof *c);
    c->comm = comm;
    c->work = &comm->work;
    c->t = comm->t;
    c->kernels = ss_kernels();
    c->type = type;
    c->op = op;
    c->esize = ss_type_size(type);
    c->in = in ? in : out;
    c->in_place = in == NULL;
    c->out = out;
    c->n = n;
    c->stage = STAGE_OVER;
    if (comm->told)
        return fail_again(c);
    c->lane = ss_comm_lane(comm, n, type, op, window);
    if (comm->mismatch)
        return go_native(c, SS_WHY_SETTINGS);
    if (comm->tensors && c->lane && window == 0 &&
        n < SS_WINDOW) /* windows of larger calls are exact */
        ss_topk_start(c);
    if (c->lane && c->lane->history.skip > 0) {
        c->lane->history.skip--;
        return go_native(c, SS_WHY_BACKED_OFF);
    }
    c->number = ++comm->calls;
    c->stage = STAGE_VOTE;

    saved = ss_fpenv_enter();
    status = comm->status < 0 ? SS_OK : ss_call_prepare(c);
    start_vote(c, own_flags(c, status));
    c->last_progress = c->mark;
    ss_fpenv_leave(saved);
    return SS_PENDING;
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

int ss_call_step(struct ss_call *c)
{
    ss_fpenv saved = ss_fpenv_enter();
    int status;

    c->moved = false;
    status = c->t->ops->poll(c->t);
    if (status != SS_OK) {
        status = abandon(c, status, -1, ss_call_phase(c, NULL));
    } else {
        status = step_stage(c);
        double timeout = c->comm->settings->timeout;
        if (status == SS_PENDING && timeout > 0) {
            double now = ss_call_now(c);
            if (c->moved) {
                c->last_progress = now;
            } else if (now - c->last_progress > timeout) {
                int peer;
                enum ss_phase phase = ss_call_phase(c, &peer);
                status = abandon(c, SS_ERR_TIMEOUT, peer, phase);
            }
        }
    }
    ss_fpenv_leave(saved);
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
