/* The cost model: latency alpha, inverse bandwidth beta, and local costs per element and entry,
 * after SparCML section 5.3 and Chan et al. 2007, with the bytes of our own codings in place of
 * index-value pairs. */
#include "core/plan.h"

#include <string.h>

#include "core/ranks.h"

static double min2(double a, double b)
{
    return a < b ? a : b;
}

static double max2(double a, double b)
{
    return a > b ? a : b;
}

/* x to the power of a non-negative integer. */
static double power(double x, int n)
{
    double y = 1;

    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            y *= x;
    return y;
}

uint64_t ss_plan_delta(uint64_t n, enum ss_type type)
{
    uint64_t isize = ss_type_size(type);

    return n * isize / (4 + isize);
}

static double uniform_union(const struct ss_shape *s, int ranks)
{
    double d = (double)s->nnz_sum / ((double)s->n * s->size);

    return (double)s->n * (1 - power(1 - min2(d, 1), ranks));
}

double ss_plan_union(const struct ss_shape *s, const struct ss_history *h, double ranks)
{
    int r = (int)ranks;
    double expected = uniform_union(s, r), single = (double)s->nnz_sum / s->size;

    if (h->result_nnz > 0 && h->result_sum > 0 && s->size > 1) {
        /* The last result told how much the sets overlap: between one set and the whole the growth
         * is scaled alike. */
        double seen = (double)h->result_nnz * (double)s->nnz_sum / (double)h->result_sum;
        double whole = uniform_union(s, s->size);
        double growth = whole > single ? (seen - single) / (whole - single) : 1;
        expected = single + max2(growth, 0) * (expected - single);
    }
    return max2(single, min2(expected, min2((double)s->n, single * ranks)));
}

/* Bytes of a stream of nnz entries spread over n elements. */
static double stream_bytes(const struct ss_shape *s, double nnz, double n)
{
    if (nnz <= 0 || n <= 0)
        return SS_WIRE_HEADER;
    double bytes = nnz * ss_wire_bytes_per_entry(s->type, s->coding, min2(nnz / n, 1));

    if (s->coding == SS_CODING_AUTO)
        bytes = min2(bytes, n * (double)ss_type_size(s->type));
    return bytes + SS_WIRE_HEADER * (1 + nnz / SS_CHUNK_ENTRIES);
}

struct estimate {
    double seconds;
    double bytes;
};

/* Several messages at once cost a latency and, beyond the first, a share of it for handling. */
static double fan(const struct ss_shape *s, int messages)
{
    return s->alpha * (1 + 0.25 * (messages - 1));
}

static double part_share(const struct ss_shape *s)
{
    return max2((double)s->part_max, (double)s->nnz_max / s->size);
}

static struct estimate split_phase(const struct ss_shape *s)
{
    int others = s->size - 1;
    double per_part = part_share(s);
    double bytes = others * stream_bytes(s, per_part, (double)s->n / s->size);
    double local = s->code * (double)s->nnz_max + (s->code + s->merge) * others * per_part;

    return (struct estimate){fan(s, others) + s->beta * bytes + local, bytes};
}

static struct estimate cost_split_allgather(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = split_phase(s);
    int others = s->size - 1;
    double whole = ss_plan_union(s, h, s->size), part_n = (double)s->n / s->size;
    double skew = s->nnz_max > 0 ? part_share(s) * s->size / (double)s->nnz_max : 1;
    double part = min2(part_n, whole / s->size * skew);
    double bytes = others * stream_bytes(s, part, part_n);
    double local =
        (s->code + s->merge) * whole + s->fill * (double)s->n * (double)ss_type_size(s->type);

    e.bytes += bytes;
    e.seconds += fan(s, others) + max2(s->beta * bytes, local) + s->scan * part_n + s->code * part;
    return e;
}

static struct estimate cost_dsar(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = split_phase(s);
    int others = s->size - 1;
    double bytes = (double)s->n / s->size * (double)ss_type_size(s->type) * others;

    (void)h;
    e.bytes += bytes;
    e.seconds += fan(s, others) + max2(s->beta * bytes, 3 * s->fill * bytes);
    return e;
}

static struct estimate cost_ring(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = {0, 0};
    int others = s->size - 1;
    double part_n = (double)s->n / s->size;
    double skew = s->nnz_max > 0 ? part_share(s) * s->size / (double)s->nnz_max : 1;

    for (int r = 1; r <= others; r++) {
        double part = min2(part_n, ss_plan_union(s, h, r) / s->size * skew);
        double bytes = stream_bytes(s, part, part_n);
        e.bytes += bytes;
        e.seconds += s->alpha + s->beta * bytes + (2 * s->code + s->merge) * part;
    }
    double whole = ss_plan_union(s, h, s->size);
    double part = min2(part_n, whole / s->size * skew), bytes = stream_bytes(s, part, part_n);
    e.bytes += others * bytes;
    e.seconds += others * (s->alpha + s->beta * bytes) + (s->code + s->merge) * part * s->size;
    return e;
}

static struct estimate cost_recursive_doubling(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = {0, 0};
    struct ss_fold fold = ss_fold_of(0, s->size);
    double n = (double)s->n, size = (double)ss_type_size(s->type);
    double delta = (double)ss_plan_delta(s->n, s->type);
    double group = 1, largest = (double)s->nnz_max * s->size / max2(1, (double)s->nnz_sum);
    int rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0);

    for (int i = 0; i < rounds; i++) {
        bool fold_out = fold.rem > 0 && i == rounds - 1;
        double nnz = fold_out ? ss_plan_union(s, h, s->size) : ss_plan_union(s, h, group);
        double bytes, local;
        if (i == 0)
            nnz = min2(n, nnz * largest);
        if (nnz > delta) {
            bytes = n * size;
            local = 3 * s->fill * bytes;
        } else {
            bytes = stream_bytes(s, nnz, n);
            local = (2 * s->code + 2 * s->merge) * nnz;
        }
        e.bytes += bytes;
        e.seconds += s->alpha + s->beta * bytes + local;
        group = min2(group * 2, s->size);
    }
    e.seconds += s->merge * ss_plan_union(s, h, s->size);
    return e;
}

static struct estimate cost_allgather(const struct ss_shape *s, const struct ss_history *h)
{
    int others = s->size - 1;
    double bytes = others * stream_bytes(s, (double)s->nnz_max, (double)s->n);
    double local = (s->code + s->merge) * (double)s->nnz_sum +
                   s->fill * (double)s->n * (double)ss_type_size(s->type);

    (void)h;
    return (struct estimate){
        fan(s, others) + max2(s->beta * bytes, local) + s->code * (double)s->nnz_max, bytes};
}

/* Reduce-scatter and allgather at the limit of the link (Rabenseifner 2004), the MPI library's best
 * for long vectors. */
static struct estimate cost_dense(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_fold fold = ss_fold_of(0, s->size);
    double bytes = 2.0 * (s->size - 1) / s->size * (double)s->n * (double)ss_type_size(s->type);

    (void)h;
    return (struct estimate){
        2 * s->alpha * ss_fold_rounds(&fold) + s->beta * bytes + s->fill * bytes, bytes};
}

typedef struct estimate cost_function(const struct ss_shape *, const struct ss_history *);

static cost_function *const cost_functions[SS_ALGORITHMS] = {
    [SS_RECURSIVE_DOUBLING] = cost_recursive_doubling,
    [SS_SPLIT_ALLGATHER] = cost_split_allgather,
    [SS_DSAR] = cost_dsar,
    [SS_RING] = cost_ring,
    [SS_ALLGATHER] = cost_allgather,
    [SS_DENSE] = cost_dense,
};

double ss_plan_memory(const struct ss_shape *s, enum ss_algorithm algorithm)
{
    double entry = 4 + (double)ss_type_size(s->type), n = (double)s->n, sum = (double)s->nnz_sum;
    double own = (double)s->nnz_max * entry, part = n / s->size + 16;
    double delta = (double)ss_plan_delta(s->n, s->type);
    double slack = 1 << 20; /* headers and rounding */

    switch (algorithm) {
    case SS_SPLIT_ALLGATHER:
        return slack + own + 2.1 * min2(part, sum) * entry;
    case SS_DSAR:
        return slack + own + 1.1 * part * entry;
    case SS_RING:
        return slack + 1.1 * min2(n, sum) * entry + min2(part, sum) * entry +
               min2(2 * part, sum) * entry;
    case SS_ALLGATHER:
        return slack + 1.1 * own;
    case SS_RECURSIVE_DOUBLING:
        return slack + 3 * min2(delta, sum) * entry + 1.1 * (sum > delta ? n : sum) * entry;
    default:
        return 0;
    }
}

/* How far the lane's measurements lie above the prediction. An algorithm that was never tried is
 * judged more kindly than those that disappointed, so that each that may be the best gets its turn.
 */
static double correction(const struct ss_history *h, enum ss_algorithm a)
{
    double least = 0;

    if (h->ratio[a] > 0)
        return h->ratio[a];
    for (int i = SS_AUTO + 1; i < SS_ALGORITHMS; i++)
        if (h->ratio[i] > 0 && (least == 0 || h->ratio[i] < least))
            least = h->ratio[i];
    if (least == 0)
        return 1;
    return least > 1 ? (1 + least) / 2 : least;
}

void ss_plan_make(const struct ss_shape *s, const struct ss_history *h, struct ss_plan *plan)
{
    double best = 0, local = s->scan * (double)s->n + s->vote;
    bool too_dense = (double)s->nnz_max > SS_DENSE_FROM * (double)s->n;

    *plan = (struct ss_plan){.algorithm = SS_DENSE};
    plan->fillin = ss_plan_union(s, h, s->size) / (double)s->n;
    for (int a = SS_AUTO + 1; a < SS_ALGORITHMS; a++) {
        enum ss_algorithm algorithm = (enum ss_algorithm)a;
        struct estimate e = cost_functions[a](s, h);
        plan->bytes[a] = e.bytes;
        plan->seconds[a] = e.seconds + (a == SS_DENSE ? 0 : local);
        if (a != SS_DENSE && ss_plan_memory(s, algorithm) > (double)s->memory_min)
            plan->seconds[a] = -1;
    }
    if (s->forced != SS_AUTO) {
        if (plan->seconds[s->forced] >= 0)
            plan->algorithm = s->forced;
        return;
    }
    for (int a = SS_AUTO + 1; a < SS_ALGORITHMS; a++) {
        double seconds = plan->seconds[a] * (s->learn ? correction(h, (enum ss_algorithm)a) : 1);
        if (seconds < 0 || (a != SS_DENSE && too_dense))
            continue;
        if (best == 0 || seconds < best) {
            best = seconds;
            plan->algorithm = (enum ss_algorithm)a;
        }
    }
}

void ss_history_measured(struct ss_history *h, double seconds)
{
    enum ss_algorithm a = h->last;

    if (a == SS_AUTO || seconds <= 0 || h->last_predicted <= 0)
        return;
    double ratio = seconds / h->last_predicted;
    if (h->ratio[a] == 0 || ratio < h->ratio[a])
        h->ratio[a] = ratio;
    else /* noise only ever adds: believe a rise slowly */
        h->ratio[a] += 0.2 * (ratio - h->ratio[a]);
    h->last_seconds = 0;
}

void ss_history_planned(struct ss_history *h, const struct ss_plan *plan, bool observe)
{
    h->last = observe ? SS_DENSE : plan->algorithm;
    h->last_predicted = plan->seconds[h->last];
    h->last_seconds = 0;
    if (observe)
        return;
    if (plan->algorithm != SS_DENSE) {
        h->dense_streak = 0;
        return;
    }
    if (h->dense_streak < 6)
        h->dense_streak++;
    h->skip = (1u << h->dense_streak) - 1;
}
