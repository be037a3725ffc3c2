/* The shape of a call, from which the plan follows: the combined ballot and the settings. */
#include <string.h>

#include "core/call/group.h"
#include "core/coll/algorithms.h"
#include "core/plan/cost.h"

static struct ss_backend_costs backend_costs(const struct ss_ballot *b)
{
    double backend[SS_COSTS - SS_COST_BACKEND];
    struct ss_backend_costs costs;

    for (int i = SS_COST_BACKEND; i < SS_COSTS; i++)
        backend[i - SS_COST_BACKEND] = ss_bits_float(b->costs[i]);
    memcpy(&costs, backend, sizeof costs);
    return costs;
}

/* Costs of the network by class of link, where they are not to be measured: the ranks of one host,
 * in shared memory, and those of several, 10 Gbit/s. */
static const struct {
    double alpha, beta;
} links[] = {{1e-6, 2e-10}, {2e-5, 8e-10}};

/* Nothing measured enters the plan, so that runs repeat; the local costs are round figures for a
 * current core, wherever the buffers lie. */
static void fixed_costs(struct ss_shape *shape, const struct ss_ballot *b,
                        const struct ss_settings *settings, int rounds)
{
    int link = ss_ballot_same(b, SS_SAME_HOST) ? 0 : 1;

    shape->learn = false;
    shape->alpha = settings->alpha >= 0 ? settings->alpha : links[link].alpha;
    shape->beta = settings->beta >= 0 ? settings->beta : links[link].beta;
    shape->scan = shape->topk ? 1e-9 : 1e-10; /* a selection writes, too */
    shape->code = 4e-9;
    shape->merge = 2e-9;
    shape->fill = 1e-10;
    shape->backend = ss_costs_of_host(shape->code, shape->merge, shape->fill);
    shape->vote = rounds * shape->alpha;
}

/* Returns true if the host has one residual for the tensor of a lossy call. */
static bool is_by_host(const struct ss_feedback *f, bool lossy)
{
    return lossy && f->tensor->range.by_host;
}

/* Returns true if two levels are not excluded by the options or by a rank. */
static bool may_be_deep(const struct ss_feedback *f, bool lossy)
{
    const struct ss_settings *s = f->comm->settings;

    if (lossy)
        return is_by_host(f, lossy);
    return f->comm->layout && f->c.kind == SS_KIND_ALLREDUCE &&
           s->aggregation != SS_AGGREGATION_OFF && !(f->vote.ballot.flags & SS_VOTE_FLAT) &&
           (ss_layout_is_deep(f->comm->layout) || s->algorithm == SS_TWO_LEVEL);
}

/* Returns true if the call may use the memory that all ranks share. A blocking call is alone on its
 * communicator, and thus in that memory. */
static bool may_share(const struct ss_feedback *f, bool lossy)
{
    return f->comm->shared && f->c.kind == SS_KIND_ALLREDUCE && !lossy && !f->nonblocking &&
           !(f->vote.ballot.flags & SS_VOTE_FLAT);
}

/* An algorithm that keeps the largest entries only means auto in a call that sends every element.
 */
static enum ss_algorithm forced(const struct ss_feedback *f, bool lossy, bool deep)
{
    const struct ss_ballot *b = &f->vote.ballot;
    uint64_t by_rule = b->same_min[SS_SAME_FORCED];
    enum ss_algorithm a = f->comm->settings->algorithm;

    if (ss_ballot_same(b, SS_SAME_FORCED) && by_rule > 0)
        a = (enum ss_algorithm)(by_rule - 1);
    if (a == SS_TWO_LEVEL && !deep && f->c.kind == SS_KIND_ALLREDUCE)
        a = SS_AUTO;
    const bool runs = (lossy && !f->whole) || !ss_keeps_global(a);

    return runs && (f->whole || !(SS_WHOLE_ALGORITHMS >> a & 1)) ? a : SS_AUTO;
}

/* With NODE_AGGREGATION=on, a forced algorithm runs between hosts if it can, and the plan chooses
 * between two levels and dense. ALGORITHM=two_level implies split_allgather between hosts, since
 * runs with a forced algorithm repeat bit for bit. */
static void aggregate(struct ss_shape *shape, const struct ss_settings *s)
{
    if (shape->forced == SS_TWO_LEVEL) {
        shape->between = SS_SPLIT_ALLGATHER;
        shape->aggregated = shape->by_host;
        return;
    }
    if (shape->by_host && !ss_two_level_takes(shape, shape->forced))
        shape->forced = SS_AUTO;
    shape->aggregated = shape->deep && (shape->by_host || s->aggregation == SS_AGGREGATION_ON);
    if (shape->aggregated && shape->forced != SS_AUTO && shape->forced != SS_DENSE) {
        shape->between = shape->forced;
        shape->forced = SS_TWO_LEVEL;
    }
}

static const struct ss_algorithm_def *const *algorithms_of(const struct ss_feedback *f)
{
    const struct ss_algorithm_def *const *replaced = f->comm->algorithms;

    return replaced && f->c.kind == SS_KIND_ALLREDUCE ? replaced : ss_algorithms(f->c.kind);
}

static uint64_t largest_part(const struct ss_coll *c)
{
    uint64_t most = 0;

    for (int p = 0; p < c->x.t->size; p++) {
        uint64_t elements = ss_coll_part(c, p + 1) - ss_coll_part(c, p);
        if (elements > most)
            most = elements;
    }
    return most;
}

struct ss_shape ss_ballot_shape_alone(const struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;
    const struct ss_ballot *b = &f->vote.ballot;
    const struct ss_settings *settings = f->comm->settings;
    bool lossy = ss_topk_is_lossy(f), deep = may_be_deep(f, lossy);
    struct ss_shape shape = {
        .algorithms = algorithms_of(f),
        .kind = f->c.kind,
        .n = x->n,
        .part_n = largest_part(&f->c),
        .size = x->t->size,
        .type = x->type,
        .forced = forced(f, lossy, deep),
        .deep = deep,
        .by_host = is_by_host(f, lossy),
        .shared = may_share(f, lossy),
        .topk = lossy,
        .whole = lossy && f->whole,
        .resting = f->state == SS_TOPK_RESTS,
        .k = b->k_max,
        .values = lossy ? ss_topk_values(f) : SS_VALUES_SAME,
        .bucket = settings->quant_bucket,
        .learn = true,
        .nnz_sum = b->nnz_sum,
        .nnz_max = b->nnz_max,
        .part_max = b->part_max,
        .memory_min = b->memory_min,
        .alpha = settings->alpha >= 0 ? settings->alpha : ss_bits_float(b->costs[SS_COST_ALPHA]),
        .beta = settings->beta >= 0 ? settings->beta : ss_bits_float(b->costs[SS_COST_BETA]),
        .scan = ss_bits_float(b->costs[SS_COST_SCAN]),
        .code = ss_bits_float(b->costs[SS_COST_CODE]),
        .merge = ss_bits_float(b->costs[SS_COST_MERGE]),
        .fill = ss_bits_float(b->costs[SS_COST_FILL]),
        .backend = backend_costs(b),
        .vote = ss_bits_float(b->costs[SS_COST_VOTE]),
    };

    if (ss_costs_fixed(settings))
        fixed_costs(&shape, b, settings, ss_fold_rounds(&f->vote.exchange.schedule.fold));
    shape.alpha_inside = links[0].alpha;
    shape.beta_inside = links[0].beta;
    if (shape.by_host) /* of the elements from which a rank claims */
        shape.scan *= ss_topk_elements(f) / (double)x->n;
    ss_plan_see_layout(&shape, f->comm->layout);
    aggregate(&shape, settings);
    shape.balanced = ss_cost_balances(&shape);
    return shape;
}

/* Calls that go together share what an exchange takes whatever its length: each has the share of
 * its bytes in a whole part, whoever does go with it. What one took alone says nothing of that. */
static void share_costs(const struct ss_feedback *f, struct ss_shape *shape)
{
    const struct ss_exchange *x = &f->c.x;
    double share = (double)(x->n * x->esize) / (double)ss_group_bytes(f->comm);

    if (share < 1) {
        shape->alpha *= share;
        shape->vote *= share;
    }
    shape->learn = false;
}

struct ss_shape ss_ballot_shape(const struct ss_feedback *f, const struct ss_group_member *member)
{
    struct ss_shape shape = ss_ballot_shape_alone(f);

    if (member->merges)
        share_costs(f, &shape);
    return shape;
}
