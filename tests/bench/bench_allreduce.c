/* Times MPI_Allreduce (what is preloaded) against PMPI_Allreduce (the bare MPI library) in one run,
 * in alternating blocks of back-to-back calls, and counts the bytes each put on the wire.
 *
 *     bench_allreduce --count 4Mi --density 0.00781 --calls 5 --blocks 10 [--type float|double]
 * [--in-place] [--exchange] [--rate BYTES/S] [--only shim|bare] [--csv LABEL] [--gradient BUFFERS]
 * [--support uniform|zipf|own|scattered|clustered]
 *
 * --support: where the entries are (core/trial/entries.h).
 *
 * --gradient: in place of few entries, dense heavy-tailed values, BUFFERS different inputs in turn,
 * for MODE=topk, which sends what SPARSESHIM_DENSITY says.
 *
 * --exchange: the ranks meet, and the network is measured, in calls of another count.
 *
 * Times are the slowest rank's, per call, medians over the blocks (with --csv its processor time is
 * the last column, of the preloaded calls if there are any); bytes are what the busiest
 * rank's interface eth0 (or --device) sent, per call. */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/trial/entries.h"
#include "tests/bench/measure.h"

enum { MOST_BUFFERS = 16, EXCHANGE = 1021 /* elements */ };

struct options {
    size_t count;
    double density;
    int calls, blocks, warm, buffers;
    bool gradient;
    bool in_place, is_double, exchange;
    enum ss_support support;
    double rate;
    const char *only, *csv, *device;
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1dULL;
}

static size_t parse_count(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (*end == 'K' && end[1] == 'i')
        value *= 1024;
    else if (*end == 'M' && end[1] == 'i')
        value *= 1048576;
    else if (*end != '\0')
        value = 0;
    if (!(value >= 1)) {
        fprintf(stderr, "--count %s: a number, 64Ki or 4Mi\n", text);
        exit(2);
    }
    return (size_t)value;
}

static enum ss_support parse_support(const char *name)
{
    for (int i = 0; i < SS_SUPPORTS; i++)
        if (strcmp(name, ss_support_name((enum ss_support)i)) == 0)
            return (enum ss_support)i;
    fprintf(stderr, "--support %s: not known\n", name);
    exit(2);
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.count = 4 << 20,
                        .density = 0.00781,
                        .calls = 5,
                        .blocks = 10,
                        .warm = 3,
                        .buffers = 1,
                        .device = "eth0"};

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--in-place") == 0) {
            o.in_place = true;
            continue;
        }
        if (strcmp(argv[i], "--exchange") == 0) {
            o.exchange = true;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--count") == 0)
            o.count = parse_count(value);
        else if (strcmp(argv[i - 1], "--density") == 0)
            o.density = strtod(value, NULL);
        else if (strcmp(argv[i - 1], "--calls") == 0)
            o.calls = atoi(value);
        else if (strcmp(argv[i - 1], "--blocks") == 0)
            o.blocks = atoi(value);
        else if (strcmp(argv[i - 1], "--warm") == 0)
            o.warm = atoi(value);
        else if (strcmp(argv[i - 1], "--gradient") == 0)
            o.gradient = (o.buffers = atoi(value)) > 0;
        else if (strcmp(argv[i - 1], "--type") == 0)
            o.is_double = strcmp(value, "double") == 0;
        else if (strcmp(argv[i - 1], "--support") == 0)
            o.support = parse_support(value);
        else if (strcmp(argv[i - 1], "--rate") == 0)
            o.rate = strtod(value, NULL);
        else if (strcmp(argv[i - 1], "--only") == 0)
            o.only = value;
        else if (strcmp(argv[i - 1], "--csv") == 0)
            o.csv = value;
        else if (strcmp(argv[i - 1], "--device") == 0)
            o.device = value;
        else {
            fprintf(stderr, "unknown option %s\n", argv[i - 1]);
            exit(2);
        }
    }
    if (o.buffers < 1 || o.buffers > MOST_BUFFERS) {
        fprintf(stderr, "--gradient: 1 to %d buffers\n", MOST_BUFFERS);
        exit(2);
    }
    if (o.calls < 1 || o.blocks < 1 || o.blocks > 1000) {
        fprintf(stderr, "--calls and --blocks: from 1, at most 1000 blocks\n");
        exit(2);
    }
    return o;
}

static double uniform(uint64_t *state)
{
    return (double)(int64_t)next_random(state) / 9223372036854775808.0;
}

/* Student's t with 3 degrees of freedom, by Bailey's polar method (1994) without its logarithm: the
 * tails fall as |x|^-4, as those of gradients do. */
static double heavy(uint64_t *state)
{
    double u, v, w;

    do {
        u = uniform(state);
        v = uniform(state);
        w = u * u + v * v;
    } while (w > 1 || w == 0);
    double c = u * u / w, r = 3 * (1 / cbrt(w * w) - 1);
    double x = sqrt(r * c);
    return u < 0 ? -x : x;
}

/* d * count entries at uniformly drawn places, values in (-1, 1); or a gradient. */
static void fill(const struct options *o, void *buffer, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
    uint64_t limit = (uint64_t)(o->density * 4294967296.0);

    for (size_t i = 0; i < o->count; i++) {
        bool set = o->gradient || (next_random(&state) >> 32) < limit;
        double value = !set ? 0 : o->gradient ? heavy(&state) : uniform(&state);
        if (o->is_double)
            ((double *)buffer)[i] = value;
        else
            ((float *)buffer)[i] = (float)value;
    }
}

/* Entries of another support than the uniform one, which fill() draws. */
static void fill_support(const struct options *o, void *buffer, int rank)
{
    const struct ss_entries e = {
        .n = o->count, .density = o->density, .seed = 1, .support = o->support};
    struct ss_entries_cursor c;
    uint32_t at;
    float value;

    memset(buffer, 0, o->count * (o->is_double ? 8 : 4));
    ss_entries_start(&c, &e, 1, rank);
    while (ss_entries_next(&c, &at, &value))
        if (o->is_double)
            ((double *)buffer)[at] = 1 / (double)value;
        else
            ((float *)buffer)[at] = 1 / value;
}

/* What the library's lane of the count is not to have in its bytes. */
static void make_first_exchange(void)
{
    float in[EXCHANGE], out[EXCHANGE];

    for (int i = 0; i < EXCHANGE; i++)
        in[i] = i == 0;
    for (int i = 0; i < 3; i++)
        MPI_Allreduce(in, out, EXCHANGE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

typedef int allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

struct sample {
    double seconds;
    double bytes;
    double cpu; /* seconds of the processor */
};

/* One block of back-to-back calls. In place the input is restored before each call, outside the
 * time. */
static __attribute__((noinline)) struct sample block(const struct options *o, allreduce *call,
                                                     void *const *inputs, void *out, int calls)
{
    size_t bytes = o->count * (o->is_double ? 8 : 4);
    struct sample mine, most;
    double seconds = 0, cpu = 0;

    PMPI_Barrier(MPI_COMM_WORLD);
    double sent = measure_sent_bytes(o->device);
    for (int i = 0; i < calls; i++) {
        const void *in = inputs[i % o->buffers];
        if (o->in_place)
            memcpy(out, in, bytes);
        double begin = MPI_Wtime(), used = measure_cpu_seconds();
        call(o->in_place ? MPI_IN_PLACE : in, out, (int)o->count,
             o->is_double ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        seconds += MPI_Wtime() - begin;
        cpu += measure_cpu_seconds() - used;
    }
    if (calls == 0)
        return (struct sample){0, 0, 0};
    mine = (struct sample){seconds / calls, (measure_sent_bytes(o->device) - sent) / calls,
                           cpu / calls};
    PMPI_Allreduce(&mine, &most, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static double nonzero(const struct options *o, const void *v)
{
    size_t entries = 0;

    for (size_t i = 0; i < o->count; i++)
        entries += o->is_double ? ((const double *)v)[i] != 0 : ((const float *)v)[i] != 0;
    return (double)entries / (double)o->count;
}

/* Largest difference between both results, relative to the sum of magnitudes it may have. */
static double compare(const struct options *o, const void *a, const void *b)
{
    double worst = 0;

    for (size_t i = 0; i < o->count; i++) {
        double x = o->is_double ? ((const double *)a)[i] : (double)((const float *)a)[i];
        double y = o->is_double ? ((const double *)b)[i] : (double)((const float *)b)[i];
        double difference = x > y ? x - y : y - x;
        if (difference > worst)
            worst = difference;
    }
    return worst;
}

/* Not optimised: all blocks are called from one place, so that their calls are of one tensor. */
__attribute__((optimize("O0"))) int main(int argc, char **argv)
{
    static double shim_s[1000], bare_s[1000], shim_b[1000], bare_b[1000], ratio[1000], cpu[1000];
    struct options o = parse(argc, argv);
    size_t bytes = o.count * (o.is_double ? 8 : 4);
    bool shim = !o.only || strcmp(o.only, "shim") == 0,
         bare = !o.only || strcmp(o.only, "bare") == 0;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *in[MOST_BUFFERS] = {NULL}, *out = malloc(bytes), *reference = malloc(bytes);
    for (int i = 0; i < o.buffers; i++) {
        in[i] = malloc(bytes);
        if (!in[i] || !out || !reference)
            MPI_Abort(MPI_COMM_WORLD, 1);
        if (o.support == SS_SUPPORT_UNIFORM)
            fill(&o, in[i], (uint64_t)(rank + 1) * 100 + (uint64_t)i);
        else
            fill_support(&o, in[i], rank);
    }
    memset(out, 0, bytes);
    memset(reference, 0, bytes);

    if (o.exchange)
        make_first_exchange();
    /* Block -1: first exchange, calibration, first choices. */
    for (int b = -1; b < o.blocks; b++) {
        struct sample s = {0, 0, 0}, n = {0, 0, 0};
        if (bare && b >= 0)
            n = block(&o, PMPI_Allreduce, in, reference, o.calls);
        if (shim)
            s = block(&o, MPI_Allreduce, in, out, b < 0 ? o.warm : o.calls);
        if (b < 0)
            continue;
        shim_s[b] = s.seconds;
        shim_b[b] = s.bytes;
        bare_s[b] = n.seconds;
        bare_b[b] = n.bytes;
        cpu[b] = shim ? s.cpu : n.cpu;
        ratio[b] = s.seconds > 0 ? n.seconds / s.seconds : 0;
    }
    double worst = shim && bare ? compare(&o, out, reference) : 0;
    double largest = 0;
    MPI_Reduce(&worst, &largest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0 && o.csv) {
        printf("%s,%d,%zu,%g,%.9f,%.9f,%.4f,%.0f,%.0f,%.6f,%.4f,%.4f,%g,%.9f\n", o.csv, size,
               o.count, o.density, measure_median(bare_s, o.blocks),
               measure_median(shim_s, o.blocks), measure_median(ratio, o.blocks),
               measure_median(bare_b, o.blocks), measure_median(shim_b, o.blocks),
               shim ? nonzero(&o, out) : 1, measure_quantile(ratio, (size_t)o.blocks, 0.25),
               measure_quantile(ratio, (size_t)o.blocks, 0.75), largest,
               measure_median(cpu, o.blocks));
    } else if (rank == 0) {
        double db = measure_median(bare_b, o.blocks), sb = measure_median(shim_b, o.blocks);
        double theory = 2.0 * (size - 1) / size * (double)bytes;
        printf("P = %d, N = %zu %s, d = %g, %s, %d blocks of %d calls\n", size, o.count,
               o.is_double ? "double" : "float", o.density, o.in_place ? "in place" : "two buffers",
               o.blocks, o.calls);
        printf("  bare MPI   %10.3f ms  %12.0f bytes per call (limit of dense: %.0f)\n",
               1e3 * measure_median(bare_s, o.blocks), db, theory);
        printf("  preloaded  %10.3f ms  %12.0f bytes per call\n",
               1e3 * measure_median(shim_s, o.blocks), sb);
        if (o.rate > 0)
            printf("  wire floor %10.3f ms bare, %.3f ms preloaded (bytes over %.0f bytes/s)\n",
                   1e3 * db / o.rate, 1e3 * sb / o.rate, o.rate);
        double all_bare = 0, all_shim = 0;
        for (int b = 0; b < o.blocks; b++) {
            all_bare += bare_s[b];
            all_shim += shim_s[b];
        }
        printf("  all calls  %10.3f ms bare, %.3f ms preloaded: %.4f times as long%s\n",
               1e3 * all_bare / o.blocks, 1e3 * all_shim / o.blocks,
               all_bare > 0 ? all_shim / all_bare : 0,
               o.warm == 0 ? ", first exchange and calibration included" : "");
        printf("  ratio      %10.2f time, %.2f bytes; ", measure_median(ratio, o.blocks),
               sb > 0 ? db / sb : 0);
        if (o.gradient)
            printf("%.3f %% of the result is not zero\n", 100 * nonzero(&o, out));
        else
            printf("largest difference of results %g\n", largest);
    }
    for (int i = 0; i < o.buffers; i++)
        free(in[i]);
    free(out);
    free(reference);
    MPI_Finalize();
    return 0;
}
