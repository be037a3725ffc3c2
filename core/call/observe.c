/* MODE=observe: the entries that MODE=topk would take and send, and what MODE=quant would send. The
 * program's results stay the same, and nothing is voted. In some calls of a lane (FIRST_LOOKS,
 * BETWEEN_LOOKS), each rank looks at a sample of its own input. The cost model knows all else from
 * the vote of the exact call. */
#include <math.h>
#include <string.h>

#include "core/call/call_impl.h"
#include "core/stream/sample.h"

enum { SAMPLE = 65536, RUN = 64 }; /* elements of a sample, and of a run */

struct sample {
    size_t n, runs, run; /* elements; number and length of runs */
    uint64_t stride;     /* elements from the begin of a run to the next begin */
    uint64_t taken;      /* elements that would be selected */
    uint64_t part_most;  /* elements of these in the fullest part of the index space */
    double square, kept; /* squared norm of the sample, and of the elements selected */
};

static struct sample sample_of(uint64_t n)
{
    if (n <= SAMPLE)
        return (struct sample){.n = (size_t)n, .runs = 1, .run = (size_t)n, .stride = n};
    return (struct sample){
        .n = SAMPLE, .runs = SAMPLE / RUN, .run = RUN, .stride = n / (SAMPLE / RUN)};
}

static double value_at(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

/* Selects the sample's elements that reach the threshold of its k largest. */
static void take(const struct ss_feedback *f, struct sample *s, size_t k)
{
    const unsigned char *copy = f->c.x.work->sample.values.data;
    const struct ss_exchange *x = &f->c.x;
    struct ss_exact exact;
    uint64_t in_part = 0;
    int part = 0;

    ss_exact_threshold(ss_selectors(), x->type, copy, NULL, s->n, k, &exact);
    for (size_t i = 0; i < s->n; i++) {
        double value = value_at(x->type, copy, i);
        uint64_t position = i / s->run * s->stride + i % s->run;
        s->square += value * value;
        if (ss_magnitude_of(x->type, value) < exact.threshold)
            continue;
        for (; position >= ss_coll_part(&f->c, part + 1); part++)
            in_part = 0;
        in_part++;
        s->taken++;
        s->kept += value * value;
        s->part_most = in_part > s->part_most ? in_part : s->part_most;
    }
}

/* Returns the entries of the input that DENSITY asks for. */
static uint64_t asked(const struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;
    const struct ss_settings *s = f->comm->settings;

    if (s->bucket > 0)
        return s->k * ((x->n + s->bucket - 1) / s->bucket);
    return ss_warmup_k((size_t)x->n, s->density, 0, 0);
}

/* Plans a top-k call from the shape of the exact one. */
static void plan_for(const struct ss_feedback *f, struct ss_shape shape, const struct sample *s,
                     uint64_t k, struct ss_plan *plan)
{
    const struct ss_exchange *x = &f->c.x;
    const struct ss_history nothing = {.result_nnz = 0};
    uint64_t nnz = k < f->c.scan.nnz ? k : f->c.scan.nnz;

    shape.topk = true;
    shape.deep = shape.aggregated = false; /* MODE=topk acts on one level */
    shape.learn = false;
    shape.forced = SS_AUTO;
    shape.k = k;
    shape.values = ss_values_of(f->comm->settings->value_type);
    shape.nnz_max = nnz;
    shape.nnz_sum = nnz * (uint64_t)x->t->size;
    shape.part_max =
        s->taken > 0 ? (uint64_t)((double)nnz * (double)s->part_most / (double)s->taken) : nnz;
    shape.balanced = false;
    shape.scan = 4 * shape.fill * (double)x->esize; /* as for a tensor's first selection */
    ss_plan_make(&shape, &nothing, plan);
}

/* Plans a whole call from the shape of the exact one. Its bytes depend on the count alone. */
static void plan_whole_for(const struct ss_feedback *f, struct ss_shape shape, struct ss_plan *plan)
{
    const struct ss_history nothing = {.result_nnz = 0};
    const enum ss_values values = ss_values_of(f->comm->settings->value_type);

    shape.topk = shape.whole = true;
    shape.deep = shape.aggregated = shape.balanced = false;
    shape.learn = false;
    shape.forced = SS_AUTO;
    shape.values = values == SS_VALUES_SAME ? SS_VALUES_Q4 : values; /* as MODE=quant takes it */
    ss_plan_make(&shape, &nothing, plan);
}

static void book_whole(const struct ss_feedback *f, const struct ss_plan *plan)
{
    struct ss_lane_record *r = f->lane->record;
    const bool runs = plan->seconds[SS_QUANTIZED] >= 0;

    pthread_mutex_lock(&f->comm->stats->lock);
    r->quant_seconds += runs ? plan->seconds[SS_QUANTIZED] : (double)INFINITY;
    r->quant_bytes += runs ? plan->bytes[SS_QUANTIZED] : (double)INFINITY;
    r->quant_inside += plan->inside[SS_QUANTIZED];
    pthread_mutex_unlock(&f->comm->stats->lock);
}

static void book(struct ss_feedback *f, const struct sample *s, uint64_t k,
                 const struct ss_plan *plan)
{
    struct ss_lane_record *r = f->lane->record;

    pthread_mutex_lock(&f->comm->stats->lock);
    r->topk_samples++;
    r->topk_density_sum += (double)(k < f->c.scan.nnz ? k : f->c.scan.nnz) / (double)f->c.x.n;
    r->topk_kept_sum += s->square > 0 ? s->kept / s->square : 1;
    for (int a = 0; a < SS_ALGORITHMS; a++) {
        bool runs = plan->seconds[a] >= 0;
        r->topk_seconds[a] += runs ? plan->seconds[a] : (double)INFINITY;
        r->topk_bytes[a] += runs ? plan->bytes[a] : (double)INFINITY;
        r->topk_inside[a] += plan->inside[a];
    }
    pthread_mutex_unlock(&f->comm->stats->lock);
}

/* Calls of a lane that are looked at: FIRST_LOOKS, then one after BETWEEN_LOOKS others. */
enum { FIRST_LOOKS = 16, BETWEEN_LOOKS = 7 };

void ss_observe_sample(struct ss_look *look)
{
    struct ss_exchange *x = &look->f->c.x;
    struct ss_sample *taken = &x->work->sample;
    uint64_t number = look->f->lane->observed + 1;
    struct sample s = sample_of(x->n);

    look->observed = 0;
    if ((number & (number - 1)) != 0 || !look->f->lane->record || look->f->cannot ||
        look->f->c.kind != SS_KIND_ALLREDUCE || look->f->c.op != SS_SUM ||
        !ss_type_is_float(x->type))
        return;
    if (ss_sample_reserve(x, taken, s.runs, s.n) != SS_OK)
        return;
    for (size_t r = 0; r < s.runs; r++)
        ss_sample_list(taken)[r] = (struct ss_run){(size_t)(r * s.stride), s.run};
    ss_sample_take(x, taken, look->f->c.in, s.runs);
    look->observed = s.n;
}

static void look_lossy(struct ss_feedback *f, struct ss_shape shape)
{
    const struct ss_exchange *x = &f->c.x;
    struct sample s = sample_of(x->n);
    uint64_t k = asked(f);
    uint64_t of_sample = (uint64_t)((double)k * (double)s.n / (double)x->n);
    struct ss_plan plan;

    take(f, &s, of_sample > 0 ? (size_t)of_sample : 1);
    plan_for(f, shape, &s, k, &plan);
    book(f, &s, k, &plan);
    if (x->backend->ops->remote) /* there, every element is claimed in place of a whole call */
        return;
    plan_whole_for(f, shape, &plan);
    book_whole(f, &plan);
}

void ss_observe(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;

    if (++f->lane->observed >= FIRST_LOOKS) {
        f->lane->history.skip = BETWEEN_LOOKS;
        ss_in_flight_set_skip(&call->flight);
    }
    if (call->look.observed > 0)
        look_lossy(f, ss_ballot_shape(f, &call->member));
}
