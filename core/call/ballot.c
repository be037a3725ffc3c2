/* What a rank says in the vote. */
#include <math.h>
#include <string.h>

#include "core/call/call_impl.h"
#include "core/coll/algorithms.h"

/* Bytes this rank can give to an algorithm and the own stream together, as the plan counts both. */
static uint64_t memory_left(const struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;
    const struct ss_mem *mem = f->comm->mem;
    const struct ss_work *w = x->work;
    size_t used = atomic_load(&mem->used), kept = ss_work_kept(w);
    size_t own = f->whole ? 0 : (size_t)ss_plan_own(x->n, x->type, f->c.scan.nnz);

    if (mem->limit == 0)
        return UINT64_MAX;
    kept += ss_in_flight_idle(f->comm);
    return (mem->limit > used ? mem->limit - used : 0) + kept + own;
}

/* A rank that is not the root has ended its reduce as soon as its part is sent: only the root's
 * time says how long one takes. */
static double last_seconds(const struct ss_flight *flight)
{
    const struct ss_coll *c = &flight->f->c;
    const struct ss_lane *lane = flight->f->lane;

    if (c->kind == SS_KIND_REDUCE && c->x.t->rank != c->root)
        return INFINITY;
    return flight->measured == lane->planned_call ? lane->history.last_seconds : 0;
}

/* Seconds per element of finding what is sent. */
static double scan_cost(const struct ss_feedback *f)
{
    return ss_topk_is_lossy(f) ? ss_select_cost(f) : f->comm->cost_scan;
}

_Static_assert(sizeof(struct ss_backend_costs) == (SS_COSTS - SS_COST_BACKEND) * sizeof(double),
               "all of them are voted on");

static void fill_costs(const struct ss_feedback *f, uint32_t *costs)
{
    const struct ss_comm *comm = f->comm;
    const struct ss_host_costs *host = ss_host_costs();
    double backend[SS_COSTS - SS_COST_BACKEND];

    costs[SS_COST_ALPHA] = ss_float_bits(comm->network.alpha);
    costs[SS_COST_BETA] = ss_float_bits(comm->network.beta);
    costs[SS_COST_SCAN] = ss_float_bits(scan_cost(f));
    costs[SS_COST_VOTE] = ss_float_bits(comm->cost_vote);
    costs[SS_COST_CODE] = ss_float_bits(host->code);
    costs[SS_COST_MERGE] = ss_float_bits(host->merge);
    costs[SS_COST_FILL] = ss_float_bits(host->fill);
    memcpy(backend, ss_backend_costs(f->c.x.backend), sizeof backend);
    for (int i = SS_COST_BACKEND; i < SS_COSTS; i++)
        costs[i] = ss_float_bits(backend[i - SS_COST_BACKEND]);
}

/* What only looks on changes nothing. */
static bool asks_for_pieces(const struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;
    const struct ss_settings *s = f->comm->settings;

    if (f->c.kind != SS_KIND_ALLREDUCE || s->observe)
        return false;
    if (x->n * x->esize > SS_PIECE)
        return x->backend->ops->remote || s->reproducible;
    /* One piece, in which a rank whose device fails takes part, and says so. Its bits may be others
     * than those of a call that is not polled. */
    return x->backend->ops->remote && !s->reproducible;
}

static uint64_t flags_of(struct ss_call *call)
{
    int status = call->look.status;
    struct ss_comm *comm = call->f.comm;
    uint64_t flags = 0;

    if (status != SS_OK)
        flags |= SS_VOTE_CANNOT;
    else if (call->f.cannot)
        flags |= SS_VOTE_LAYOUT;
    if (call->f.c.scan.not_finite)
        flags |= SS_VOTE_NOT_FINITE;
    if (call->caller.off)
        flags |= SS_VOTE_OFF;
    if (call->caller.environment)
        flags |= SS_VOTE_ENVIRONMENT;
    if (call->caller.polled)
        flags |= SS_VOTE_POLLED;
    if (call->caller.callbacks)
        flags |= SS_VOTE_CALLBACKS;
    if (comm->status < 0)
        flags |= SS_VOTE_BROKEN;
    if (!comm->network.known)
        flags |= SS_VOTE_UNKNOWN;
    if (comm->tensors)
        flags |= ss_topk_flags(&call->f);
    if (status == SS_ERR_MEMORY || (call->f.state == SS_TOPK_CANNOT && !call->f.tensor))
        call->limited = atomic_load(&comm->mem->limited);
    else
        call->limited = false;
    if (call->member.merges && call->f.c.x.backend != &ss_host)
        flags |= SS_VOTE_APART;
    if (call->member.merges || call->f.c.x.backend->ops->remote)
        flags |= SS_VOTE_FLAT;
    if (call->f.host.hidden)
        flags |= SS_VOTE_HIDDEN;
    if (asks_for_pieces(&call->f))
        flags |= SS_VOTE_PIECES;
    return flags | ss_partial_flags(&call->f);
}

/* Returns this rank's share of a sum that is 0 if oktopk's state is the same on all ranks that
 * share it: all ranks, or the owners of a slice, one on each host. The first of them takes its hash
 * times the number of the others, each of which subtracts its own. The hash depends on the slice,
 * so that the differences of two slices do not cancel out. */
static uint64_t state_share(const struct ss_feedback *f)
{
    const struct ss_layout *l = f->comm->layout;
    const int rank = f->c.x.t->rank;
    int index = rank, slices;

    if (!ss_topk_claims(f))
        return 0;
    if (f->tensor->range.by_host) {
        if (ss_two_level_slices(l, rank, f->c.x.n, &slices) == 0)
            return 0;
        index = l->host[rank];
    }
    const uint64_t others = (uint64_t)ss_topk_owners(f) - 1;
    const uint64_t hash =
        ss_mix(ss_agreed_hash(&f->tensor->agreed, (int)others + 1), f->tensor->range.first);
    return index == 0 ? others * hash : 0 - hash;
}

void ss_ballot_fill(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;
    struct ss_exchange *x = &f->c.x;
    struct ss_comm *comm = f->comm;
    struct ss_ballot *b = &f->vote.ballot;

    const uint64_t flags = flags_of(call);

    ss_ballot_init(b);
    b->flags = flags;
    b->same_min[SS_SAME_SETTINGS] = b->same_max[SS_SAME_SETTINGS] = comm->settings->hash;
    b->same_min[SS_SAME_LANE] = b->same_max[SS_SAME_LANE] = ss_lane_hash(&f->key);
    b->same_min[SS_SAME_CALL] = b->same_max[SS_SAME_CALL] = x->number;
    b->nnz_sum = b->nnz_max = f->c.scan.nnz;
    b->k_max = f->k < x->n ? f->k : x->n; /* the last bucket may be a short one */
    b->same_min[SS_SAME_KEEP] = ss_keep_code(f);
    b->same_min[SS_SAME_FORCED] = ss_topk_forced(f);
    b->same_min[SS_SAME_HOST] = comm->settings->host;
    b->same_min[SS_SAME_FORM] = ss_kind_form(f);
    b->same_min[SS_SAME_TENSOR] = ss_identity_code(&f->found.where);
    b->same_min[SS_SAME_MEASURED] = call->flight.measured;
    for (int i = SS_SAME_FORCED; i < SS_SAMES; i++)
        b->same_max[i] = b->same_min[i];
    b->ratio_max = ss_double_bits(ss_join_ratio_square(f));
    b->part_max = f->c.part_max;
    b->memory_min = memory_left(f);
    fill_costs(f, b->costs);
    b->result_max = call->flight.past.nnz;
    b->state_sum = state_share(f);
    b->last_min = ss_double_bits(last_seconds(&call->flight));
}

/* ---- what all have said ---- */

/* Its bits are above those of all others where it is negative or no number. */
static bool is_amount(uint64_t bits)
{
    return bits <= ss_double_bits(INFINITY);
}

static bool is_cost(uint32_t bits)
{
    return bits <= ss_float_bits(INFINITY);
}

/* Of what is equal on all ranks that have called for one lane: they all find the same. Words that
 * are hashes can be anything. */
bool ss_ballot_is_sound(const struct ss_feedback *f)
{
    const struct ss_ballot *b = &f->vote.ballot;
    const uint64_t n = f->key.n, size = (uint64_t)f->c.x.t->size; /* n: words, or bytes */
    bool sound = (b->flags & ~(uint64_t)SS_VOTE_FLAGS) == 0 && b->nnz_max <= n &&
                 b->nnz_sum >= b->nnz_max && b->nnz_sum <= size * b->nnz_max && b->part_max <= n &&
                 b->k_max <= n && b->result_max <= n &&
                 b->same_max[SS_SAME_FORCED] <= SS_ALGORITHMS && is_amount(b->ratio_max) &&
                 is_amount(b->last_min);

    for (int i = 0; i < SS_COSTS; i++)
        sound = sound && is_cost(b->costs[i]);
    return sound;
}

bool ss_ballot_pieces(const struct ss_feedback *f, enum ss_reason reason)
{
    if (f->c.x.number > 0)
        return f->vote.ballot.flags & SS_VOTE_PIECES;
    return reason != SS_WHY_SETTINGS && f->lane->pieces;
}
