/* Top-k with error feedback inside a call (SparCML Algorithm 1; Ok-Topk Algorithm 2). The call
 * claims and sends the large entries of gradient + residual; the others stay in the residual.
 * Claims that do not reach the result return: by undo if the call turns native on the raw gradient,
 * by addition if the call fails. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/coll/algorithms.h"
#include "core/compute/vector.h"
#include "core/feedback/feedback.h"
#include "core/tensor/residual.h"

static uint64_t tensor_flags(const struct ss_tensor_ballot *b)
{
    return (b->unregistered ? SS_VOTE_UNREGISTERED : 0) | (b->registered ? SS_VOTE_REGISTERED : 0) |
           (b->refused ? SS_VOTE_REFUSED : 0);
}

static struct ss_tensor_ballot tensor_ballot(uint64_t flags)
{
    return (struct ss_tensor_ballot){.unregistered = flags & SS_VOTE_UNREGISTERED,
                                     .registered = flags & SS_VOTE_REGISTERED,
                                     .refused = flags & SS_VOTE_REFUSED};
}

/* Returns true if the rule or ALGORITHM names a sparse algorithm. */
static bool must_be_sparse(const struct ss_feedback *f)
{
    uint64_t by_rule = ss_topk_forced(f);
    enum ss_algorithm a =
        by_rule > 0 ? (enum ss_algorithm)(by_rule - 1) : f->comm->settings->algorithm;

    return a != SS_AUTO && a != SS_DENSE;
}

static void tell_lost(struct ss_feedback *f, double norm)
{
    ss_topk_warn(f,
                 "the device that held this rank's residual has failed: its residual, of norm "
                 "%.3g, is lost, and a new one begins",
                 norm);
    f->comm->warning_own = true;
}

/* Moves the residual to the backend of the buffers. Returns false if it has no room there, or if it
 * is the host's, which does not move. */
static bool follow(struct ss_feedback *f)
{
    struct ss_tensor *t = f->tensor;

    if (t->range.by_host && f->c.x.backend != &ss_host)
        return false;
    const int status = ss_residual_move(t, f->c.x.backend);
    const double lost = ss_residual_lost(f->comm->tensors);

    if (lost > 0)
        tell_lost(f, lost);
    if (status != SS_OK || !ss_tensor_lossy(t) || ss_residual_there(t))
        return status == SS_OK;
    return ss_residual_make(t);
}

static struct ss_tensor_call call_of(const struct ss_feedback *f,
                                     const struct ss_rule_subject *subject)
{
    const struct ss_exchange *x = &f->c.x;

    return (struct ss_tensor_call){
        .lane = f->lane->number,
        .site = f->site.hash,
        .address = f->site.buffer ? f->site.buffer : f->c.out,
        .from = f->site.buffer ? f->site.buffer : f->c.in,
        .backend = x->backend,
        .type = x->type,
        .op = f->c.op,
        .n = x->n,
        .subject = subject,
    };
}

void ss_topk_find(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_comm *comm = f->comm;
    struct ss_rule_subject subject = {
        .count = x->n,
        .type = x->type,
        .comm = comm->name,
        .site = f->site.name,
        .symbol = f->site.symbol,
    };
    struct ss_tensor_call call = call_of(f, &subject);

    ss_host_sum_range(f, &call);
    f->tensor = ss_tensor_find(comm->tensors, &call, &f->found);
    if (!f->tensor)
        ss_topk_move(&f->state, SS_ON_CANNOT);
    if (f->cannot)
        f->tensor = NULL;
}

void ss_topk_start(struct ss_feedback *f)
{
    struct ss_tensor_call call = call_of(f, NULL);
    struct ss_tensor *t = f->tensor;

    if (!t)
        return;
    ss_tensor_take(t, &call, &f->found);
    if (!follow(f))
        ss_topk_move(&f->state, SS_ON_CANNOT);
    ss_tensor_begin(t);
    ss_keep_range(f);
    if (!ss_tensor_lossy(t) || f->keep.count >= f->c.x.n || !ss_topk_move(&f->state, SS_ON_LOSSY))
        return;
    f->topk_calls = t->registered_calls - 1;
    f->whole = ss_whole_due(f);
    if (must_be_sparse(f))
        t->rest = SS_AWAKE;
    if (t->rest != SS_AWAKE)
        ss_topk_move(&f->state, SS_ON_REST);
}

void ss_topk_wake(struct ss_feedback *f)
{
    f->tensor->rest = SS_AWAKE;
    ss_topk_move(&f->state, SS_ON_WAKE);
}

double ss_topk_density(const struct ss_feedback *f, uint64_t *bucket)
{
    const struct ss_settings *s = f->comm->settings;
    const struct ss_rule *rule = f->tensor->rule;

    *bucket = 0;
    if (f->tensor->density > 0)
        return f->tensor->density;
    if (rule && rule->k > 0) {
        *bucket = rule->bucket;
        return (double)rule->k / (double)rule->bucket;
    }
    if (rule && rule->density > 0)
        return rule->density;
    *bucket = s->bucket;
    return s->bucket > 0 ? (double)s->k / (double)s->bucket : s->density;
}

size_t ss_topk_wanted(const struct ss_feedback *f, uint64_t *bucket)
{
    const double density = ss_topk_density(f, bucket);

    return ss_warmup_k((size_t)(*bucket > 0 ? *bucket : f->select_n), density, f->topk_calls,
                       f->comm->settings->warmup_steps);
}

/* Returns the entries to claim from all elements together. */
static size_t wanted_of_all(const struct ss_feedback *f, size_t k, uint64_t bucket)
{
    return bucket > 0 ? k * (size_t)((f->select_n + bucket - 1) / bucket) : k;
}

void ss_topk_rest(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    uint64_t bucket;
    size_t k = ss_topk_wanted(f, &bucket);

    f->k = wanted_of_all(f, k, bucket);
    f->c.scan = (struct ss_scan){.nnz = f->k < x->n ? f->k : (size_t)x->n, .stop = (size_t)x->n};
    f->c.part_max = f->c.scan.nnz / (uint64_t)ss_topk_owners(f) + 1;
}

static void guard(struct ss_feedback *f)
{
    f->guarded = ss_guard_due(f);
    if (f->guarded)
        ss_guard_take(f);
}

int ss_topk_select(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    struct ss_tensor *t = f->tensor;
    struct ss_selection *seen = &f->seen;
    uint64_t bucket;
    size_t k = ss_topk_wanted(f, &bucket), n = (size_t)f->select_n, first = (size_t)f->select_first;
    const void *g = f->select_in;
    void *r = ss_residual_at(t, first);

    if (f->whole) {
        const int status = ss_whole_look(f);
        if (status == SS_OK)
            guard(f);
        return status;
    }
    f->k = wanted_of_all(f, k, bucket);
    size_t room = bucket > 0 ? f->k : ss_claim_limit(k);
    struct ss_backend_need need = {.n = n, .entries = room, .k = k, .bucket = (size_t)bucket};
    if (ss_stream_reserve_own(x, &c->own, room, 0) != SS_OK || ss_keep_take(f) != SS_OK ||
        ss_guard_reserve(f) != SS_OK || /* once claimed, nothing may fail */
        x->backend->ops->reserve(x->backend, x->type, &need) != SS_OK)
        return SS_ERR_MEMORY;
    f->threshold_before = t->threshold;
    ss_topk_to_backend(f, room);
    if (bucket > 0)
        x->ticket = x->backend->ops->claim_buckets(x->backend, x->type, g, r, n, (uint32_t)first, k,
                                                   (size_t)bucket, c->own.idx, c->own.val, seen);
    else
        x->ticket =
            x->backend->ops->claim(x->backend, &t->threshold, x->type, g, r, n, (uint32_t)first, k,
                                   c->own.idx, c->own.val, seen, &f->reevaluate);
    guard(f);
    return SS_OK;
}

void ss_topk_selected(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    size_t claimed = f->seen.claimed, not_finite = f->seen.not_finite;

    ss_topk_move(&f->state, SS_ON_CLAIMED);
    if (f->whole) {
        ss_whole_looked(f);
        return;
    }
    f->select_stop = f->seen.stop;
    f->input_square = f->seen.input_square;
    if (!c->own.in_backend)
        f->sum_square = f->seen.sum_square - ss_vector_square(x->type, c->own.val, claimed);
    c->own.nnz = claimed;
    if (f->keep.count > 0)
        not_finite +=
            ss_vector_not_finite(x->type, x->work->keep.data, NULL, (size_t)f->keep.count);
    c->scan = (struct ss_scan){
        .nnz = claimed, .stored = claimed, .stop = (size_t)x->n, .not_finite = not_finite > 0};
}

void ss_topk_lost(struct ss_feedback *f)
{
    if (!f->whole)
        f->tensor->threshold = f->threshold_before;
    f->reevaluate = false;
}

uint64_t ss_topk_forced(const struct ss_feedback *f)
{
    const struct ss_rule *rule = ss_topk_is_lossy(f) ? f->tensor->rule : NULL;

    return rule && rule->has_algorithm ? (uint64_t)rule->algorithm + 1 : 0;
}

uint64_t ss_topk_flags(struct ss_feedback *f)
{
    uint64_t flags = f->tensor ? tensor_flags(&f->looked.ballot) : 0;

    if (ss_tensors_have_residual(f->comm->tensors, f->lane->number))
        flags |= SS_VOTE_HAS_RESIDUAL;
    if (f->state == SS_TOPK_CANNOT)
        flags |= SS_VOTE_CANNOT;
    if (!f->tensor)
        return flags;
    if (ss_tensor_lane_interest(f->tensor))
        flags |= SS_VOTE_INTEREST;
    if (ss_topk_claims(f))
        flags |= SS_VOTE_CLAIMS;
    if (f->state == SS_TOPK_RESTS)
        flags |= SS_VOTE_RESTING;
    if (f->reevaluate)
        flags |= SS_VOTE_REEVALUATE;
    if (f->guarded)
        flags |= SS_VOTE_GUARD;
    if (f->looked.joins)
        flags |= SS_VOTE_JOINS | SS_VOTE_INTEREST;
    if (f->looked.not_finite > 0)
        flags |= SS_VOTE_NOT_FINITE;
    return flags;
}

/* Counts votes in which another rank does not know the tensor that this rank means. */
static void count_alone(struct ss_feedback *f, bool all_known)
{
    struct ss_tensor *t = f->tensor;

    t->alone = f->found.where.known && !all_known ? t->alone + 1 : 0;
    f->found.where.tell = f->found.where.tell || t->alone == SS_IDENTITY_TELLS;
}

/* Logs once in a job, on rank 0, that the position of calls is not known. */
static void tell_position(struct ss_feedback *f)
{
    const struct ss_rule *rule = f->tensor ? f->tensor->rule : NULL;

    if (!f->found.where.tell || !f->tensor || !f->tensor->asked || f->c.x.t->rank != 0 ||
        atomic_exchange(&f->comm->stats->warned_position, true))
        return;
    if (rule && rule->calls > 0)
        ss_topk_warn(f, "its calls are exact, as its buffers do not come in the order of calls=N "
                        "in its rule of REGISTER: N must be its calls per step, in every step");
    else
        ss_topk_warn(f, "its calls are exact, as no receive buffer shows which gradient a call "
                        "has: write ':calls=N' behind its rule of REGISTER, N being its calls per "
                        "step, 1 for a single gradient");
}

bool ss_topk_differs(const struct ss_feedback *f)
{
    return !ss_ballot_same(&f->vote.ballot, SS_SAME_TENSOR);
}

/* Takes the flags about claims alone. Returns false if some ranks have claimed and others rest. */
static bool vote_on_claims(struct ss_feedback *f, uint64_t flags)
{
    const bool rest = flags & SS_VOTE_RESTING, claim = flags & SS_VOTE_CLAIMS;

    if (flags & SS_VOTE_REEVALUATE)
        ss_threshold_reevaluate(&f->tensor->threshold);
    if (rest && claim)
        f->tensor->rest = SS_AWAKE;
    return !rest || (!claim && f->state == SS_TOPK_RESTS);
}

/* Takes the first vote on the tensor. */
static bool vote_on_tensor(struct ss_feedback *f, uint64_t flags)
{
    struct ss_tensor_ballot ballot = tensor_ballot(flags);
    const struct ss_ballot *all = &f->vote.ballot;
    const bool same = ss_ballot_same(all, SS_SAME_TENSOR);

    if (!f->comm->tensors) /* another mode */
        return true;
    const bool all_known = all->same_min[SS_SAME_TENSOR] > 0;
    if (!f->tensor)
        return !(ballot.registered && ballot.unregistered);
    count_alone(f, all_known);
    tell_position(f);
    ss_tensor_vote(f->tensor, &ballot, same || !all_known);
    ss_topk_move(&f->state, SS_ON_VOTE);
    if (!same)
        return !ballot.registered && !(flags & SS_VOTE_JOINS);
    if (f->state == SS_TOPK_RESTS && !(flags & (SS_VOTE_JOINS | SS_VOTE_CLAIMS | SS_VOTE_CANNOT)))
        f->tensor->rest = SS_RESTS_EMPTY;
    return vote_on_claims(f, flags) && !(ballot.registered && ballot.unregistered);
}

bool ss_topk_vote(struct ss_feedback *f, uint64_t flags)
{
    return f->state >= SS_TOPK_AGREED ? vote_on_claims(f, flags) : vote_on_tensor(f, flags);
}

void ss_topk_planned(struct ss_feedback *f, bool dense)
{
    if (ss_topk_claims(f) && dense)
        f->tensor->rest = SS_RESTS;
}

/* Returns a seed that differs between tensors, calls and ranks; the encoder adds the position. */
static uint64_t seed_of(const struct ss_feedback *f)
{
    uint64_t parts[] = {f->lane->number, ss_identity_code(&f->found.where), f->topk_calls,
                        (uint64_t)f->c.x.t->rank};
    uint64_t h = 0x9e3779b97f4a7c15ULL;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        h = ss_mix(h, parts[i]);
    return h;
}

bool ss_topk_global(const struct ss_feedback *f, enum ss_algorithm algorithm)
{
    return ss_keeps_global(algorithm == SS_TWO_LEVEL ? f->c.voted.between : algorithm);
}

/* Returns the entries that all ranks together ask for. */
static uint64_t global_asked(const struct ss_feedback *f)
{
    const uint64_t k = f->vote.ballot.k_max;

    return f->c.by_host ? k * (uint64_t)ss_layout_slices(f->comm->layout, f->c.x.n) : k;
}

void ss_topk_prepare(struct ss_feedback *f, bool global)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    struct ss_work *w = x->work;
    const struct ss_settings *s = f->comm->settings;
    size_t entries = c->own.nnz + 1;

    if (!ss_topk_claims(f))
        return;
    if (f->whole) {
        ss_whole_start(f);
        return;
    }
    c->rounding = (struct ss_rounding){.values = ss_topk_values(f),
                                       .bucket = s->quant_bucket,
                                       .stochastic = ss_topk_random(f),
                                       .seed = seed_of(f)};
    const bool keeps = c->rounding.values != SS_VALUES_SAME && !c->rounding.stochastic;
    if (keeps && c->own.in_backend) {
        c->claims.own_error = w->in_backend[0].error.data;
        x->backend->ops->clear(x->backend, x->type, c->claims.own_error, entries);
    } else if (keeps) {
        if (ss_buf_reserve_voted(&w->own_error, f->comm->mem, entries * x->esize) != SS_OK) {
            ss_fail(x, SS_ERR_MEMORY, x->t->rank, SS_PHASE_REDUCE);
            c->rounding.values = SS_VALUES_SAME;
        } else {
            c->claims.own_error = w->own_error.data;
            memset(w->own_error.data, 0, entries * x->esize);
        }
    }
    if (global) {
        if (ss_buf_reserve_voted(&w->in_global, f->comm->mem, entries) != SS_OK) {
            ss_fail(x, SS_ERR_MEMORY, x->t->rank, SS_PHASE_REDUCE);
        } else {
            c->claims.in_global = w->in_global.data;
            memset(w->in_global.data, 0, entries);
        }
    }
}

/* Returns the claims that are not in the global set; they move to the front of the own stream. */
static void return_claims(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    size_t kept = 0;

    for (size_t j = 0; j < c->own.nnz; j++) {
        if (c->claims.in_global[j])
            continue;
        c->own.idx[kept] = c->own.idx[j];
        memcpy(ss_at(c->own.val, kept, x->esize), ss_at(c->own.val, j, x->esize), x->esize);
        kept++;
    }
    ss_residual_return(f->tensor, c->own.idx, c->own.val, kept);
}

static void add_errors(struct ss_feedback *f)
{
    const struct ss_coll *c = &f->c;
    const struct ss_claims *b = &c->claims;

    if (b->own_error)
        ss_residual_add(f->tensor, c->own.idx, b->own_error, c->own.nnz);
    if (b->error && b->idx)
        ss_residual_add(f->tensor, b->idx, b->error, b->errors);
    else if (b->error)
        ss_residual_add_dense(f->tensor, b->first, b->error, b->errors);
}

void ss_topk_commit(struct ss_feedback *f)
{
    if (!ss_topk_move(&f->state, SS_ON_COMMIT))
        return;
    ss_residual_claimed(f->tensor, f->whole ? f->c.whole.square : f->sum_square);
    add_errors(f);
    if (f->c.claims.in_global)
        return_claims(f);
}

void ss_topk_undo(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;

    if (!ss_topk_move(&f->state, SS_ON_RETURN) || f->whole)
        return;
    x->backend->ops->undo(x->backend, x->type, f->select_in,
                          ss_residual_at(f->tensor, f->select_first), f->select_stop,
                          (uint32_t)f->select_first, c->own.idx, c->own.val, c->own.nnz);
    f->tensor->threshold = f->threshold_before;
}

void ss_topk_fail(struct ss_feedback *f)
{
    const struct ss_coll *c = &f->c;

    if (!ss_topk_move(&f->state, SS_ON_RETURN))
        return;
    if (f->whole) {
        ss_whole_fail(f);
        return;
    }
    ss_residual_add(f->tensor, c->own.idx, c->own.val, c->own.nnz);
    if (c->claims.own_error)
        ss_residual_add(f->tensor, c->own.idx, c->claims.own_error, c->own.nnz);
}

static double off(uint64_t selected, uint64_t k)
{
    return k > 0 ? (double)(selected > k ? selected - k : k - selected) / (double)k : 0;
}

/* Returns the elements from which this rank claims, 1 or more. */
static double elements_of(const struct ss_tensor *t)
{
    return t->range.n > 0 ? (double)t->range.n : 1;
}

/* Adds a point to the series for the report, unless memory is short. */
static void note_point(struct ss_feedback *f)
{
    struct ss_tensor *t = f->tensor;
    struct ss_series *series = t->series.data;

    if (!series) {
        if (ss_buf_reserve(&t->series, f->comm->mem, sizeof *series) != SS_OK)
            return;
        series = t->series.data;
        memset(series, 0, sizeof *series);
    }
    if (!ss_series_due(series)) {
        ss_series_skip(series);
        return;
    }
    const ss_magnitude least = t->threshold.magnitude;
    ss_series_add(series, &(struct ss_series_point){
                              .call = (double)t->calls,
                              .density = f->whole ? 1 : (double)f->c.own.nnz / elements_of(t),
                              .threshold = least > 0 ? ss_magnitude_value(t->type, least) : NAN,
                              .residual = ss_root(ss_residual_square(t)),
                              .input = ss_root(f->input_square),
                          });
}

void ss_topk_end(struct ss_feedback *f, enum ss_algorithm ran)
{
    struct ss_coll *c = &f->c;
    struct ss_tensor *t = f->tensor;

    if (!t)
        return;
    ss_host_sum_hide(f);
    if (f->state == SS_TOPK_JOINED && ran == SS_DENSE)
        ss_join_end(f);
    if (f->state == SS_TOPK_SENT) {
        t->stats.topk_calls++;
        if (t->lossy_since == 0)
            t->lossy_since = t->calls;
        const double n = elements_of(t);
        t->stats.density_sum += f->whole ? 1 : (double)c->own.nnz / n;
        t->stats.asked_sum += (double)f->k / n;
        t->stats.off_sum += f->whole ? 0 : off(c->own.nnz, f->k);
        if (ss_topk_global(f, ran)) {
            t->stats.global_calls++;
            t->stats.global_off_sum += off(c->result_nnz, global_asked(f));
        }
        t->stats.input_norm = ss_root(f->input_square);
        if (f->comm->settings->series)
            note_point(f);
    }
    ss_tensor_end(t);
    f->tensor = NULL;
}

void ss_topk_not_finite(struct ss_feedback *f)
{
    if (!ss_topk_claims(f) || f->comm->warned_not_finite)
        return;
    f->comm->warned_not_finite = true;
    ss_topk_warn(f, "an input that is not finite. If a loss scale shrinks now, what was kept back "
                    "has the former scale: divide gradients by it before the allreduce, name the "
                    "buffer in SPARSESHIM_EXCLUDE, or call sparseshim_scale_residual");
}

void ss_topk_warn(struct ss_feedback *f, const char *format, ...)
{
    struct ss_comm *comm = f->comm;
    const struct ss_tensor *t = f->tensor;
    int length =
        snprintf(comm->warning, sizeof comm->warning,
                 "lossy: %llu %s called from %s on %s: ", (unsigned long long)t->n,
                 ss_type_name(t->type), t->site_name[0] ? t->site_name : "an unknown place",
                 comm->name[0] ? comm->name : "an unnamed communicator");
    va_list values;

    comm->warning_own = false;
    if (length < 0 || (size_t)length >= sizeof comm->warning)
        return;
    va_start(values, format);
    vsnprintf(comm->warning + length, sizeof comm->warning - (size_t)length, format, values);
    va_end(values);
}
