/* O(k) sparse allreduce (Ok-Topk, PPoPP'22, Algorithm 1). Parts with about equal numbers of local
 * top-k entries are reduced by one rank each. The global set holds the reduced entries at or above
 * a global threshold, the k-th largest. The set is balanced if it lies too unevenly, and gathered
 * by all ranks. Parts and threshold are kept over several calls. Claims that are not in the
 * global set return to the residual (Algorithm 2, line 6): ss_claims_find_global.
 *
 * Every word exchange ends with the failure of any rank known to all ranks, which then skip the
 * remaining work.
 *
 * Cost on the wire: 2 A + 1.2 L alpha + beta e (P-1)/P (k + K), with
 *
 *     A    alpha (1 + 0.1 (P-2)), for P - 1 messages at once
 *     L    rounds of a word exchange
 *     e    bytes of an entry
 *     k    claims of a rank
 *     K    entries of the global set
 */
#include <string.h>

#include "core/coll/algorithms.h"
#include "core/coll/oktopk_impl.h"
#include "core/plan/cost.h"

_Static_assert(sizeof(struct ss_oktopk_state) <= SS_COLL_STATE, "room for the state");

enum {
    OKTOPK_START,
    OKTOPK_PARTITION,
    OKTOPK_SPLIT,
    OKTOPK_COMPACT,
    OKTOPK_SELECT,
    OKTOPK_BALANCE,
    OKTOPK_GATHER
};

static struct ss_agreed *agreed_of(struct ss_coll *c)
{
    return c->agreed;
}

/* ---- parts (Algorithm 1, lines 5 to 7) ---- */

/* Makes room for the words of word exchanges, followed by the cuts of the partition. */
static int reserve_words(struct ss_coll *c)
{
    struct ss_buf *room = &c->x.work->idx[2];
    size_t words = ss_word_exchange_most(c->x.t->size);
    size_t cuts = ((size_t)c->x.t->size + 1) * sizeof(struct ss_cut);

    if (words < ss_cuts_words(c->x.t->size))
        words = ss_cuts_words(c->x.t->size);
    if (ss_buf_reserve_voted(room, c->x.mem, words * sizeof(uint64_t) + cuts) != SS_OK)
        return SS_ERR_MEMORY;
    ss_oktopk_of(c)->words = room->data;
    ss_cuts_start(&ss_oktopk_of(c)->cuts, c->x.t->size, c->x.n, c->voted.nnz_sum,
                  (struct ss_cut *)(ss_oktopk_of(c)->words + words));
    return SS_OK;
}

/* Counts for the next round of the partition; false when none is needed. A rank that has failed has
 * no room for them and says so in the round. */
static bool start_round(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    size_t words = 0;

    if (c->x.failed == 0)
        words = ss_cuts_count(&s->cuts, c->own.idx, c->own.nnz, s->words);
    if (c->x.failed == 0 && words == 0)
        return false;
    ss_word_exchange_start(&c->x, &s->exchange, s->words, words, 0, 0);
    return true;
}

static void keep_bounds(struct ss_coll *c)
{
    const struct ss_cuts *cuts = &ss_oktopk_of(c)->cuts;
    struct ss_agreed *agreed = agreed_of(c);

    ss_cuts_bounds(cuts, agreed->bounds.data);
    /* The call after one without entries does not keep the parts. */
    agreed->partition_call = cuts->total > 0 ? agreed->calls : 0;
}

static bool start_partition(struct ss_coll *c)
{
    if (c->voted.nnz_sum > 0 && start_round(c))
        return true;
    if (c->x.failed == 0) /* there are no entries to divide by */
        keep_bounds(c);
    return false;
}

/* False when the round under way was the last. */
static bool next_round(struct ss_coll *c)
{
    ss_cuts_narrow(&ss_oktopk_of(c)->cuts, ss_oktopk_of(c)->words);
    if (start_round(c))
        return true;
    keep_bounds(c);
    return false;
}

/* ---- start ---- */

/* Returns the bytes of the own slices' messages, and of those of this rank's part of the global
 * set, which may be sent twice. */
static size_t arena_bound(const struct ss_coll *c)
{
    size_t limit = ss_claim_limit((size_t)c->voted.k_max);

    return ss_arena_bound(c->x.type, c->own.nnz) +
           2 * (size_t)c->x.t->size * ss_arena_bound(c->x.type, 0) +
           2 * ss_arena_bound(c->x.type, limit);
}

static void start(struct ss_coll *c)
{
    struct ss_agreed *agreed = agreed_of(c);
    size_t bounds = ((size_t)c->x.t->size + 1) * sizeof(uint32_t);

    if (!c->voted.same_state)
        ss_agreed_forget(agreed);
    agreed->calls++;
    agreed->global.period = c->oktopk.threshold_period;
    if (agreed->global.period == 0)
        agreed->global.period = 1;
    if (ss_buf_reserve_voted(&agreed->bounds, c->x.mem, bounds) != SS_OK ||
        ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena_bound(c)) != SS_OK ||
        reserve_words(c) != SS_OK)
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
}

static bool partition_due(struct ss_coll *c)
{
    const struct ss_agreed *agreed = agreed_of(c);

    return agreed->partition_call == 0 ||
           agreed->calls - agreed->partition_call >= c->oktopk.repartition_period;
}

/* ---- gather ---- */

/* Marks the claims that a chunk holds; a dense chunk holds its non-zero elements. */
static void note_chunk(struct ss_coll *c, const struct ss_chunk *chunk)
{
    uint32_t *idx = c->x.work->scratch.data;
    uint32_t members = 0;

    if (chunk->rep != SS_REP_DENSE) {
        ss_claims_find_global(c, chunk->idx, chunk->nnz);
        return;
    }
    for (uint32_t i = 0; i < chunk->nnz; i++) {
        uint64_t bits = 0;
        memcpy(&bits, ss_at_const(chunk->val, i, c->x.esize), c->x.esize);
        idx[members] = chunk->first + i;
        members += bits != 0;
    }
    ss_claims_find_global(c, idx, members);
}

/* Marks all claims, if no sum is too small for the global set. Sums of exactly zero have been
 * delivered too: otherwise claims that cancel would be repeated for ever and displace others. */
static void note_all(struct ss_coll *c)
{
    if (c->claims.in_global)
        memset(c->claims.in_global, 1, c->own.nnz);
}

static void take_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                       const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    (void)in, (void)src, (void)msg, (void)len;
    ss_result_set(c, chunk);
    if (!ss_oktopk_of(c)->all)
        note_chunk(c, chunk);
}

static void start_gather(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    int rank = c->x.t->rank, size = c->x.t->size;

    ss_in_start(&c->x, &s->gather.in, SS_PHASE_GATHER, 0, (rank + size - 1) % size, size - 1,
                take_chunk);
    s->gather.in.coded_too = s->all; /* otherwise members are noted */
    ss_out_stream(&s->gather.out, s->share, SS_PHASE_GATHER, 0, (rank + 1) % size, size - 1);
    ss_claims_round_part(c, &s->gather.out);
    if (c->x.failed == 0 && s->all)
        note_all(c);
    else if (c->x.failed == 0)
        ss_claims_find_global(c, s->share.idx, s->share.nnz);
    s->stage = OKTOPK_GATHER;
}

/* Writes this rank's part of the global set last, when it is rounded. */
static void finish(struct ss_coll *c)
{
    if (c->x.failed < 0)
        return;
    ss_result_set_stream(c, &ss_oktopk_of(c)->share);
    c->result_nnz = ss_oktopk_of(c)->total;
    c->dense_seen = false;
}

/* ---- one stage to the next ---- */

static void enter_split(struct ss_coll *c)
{
    if (c->x.failed == 0)
        c->bounds = agreed_of(c)->bounds.data;
    ss_oktopk_of(c)->stage = OKTOPK_SPLIT;
}

/* Goes on when this rank's part of the global set is known. */
static void leave_selection(struct ss_coll *c)
{
    if (!ss_oktopk_of(c)->uneven) {
        start_gather(c);
        return;
    }
    ss_oktopk_of(c)->stage = OKTOPK_BALANCE;
    ss_oktopk_balance_start(c);
}

/* Goes on after a word exchange without failure. */
static void move_on(struct ss_coll *c)
{
    if (ss_oktopk_of(c)->stage == OKTOPK_PARTITION) {
        if (!next_round(c))
            enter_split(c);
    } else if (!ss_oktopk_select_next(c)) {
        leave_selection(c);
    }
}

static int step(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);

    for (;;)
        switch (s->stage) {
        case OKTOPK_START:
            start(c);
            s->stage = OKTOPK_PARTITION;
            if (!partition_due(c) || !start_partition(c))
                enter_split(c);
            break;
        case OKTOPK_SPLIT:
            if (ss_split_step(c, &s->split) == SS_PENDING)
                return SS_PENDING;
            s->stage = OKTOPK_COMPACT;
            ss_oktopk_compact_start(c);
            break;
        case OKTOPK_COMPACT:
            if (ss_oktopk_compact_step(c) == SS_PENDING)
                return SS_PENDING;
            s->stage = OKTOPK_SELECT;
            ss_oktopk_select_start(c);
            break;
        case OKTOPK_BALANCE:
            if (ss_oktopk_balance_step(c) == SS_PENDING)
                return SS_PENDING;
            start_gather(c);
            break;
        case OKTOPK_GATHER:
            if (ss_gather_step(c, &s->gather) == SS_PENDING)
                return SS_PENDING;
            finish(c);
            return SS_OK;
        default:
            if (ss_word_exchange_step(&c->x, &s->exchange) == SS_PENDING)
                return SS_PENDING;
            if (c->x.failed < 0)
                return SS_OK;
            move_on(c);
        }
}

/* ---- the definition ---- */

/* Word exchanges of a call of oktopk: one, and now and then those of threshold and parts. */
static const double WORD_EXCHANGES = 1.2;

/* Estimates a call with parts of equal shares, in which k of the reduced entries are sent on
 * evenly. */
static struct ss_estimate cost_oktopk(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_fold fold = ss_fold_of(0, s->size);
    int others = s->size - 1, rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0);
    double claims = (double)s->nnz_max, mean = claims / s->size, part_n = (double)s->n / s->size;
    double k = ss_min((double)s->k, ss_plan_union(s, h, s->size)), share = k / s->size;
    double bytes =
        others * (ss_cost_stream_bytes(s, mean, part_n) + ss_cost_stream_bytes(s, share, part_n));

    return (struct ss_estimate){
        .wire = 2 * ss_cost_fan(s, others) + WORD_EXCHANGES * rounds * s->alpha + s->beta * bytes,
        .overlap =
            ss_cost_take(s, k, others) + s->merge * k + ss_cost_rounding_there(s, s->values, 0, k),
        .serial = s->code * (claims + share) + (s->code + s->merge) * others * mean +
                  s->scan * part_n + 2 * s->merge * others * mean +
                  ss_cost_rounding(s, s->values, claims + share, others * mean),
        .bytes = bytes};
}

/* Counts a part that may hold all entries, the part of the global set (twice if balanced), and
 * word exchanges. */
static double memory(const struct ss_shape *s)
{
    double entry = 4 + (double)ss_type_size(s->type);
    double all = ss_min((double)s->n, (double)s->nnz_sum);
    double limit = 4 * (double)s->k / 3; /* most entries of the global set */

    return ss_memory_own(s) + 16384 + 160.0 * s->size + ss_memory_sent(s) + all * entry +
           4 * limit * entry + ss_memory_claims(s, s->values, limit, true);
}

const struct ss_algorithm_def ss_algorithm_oktopk = {
    .global = true,
    .cost = cost_oktopk,
    .memory = memory,
    .state = sizeof(struct ss_oktopk_state),
    .step = step,
};
