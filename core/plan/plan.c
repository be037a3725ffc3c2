/* The cost model: the formula of an algorithm's definition, and the costs of every call. */
#include "core/plan/plan.h"

#include "core/plan/cost.h"
#include "core/plan/plan_impl.h"

uint64_t ss_plan_delta(uint64_t n, enum ss_type type)
{
    uint64_t isize = ss_type_size(type);

    return n * isize / (4 + isize);
}

double ss_plan_dense_from(enum ss_kind kind, uint64_t n, int size)
{
    return SS_DENSE_FROM * (double)n / (kind == SS_KIND_ALLGATHER ? size : 1);
}

void ss_plan_see_layout(struct ss_shape *s, const struct ss_layout *l)
{
    s->beta_between = s->beta;
    if (ss_layout_is_deep(l) || s->deep)
        s->layout = l;
    if (ss_layout_is_deep(l))
        s->beta *= (double)(l->size - l->most) / (l->size - 1);
}

static double uniform_union(const struct ss_shape *s, int ranks)
{
    double d = (double)s->nnz_sum / ((double)s->n * s->size);

    return (double)s->n * (1 - ss_power(1 - ss_min(d, 1), (uint64_t)ranks));
}

double ss_plan_union(const struct ss_shape *s, const struct ss_history *h, double ranks)
{
    int r = (int)ranks;
    double expected = uniform_union(s, r), single = (double)s->nnz_sum / s->size;

    if (h->result_nnz > 0 && h->result_sum > 0 && s->size > 1) {
        /* The last result shows how much the sets overlap: the growth from one set to the union is
         * scaled accordingly. */
        double seen = (double)h->result_nnz * (double)s->nnz_sum / (double)h->result_sum;
        double whole = uniform_union(s, s->size);
        double growth = whole > single ? (seen - single) / (whole - single) : 1;
        expected = single + ss_max(growth, 0) * (expected - single);
    }
    return ss_max(single, ss_min(expected, ss_min((double)s->n, single * ranks)));
}

/* Returns the seconds of a collective; a sparse one clears the result while it waits. A tenth of
 * the shorter of wire time and overlapping work is added: the work disturbs the wire a little, and
 * the term decides between collectives whose wire time is hidden. */
static double total(const struct ss_shape *s, const struct ss_estimate *e, enum ss_algorithm a)
{
    double n = (double)s->n, share = n / s->size;
    double scanned = s->kind == SS_KIND_ALLGATHER ? share : n;
    double cleared = s->whole ? 0 : s->kind == SS_KIND_REDUCE_SCATTER ? share : n;

    if (a == SS_DENSE)
        return e->wire + e->serial;
    double beside = e->overlap + s->backend.fill * cleared * (double)ss_type_size(s->type);
    return s->scan * scanned + s->vote + e->serial + s->backend.wait + ss_max(e->wire, beside) +
           0.1 * ss_min(e->wire, beside);
}

uint64_t ss_plan_own_least(uint64_t n)
{
    return n / 32 + 64;
}

double ss_plan_own(uint64_t n, enum ss_type type, uint64_t nnz)
{
    uint64_t least = ss_plan_own_least(n);

    return (double)(nnz > least ? nnz : least) * (4 + (double)ss_type_size(type));
}

double ss_plan_memory(const struct ss_shape *s, enum ss_algorithm algorithm)
{
    const struct ss_algorithm_def *def = s->algorithms[algorithm];

    return def && def->memory ? def->memory(s) : 0;
}

/* Returns the bytes that stay inside the host. In an algorithm of one level they are the share of
 * the peers that are on it. */
static double inside(const struct ss_shape *s, const struct ss_algorithm_def *def,
                     const struct ss_estimate *e)
{
    const struct ss_layout *l = s->layout;

    if (def->deep || !def->step || !ss_layout_is_deep(l))
        return e->inside;
    return e->bytes * (l->most - 1) / (l->size - 1);
}

bool ss_plan_predict(const struct ss_shape *s, const struct ss_history *h, struct ss_plan *plan)
{
    double excluded = 0;

    for (int a = SS_AUTO + 1; a < SS_ALGORITHMS; a++) {
        enum ss_algorithm algorithm = (enum ss_algorithm)a;
        const struct ss_algorithm_def *def = s->algorithms[a];
        if (!def || (def->global && !s->topk) ||
            (def->step && !def->deep && def->whole != s->whole) || (def->deep && !s->deep) ||
            (s->aggregated && !def->deep && a != SS_DENSE)) {
            plan->seconds[a] = -1;
            continue;
        }
        struct ss_estimate e = def->cost(s, h);
        plan->bytes[a] = e.bytes;
        plan->inside[a] = inside(s, def, &e);
        plan->seconds[a] = total(s, &e, algorithm);
        if (a != SS_DENSE && ss_plan_memory(s, algorithm) > (double)s->memory_min) {
            if (excluded == 0 || plan->seconds[a] < excluded)
                excluded = plan->seconds[a];
            plan->seconds[a] = -1;
        }
    }
    return excluded > 0 && excluded < plan->seconds[SS_DENSE];
}
