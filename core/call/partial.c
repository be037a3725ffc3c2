/* Partial calls (QUORUM): a tensor has a call with all ranks, which votes and plans as ever; where
 * all ranks say there that they can, its next calls are rounds (core/partial/rounds.h), which ask
 * nobody anything, until the next such call. */
#include "core/call/call_impl.h"
#include "core/coll/algorithms.h"
#include "core/partial/rounds.h"
#include "core/tensor/residual.h"

/* Of all rounds. */
static enum ss_algorithm algorithm(const struct ss_settings *s)
{
    return s->algorithm == SS_RECURSIVE_DOUBLING ? SS_RECURSIVE_DOUBLING : SS_ALLGATHER;
}

int ss_comm_open_rounds(struct ss_comm *comm, struct ss_transport *t)
{
    const struct ss_settings *s = comm->settings;
    struct ss_rounds_settings settings = {
        .quorum = s->quorum,
        .staleness = s->quorum_staleness,
        .rounding = {.values = ss_values_of(s->value_type), .bucket = s->quant_bucket},
        .algorithm = ss_algorithms(SS_KIND_ALLREDUCE)[algorithm(s)],
        .trace = &s->trace,
        .name = comm->name,
    };

    comm->rounds_t = t;
    t->layout = comm->t->layout;
    comm->rounds = ss_rounds_create(t, &settings, comm->mem);
    return comm->rounds ? SS_OK : SS_ERR_MEMORY;
}

bool ss_comm_has_rounds(const struct ss_comm *comm)
{
    return comm->rounds != NULL;
}

bool ss_comm_serve(struct ss_comm *comm, bool *under_way)
{
    bool moved;

    comm->rounds_t->outside = ss_fpenv_enter();
    moved = ss_rounds_step(comm->rounds);
    comm->moves += moved;
    *under_way = ss_rounds_under_way(comm->rounds);
    ss_transport_out(comm->rounds_t);
    return moved;
}

/* ---- what the report knows ---- */

/* What the rounds have seen since it was booked last. */
static void book(struct ss_comm *comm)
{
    static const struct ss_rounds_sums none;
    const struct ss_rounds_stats now = ss_rounds_seen(comm->rounds);
    struct ss_rounds_sums more = none;
    struct ss_rounds_record *all = &comm->stats->rounds;

    ss_rounds_sums_add(&more, &now.sum, &comm->rounds_booked);
    pthread_mutex_lock(&comm->stats->lock);
    ss_rounds_stretch(all, &more);
    ss_rounds_sums_add(&all->sum, &more, &none);
    all->solo = comm->settings->quorum == SS_QUORUM_SOLO;
    if (now.queued_most > all->queued_most)
        all->queued_most = now.queued_most;
    pthread_mutex_unlock(&comm->stats->lock);
    comm->rounds_booked = now.sum;
}

/* ---- the end ---- */

void ss_comm_close_rounds(struct ss_comm *comm)
{
    if (!comm->rounds)
        return;
    comm->rounds_t->outside = ss_fpenv_enter();
    book(comm);
    ss_rounds_close(comm->rounds);
    ss_fpenv_leave(comm->rounds_t->outside);
}

void ss_comm_pause_rounds(struct ss_comm *comm)
{
    comm->rounds_t->outside = ss_fpenv_enter();
    book(comm);
    ss_rounds_pause(comm->rounds);
    ss_fpenv_leave(comm->rounds_t->outside);
}

bool ss_comm_rounds_settled(const struct ss_comm *comm)
{
    return !comm->rounds || ss_rounds_settled(comm->rounds);
}

struct ss_rounds_stats ss_comm_rounds_seen(const struct ss_comm *comm, uint64_t *not_asked_for)
{
    *not_asked_for = ss_rounds_not_asked_for(comm->rounds);
    return ss_rounds_seen(comm->rounds);
}

/* ---- calls with all ranks ---- */

/* What all ranks know the tensor by. */
static uint64_t code_of(const struct ss_feedback *f)
{
    return ss_mix(ss_lane_hash(&f->key), ss_identity_code(&f->found.where)) | 1;
}

uint64_t ss_partial_flags(struct ss_feedback *f)
{
    uint64_t bucket;
    size_t k;

    if (f->comm->settings->quorum == SS_QUORUM_ALL)
        return 0;
    if (!f->comm->rounds || !f->tensor || !ss_topk_is_lossy(f))
        return SS_VOTE_NO_ROUNDS;
    if (!f->tensor->asked || f->keep.count > 0 || f->c.x.backend != &ss_host || f->comm->status < 0)
        return SS_VOTE_NO_ROUNDS;
    k = ss_topk_wanted(f, &bucket);
    if (ss_rounds_admit(f->comm->rounds, f->tensor, code_of(f), k, (size_t)bucket) != SS_OK)
        return SS_VOTE_NO_ROUNDS;
    return SS_VOTE_INTEREST; /* a lane that backs off has no further rounds */
}

bool ss_partial_agreed(struct ss_feedback *f)
{
    bool all = !(f->vote.ballot.flags & SS_VOTE_NO_ROUNDS);

    if (f->comm->rounds && f->tensor && ss_topk_is_lossy(f))
        ss_rounds_open(f->comm->rounds, f->tensor, all ? f->comm->settings->quorum_period - 1 : 0);
    return all;
}

bool ss_call_is_synchronous(const struct ss_call *call)
{
    return !call->partial && !call->between;
}

void ss_partial_begin_full(struct ss_feedback *f)
{
    if (f->comm->rounds && f->tensor)
        ss_rounds_block(f->comm->rounds, true);
}

void ss_partial_end_full(struct ss_feedback *f, enum ss_algorithm ran)
{
    struct ss_rounds *rounds = f->comm->rounds;

    if (f->tensor)
        f->tensor->guarding.before = f->topk_calls + 1;
    if (!rounds)
        return;
    const bool drained = ran == SS_DENSE && f->state == SS_TOPK_JOINED && ss_join_share(f) == 1;
    if (f->tensor && (drained || f->state == SS_TOPK_SENT))
        ss_rounds_selected(rounds, f->tensor);
    if (f->tensor && !ss_tensor_lossy(f->tensor)) /* by what this call has found */
        ss_rounds_open(rounds, f->tensor, 0);
    ss_rounds_block(rounds, false);
}

/* ---- partial calls ---- */

bool ss_partial_is_next(struct ss_feedback *f)
{
    return f->comm->rounds && f->tensor && ss_rounds_next(f->comm->rounds, f->tensor);
}

static void start(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;
    struct ss_coll *c = &f->c;
    uint64_t bucket;
    struct ss_round_call round = {.tensor = f->tensor, .in = c->in, .out = c->out};

    round.k = ss_topk_wanted(f, &bucket);
    round.bucket = (size_t)bucket;
    round.silent = call->caller.off || !ss_topk_is_lossy(f);
    call->partial = true;
    call->stage_begin = ss_span_begin(&c->x, SS_SPAN_EXCHANGE);
    call->plan.algorithm = algorithm(f->comm->settings);
    ss_residual_fill(f->tensor);
    ss_trace_begin(&c->x, SS_SPAN_SELECT, NULL, -1);
    ss_rounds_call(f->comm->rounds, &round);
    ss_trace_end(&c->x, SS_SPAN_SELECT);
    c->x.number = ss_rounds_call_number(f->comm->rounds);
    ss_topk_move(&f->state, SS_ON_LEAVE);
}

static int step(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    struct ss_comm *comm = call->f.comm;
    enum ss_phase phase;
    int status, peer;

    comm->rounds_t->outside = x->t->outside;
    x->moved = ss_rounds_step(comm->rounds);
    status = ss_rounds_call_status(comm->rounds);
    if (status == SS_PENDING)
        return SS_PENDING;
    x->moved = true;
    ss_span_end(x, SS_SPAN_EXCHANGE, call->stage_begin);
    const struct ss_rounds_stats seen = ss_rounds_seen(comm->rounds);
    x->bytes_sent += seen.bytes - comm->rounds_bytes;
    x->bytes_inside += seen.inside - comm->rounds_inside;
    comm->rounds_bytes = seen.bytes;
    comm->rounds_inside = seen.inside;
    book(comm);
    if (status < 0) {
        ss_rounds_failure(comm->rounds, &peer, &phase);
        ss_fail(x, status, peer, phase);
    }
    return status;
}

static enum ss_phase waits_for(const struct ss_call *call, int *peer)
{
    enum ss_phase phase;

    *peer = ss_rounds_waits_for(call->f.comm->rounds, &phase);
    return phase;
}

static void cancel(struct ss_call *call)
{
    ss_rounds_abandon(call->f.comm->rounds, call->f.c.x.failed);
}

const struct ss_driver ss_round_driver = {
    .then = SS_THEN_END, .start = start, .step = step, .waiting_for = waits_for, .cancel = cancel};
