/* The cost model: latency alpha, inverse bandwidth beta, and local costs per element and entry,
 * after SparCML section 5.3 and Chan et al. 2007, with the bytes of our own codings in place of
 * index-value pairs. */
#include "core/plan/plan.h"

#include "core/plan/plan_impl.h"

#include "core/net/ranks.h"

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

double ss_plan_dense_from(enum ss_kind kind, uint64_t n, int size)
{
    return SS_DENSE_FROM * (double)n / (kind == SS_KIND_ALLGATHER ? size : 1);
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

/* Bytes of a stream of nnz entries spread over n elements, its values rounded or as they are. */
static double bytes_as(const struct ss_shape *s, enum ss_values values, double nnz, double n)
{
    const struct ss_rounding how = {.values = values, .bucket = s->bucket};

    if (nnz <= 0 || n <= 0)
        return SS_WIRE_HEADER;
    double bytes = nnz * ss_wire_bytes_per_entry(s->type, &how, s->coding, min2(nnz / n, 1));

    if (s->coding == SS_CODING_AUTO && values == SS_VALUES_SAME)
        bytes = min2(bytes, n * (double)ss_type_size(s->type));
    return bytes + SS_WIRE_HEADER * (1 + nnz / SS_CHUNK_ENTRIES);
}

/* Of a stream of inputs or of reduced parts. */
static double stream_bytes(const struct ss_shape *s, double nnz, double n)
{
    return bytes_as(s, s->values, nnz, n);
}

/* Work on the values alone, in parts of what coding an entry takes (seen: 1.3 and 0.35 ns of 4). */
static const double ROUNDING = 0.3, READING = 0.1;

/* Seconds for rounding `out` values and decoding `in` of them. */
static double rounding_cost(const struct ss_shape *s, enum ss_values values, double out, double in)
{
    return values == SS_VALUES_SAME ? 0 : s->code * (ROUNDING * out + READING * in);
}

/* What a collective costs before its result is cleared: time on the wire, work that runs meanwhile,
 * and work that the wire waits for. */
struct estimate {
    double wire;    /* seconds */
    double overlap; /* seconds */
    double serial;  /* seconds */
    double bytes;   /* sent by the busiest rank */
};

/* Several messages at once cost a latency and, beyond the first, a share of it for handling. */
static double fan(const struct ss_shape *s, int messages)
{
    return s->alpha * (1 + 0.1 * (messages - 1));
}

/* Entries a rank has in the fullest part of the index space: what the vote saw, less what chance
 * alone adds to the mean. */
static double part_share(const struct ss_shape *s)
{
    double mean = (double)s->nnz_max / s->size;

    return max2(mean, (double)s->part_max - 3 * ss_root(mean) - 3);
}

/* How much fuller that part is than the mean. */
static double skew_of(const struct ss_shape *s)
{
    return s->nnz_max > 0 ? part_share(s) * s->size / (double)s->nnz_max : 1;
}

/* A rank sends all but its own part; the owner of the fullest part receives most. */
static struct estimate split_phase(const struct ss_shape *s)
{
    int others = s->size - 1;
    double mean = (double)s->nnz_max / s->size, share = part_share(s);
    double part_n = (double)s->n / s->size;

    return (struct estimate){
        .wire = fan(s, others) + s->beta * others * stream_bytes(s, share, part_n),
        .serial = s->code * (double)s->nnz_max + (s->code + s->merge) * others * share +
                  rounding_cost(s, s->values, (double)s->nnz_max, others * share),
        .bytes = others * stream_bytes(s, mean, part_n)};
}

static struct estimate cost_split_allgather(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = split_phase(s);
    int others = s->size - 1;
    double whole = ss_plan_union(s, h, s->size), part_n = (double)s->n / s->size;
    double part = min2(part_n, whole / s->size * skew_of(s));
    double bytes = others * stream_bytes(s, part, part_n);

    e.bytes += bytes;
    e.wire += fan(s, others) + s->beta * bytes;
    e.overlap = (s->code + s->merge) * whole + rounding_cost(s, s->values, 0, whole);
    e.serial += s->scan * part_n + s->code * part + rounding_cost(s, s->values, part, 0);
    return e;
}

/* How dsar's dense elements travel. */
static enum ss_values dense_values(const struct ss_shape *s)
{
    return s->quant != SS_VALUES_SAME ? s->quant : s->values;
}

static struct estimate cost_dsar(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = split_phase(s);
    int others = s->size - 1;
    double part_n = (double)s->n / s->size;
    double elements = others * part_n;
    double bytes = elements * ss_values_bytes(s->type, dense_values(s), s->bucket);

    (void)h;
    e.bytes += bytes;
    e.wire += fan(s, others) + s->beta * bytes;
    e.overlap = 2 * s->fill * elements * (double)ss_type_size(s->type) +
                rounding_cost(s, dense_values(s), part_n, elements);
    return e;
}

/* The fullest part holds up each round; each rank sends every part but one. */
static struct estimate cost_ring(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = {0, 0, 0, 0};
    int others = s->size - 1;
    double part_n = (double)s->n / s->size, skew = skew_of(s);

    for (int r = 1; r <= s->size; r++) {
        int times = r < s->size ? 1 : others;
        double mean = ss_plan_union(s, h, r) / s->size;
        double part = min2(part_n, mean * skew);
        bool sums = r > 1 && r < s->size;
        enum ss_values values = sums ? SS_VALUES_SAME : s->values;
        e.bytes += times * bytes_as(s, values, mean, part_n);
        e.wire += times * (s->alpha + s->beta * bytes_as(s, values, part, part_n));
        e.serial += times * (s->code + s->merge) * part + s->code * part +
                    rounding_cost(s, values, part, times * part);
    }
    return e;
}

/* Where ranks fold, the one that stays sends most, but not the first message; of an odd number of
 * folds one meets a rank that did not fold and whose stream comes over the same link at the same
 * time. */
static struct estimate cost_recursive_doubling(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = {0, 0, 0, 0};
    struct ss_fold fold = ss_fold_of(0, s->size);
    double n = (double)s->n, delta = (double)ss_plan_delta(s->n, s->type);
    double largest = (double)s->nnz_max * s->size / max2(1, (double)s->nnz_sum);
    int rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0), group = 1;
    bool dense = (double)s->nnz_max > delta;

    for (int i = 0; i < rounds; i++) {
        bool fold_in = fold.rem > 0 && i == 0, fold_out = fold.rem > 0 && i == rounds - 1;
        double nnz = ss_plan_union(s, h, fold_out ? s->size : group);
        double bytes = n * (double)ss_type_size(s->type);
        if (i == 0)
            nnz = min2(n, nnz * largest);
        if (dense)
            e.serial += 3 * s->fill * bytes;
        else
            e.serial += (2 * s->code + 2 * s->merge) * nnz;
        if (!dense) /* partial sums travel as they are */
            bytes = bytes_as(s, i == 0 ? s->values : SS_VALUES_SAME, nnz, n);
        e.bytes += fold_in ? 0 : bytes;
        e.wire += s->alpha + s->beta * bytes * (fold_in && fold.rem % 2 ? 2 : 1);
        dense = dense || 2 * nnz > delta;
        group = group * 2 < s->size ? group * 2 : s->size;
    }
    e.serial += s->merge * ss_plan_union(s, h, s->size);
    return e;
}

/* The rounds of recursive doubling with k entries at most; finding the k largest sums takes about
 * as long as adding them up. */
static struct estimate cost_gtopk(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = {0, 0, 0, 0};
    struct ss_fold fold = ss_fold_of(0, s->size);
    int rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0);
    double nnz = min2((double)s->k, (double)s->nnz_sum);

    (void)h;
    for (int i = 0; i < rounds; i++) {
        bool fold_in = fold.rem > 0 && i == 0;
        enum ss_values values = i == 0 ? s->values : SS_VALUES_SAME; /* sums travel as they are */
        double bytes = bytes_as(s, values, nnz, (double)s->n);
        e.bytes += fold_in ? 0 : bytes;
        e.wire += s->alpha + s->beta * bytes * (fold_in && fold.rem % 2 ? 2 : 1);
        e.serial += (2 * s->code + 4 * s->merge) * nnz;
    }
    e.serial += s->merge * nnz;
    return e;
}

static struct estimate cost_allgather(const struct ss_shape *s, const struct ss_history *h)
{
    int others = s->size - 1;
    double bytes = others * stream_bytes(s, (double)s->nnz_max, (double)s->n);

    (void)h;
    return (struct estimate){.wire = fan(s, others) + s->beta * bytes,
                             .overlap = (s->code + s->merge) * (double)s->nnz_sum +
                                        rounding_cost(s, s->values, 0, (double)s->nnz_sum),
                             .serial = s->code * (double)s->nnz_max +
                                       rounding_cost(s, s->values, (double)s->nnz_max, 0),
                             .bytes = bytes};
}

/* Agreements of a call of oktopk: one, and now and then those of threshold and regions. */
static const double AGREEMENTS = 1.2;

/* Regions of equal shares; of what is reduced, k entries go on, evenly as a rule. */
static struct estimate cost_oktopk(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_fold fold = ss_fold_of(0, s->size);
    int others = s->size - 1, rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0);
    double claims = (double)s->nnz_max, mean = claims / s->size, part_n = (double)s->n / s->size;
    double k = min2((double)s->k, ss_plan_union(s, h, s->size)), share = k / s->size;
    double bytes = others * (stream_bytes(s, mean, part_n) + stream_bytes(s, share, part_n));

    return (struct estimate){
        .wire = 2 * fan(s, others) + AGREEMENTS * rounds * s->alpha + s->beta * bytes,
        .overlap = (s->code + 2 * s->merge) * k + rounding_cost(s, s->values, 0, k),
        .serial = s->code * (claims + share) + (s->code + s->merge) * others * mean +
                  s->scan * part_n + 2 * s->merge * others * mean +
                  rounding_cost(s, s->values, claims + share, others * mean),
        .bytes = bytes};
}

/* Slices go from each rank to all others as they are. */
static struct estimate cost_slices(const struct ss_shape *s, const struct ss_history *h)
{
    int others = s->size - 1;
    double slice = max2((double)s->n / s->size, (double)s->nnz_max);
    double bytes = others * stream_bytes(s, (double)s->nnz_max, slice);

    (void)h;
    return (struct estimate){.wire = fan(s, others) + s->beta * bytes,
                             .overlap = (s->code + s->merge) * (double)s->nnz_sum,
                             .serial = s->code * (double)s->nnz_max,
                             .bytes = bytes};
}

static struct estimate cost_reduce_scatter(const struct ss_shape *s, const struct ss_history *h)
{
    (void)h;
    return split_phase(s);
}

/* The parts meet on the root's link. */
static struct estimate cost_reduce(const struct ss_shape *s, const struct ss_history *h)
{
    struct estimate e = split_phase(s);
    int others = s->size - 1;
    double whole = ss_plan_union(s, h, s->size), part_n = (double)s->n / s->size;
    double part = min2(part_n, whole / s->size * skew_of(s));

    e.bytes += stream_bytes(s, part, part_n);
    e.wire += fan(s, others) + s->beta * others * stream_bytes(s, whole / s->size, part_n);
    e.overlap = (s->code + s->merge) * whole;
    e.serial += s->scan * part_n + s->code * part;
    return e;
}

/* The MPI library's best for long vectors at the limit of the link: reduce-scatter and allgather or
 * gather (Rabenseifner 2004), or one of these alone. The input is copied, sums are read and
 * written. */
static struct estimate cost_dense(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_fold fold = ss_fold_of(0, s->size);
    double all = (double)s->n * (double)ss_type_size(s->type);
    double bytes = (double)(s->size - 1) / s->size * all;
    int phases = s->kind == SS_KIND_ALLREDUCE || s->kind == SS_KIND_REDUCE ? 2 : 1;
    bool sums = s->kind != SS_KIND_ALLGATHER;

    (void)h;
    return (struct estimate){.wire = phases * (s->alpha * ss_fold_rounds(&fold) + s->beta * bytes),
                             .serial = s->fill * (sums ? 2 * all + 3 * bytes : 2 * all / s->size),
                             .bytes = s->kind == SS_KIND_REDUCE ? all : phases * bytes};
}

typedef struct estimate cost_function(const struct ss_shape *, const struct ss_history *);

static cost_function *const cost_functions[SS_ALGORITHMS] = {
    [SS_RECURSIVE_DOUBLING] = cost_recursive_doubling,
    [SS_SPLIT_ALLGATHER] = cost_split_allgather,
    [SS_DSAR] = cost_dsar,
    [SS_RING] = cost_ring,
    [SS_ALLGATHER] = cost_allgather,
    [SS_OKTOPK] = cost_oktopk,
    [SS_GTOPK] = cost_gtopk,
    [SS_DENSE] = cost_dense,
};

static cost_function *const kind_cost_functions[SS_KINDS] = {
    [SS_KIND_ALLGATHER] = cost_slices,
    [SS_KIND_REDUCE_SCATTER] = cost_reduce_scatter,
    [SS_KIND_REDUCE] = cost_reduce,
};

/* NULL: the algorithm does not run such calls. */
static cost_function *cost_of(const struct ss_shape *s, enum ss_algorithm a)
{
    if (a != SS_DENSE && s->kind != SS_KIND_ALLREDUCE)
        return a == ss_kind_algorithm(s->kind) ? kind_cost_functions[s->kind] : NULL;
    if (!s->topk && (a == SS_OKTOPK || a == SS_GTOPK))
        return NULL;
    return cost_functions[a];
}

/* Seconds of a collective; a sparse one clears the result while it waits. What runs beside the wire
 * disturbs it a little, and decides between collectives whose wire time is hidden. */
static double total(const struct ss_shape *s, const struct estimate *e, enum ss_algorithm a)
{
    double n = (double)s->n, share = n / s->size;
    double scanned = s->kind == SS_KIND_ALLGATHER ? share : n;
    double cleared = s->kind == SS_KIND_REDUCE_SCATTER ? share : n;

    if (a == SS_DENSE)
        return e->wire + e->serial;
    double beside = e->overlap + s->fill * cleared * (double)ss_type_size(s->type);
    return s->scan * scanned + s->vote + e->serial + max2(e->wire, beside) +
           0.1 * min2(e->wire, beside);
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

/* The own stream, its messages (a packed entry may take a little more than index and value), and
 * what the recipe builds. */
static double recipe_memory(const struct ss_shape *s, enum ss_algorithm algorithm)
{
    double entry = 4 + (double)ss_type_size(s->type), n = (double)s->n, sum = (double)s->nnz_sum;
    double own = ss_plan_own(s->n, s->type, s->nnz_max), part = n / s->size + 16;
    double delta = (double)ss_plan_delta(s->n, s->type);
    double sent = 1.1 * (double)s->nnz_max * entry;
    double slack = 65536 + 256.0 * s->size; /* headers and rounding */
    double held = min2((double)s->k, sum);  /* gtopk: in a stream, and before it is cut */
    double merged = max2(2 * held, (double)s->nnz_max);
    double limit = 4 * (double)s->k / 3; /* oktopk: most of the global set */

    switch (algorithm) {
    case SS_SPLIT_ALLGATHER:
        return slack + own + sent + 2.1 * min2(part, sum) * entry;
    case SS_OKTOPK: /* a region may hold all entries; what is sent on, balanced too; agreements */
        return slack + 16384 + 160.0 * s->size + own + sent + min2(n, sum) * entry +
               4 * limit * entry;
    case SS_DSAR:
        return slack + own + sent + 1.1 * part * entry;
    case SS_RING:
        return slack + own + 1.1 * min2(n, sum) * entry + min2(part, sum) * entry +
               min2(2 * part, sum) * entry;
    case SS_ALLGATHER:
        return slack + own + sent;
    case SS_GTOPK: /* messages, received, twice a merge; its magnitudes, and what is left */
        return slack + own + (1.1 + 1 + 2 * 2) * held * entry + merged * 8 +
               ((double)s->nnz_max + merged) * entry;
    case SS_RECURSIVE_DOUBLING:
        return slack + own + 3 * min2(delta, sum) * entry + 1.1 * (sum > delta ? n : sum) * entry;
    default:
        return 0;
    }
}

/* What rounding takes away from the own stream and from a reduced part, and a mark for each claim.
 */
static double claims_memory(const struct ss_shape *s, enum ss_algorithm algorithm)
{
    double size = (double)ss_type_size(s->type), part = (double)s->n / s->size + 16;
    bool sparse = algorithm != SS_DSAR, global = algorithm == SS_OKTOPK || algorithm == SS_GTOPK;
    enum ss_values values = sparse ? s->values : dense_values(s);
    double reduced = sparse ? min2(part, (double)s->nnz_sum) : part;
    if (algorithm == SS_OKTOPK)
        reduced = 4 * (double)s->k / 3;
    double bytes = s->values != SS_VALUES_SAME ? ((double)s->nnz_max + 1) * size : 0;

    if (algorithm == SS_ALLGATHER || algorithm == SS_RECURSIVE_DOUBLING || algorithm == SS_GTOPK)
        values = SS_VALUES_SAME;
    if (values != SS_VALUES_SAME)
        bytes += reduced * size;
    return global ? bytes + (double)s->nnz_max + 1 : bytes;
}

/* The own stream and its messages; of a reduce also the reduced part, dense, its entries and their
 * messages. */
static double kind_memory(const struct ss_shape *s)
{
    double size = (double)ss_type_size(s->type), entry = 4 + size;
    double most = (double)s->nnz_max, part = (double)s->part_n + 16;
    double bytes = 65536 + 256.0 * s->size + ss_plan_own(s->n, s->type, s->nnz_max);

    bytes += 1.1 * most * entry;
    if (s->kind == SS_KIND_REDUCE)
        bytes += part * size + 2.1 * min2(part, (double)s->nnz_sum) * entry;
    return bytes;
}

double ss_plan_memory(const struct ss_shape *s, enum ss_algorithm algorithm)
{
    if (s->kind != SS_KIND_ALLREDUCE)
        return algorithm == ss_kind_algorithm(s->kind) ? kind_memory(s) : 0;
    double recipe = recipe_memory(s, algorithm);

    return recipe > 0 ? recipe + claims_memory(s, algorithm) : 0;
}

bool ss_plan_predict(const struct ss_shape *s, const struct ss_history *h, struct ss_plan *plan)
{
    double excluded = 0;

    for (int a = SS_AUTO + 1; a < SS_ALGORITHMS; a++) {
        enum ss_algorithm algorithm = (enum ss_algorithm)a;
        cost_function *cost = cost_of(s, algorithm);
        if (!cost) {
            plan->seconds[a] = -1;
            continue;
        }
        struct estimate e = cost(s, h);
        plan->bytes[a] = e.bytes;
        plan->seconds[a] = total(s, &e, algorithm);
        if (a != SS_DENSE && ss_plan_memory(s, algorithm) > (double)s->memory_min) {
            if (excluded == 0 || plan->seconds[a] < excluded)
                excluded = plan->seconds[a];
            plan->seconds[a] = -1;
        }
    }
    return excluded > 0 && excluded < plan->seconds[SS_DENSE];
}
