/* O(k) sparse allreduce (Ok-Topk, PPoPP'22, Algorithm 1): regions with about equal numbers of local
 * top-k entries are reduced by one rank each; of the reduced entries those at or above a global
 * threshold, that of the k-th largest, are balanced where they lie too unevenly, and gathered by
 * all. Both regions and threshold are kept over several calls. The claims that are not in the
 * global set return to the residual (Algorithm 2, line 6): ss_topk_mark.
 *
 * Every agreement ends with the failure of any rank known to all; where there was one, all leave
 * out what would follow. */
#include <string.h>

#include "core/call_impl.h"

_Static_assert(offsetof(struct ss_oktopk_state, split) == 0 &&
                   offsetof(struct ss_oktopk_state, gather) == sizeof(struct ss_split_state),
               "the split phase finds its state");

enum {
    OKTOPK_START,
    OKTOPK_PARTITION,
    OKTOPK_SPLIT,
    OKTOPK_SEARCH,
    OKTOPK_COUNT,
    OKTOPK_SHARES,
    OKTOPK_BALANCE,
    OKTOPK_GATHER
};

static struct ss_agreed *agreed_of(struct ss_call *c)
{
    return &c->tensor->agreed;
}

/* ---- regions (Algorithm 1, lines 5 to 7) ---- */

/* Words of the agreements, and cuts of the partition behind them. */
static int reserve_words(struct ss_call *c)
{
    struct ss_buf *room = &c->work->idx[2];
    size_t words = ss_agree_words(c->t->size);
    size_t cuts = ((size_t)c->t->size + 1) * sizeof(struct ss_cut);

    if (words < ss_cuts_words(c->t->size))
        words = ss_cuts_words(c->t->size);
    if (ss_buf_reserve_voted(room, c->comm->mem, words * sizeof(uint64_t) + cuts) != SS_OK)
        return SS_ERR_MEMORY;
    c->u.oktopk.words = room->data;
    ss_cuts_start(&c->u.oktopk.cuts, c->t->size, c->n, c->vote.ballot.nnz_sum,
                  (struct ss_cut *)(c->u.oktopk.words + words));
    return SS_OK;
}

/* Counts for the next round of the partition; false when none is needed. A rank that has failed has
 * no room for them and says so in the round. */
static bool start_round(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    enum ss_partition how = c->comm->settings->partition;
    size_t words = 0;

    if (c->failed == 0 && how == SS_PARTITION_AVERAGE) {
        words = (size_t)c->t->size + 1;
        ss_regions_own(c->own.idx, c->own.nnz, c->n, c->t->size, s->words);
    } else if (c->failed == 0) {
        words = ss_cuts_count(&s->cuts, c->own.idx, c->own.nnz, s->words);
    }
    if (c->failed == 0 && words == 0)
        return false;
    ss_agree_start(c, &s->agree, s->words, words, 0, 0);
    return true;
}

static void keep_bounds(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    struct ss_agreed *agreed = agreed_of(c);
    uint32_t *bounds = agreed->bounds.data;
    int size = c->t->size;
    enum ss_partition how = c->comm->settings->partition;

    if (c->vote.ballot.nnz_sum == 0)
        how = SS_PARTITION_EQUAL;
    switch (how) {
    case SS_PARTITION_QUANTILE:
        ss_cuts_bounds(&s->cuts, bounds);
        break;
    case SS_PARTITION_AVERAGE:
        for (int p = 0; p <= size; p++)
            bounds[p] = (uint32_t)(s->words[p] / (uint64_t)size);
        break;
    case SS_PARTITION_EQUAL:
        ss_regions_equal(c->n, size, bounds);
        break;
    }
    /* Of a call without entries the next one is not to keep the regions. */
    agreed->partition_call = c->vote.ballot.nnz_sum > 0 ? agreed->calls : 0;
}

static bool start_partition(struct ss_call *c)
{
    enum ss_partition how = c->comm->settings->partition;

    if (how != SS_PARTITION_EQUAL && c->vote.ballot.nnz_sum > 0 && start_round(c))
        return true;
    if (c->failed == 0) /* equal parts, or no entries to divide by */
        keep_bounds(c);
    return false;
}

/* False when the round under way was the last. */
static bool next_round(struct ss_call *c)
{
    if (c->comm->settings->partition == SS_PARTITION_QUANTILE) {
        ss_cuts_narrow(&c->u.oktopk.cuts, c->u.oktopk.words);
        if (start_round(c))
            return true;
    }
    keep_bounds(c);
    return false;
}

/* ---- start ---- */

/* Own slices, and the part of the global set that this rank sends, if need be twice. */
static size_t arena_bound(const struct ss_call *c)
{
    size_t limit = ss_claim_limit((size_t)c->vote.ballot.k_max);

    return ss_flow_arena_bound(c->type, c->own.nnz) +
           2 * (size_t)c->t->size * ss_flow_arena_bound(c->type, 0) +
           2 * ss_flow_arena_bound(c->type, limit);
}

static void start(struct ss_call *c)
{
    struct ss_agreed *agreed = agreed_of(c);
    size_t bounds = ((size_t)c->t->size + 1) * sizeof(uint32_t);

    if (!ss_ballot_same(&c->vote.ballot, SS_SAME_STATE))
        ss_agreed_forget(agreed);
    agreed->calls++;
    agreed->global.period = c->comm->settings->tensors.threshold_period;
    if (agreed->global.period == 0)
        agreed->global.period = 1;
    if (ss_buf_reserve_voted(&agreed->bounds, c->comm->mem, bounds) != SS_OK ||
        ss_buf_reserve_voted(&c->work->arena, c->comm->mem, arena_bound(c)) != SS_OK ||
        reserve_words(c) != SS_OK)
        ss_fail(c, SS_ERR_MEMORY, c->t->rank, SS_PHASE_REDUCE);
}

static bool partition_due(struct ss_call *c)
{
    const struct ss_agreed *agreed = agreed_of(c);

    return agreed->partition_call == 0 ||
           agreed->calls - agreed->partition_call >= c->comm->settings->repartition_period;
}

/* ---- the reduced region ---- */

/* Its entries as a stream. Some ranks' regions may hold more than the mean: room is made for what
 * the usual one takes, and, after a first look, for all. */
static void harvest(struct ss_call *c)
{
    uint64_t lo = ss_call_part(c, c->t->rank), hi = ss_call_part(c, c->t->rank + 1);
    struct ss_stream *s = &c->u.oktopk.reduced;
    uint64_t room = 2 * c->vote.ballot.nnz_max, most = c->vote.ballot.nnz_sum;
    struct ss_scan seen = {0};
    double begin = ss_call_now(c);

    most = most < hi - lo ? most : hi - lo;
    for (int pass = 0; c->failed == 0 && pass < 2; pass++) {
        if (ss_stream_reserve(c, s, 0, room < most ? room : most) != SS_OK) {
            ss_fail(c, SS_ERR_MEMORY, c->t->rank, SS_PHASE_REDUCE);
            break;
        }
        if (lo == hi)
            break;
        c->kernels->scan(c->type, SS_SUM, c->out + lo * c->esize, (size_t)(hi - lo), (uint32_t)lo,
                         s->idx, s->val, s->capacity, &seen);
        room = seen.nnz;
        if (seen.stored == seen.nnz)
            break;
    }
    s->nnz = c->failed == 0 ? seen.stored : 0;
    if (c->failed == 0 && seen.stored < seen.nnz) /* more than the vote announced */
        ss_fail(c, SS_ERR_MESSAGE, c->t->rank, SS_PHASE_REDUCE);
    c->times.merge += ss_call_now(c) - begin;
}

/* ---- the global threshold (Algorithm 1, lines 9 to 12) ---- */

static const ss_magnitude DIGIT = 255;

/* Two counts to a word where they fit. */
static bool packed(const struct ss_call *c)
{
    return c->vote.ballot.nnz_sum <= UINT32_MAX;
}

static void add_count(const struct ss_call *c, uint64_t *words, size_t i, uint64_t count)
{
    if (packed(c))
        words[i / 2] += count << 32 * (i & 1);
    else
        words[i] += count;
}

static uint64_t word_count(const struct ss_call *c, size_t i)
{
    const uint64_t *words = c->u.oktopk.words;

    return packed(c) ? words[i / 2] >> 32 * (i & 1) & UINT32_MAX : words[i];
}

static void start_digit(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    const struct ss_radix *x = &s->radix;
    size_t words = x->last ? 1 : packed(c) ? (DIGIT + 1) / 2 : DIGIT + 1;

    if (c->failed == 0)
        memset(s->words, 0, words * sizeof *s->words);
    for (size_t i = 0; c->failed == 0 && i < s->reduced.nnz; i++) {
        ss_magnitude m = ss_magnitude_at(c->type, s->reduced.val, i);
        if (x->last) { /* the least, as the largest complement */
            if (m >= x->prefix << x->shift && s->words[0] < ~m)
                s->words[0] = ~m;
        } else if (x->shift + 8 == 8 * c->esize || m >> (x->shift + 8) == x->prefix) {
            add_count(c, s->words, m >> x->shift & DIGIT, 1);
        }
    }
    ss_agree_start(c, &s->agree, s->words, x->last ? 0 : words, x->last, 0);
}

static void start_search(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;

    s->exact = true;
    s->radix = (struct ss_radix){.shift = 8 * (unsigned)c->esize - 8};
    start_digit(c);
}

static void found(struct ss_call *c, ss_magnitude magnitude)
{
    struct ss_threshold *t = &agreed_of(c)->global;

    ss_threshold_found(t, (size_t)c->vote.ballot.k_max, magnitude);
    t->exact_calls++;
}

/* Takes the counts of all ranks in: false when the threshold is found. With fewer than k entries in
 * all it is the least there is. */
static bool next_digit(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    struct ss_radix *x = &s->radix;
    uint64_t k = c->vote.ballot.k_max;
    size_t digit = DIGIT;

    if (x->last) {
        found(c, ~s->words[0]);
        return false;
    }
    while (x->above + word_count(c, digit) < k) {
        x->above += word_count(c, digit);
        if (digit-- == 0) {
            found(c, SS_LEAST_MAGNITUDE);
            return false;
        }
    }
    x->prefix = x->prefix << 8 | digit;
    if (x->shift == 0) {
        found(c, x->prefix);
        return false;
    }
    if (x->above + word_count(c, digit) == k)
        x->last = true;
    else
        x->shift -= 8;
    start_digit(c);
    return true;
}

/* ---- who has how many ---- */

/* A threshold kept from an earlier call follows the sums of this one: entries are counted for this
 * many thresholds around it, 128 to the octave, in the one agreement that is needed anyway, and the
 * one that comes closest to k is taken. Of the largest share of a rank every fourth is told. */
enum { RUNGS = 64, RUNGS_PER_SHARE = 4 };

/* 1 where the threshold is to stay: it is exact, or all there is reaches it. */
static size_t rungs(const struct ss_call *c)
{
    return c->u.oktopk.exact || c->tensor->agreed.global.magnitude == SS_LEAST_MAGNITUDE ? 1
                                                                                         : RUNGS;
}

static unsigned rung_shift(const struct ss_call *c)
{
    return c->type == SS_F32 ? 16 : 45;
}

/* Threshold `rung`, with the one kept in the middle; less than SS_LEAST_MAGNITUDE where it is so
 * small that all reach it. Magnitudes have 63 bits at most. */
static int64_t rung_at(const struct ss_call *c, size_t rung)
{
    return (int64_t)c->tensor->agreed.global.magnitude +
           ((int64_t)rung - (int64_t)rungs(c) / 2) * ((int64_t)1 << rung_shift(c));
}

static ss_magnitude magnitude_at(int64_t magnitude)
{
    return magnitude > SS_LEAST_MAGNITUDE ? (ss_magnitude)magnitude : SS_LEAST_MAGNITUDE;
}

static uint64_t off_by(uint64_t count, uint64_t k)
{
    return count > k ? count - k : k - count;
}

static void count_rungs(const struct ss_call *c, uint64_t counts[RUNGS])
{
    const struct ss_stream *r = &c->u.oktopk.reduced;
    const int64_t low = rung_at(c, 0), highest = (int64_t)rungs(c) - 1;
    const unsigned shift = rung_shift(c);

    for (size_t i = 0; i < r->nnz; i++) {
        int64_t over = (int64_t)ss_magnitude_at(c->type, r->val, i) - low;
        if (over >= 0)
            counts[over >> shift < highest ? over >> shift : highest]++;
    }
    for (int64_t rung = highest; rung > 0; rung--)
        counts[rung - 1] += counts[rung];
}

/* Sums, two to a word where they fit, then maxima. */
static size_t rung_words(const struct ss_call *c)
{
    return packed(c) ? (rungs(c) + 1) / 2 : rungs(c);
}

static void start_count(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    uint64_t counts[RUNGS] = {0};
    size_t sums = rung_words(c), maxima = (rungs(c) + RUNGS_PER_SHARE - 1) / RUNGS_PER_SHARE;

    if (c->failed == 0) {
        count_rungs(c, counts);
        memset(s->words, 0, sums * sizeof *s->words);
        for (size_t rung = 0; rung < rungs(c); rung++)
            add_count(c, s->words, rung, counts[rung]);
        for (size_t i = 0; i < maxima; i++)
            s->words[sums + i] = counts[i * RUNGS_PER_SHARE];
    }
    ss_agree_start(c, &s->agree, s->words, sums, maxima, 0);
}

/* The counts of all ranks are there: takes the threshold whose count is nearest to k, of equal ones
 * the one kept. Where that is off by more than an eighth, too many lie close together: then the
 * highest that enough reach, and of the entries below the next one as many as k leaves room
 * for; with an exact threshold these are ties. Leaves the largest share of a rank at the threshold
 * or a little below. */
static void choose_rung(struct ss_call *c, uint64_t *largest)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    struct ss_threshold *t = &c->tensor->agreed.global;
    const uint64_t k = t->k;
    const size_t count = rungs(c);
    size_t best = count / 2, enough = count;

    s->total = word_count(c, best);
    for (size_t rung = 0; rung < count; rung++) {
        uint64_t n = word_count(c, rung);
        if (off_by(n, k) < off_by(s->total, k)) {
            best = rung;
            s->total = n;
        }
        if (n >= k)
            enough = rung;
    }
    s->cut = enough < count && (enough + 1 < count || s->exact) && off_by(s->total, k) > k / 8;
    if (s->cut)
        best = enough;
    s->total = word_count(c, best);
    *largest = s->words[rung_words(c) + best / RUNGS_PER_SHARE];
    if (count == 1) {
        s->above = t->magnitude + 1;
        return;
    }
    s->above = magnitude_at(rung_at(c, best + 1));
    t->magnitude = magnitude_at(rung_at(c, best));
}

/* words[p]: entries of rank p above those of which some may be cut; words[size + p]: these. */
static void start_shares(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    ss_magnitude threshold = agreed_of(c)->global.magnitude;
    int rank = c->t->rank, size = c->t->size;

    if (c->failed == 0)
        memset(s->words, 0, 2 * (size_t)size * sizeof *s->words);
    for (size_t i = 0; c->failed == 0 && i < s->reduced.nnz; i++) {
        ss_magnitude m = ss_magnitude_at(c->type, s->reduced.val, i);
        s->words[m >= s->above ? rank : size + rank] += m >= threshold;
    }
    ss_agree_start(c, &s->agree, s->words, 2 * (size_t)size, 0, 0);
}

/* Of more such entries than the global set takes, those with the lowest indices are in it. Leaves
 * in words[p] what rank p has in the set. */
static void cut_last(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    int size = c->t->size;
    uint64_t k = c->vote.ballot.k_max, above = 0, room = UINT64_MAX;

    for (int p = 0; p < size; p++)
        above += s->words[p];
    if (s->cut)
        room = k > above ? k - above : 0;
    s->total = above;
    for (int p = 0; p < size; p++) {
        uint64_t last = s->words[size + p] < room ? s->words[size + p] : room;
        room -= last;
        s->words[p] += last;
        s->total += last;
        if (p == c->t->rank)
            s->spared = last;
    }
}

/* The reduced entries that are not in the global set leave the result. */
static void select_global(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    struct ss_stream *r = &s->reduced;
    ss_magnitude threshold = agreed_of(c)->global.magnitude;
    uint64_t last = 0;
    size_t kept = 0;

    for (size_t i = 0; i < r->nnz; i++) {
        ss_magnitude m = ss_magnitude_at(c->type, r->val, i);
        if (m < threshold || (m < s->above && last++ >= s->spared)) {
            memset(c->out + r->idx[i] * c->esize, 0, c->esize);
            continue;
        }
        r->idx[kept] = r->idx[i];
        memcpy(ss_at(r->val, kept, c->esize), ss_at(r->val, i, c->esize), c->esize);
        kept++;
    }
    r->nnz = kept;
    s->share = *r;
}

/* ---- gather ---- */

/* The members of a chunk: those of a dense one are its non-zero elements. */
static void mark_chunk(struct ss_call *c, const struct ss_chunk *chunk)
{
    uint32_t *idx = c->work->scratch.data;
    uint32_t members = 0;

    if (chunk->rep != SS_REP_DENSE) {
        ss_topk_mark(c, chunk->idx, chunk->nnz);
        return;
    }
    for (uint32_t i = 0; i < chunk->nnz; i++) {
        uint64_t bits = 0;
        memcpy(&bits, ss_at_const(chunk->val, i, c->esize), c->esize);
        idx[members] = chunk->first + i;
        members += bits != 0;
    }
    ss_topk_mark(c, idx, members);
}

/* Where no sum is too small, those of exactly zero have been delivered, too: claims that cancel
 * would else be made again for ever, and keep others from being made. */
static void mark_all(struct ss_call *c)
{
    if (c->claims.mark)
        memset(c->claims.mark, 1, c->own.nnz);
}

static void take_chunk(struct ss_call *c, struct ss_in *in, int src, const struct ss_chunk *chunk,
                       const void *msg, size_t len)
{
    (void)in, (void)src, (void)msg, (void)len;
    ss_result_set(c, chunk);
    if (!c->u.oktopk.all)
        mark_chunk(c, chunk);
}

static void start_gather(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    int rank = c->t->rank, size = c->t->size;

    ss_in_start(c, &s->gather.in, SS_PHASE_GATHER, 0, (rank + size - 1) % size, size - 1,
                take_chunk);
    ss_out_stream(&s->gather.out, s->share, SS_PHASE_GATHER, 0, (rank + 1) % size, size - 1);
    ss_out_round_part(c, &s->gather.out);
    if (c->failed == 0 && s->all)
        mark_all(c);
    else if (c->failed == 0)
        ss_topk_mark(c, s->share.idx, s->share.nnz);
    s->place = OKTOPK_GATHER;
}

/* What this rank has sent to all is written last: by then it is rounded. */
static void finish(struct ss_call *c)
{
    if (c->failed < 0)
        return;
    ss_result_set_stream(c, &c->u.oktopk.share);
    c->result_nnz = c->u.oktopk.total;
    c->dense_seen = false;
}

/* ---- one place to the next ---- */

static void enter_split(struct ss_call *c)
{
    if (c->failed == 0)
        c->bounds = agreed_of(c)->bounds.data;
    c->step = 0;
    c->u.oktopk.place = OKTOPK_SPLIT;
}

static void enter_selection(struct ss_call *c)
{
    struct ss_threshold *t = &agreed_of(c)->global;
    bool due = ss_threshold_due(t, (size_t)c->vote.ballot.k_max);

    harvest(c);
    t->calls++;
    c->u.oktopk.place = due ? OKTOPK_SEARCH : OKTOPK_COUNT;
    if (due)
        start_search(c);
    else
        start_count(c);
}

/* All know how many entries reach the threshold. */
static void leave_count(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    struct ss_threshold *t = &agreed_of(c)->global;
    uint64_t largest;

    s->spared = UINT64_MAX;
    choose_rung(c, &largest);
    enum ss_fit fit = ss_threshold_judge(t, (size_t)s->total);
    if (fit == SS_FIT_MANY && !s->cut) {
        s->place = OKTOPK_SEARCH;
        start_search(c);
        return;
    }
    s->all = t->magnitude == SS_LEAST_MAGNITUDE && !s->cut;
    if (fit == SS_FIT_FEW && !s->all)
        ss_threshold_reevaluate(t);
    if (s->cut || ss_oktopk_uneven(c, largest)) {
        s->place = OKTOPK_SHARES;
        start_shares(c);
        return;
    }
    select_global(c);
    start_gather(c);
}

static void leave_shares(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;
    uint64_t largest = 0;

    cut_last(c);
    select_global(c);
    for (int p = 0; p < c->t->size; p++)
        if (largest < s->words[p])
            largest = s->words[p];
    if (!ss_oktopk_uneven(c, largest)) {
        start_gather(c);
        return;
    }
    s->place = OKTOPK_BALANCE;
    ss_oktopk_balance_start(c);
}

/* An agreement has ended well. */
static void move_on(struct ss_call *c)
{
    switch (c->u.oktopk.place) {
    case OKTOPK_PARTITION:
        if (!next_round(c))
            enter_split(c);
        break;
    case OKTOPK_SEARCH:
        if (!next_digit(c)) {
            c->u.oktopk.place = OKTOPK_COUNT;
            start_count(c);
        }
        break;
    case OKTOPK_COUNT:
        leave_count(c);
        break;
    default:
        leave_shares(c);
        break;
    }
}

int ss_oktopk_step(struct ss_call *c)
{
    struct ss_oktopk_state *s = &c->u.oktopk;

    for (;;)
        switch (s->place) {
        case OKTOPK_START:
            start(c);
            s->place = OKTOPK_PARTITION;
            if (!partition_due(c) || !start_partition(c))
                enter_split(c);
            break;
        case OKTOPK_SPLIT:
            if (ss_split_reduce_step(c) == SS_PENDING)
                return SS_PENDING;
            enter_selection(c);
            break;
        case OKTOPK_BALANCE:
            if (ss_oktopk_balance_step(c) == SS_PENDING)
                return SS_PENDING;
            start_gather(c);
            break;
        case OKTOPK_GATHER:
            if (ss_gather_step(c) == SS_PENDING)
                return SS_PENDING;
            finish(c);
            return SS_OK;
        default:
            if (ss_agree_step(c, &s->agree) == SS_PENDING)
                return SS_PENDING;
            if (c->failed < 0)
                return SS_OK;
            move_on(c);
        }
}
