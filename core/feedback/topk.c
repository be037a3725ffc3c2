/* Top-k with error feedback inside a call (SparCML Algorithm 1; Ok-Topk Algorithm 2): the large
 * entries of gradient + residual are claimed and sent, the rest stays in the residual. What does
 * not reach the result goes back: by undo where the call turns native on the raw gradient, by
 * adding the claims where it fails. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/call/call_impl.h"

enum { FLAG_SHIFT = 8 }; /* of the tensor's ballot among the vote's flags */

static uint64_t tensor_flags(const struct ss_tensor_ballot *b)
{
    return (uint64_t)b->unregistered << FLAG_SHIFT | (uint64_t)b->registered << (FLAG_SHIFT + 1) |
           (uint64_t)b->not_ready << (FLAG_SHIFT + 2) |
           (uint64_t)b->not_gradient << (FLAG_SHIFT + 3) | (uint64_t)b->refused << (FLAG_SHIFT + 4);
}

static struct ss_tensor_ballot tensor_ballot(uint64_t flags)
{
    return (struct ss_tensor_ballot){
        .unregistered = flags >> FLAG_SHIFT & 1,
        .registered = flags >> (FLAG_SHIFT + 1) & 1,
        .not_ready = flags >> (FLAG_SHIFT + 2) & 1,
        .not_gradient = flags >> (FLAG_SHIFT + 3) & 1,
        .refused = flags >> (FLAG_SHIFT + 4) & 1,
    };
}

/* Nothing is to be found out. */
static bool must_be_sparse(const struct ss_call *c)
{
    uint64_t by_rule = ss_topk_forced(c);
    enum ss_algorithm a =
        by_rule > 0 ? (enum ss_algorithm)(by_rule - 1) : c->comm->settings->algorithm;

    return a != SS_AUTO && a != SS_DENSE;
}

void ss_topk_start(struct ss_call *c)
{
    struct ss_comm *comm = c->comm;
    struct ss_rule_subject subject = {
        .count = c->n,
        .type = c->type,
        .comm = comm->name,
        .site = comm->site.name,
        .symbol = comm->site.symbol,
    };
    struct ss_tensor_call call = {
        .lane = c->lane->number,
        .site = comm->site.hash,
        .path = comm->site.path,
        .address = c->out,
        .overlaps = comm->nonblocking,
        .type = c->type,
        .op = c->op,
        .n = c->n,
        .subject = &subject,
    };

    uint64_t small = comm->site.small - comm->small;
    c->small = small < UINT8_MAX ? (uint8_t)small : UINT8_MAX;
    comm->small = comm->site.small;
    c->tensor = ss_tensor_find(comm->tensors, &call);
    c->tensor_short = !c->tensor;
    if (!c->tensor)
        return;
    ss_tensor_begin(c->tensor);
    ss_keep_range(c);
    c->topk = ss_tensor_lossy(c->tensor) && c->keep.count < c->n;
    c->topk_calls = c->topk ? c->tensor->registered_calls - 1 : 0;
    if (c->topk && c->tensor->resting && must_be_sparse(c))
        c->tensor->resting = false;
    c->resting = c->topk && c->tensor->resting;
    c->topk = c->topk && !c->resting;
}

void ss_topk_wake(struct ss_call *c)
{
    c->tensor->resting = false;
    c->resting = false;
    c->topk = c->woken = true;
}

/* Entries to claim in this call, and in *bucket of how many elements each (0 = of all). */
static size_t wanted(const struct ss_call *c, uint64_t *bucket)
{
    const struct ss_settings *s = c->comm->settings;
    const struct ss_rule *rule = c->tensor->rule;
    double density = s->density;
    uint64_t k = s->k;

    *bucket = s->bucket;
    if (c->tensor->density > 0) {
        density = c->tensor->density;
        *bucket = 0;
    } else if (rule && rule->k > 0) {
        k = rule->k;
        *bucket = rule->bucket;
    } else if (rule && rule->density > 0) {
        density = rule->density;
        *bucket = 0;
    }
    if (*bucket > 0)
        return ss_warmup_k((size_t)*bucket, (double)k / (double)*bucket, c->topk_calls,
                           s->warmup_steps);
    return ss_warmup_k((size_t)c->select_n, density, c->topk_calls, s->warmup_steps);
}

/* Entries to claim in all. */
static size_t wanted_of_all(const struct ss_call *c, size_t k, uint64_t bucket)
{
    return bucket > 0 ? k * (size_t)((c->select_n + bucket - 1) / bucket) : k;
}

void ss_topk_rest(struct ss_call *c)
{
    uint64_t bucket;
    size_t k = wanted(c, &bucket);

    c->k = wanted_of_all(c, k, bucket);
    c->scan = (struct ss_scan){.nnz = c->k, .stop = (size_t)c->n};
    c->part_max = c->k / (uint64_t)c->t->size + 1;
}

/* Early, then seldom: in calls 8, 16, 32, ... 256 and then in every 256th. */
enum { GUARD_FIRST = 8, GUARD_PERIOD = 256 };

static bool guard_due(const struct ss_call *c)
{
    uint64_t call = c->topk_calls + 1;
    bool early = call >= GUARD_FIRST && call < GUARD_PERIOD && (call & (call - 1)) == 0;

    return c->comm->settings->guard != SS_GUARD_OFF && (early || call % GUARD_PERIOD == 0);
}

/* The profile of what is sent: a buffer that holds different tensors in turn is found out. */
static bool unlike(struct ss_call *c)
{
    struct ss_profile_now now;

    ss_profile_sparse(&now, c->type, c->own.idx, c->own.val, c->own.nnz, (size_t)c->n);
    return ss_profile_watch(&c->tensor->profile, &now);
}

int ss_topk_select(struct ss_call *c)
{
    const struct ss_selectors *selectors = ss_selectors();
    struct ss_tensor *t = c->tensor;
    struct ss_selection seen;
    uint64_t bucket;
    size_t k = wanted(c, &bucket), n = (size_t)c->select_n, first = (size_t)c->select_first;
    const void *g = ss_at_const(c->in, first, c->esize);
    void *r = ss_at(t->residual.data, first, c->esize);

    c->k = wanted_of_all(c, k, bucket);
    size_t room = bucket > 0 ? c->k : ss_claim_limit(k);
    if (ss_own_reserve(c, room, 0) != SS_OK || ss_keep_take(c) != SS_OK ||
        ss_guard_reserve(c) != SS_OK) /* once claimed, nothing may fail */
        return SS_ERR_MEMORY;
    c->threshold_before = t->threshold;
    if (bucket > 0)
        ss_select_buckets(selectors, c->type, g, r, n, (uint32_t)first, k, (size_t)bucket,
                          c->own.idx, c->own.val, &seen);
    else
        c->reevaluate = ss_threshold_select(&t->threshold, selectors, c->type, g, r, n,
                                            (uint32_t)first, k, c->own.idx, c->own.val, &seen);
    c->claimed = true;
    c->select_stop = seen.stop;
    c->input_square = seen.input_square;
    c->sum_square = seen.sum_square - ss_square_sum(c->type, c->own.val, seen.claimed);
    c->own.nnz = seen.claimed;
    if (c->keep.count > 0)
        seen.not_finite +=
            ss_count_not_finite(c->type, c->work->keep.data, NULL, (size_t)c->keep.count);
    c->scan = (struct ss_scan){.nnz = seen.claimed,
                               .stored = seen.claimed,
                               .stop = (size_t)c->n,
                               .not_finite = seen.not_finite > 0};
    c->guarded = guard_due(c);
    if (c->guarded)
        ss_guard_take(c);
    return SS_OK;
}

uint64_t ss_topk_forced(const struct ss_call *c)
{
    const struct ss_rule *rule = c->topk || c->resting ? c->tensor->rule : NULL;

    return rule && rule->has_algorithm ? (uint64_t)rule->algorithm + 1 : 0;
}

/* By the norms alone: no element of input or residual is larger than they are. */
static bool sum_is_finite(const struct ss_call *c)
{
    double most = c->type == SS_F32 ? (double)FLT_MAX : DBL_MAX;
    double input = c->input_square, kept = c->tensor->residual_square;

    if (!(input < DBL_MAX && kept < DBL_MAX)) /* NaN, too */
        return false;
    return ss_root(input) + ss_root(kept) < most / 2;
}

/* Squared norm and parts of the input for the level of a call whose step is not known yet, infinite
 * where something is not finite: of what was extracted, where that is little, else of a sample. Of
 * what is like noise the norm is right within two percent, a quarter of the unit of levels. */
static double level_square(struct ss_call *c)
{
    enum { SAMPLE = 8192 };

    if (c->scan.not_finite)
        return INFINITY;
    if (!c->resting && c->own.nnz == c->scan.nnz && c->own.nnz <= c->n / 8)
        return ss_steps_parts_sparse(c->type, c->own.idx, c->own.val, c->own.nnz, (size_t)c->n,
                                     c->parts);
    return ss_steps_parts(c->type, c->in, (size_t)c->n, SAMPLE, c->parts);
}

uint64_t ss_topk_flags(struct ss_call *c)
{
    uint64_t flags = 0;

    if (c->tensor) {
        struct ss_tensor_ballot ballot = ss_tensor_ballot(c->tensor); /* may make a residual */
        flags = tensor_flags(&ballot);
    }
    if (ss_tensors_hold(c->comm->tensors, c->lane->number))
        flags |= SS_VOTE_HOLDS;
    if (!c->tensor)
        return c->tensor_short ? flags | SS_VOTE_CANNOT : flags;
    if (!c->topk && !c->tensor->place.settled && c->tensor->state != SS_TENSOR_EXACT)
        c->input_square = level_square(c); /* for the step */
    if (ss_tensor_lane_interest(c->tensor))
        flags |= SS_VOTE_INTEREST;
    if (c->topk)
        flags |= SS_VOTE_CLAIMS;
    if (c->resting)
        flags |= SS_VOTE_RESTING;
    if (c->reevaluate)
        flags |= SS_VOTE_REEVALUATE;
    if (c->guarded)
        flags |= SS_VOTE_GUARD;
    if (c->claimed && !c->scan.not_finite && c->input_square > 0 && !c->profiled) {
        c->unlike = unlike(c);
        c->profiled = true; /* a call that votes twice is seen once */
    }
    if (c->unlike)
        flags |= SS_VOTE_UNLIKE;
    if (ss_residual_pending(c)) {
        flags |= SS_VOTE_DRAIN | SS_VOTE_INTEREST;
        if (!sum_is_finite(c) &&
            ss_count_not_finite(c->type, c->in, c->tensor->residual.data, (size_t)c->n) > 0)
            flags |= SS_VOTE_NOT_FINITE;
    }
    return flags;
}

void ss_topk_show(struct ss_call *c)
{
    if (c->tensor && (ss_tensor_watching(c->tensor) || c->guarded))
        ss_evidence_show(&c->vote.ballot.evidence, &c->tensor->watch, c->type, c->in, (size_t)c->n);
}

uint64_t ss_topk_past(const struct ss_call *c)
{
    return c->vote.ballot.evidence.shown > 0 ? c->tensor->watch.hash | 1 : 0;
}

static void tell_left(struct ss_call *c)
{
    const struct ss_tensor *t = c->tensor;
    char since[80] = "no result of it was lossy";

    if (t->lossy_since > 0)
        snprintf(since, sizeof since, "results were lossy since call %llu of %llu",
                 (unsigned long long)t->lossy_since, (unsigned long long)t->calls);
    ss_topk_warn(c, "a second call did not look like a gradient (%s); it is exact from here on; %s",
                 ss_likeness_text(t->watch.why), since);
}

static void judge(struct ss_call *c)
{
    struct ss_tensor *t = c->tensor;
    const struct ss_ballot *b = &c->vote.ballot;
    bool registered = t->state == SS_TENSOR_REGISTERED;

    if (b->evidence.shown == 0)
        return;
    /* A rank whose input is not finite shows nothing, and nobody's past moves on. */
    bool agreed = b->evidence.shown < (uint32_t)c->t->size || ss_ballot_same(b, SS_SAME_WATCH);
    if (t->asked && !ss_tensor_has_left(t)) {
        ss_guard_look(c, agreed);
        return;
    }
    c->unfit = !ss_tensor_judge(t, &b->evidence, agreed, c->t->size);
    if (registered && t->state != SS_TENSOR_REGISTERED)
        tell_left(c);
}

bool ss_topk_vote(struct ss_call *c, uint64_t flags)
{
    struct ss_tensor_ballot ballot = tensor_ballot(flags);
    const struct ss_ballot *all = &c->vote.ballot;

    if (!c->comm->tensors) /* another mode */
        return true;
    bool same = ss_ballot_same(all, SS_SAME_SMALL);
    ss_tensors_level(c->comm->tensors, ss_bits_double(all->norm_max), all->parts,
                     same ? (uint8_t)all->same_min[SS_SAME_SMALL] : 0);
    if (!ss_ballot_same(all, SS_SAME_LABEL))
        ss_tensors_join(c->comm->tensors, c->lane->number);
    if (!c->tensor)
        return true;
    if (!ss_ballot_same(all, SS_SAME_LABEL) || !ss_ballot_same(all, SS_SAME_TENSOR)) {
        c->keeps = ss_tensor_has_left(c->tensor);
        return !ballot.registered && !(flags & SS_VOTE_DRAIN);
    }
    bool candidate = c->tensor->state == SS_TENSOR_CANDIDATE;
    ss_tensor_vote(c->tensor, &ballot);
    if (candidate && c->tensor->state != SS_TENSOR_CANDIDATE)
        ss_admission_tell(c);
    judge(c);
    return ss_topk_claimed(c, flags) && !(ballot.registered && ballot.unregistered);
}

bool ss_topk_claimed(struct ss_call *c, uint64_t flags)
{
    if ((flags & SS_VOTE_UNLIKE) && c->tensor->state == SS_TENSOR_REGISTERED)
        ss_tensor_settle(c->tensor, false, SS_TENSOR_PROFILE);
    if (flags & SS_VOTE_REEVALUATE)
        ss_threshold_reevaluate(&c->tensor->threshold);
    if ((flags & SS_VOTE_RESTING) && (flags & SS_VOTE_CLAIMS))
        c->tensor->resting = false;
    return !(flags & SS_VOTE_RESTING) || (!(flags & SS_VOTE_CLAIMS) && c->resting);
}

void ss_topk_planned(struct ss_call *c, bool dense)
{
    if (!c->topk || !dense)
        return;
    c->tensor->resting = true;
    c->tensor->emptied = false;
}

uint64_t ss_topk_label(const struct ss_call *c)
{
    if (c->tensor)
        return c->tensor->label;
    return c->tensor_short ? UINT64_MAX : 0;
}

/* Differs between tensors, calls and ranks; the position within the call is the encoder's. */
static uint64_t seed_of(const struct ss_call *c)
{
    uint64_t parts[] = {c->comm->settings->seed,   c->lane->number, c->tensor->label,
                        ss_tensor_code(c->tensor), c->topk_calls,   (uint64_t)c->t->rank};
    uint64_t h = 0x9e3779b97f4a7c15ULL;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        h = ss_mix(h, parts[i]);
    return h;
}

void ss_topk_recipe(struct ss_call *c)
{
    struct ss_work *w = c->work;
    const struct ss_settings *s = c->comm->settings;
    bool global = c->plan.algorithm == SS_OKTOPK || c->plan.algorithm == SS_GTOPK;
    size_t entries = c->own.nnz + 1;

    if (!c->topk)
        return;
    c->round = (struct ss_rounding){.values = s->values, .bucket = s->quant_bucket};
    c->round_dense = c->round;
    if (s->quant != SS_VALUES_SAME) {
        c->round_dense.values = s->quant;
        c->round_dense.stochastic = !s->quant_feedback;
        c->round_dense.seed = seed_of(c);
    }
    if (s->values != SS_VALUES_SAME) {
        if (ss_buf_reserve_voted(&w->own_error, c->comm->mem, entries * c->esize) != SS_OK) {
            ss_fail(c, SS_ERR_MEMORY, c->t->rank, SS_PHASE_REDUCE);
            c->round.values = SS_VALUES_SAME;
        } else {
            c->claims.own_error = w->own_error.data;
            memset(w->own_error.data, 0, entries * c->esize);
        }
    }
    if (global) {
        if (ss_buf_reserve_voted(&w->marks, c->comm->mem, entries) != SS_OK) {
            ss_fail(c, SS_ERR_MEMORY, c->t->rank, SS_PHASE_REDUCE);
        } else {
            c->claims.mark = w->marks.data;
            memset(w->marks.data, 0, entries);
        }
    }
}

void ss_topk_mark(struct ss_call *c, const uint32_t *idx, size_t nnz)
{
    const uint32_t *own = c->own.idx;
    size_t j, end;

    if (nnz == 0 || !c->claims.mark)
        return;
    j = ss_lower_bound(own, c->own.nnz, idx[0]);
    end = j + ss_lower_bound(own + j, c->own.nnz - j, idx[nnz - 1] + 1);
    for (size_t i = 0; j < end; j++) {
        while (idx[i] < own[j])
            i++;
        c->claims.mark[j] = idx[i] == own[j];
    }
}

void ss_topk_book(struct ss_call *c, const uint32_t *idx, uint64_t first, const void *error,
                  size_t count)
{
    c->claims.idx = idx;
    c->claims.first = first;
    c->claims.error = error;
    c->claims.errors = count;
}

/* The claims that are not in the global set return; they move to the front of the own stream. */
static void return_claims(struct ss_call *c)
{
    size_t kept = 0;

    for (size_t j = 0; j < c->own.nnz; j++) {
        if (c->claims.mark[j])
            continue;
        c->own.idx[kept] = c->own.idx[j];
        memcpy(ss_at(c->own.val, kept, c->esize), ss_at(c->own.val, j, c->esize), c->esize);
        kept++;
    }
    ss_residual_add(c->type, c->tensor->residual.data, 0, c->own.idx, c->own.val, kept);
    c->tensor->residual_square += ss_square_sum(c->type, c->own.val, kept);
}

static void add_errors(struct ss_call *c)
{
    const struct ss_claims *b = &c->claims;
    void *r = c->tensor->residual.data;

    if (b->own_error)
        ss_residual_add(c->type, r, 0, c->own.idx, b->own_error, c->own.nnz);
    if (b->error && b->idx)
        ss_residual_add(c->type, r, 0, b->idx, b->error, b->errors);
    else if (b->error)
        ss_residual_add_dense(c->type, ss_at(r, (size_t)b->first, c->esize), b->error, b->errors);
}

void ss_topk_commit(struct ss_call *c)
{
    if (!c->claimed)
        return;
    c->tensor->residual_square = c->sum_square > 0 ? c->sum_square : 0;
    add_errors(c);
    if (c->claims.mark)
        return_claims(c);
    c->claimed = false;
}

void ss_topk_undo(struct ss_call *c)
{
    if (!c->claimed)
        return;
    ss_selectors()->undo(c->type, ss_at_const(c->in, (size_t)c->select_first, c->esize),
                         ss_at(c->tensor->residual.data, (size_t)c->select_first, c->esize),
                         c->select_stop, (uint32_t)c->select_first, c->own.idx, c->own.val,
                         c->own.nnz);
    c->tensor->threshold = c->threshold_before;
    c->claimed = false;
}

void ss_topk_fail(struct ss_call *c)
{
    if (!c->claimed)
        return;
    ss_residual_add(c->type, c->tensor->residual.data, 0, c->own.idx, c->own.val, c->own.nnz);
    if (c->claims.own_error)
        ss_residual_add(c->type, c->tensor->residual.data, 0, c->own.idx, c->claims.own_error,
                        c->own.nnz);
    c->claimed = false;
}

static double off(uint64_t selected, uint64_t k)
{
    return (double)(selected > k ? selected - k : k - selected) / (double)k;
}

void ss_topk_end(struct ss_call *c, bool native_done)
{
    struct ss_tensor *t = c->tensor;

    if (!t)
        return;
    if (c->joined > 0 && native_done)
        ss_residual_leave(c);
    if (c->topk && !c->native && c->failed == 0) {
        t->topk_calls++;
        if (t->lossy_since == 0)
            t->lossy_since = t->calls;
        t->density_sum += (double)c->own.nnz / (double)c->n;
        t->asked_sum += (double)c->k / (double)c->n;
        t->off_sum += off(c->own.nnz, c->k);
        if (c->plan.algorithm == SS_OKTOPK || c->plan.algorithm == SS_GTOPK) {
            t->global_calls++;
            t->global_off_sum += off(c->result_nnz, c->vote.ballot.k_max);
        }
        t->input_norm = ss_root(c->input_square);
    }
    ss_tensor_end(t);
    c->tensor = NULL;
}

void ss_topk_warn(struct ss_call *c, const char *format, ...)
{
    struct ss_comm *comm = c->comm;
    const struct ss_tensor *t = c->tensor;
    int length =
        snprintf(comm->warning, sizeof comm->warning,
                 "top-k: %llu %s called from %s on %s: ", (unsigned long long)t->n,
                 ss_type_name(t->type), t->site_name[0] ? t->site_name : "an unknown place",
                 comm->name[0] ? comm->name : "an unnamed communicator");
    va_list rest;

    if (length < 0 || (size_t)length >= sizeof comm->warning)
        return;
    va_start(rest, format);
    vsnprintf(comm->warning + length, sizeof comm->warning - (size_t)length, format, rest);
    va_end(rest);
}
