/* oracle LARGEST [PART PARTS]: results against exact references over a pairwise covering set of
 * type and operator, count (up to LARGEST), density, index pattern, values, in place or not.
 *
 * PART of PARTS takes every PARTS-th row. A rank computes every rank's input, so the reference
 * needs no communication. Each rank checks its share of the elements, and all hold the same bits.
 * Also built with -ffast-math, which makes the processor drop subnormals in the application's own
 * arithmetic: elements are made from integer bits and sums taken in long double, which that does
 * not touch. */
#include <float.h>

#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"
#include "tests/support/fp_settings.h"

enum type { F32, F64, I32, I64 };
enum op { SUM, BOR, BXOR, LOR, LXOR };
enum { KIND, COUNT, DENSITY, PATTERN, VALUES, PLACE, FACTORS };
enum { ZERO_DENSITY, ONE_ELEMENT, SOME_DENSITY };
enum { UNIFORM, IDENTICAL, DISJOINT, CLUSTERED, AT_END, OPPOSITE };
enum { NORMAL, SUBNORMAL, NEGATIVE_ZERO, TINY, HUGE_VALUES, CANCELLING };

static const struct {
    enum type type;
    enum op op;
    const char *name;
} kinds[] = {
    {F32, SUM, "float SUM"}, {F64, SUM, "double SUM"}, {I32, SUM, "int SUM"},
    {I64, SUM, "long SUM"},  {I32, BOR, "int BOR"},    {I64, BOR, "long BOR"},
    {I32, BXOR, "int BXOR"}, {I64, BXOR, "long BXOR"}, {I32, LOR, "int LOR"},
    {I64, LOR, "long LOR"},  {I32, LXOR, "int LXOR"},  {I64, LXOR, "long LXOR"},
};
static const int counts[] = {0, 1, 7, 1009, 4096, 65537, (1 << 20) + 3};
static const double densities[] = {0, 0, 1e-4, 0.01, 0.1, 0.6, 1};
static const char *const pattern_names[] = {"uniform",   "identical",  "disjoint",
                                            "clustered", "at the end", "opposite"};
static const char *const value_names[] = {"normal", "subnormal", "-0.0",
                                          "1e-30",  "huge",      "cancelling"};
static int levels[FACTORS] = {12, 7, 7, 6, 6, 2};

enum { MOST_LEVELS = 12, MOST_ROWS = 300, GUARD = 64 };

struct row {
    int level[FACTORS];
};

/* Findings of one rank about one row. */
enum { WRONG = 1, GUARD_HIT = 2, INPUT_WRITTEN = 4, NOT_REPEATED = 8, FPENV_CHANGED = 16 };
struct finding {
    uint64_t hash;
    uint32_t faults;
    uint32_t at; /* first wrong element */
};

/* ---- the covering set: greedy, the best of 60 random rows at a time ---- */

static struct row rows[MOST_ROWS];

static int cover_rows(void)
{
    static bool covered[FACTORS][FACTORS][MOST_LEVELS][MOST_LEVELS];
    int made = 0, open = 0;
    uint64_t draw = 0;

    for (int f = 0; f < FACTORS; f++)
        for (int g = f + 1; g < FACTORS; g++)
            open += levels[f] * levels[g];
    while (open > 0 && made < MOST_ROWS) {
        struct row best = {{0}};
        int best_gain = -1;
        for (int candidate = 0; candidate < 60; candidate++) {
            struct row row;
            int gain = 0;
            for (int f = 0; f < FACTORS; f++)
                row.level[f] = (int)(input_word(1, 0, draw++) % (unsigned)levels[f]);
            for (int f = 0; f < FACTORS; f++)
                for (int g = f + 1; g < FACTORS; g++)
                    gain += !covered[f][g][row.level[f]][row.level[g]];
            if (gain > best_gain) {
                best_gain = gain;
                best = row;
            }
        }
        if (best_gain == 0)
            continue;
        for (int f = 0; f < FACTORS; f++)
            for (int g = f + 1; g < FACTORS; g++)
                covered[f][g][best.level[f]][best.level[g]] = true;
        open -= best_gain;
        rows[made++] = best;
    }
    return open == 0 ? made : 0;
}

/* ---- elements ---- */

struct job {
    const struct row *row;
    enum type type;
    enum op op;
    size_t size; /* of an element, bytes */
    uint64_t n;
    uint64_t seed;
    int ranks;
};

static bool is_present(const struct job *job, int rank, uint64_t i)
{
    int density = job->row->level[DENSITY], pattern = job->row->level[PATTERN];
    uint64_t n = job->n, ranks = (uint64_t)job->ranks, part = job->seed % ranks;
    uint64_t from = n * part / ranks, until = n * (part + 1) / ranks;
    double d = densities[density], chance;
    uint64_t edge = (uint64_t)(d * (double)n);

    if (density == ZERO_DENSITY)
        return false;
    if (density == ONE_ELEMENT) {
        uint64_t chosen = pattern == UNIFORM     ? input_word(job->seed, rank, 1) % n
                          : pattern == IDENTICAL ? input_word(job->seed, 0, 1) % n
                          : pattern == DISJOINT  ? (job->seed + (uint64_t)rank) % n
                          : pattern == CLUSTERED ? (from < n ? from : 0)
                          : pattern == AT_END    ? n - 1
                                                 : (rank % 2 ? n - 1 : 0);
        return i == chosen;
    }
    chance = (double)(input_word(job->seed, pattern == UNIFORM ? rank : 0, i) >> 11) * 0x1p-53;
    switch (pattern) {
    case DISJOINT:
        return i % ranks == (uint64_t)rank && chance < d * (double)ranks;
    case CLUSTERED:
        return i >= from && i < until && chance < d * (double)ranks;
    case AT_END:
        return i >= n - edge;
    case OPPOSITE:
        return rank % 2 ? i >= n - edge : i < edge;
    default:
        return chance < d;
    }
}

static uint64_t float_bits(uint64_t word, int exponent_bits, int mantissa_bits, int values)
{
    uint64_t mantissa = word & (((uint64_t)1 << mantissa_bits) - 1);
    uint64_t sign = word >> 63 << (exponent_bits + mantissa_bits);
    uint64_t bias = ((uint64_t)1 << (exponent_bits - 1)) - 1;
    uint64_t vary = word >> 58 & 15;

    switch (values) {
    case SUBNORMAL:
        return sign | mantissa | 1;
    case NEGATIVE_ZERO:
        if (word >> 52 & 1)
            return (uint64_t)1 << (exponent_bits + mantissa_bits);
        break;
    case TINY:
        return sign | (bias - 100 + vary % 3) << mantissa_bits | mantissa;
    case HUGE_VALUES: /* nine of them stay finite */
        return sign | (2 * bias - 19 + vary) << mantissa_bits | mantissa;
    case CANCELLING:
        return sign | (bias + 20) << mantissa_bits | mantissa;
    default:
        break;
    }
    return sign | (bias - 10 + vary) << mantissa_bits | mantissa;
}

static uint64_t integer_bits(uint64_t word, int values)
{
    uint64_t small = word % 1000 + 1;
    switch (values) {
    case SUBNORMAL:
        return word >> 63 ? (uint64_t)-1 : 1;
    case NEGATIVE_ZERO:
        return word >> 52 & 1 ? 0 : small;
    case TINY:
        return (uint64_t)1 << 31 | (uint64_t)1 << 63; /* the least int, a long far below zero */
    case HUGE_VALUES:
        return word | 1;
    default:
        return word >> 63 ? 0 - small : small;
    }
}

/* The element's bits, in the low bytes. */
static uint64_t element(const struct job *job, int rank, uint64_t i)
{
    int values = job->row->level[VALUES];
    uint64_t word, bits;

    if (!is_present(job, rank, i))
        return 0;
    /* Cancelling: the same magnitude on every rank, the sign of odd ranks turned. */
    word = input_word(job->seed + 77, values == CANCELLING ? 0 : rank, i);
    if (job->type == F32)
        bits = float_bits(word, 8, 23, values);
    else if (job->type == F64)
        bits = float_bits(word, 11, 52, values);
    else
        bits = integer_bits(word, values);
    if (values == CANCELLING && rank % 2) {
        if (job->type == F32)
            bits ^= (uint64_t)1 << 31;
        else if (job->type == F64)
            bits ^= (uint64_t)1 << 63;
        else
            bits = 0 - bits;
    }
    return job->size == 4 ? bits & 0xffffffffu : bits;
}

static uint64_t load(const unsigned char *buffer, size_t size, uint64_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, buffer + i * size, size);
    return bits;
}

static long double as_number(const struct job *job, uint64_t bits)
{
    if (job->type == F32) {
        uint32_t half = (uint32_t)bits;
        float x;
        memcpy(&x, &half, sizeof x);
        return (long double)x;
    }
    double x;
    memcpy(&x, &bits, sizeof x);
    return (long double)x;
}

/* ---- checks ---- */

/* What the MPI library computes under -ffast-math may have lost subnormals: bare MPICH does. */
static bool native_may_run(void)
{
    const char *algorithm = getenv("SPARSESHIM_ALGORITHM");
    return !algorithm || strcmp(algorithm, "auto") == 0 || strcmp(algorithm, "dense") == 0;
}

static bool float_is_right(const struct job *job, uint64_t got, uint64_t i)
{
    long double sum = 0, size = 0, bound, error;
    uint64_t exponent = job->type == F32 ? got >> 23 & 0xff : got >> 52 & 0x7ff;

    if (exponent == (job->type == F32 ? 0xff : 0x7ff))
        return false;
    for (int r = 0; r < job->ranks; r++) {
        long double x = as_number(job, element(job, r, i));
        sum += x;
        size += x < 0 ? -x : x;
    }
    bound = (job->ranks - 1) * (long double)(job->type == F32 ? FLT_EPSILON : DBL_EPSILON) * size;
#if defined(__FAST_MATH__)
    if (native_may_run())
        bound += job->ranks * (long double)(job->type == F32 ? FLT_MIN : DBL_MIN);
#endif
    error = as_number(job, got) - sum;
    return (error < 0 ? -error : error) <= bound;
}

static bool integer_is_right(const struct job *job, uint64_t got, uint64_t i)
{
    uint64_t want = 0;
    if (job->ranks == 1) /* nothing is combined: the input as it is */
        return got == element(job, 0, i);
    for (int r = 0; r < job->ranks; r++) {
        uint64_t x = element(job, r, i);
        switch (job->op) {
        case SUM:
            want += x;
            break;
        case BOR:
            want |= x;
            break;
        case BXOR:
            want ^= x;
            break;
        case LOR:
            want |= x != 0;
            break;
        case LXOR:
            want ^= x != 0;
            break;
        }
    }
    return got == (job->size == 4 ? want & 0xffffffffu : want);
}

static uint64_t hash_bytes(const unsigned char *bytes, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, n - i < sizeof word ? n - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static bool all_bytes_are(const unsigned char *bytes, size_t n, unsigned char value)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* A buffer of elements between guards, at an address aligned for its type and no better. */
struct guarded {
    unsigned char *memory;
    unsigned char *data;
    size_t bytes;
};

static struct guarded guarded_alloc(const struct job *job, int shift, unsigned char filling)
{
    struct guarded g;
    g.bytes = job->n * job->size;
    g.memory = input_alloc(g.bytes + 2 * GUARD + 64);
    memset(g.memory, 0xc3, g.bytes + 2 * GUARD + 64);
    g.data = g.memory + GUARD + (size_t)shift * job->size;
    memset(g.data, filling, g.bytes);
    return g;
}

static bool guards_stand(const struct guarded *g)
{
    size_t before = (size_t)(g->data - g->memory), after = 64 + 2 * GUARD - before;
    return all_bytes_are(g->memory, before, 0xc3) && all_bytes_are(g->data + g->bytes, after, 0xc3);
}

static void allreduce(const struct job *job, const struct guarded *in, struct guarded *out,
                      MPI_Comm comm)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_BOR, MPI_BXOR, MPI_LOR, MPI_LXOR};
    static const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT, MPI_LONG};
    bool in_place = job->row->level[PLACE];

    memset(out->data, 0x7e, out->bytes);
    if (in_place && out->bytes)
        memcpy(out->data, in->data, out->bytes);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : in->data, out->data, (int)job->n, types[job->type],
                  ops[job->op], comm);
}

static struct finding run_row(const struct row *row, int number, MPI_Comm other)
{
    struct finding found = {0};
    struct job job = {.row = row,
                      .type = kinds[row->level[KIND]].type,
                      .op = kinds[row->level[KIND]].op,
                      .n = (uint64_t)counts[row->level[COUNT]],
                      .seed = (uint64_t)number * 31 + 5,
                      .ranks = tap.size};
    struct guarded in, out;
    unsigned char *before;
    const ss_fpenv environment = fp_settings();

    job.size = job.type == F32 || job.type == I32 ? 4 : 8;
    in = guarded_alloc(&job, number % 4, 0);
    out = guarded_alloc(&job, (number + 1) % 3, 0x7e);
    before = input_alloc(in.bytes);
    for (uint64_t i = 0; i < job.n; i++) {
        uint64_t bits = element(&job, tap.rank, i);
        memcpy(in.data + i * job.size, &bits, job.size);
    }
    memcpy(before, in.data, in.bytes);
    allreduce(&job, &in, &out, MPI_COMM_WORLD);
    if (fp_settings() != environment)
        found.faults |= FPENV_CHANGED;
    for (uint64_t i = (uint64_t)tap.rank; i < job.n && !(found.faults & WRONG);
         i += (uint64_t)job.ranks) {
        uint64_t got = load(out.data, job.size, i);
        if (!(job.type <= F64 ? float_is_right(&job, got, i) : integer_is_right(&job, got, i))) {
            found.faults |= WRONG;
            found.at = (uint32_t)i;
        }
    }
    found.hash = hash_bytes(out.data, out.bytes);
    if (!native_may_run() && job.n <= 4096 && number % 4 < 2) {
        allreduce(&job, &in, &out, number % 4 ? MPI_COMM_WORLD : other);
        if (hash_bytes(out.data, out.bytes) != found.hash)
            found.faults |= NOT_REPEATED;
    }
    if (memcmp(before, in.data, in.bytes) != 0)
        found.faults |= INPUT_WRITTEN;
    if (!guards_stand(&in) || !guards_stand(&out))
        found.faults |= GUARD_HIT;
    free(in.memory);
    free(out.memory);
    free(before);
    return found;
}

/* ---- verdict, on rank 0 ---- */

static bool nowhere(const struct finding *all, int n, uint32_t fault)
{
    bool none = true;
    for (int i = 0; i < n * tap.size; i++)
        none = none && !(all[i].faults & fault);
    return none;
}

static bool same_bits(const struct finding *all, int n, int row)
{
    for (int r = 1; r < tap.size; r++)
        if (all[r * n + row].hash != all[row].hash)
            return false;
    return true;
}

static void explain(const struct finding *all, const int *numbers, int n)
{
    for (int row = 0; row < n; row++) {
        const int *level = rows[numbers[row]].level;
        uint32_t faults = 0, at = 0;
        for (int r = 0; r < tap.size; r++) {
            faults |= all[r * n + row].faults;
            at = all[r * n + row].at ? all[r * n + row].at : at;
        }
        if (faults || !same_bits(all, n, row))
            printf("# row %d: %s, count %d, density %g%s, %s, %s values%s:%s%s%s%s%s%s "
                   "(element %u)\n",
                   numbers[row], kinds[level[KIND]].name, counts[level[COUNT]],
                   densities[level[DENSITY]], level[DENSITY] == ONE_ELEMENT ? " + 1 element" : "",
                   pattern_names[level[PATTERN]], value_names[level[VALUES]],
                   level[PLACE] ? ", in place" : "", faults & WRONG ? " wrong" : "",
                   faults & GUARD_HIT ? " guard" : "", faults & INPUT_WRITTEN ? " input" : "",
                   faults & NOT_REPEATED ? " repeat" : "", faults & FPENV_CHANGED ? " fpenv" : "",
                   same_bits(all, n, row) ? "" : " replicas", at);
    }
}

int main(int argc, char **argv)
{
    int largest = argc > 1 ? atoi(argv[1]) : 4096;
    int part = argc > 3 ? atoi(argv[2]) : 0, parts = argc > 3 ? atoi(argv[3]) : 1;
    int made, n = 0, status, numbers[MOST_ROWS];
    struct finding found[MOST_ROWS], *all;
    float warm[16] = {1}, warmed[16];
    bool replicas = true;
    uint64_t hash = 0;
    MPI_Comm other;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    while (levels[COUNT] > 1 && counts[levels[COUNT] - 1] > largest)
        levels[COUNT]--;
    made = cover_rows();
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int call = 0; call < 2; call++) { /* the first call on a communicator is delegated */
        MPI_Allreduce(warm, warmed, 16, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(warm, warmed, 16, MPI_FLOAT, MPI_SUM, other);
    }
    for (int i = part; i < made; i += parts) {
        numbers[n] = i;
        found[n++] = run_row(&rows[i], i, other);
    }
    all = input_alloc((size_t)(tap.size * n) * sizeof *all);
    MPI_Gather(found, n * (int)sizeof *found, MPI_BYTE, all, n * (int)sizeof *found, MPI_BYTE, 0,
               MPI_COMM_WORLD);
    if (tap.rank == 0) {
        for (int i = 0; i < n; i++) {
            replicas = replicas && same_bits(all, n, i);
            hash = hash * 0x100000001b3u ^ all[i].hash;
        }
        explain(all, numbers, n);
    }
#define NOWHERE(fault) (tap.rank != 0 || nowhere(all, n, fault))
    tap_ok(made > 0 && n > 0, "the covering set has %d rows, %d of them run here", made, n);
    tap_ok(NOWHERE(WRONG), "every element is within its bound, integers are equal");
    tap_ok(replicas, "all ranks hold the same bits");
    tap_ok(NOWHERE(INPUT_WRITTEN), "no send buffer was written");
    tap_ok(NOWHERE(GUARD_HIT), "nothing was written around the buffers");
    tap_ok(NOWHERE(NOT_REPEATED), "again, and on another communicator: the same bits");
    tap_ok(NOWHERE(FPENV_CHANGED), "the floating-point environment is left as it was");
#undef NOWHERE
#ifdef __FAST_MATH__
    tap_ok((fp_settings() & FP_FLUSH) == FP_FLUSH, "subnormals are off in this process");
#endif
    tap_note("bits %016llx", (unsigned long long)hash);
    free(all);
    MPI_Comm_free(&other);
    status = tap_end();
    MPI_Finalize();
    return status;
}
