/* The cost of two levels: the algorithm between hosts that is the fastest, and the steps inside. */
#include "core/coll/two_level.h"

#include "core/coll/algorithms.h"
#include "core/compute/quantize.h"
#include "core/plan/cost.h"

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* Returns the shape of the allreduce of a slice among its owners. */
static struct ss_shape between_hosts(const struct ss_shape *s, const struct ss_history *h,
                                     struct ss_history *past)
{
    const struct ss_layout *l = s->layout;
    const int slices = ss_layout_slices(l, s->n);
    const double skew = ss_cost_skew(s), mean = (double)s->nnz_sum / s->size;
    struct ss_shape b = *s;

    b.size = l->hosts;
    b.n = s->n / (uint64_t)slices;
    b.beta = s->beta_between * slices / l->most; /* so many ranks of a host send */
    *past = (struct ss_history){0};
    if (s->by_host) {
        b.nnz_sum = s->nnz_sum / (uint64_t)slices;
        b.nnz_max = at_most(s->nnz_max, b.n);
        past->result_nnz = h->result_nnz / (uint64_t)slices;
        past->result_sum = h->result_sum / (uint64_t)slices;
        return b;
    }
    const double each = ss_plan_union(s, h, l->most) / slices;
    b.nnz_sum = (uint64_t)(each * l->hosts);
    b.nnz_max = (uint64_t)ss_min(each * (mean > 0 ? (double)s->nnz_max / mean : 1), (double)b.n);
    b.part_max = (uint64_t)((double)b.nnz_max / b.size * skew);
    if (h->result_sum > 0 && s->nnz_sum > 0) {
        past->result_nnz = h->result_nnz / (uint64_t)slices;
        past->result_sum =
            (uint64_t)((double)h->result_sum * (double)b.nnz_sum / (double)s->nnz_sum);
    }
    return b;
}

bool ss_two_level_takes(const struct ss_shape *s, enum ss_algorithm a)
{
    const struct ss_algorithm_def *def = ss_algorithms(SS_KIND_ALLREDUCE)[a];
    const struct ss_layout *l = s->layout;

    if (!def || def->deep || !def->step || def->whole != s->whole)
        return false;
    return !def->global || (s->by_host && ss_layout_most_slices(l, ss_layout_slices(l, s->n)) == 1);
}

static bool is_candidate(const struct ss_shape *s, enum ss_algorithm a)
{
    return (s->between == SS_AUTO || s->between == a) && ss_two_level_takes(s, a);
}

/* Returns the estimate of the fastest candidate for a slice of the shape `b`, nothing if there is
 * one host. Sets *which. */
static struct ss_estimate cheapest(const struct ss_shape *s, const struct ss_shape *b,
                                   const struct ss_history *past, enum ss_algorithm *which)
{
    const struct ss_algorithm_def *const *algorithms = ss_algorithms(SS_KIND_ALLREDUCE);
    struct ss_estimate best = {0};
    double least = 0;

    if (b->size == 1)
        return best;
    for (int a = SS_AUTO + 1; a < SS_DENSE; a++) {
        if (!is_candidate(s, (enum ss_algorithm)a))
            continue;
        struct ss_estimate e = algorithms[a]->cost(b, past);
        double seconds = ss_max(e.wire, e.overlap) + e.serial;
        if (least > 0 && seconds >= least)
            continue;
        least = seconds;
        best = e;
        *which = (enum ss_algorithm)a;
    }
    return best;
}

enum ss_algorithm ss_two_level_between(const struct ss_shape *s, const struct ss_history *h)
{
    enum ss_algorithm which = s->whole ? SS_QUANTIZED : SS_SPLIT_ALLGATHER;
    struct ss_history past;

    if (s->layout) {
        const struct ss_shape b = between_hosts(s, h, &past);
        cheapest(s, &b, &past, &which);
    }
    return which;
}

/* Returns the estimate of the first step: a split of the streams, or a dense sum and another vote.
 */
static struct ss_estimate cost_reduce_inside(const struct ss_shape *s,
                                             const struct ss_shape *inside)
{
    const double n = (double)s->n * (double)ss_type_size(s->type), others = inside->size - 1;
    const double bytes = n * others / inside->size;

    if (!s->by_host)
        return ss_cost_split(inside);
    return (struct ss_estimate){.wire = inside->alpha * others + inside->beta * bytes,
                                .serial = 3 * s->backend.fill * bytes + s->vote,
                                .bytes = bytes};
}

int ss_two_level_slices(const struct ss_layout *l, int rank, uint64_t n, int *slices)
{
    const int count = ss_layout_count(l, l->host[rank]), local = l->local[rank];

    *slices = ss_layout_slices(l, n);
    return ss_layout_slice(local + 1, count, *slices) - ss_layout_slice(local, count, *slices);
}

struct ss_estimate ss_two_level_cost(const struct ss_shape *s, const struct ss_history *h)
{
    const struct ss_layout *l = s->layout;
    struct ss_history past;
    const struct ss_shape b = between_hosts(s, h, &past);
    const double slices = (double)ss_layout_slices(l, s->n);
    enum ss_algorithm which = SS_SPLIT_ALLGATHER;
    struct ss_estimate e = cheapest(s, &b, &past, &which), in;
    double whole =
        s->by_host ? slices * ss_plan_union(&b, &past, b.size) : ss_plan_union(s, h, s->size);
    if (ss_keeps_global(which))
        whole = ss_min(whole, slices * (double)s->k);
    const double bytes = (l->most - 1) * ss_cost_stream_bytes(s, whole / slices, (double)b.n);
    struct ss_shape inside = which == SS_SPLIT_ALLGATHER ? ss_cost_divided(s) : *s;

    inside.size = l->most;
    inside.alpha = s->alpha_inside;
    inside.beta = s->beta_inside;
    in = cost_reduce_inside(s, &inside);
    if (s->whole) { /* slices return coded again, or dense */
        const double slice = (double)b.n * (double)ss_type_size(s->type);
        const double back =
            (l->most - 1) * (ss_levels_recode(s->values)
                                 ? (double)ss_quantized_bytes(s->values, (size_t)b.n)
                                 : slice);
        e.inside = in.bytes + back;
        e.wire += in.wire + ss_cost_fan(&inside, l->most - 1) + inside.beta * back;
        e.serial += in.serial + 2 * s->fill * slices * slice;
        e.bytes += e.inside;
        return e;
    }
    e.wire += in.wire + ss_cost_fan(&inside, l->most - 1) + inside.beta * bytes;
    e.overlap += ss_cost_take(s, whole, l->most);
    e.serial += in.serial + ss_cost_compact(s, (double)b.nnz_max, (double)b.n) +
                ss_cost_compact(s, whole / slices, (double)b.n);
    e.inside = in.bytes + bytes;
    e.bytes += e.inside;
    return e;
}

/* Returns the bytes of an algorithm between hosts. */
static double memory_between(const struct ss_shape *s, enum ss_algorithm a)
{
    const struct ss_algorithm_def *def = ss_algorithms(SS_KIND_ALLREDUCE)[a];
    const bool balanced = s->balanced && a == SS_SPLIT_ALLGATHER; /* a slice may have any length */
    struct ss_shape b = *s;

    b.size = s->layout->hosts;
    b.n = balanced ? s->n : s->n / (uint64_t)ss_layout_slices(s->layout, s->n) + 16;
    b.nnz_max = at_most(s->by_host ? s->nnz_max : s->nnz_sum, b.n);
    b.nnz_sum = at_most(s->nnz_sum, b.nnz_max * (uint64_t)b.size);
    return is_candidate(s, a) ? def->memory(&b) : 0;
}

/* Counts the announced entries, since the rank makes room for them. */
double ss_two_level_memory(const struct ss_shape *s)
{
    double most = 0;

    for (int a = SS_AUTO + 1; a < SS_DENSE; a++)
        most = ss_max(most, memory_between(s, (enum ss_algorithm)a));
    if (s->whole)
        return 65536 + most + 1.1 * (double)s->n * (double)ss_type_size(s->type);
    /* a rank of a small host owns several slices */
    double own = ss_min((double)s->nnz_sum, (double)s->n);
    if (s->by_host && s->values != SS_VALUES_SAME) /* errors */
        own += (double)s->n;
    if (is_candidate(s, SS_GTOPK)) /* entries that it cuts */
        own += 2 * ((double)s->nnz_max + (double)s->k);
    return ss_memory_own(s) + ss_memory_sent(s) + most +
           2.1 * own * (4 + (double)ss_type_size(s->type));
}
