/* Nonblocking allreduces, timed; bare or preloaded, whatever MPI_Iallreduce is.
 *
 *     bench_overlap hide  [--count 1Mi] [--density D] [--calls N] [--blocks N] [--work SHARE]
 * [--device] bench_overlap pair  [--count 1Mi] [--density D] [--calls N] [--blocks N] bench_overlap
 * small [--level single|multiple] [--calls N] [--blocks N]
 *     bench_overlap layers [--network resnet|lstm] [--divide N] [--density D] [--backward S]
 *                        [--calls N] [--blocks N]
 *     ... [--csv LABEL]
 *
 * hide: communication alone (Iallreduce; Wait), computation alone, and computation between
 * Iallreduce and Wait, in alternating blocks; the share hidden is (communication + computation -
 * both) / the smaller of the two. The computation, SHARE times as long as the communication
 * (default 1), is arithmetic on the CPU without an MPI call; with --device the rank sleeps, as one
 * does that waits for an accelerator.
 * pair: Iallreduce; Wait against Allreduce.
 * layers: an Iallreduce for each tensor of ResNet-50, or of a language model of LSTM cells (Penn
 * Treebank), of an Nth of its count, in backward order, and one Waitall, against one Allreduce of
 * all elements; with --backward the rank sleeps so many seconds in a step, as much before the call
 * of each tensor, and then for the one Allreduce. small: Allreduce of 8 bytes, MPI_ against PMPI_,
 * after a large nonblocking call; and the CPU time this process takes in a second in which it
 * sleeps.
 *
 * Times are the slowest rank's, per call, medians over the blocks. */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/measure.h"
#include "tests/mpi/nonblocking/layers.h"

enum { MOST_BLOCKS = 1000 };

struct options {
    const char *what, *csv;
    int count, calls, blocks, divide;
    double density, work, backward;
    bool device, multiple, lstm;
};

enum { SHIFT = 16, SHIFTS = 512 };

/* The input of a call begins `shift` elements further on than that of the first: other numbers, as
 * those of a gradient are. */
struct job {
    float *in, *out;
    int shift;
    double units; /* of computation */
    int layers, layer[LAYERS_RESNET];
};

static int rank, ranks;
volatile double computed = 2;

static void refuse(const char *option, const char *value, const char *allowed)
{
    fprintf(stderr, "bench_overlap: %s takes %s, not '%s'\n", option, allowed, value);
    exit(2);
}

static double parse_number(const char *option, const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);

    if (strcmp(end, "Ki") == 0)
        value *= 1024;
    else if (strcmp(end, "Mi") == 0)
        value *= 1048576;
    else if (end == text || *end != '\0')
        refuse(option, text, "a number");
    if (!(value >= low && value <= high))
        refuse(option, text, "a number within its range");
    return value;
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.what = argc > 1 ? argv[1] : "",
                        .count = 1 << 20,
                        .calls = 3,
                        .blocks = 11,
                        .divide = 1,
                        .density = 0.01,
                        .work = 1};

    if (strcmp(o.what, "hide") != 0 && strcmp(o.what, "pair") != 0 &&
        strcmp(o.what, "small") != 0 && strcmp(o.what, "layers") != 0)
        refuse("the first argument", o.what, "hide, pair, small or layers");
    for (int i = 2; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(name, "--device") == 0) {
            o.device = true;
            continue;
        }
        i++;
        if (strcmp(name, "--count") == 0)
            o.count = (int)parse_number(name, value, 1, 2e9);
        else if (strcmp(name, "--density") == 0)
            o.density = parse_number(name, value, 0, 1);
        else if (strcmp(name, "--calls") == 0)
            o.calls = (int)parse_number(name, value, 1, 1e9);
        else if (strcmp(name, "--blocks") == 0)
            o.blocks = (int)parse_number(name, value, 1, MOST_BLOCKS);
        else if (strcmp(name, "--divide") == 0)
            o.divide = (int)parse_number(name, value, 1, 1000);
        else if (strcmp(name, "--work") == 0)
            o.work = parse_number(name, value, 0, 1000);
        else if (strcmp(name, "--backward") == 0)
            o.backward = parse_number(name, value, 0, 100);
        else if (strcmp(name, "--level") == 0)
            o.multiple = strcmp(value, "multiple") == 0;
        else if (strcmp(name, "--network") == 0 && strcmp(value, "lstm") != 0 &&
                 strcmp(value, "resnet") != 0)
            refuse(name, value, "resnet or lstm");
        else if (strcmp(name, "--network") == 0)
            o.lstm = strcmp(value, "lstm") == 0;
        else if (strcmp(name, "--csv") == 0)
            o.csv = value;
        else
            refuse("bench_overlap", name, "the options named in its source");
    }
    return o;
}

static void fill(const struct options *o, float *out)
{
    uint64_t state = (uint64_t)(rank + 1) * 0x9e3779b97f4a7c15u;

    for (int i = 0; i < o->count + SHIFT * SHIFTS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bool set = (double)(state >> 11) / 9007199254740992.0 < o->density;
        out[i] = set ? (float)((double)(state >> 40) / 16777216.0 - 0.5) + 1e-3f : 0;
    }
}

/* Arithmetic that touches no memory, so that ranks on one machine compete for cores alone. */
static void compute(double units)
{
    double x = computed; /* unknown to the compiler, which would find a fixed point */

    for (long i = 0; i < (long)units; i++)
        x = x * 0.999999 + 1e-6;
    computed = x;
}

static void spend(const struct options *o, struct job *job, double seconds)
{
    if (o->device) {
        struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
        nanosleep(&t, NULL);
    } else {
        compute(job->units);
    }
}

enum part { COMMUNICATION, COMPUTATION, BOTH, BLOCKING, LAYERWISE, PARTS };

static void sleep_until(double when)
{
    double left = when - MPI_Wtime();

    if (left > 2e-4) { /* a sleep takes a little longer than it is asked for */
        struct timespec t = {(time_t)left, (long)((left - floor(left)) * 1e9)};
        nanosleep(&t, NULL);
    }
}

static const float *next_input(struct job *job)
{
    job->shift = (job->shift + 7 * SHIFT) % (SHIFT * SHIFTS);
    return job->in + job->shift;
}

static void layerwise(const struct options *o, struct job *job)
{
    const double begin = MPI_Wtime();
    MPI_Request request[LAYERS_RESNET];
    MPI_Status status[LAYERS_RESNET];
    const float *in = next_input(job);
    int at = o->count;

    for (int i = job->layers - 1; i >= 0; i--) {
        at -= job->layer[i];
        sleep_until(begin + o->backward * (job->layers - i) / job->layers);
        MPI_Iallreduce(in + at, job->out + at, job->layer[i], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                       &request[i]);
    }
    MPI_Waitall(job->layers, request, status);
}

/* Seconds per call of the slowest rank. */
static double block(const struct options *o, struct job *job, enum part part, double work)
{
    double mine, most;

    PMPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < o->calls; i++) {
        MPI_Request request = MPI_REQUEST_NULL;

        if (part == BLOCKING)
            sleep_until(MPI_Wtime() + o->backward);
        if (part == BLOCKING)
            MPI_Allreduce(next_input(job), job->out, o->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (part == COMMUNICATION || part == BOTH)
            MPI_Iallreduce(next_input(job), job->out, o->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                           &request);
        if (part == LAYERWISE)
            layerwise(o, job);
        if (part == COMPUTATION || part == BOTH)
            spend(o, job, work);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    mine = (MPI_Wtime() - begin) / o->calls;
    PMPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* `before` blocks of each part are not counted. They are called from here as well, since whence a
 * call comes tells which tensor it is. */
static void measure(const struct options *o, struct job *job, double work, int parts,
                    const enum part *part, int before, double *out)
{
    static double seconds[PARTS][MOST_BLOCKS];

    for (int b = -before; b < o->blocks; b++)
        for (int i = 0; i < parts; i++)
            seconds[i][b < 0 ? 0 : b] = block(o, job, part[i], work);
    for (int i = 0; i < parts; i++)
        out[i] = measure_median(seconds[i], o->blocks);
}

/* Makes the computation take that long on all ranks at once. */
static void calibrate(const struct options *o, struct job *job, double work)
{
    struct options once = *o;

    once.calls = 1;
    job->units = 1e6;
    for (int round = 0; round < 4 && !o->device; round++) {
        double took = INFINITY;
        for (int i = 0; i < 5; i++)
            took = fmin(took, block(&once, job, COMPUTATION, work));
        job->units *= took > 0 ? work / took : 1;
    }
}

static void hide(const struct options *o, struct job *job)
{
    static const enum part parts[] = {COMMUNICATION, COMPUTATION, BOTH};
    double work = 0, t[3];

    for (int i = 0; i < 3; i++)
        work = block(o, job, COMMUNICATION, 0) * o->work;
    calibrate(o, job, work);
    measure(o, job, work, 3, parts, 0, t);
    if (rank != 0)
        return;
    double hidden = (t[0] + t[1] - t[2]) / (t[0] < t[1] ? t[0] : t[1]);
    if (o->csv)
        printf("%s,%d,%d,%g,%.9f,%.9f,%.9f,%.4f\n", o->csv, ranks, o->count, o->density, t[0], t[1],
               t[2], hidden);
    else
        printf("communication %.3f ms, computation %.3f ms (%s), both %.3f ms: %.1f %% hidden\n",
               1e3 * t[0], 1e3 * t[1], o->device ? "elsewhere" : "on the CPU", 1e3 * t[2],
               100 * hidden);
}

static void pair(const struct options *o, struct job *job)
{
    static const enum part parts[] = {BLOCKING, COMMUNICATION};
    double t[2];

    measure(o, job, 0, 2, parts, 0, t);
    if (rank != 0)
        return;
    if (o->csv)
        printf("%s,%d,%d,%g,%.9f,%.9f,%.4f\n", o->csv, ranks, o->count, o->density, t[0], t[1],
               t[1] / t[0]);
    else
        printf("Allreduce %.3f ms, Iallreduce; Wait %.3f ms: %.3f times as long\n", 1e3 * t[0],
               1e3 * t[1], t[1] / t[0]);
}

static void layers(const struct options *o, struct job *job)
{
    static const enum part parts[] = {BLOCKING, LAYERWISE};
    double t[2];

    /* First until each count has settled on a collective, and MERGE=auto on a plan. */
    measure(o, job, 0, 2, parts, 60 + 4000 / job->layers, t);
    if (rank != 0)
        return;
    if (o->csv)
        printf("%s,%d,%d,%g,%.9f,%.9f,%.4f\n", o->csv, ranks, o->count, o->density, t[0], t[1],
               t[1] / t[0]);
    else
        printf("%d tensors: one Allreduce %.3f ms, an Iallreduce each %.3f ms: %.3f times as "
               "long\n",
               job->layers, 1e3 * t[0], 1e3 * t[1], t[1] / t[0]);
}

typedef int allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

static double small_block(const struct options *o, allreduce *call)
{
    double in = 1, out = 0;

    PMPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < o->calls; i++)
        call(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - begin) / o->calls * 1e9;
}

static double cpu_seconds_of_an_idle_second(void)
{
    const struct timespec second = {1, 0};
    double begin = measure_cpu_seconds();

    nanosleep(&second, NULL);
    return measure_cpu_seconds() - begin;
}

static void small(const struct options *o)
{
    static double bare[MOST_BLOCKS], seen[MOST_BLOCKS], difference[MOST_BLOCKS];
    int level;

    small_block(o, MPI_Allreduce);
    for (int b = 0; b < o->blocks; b++) {
        bare[b] = small_block(o, PMPI_Allreduce);
        seen[b] = small_block(o, MPI_Allreduce);
        difference[b] = seen[b] - bare[b];
    }
    double idle = cpu_seconds_of_an_idle_second();
    MPI_Query_thread(&level);
    if (rank != 0)
        return;
    double d = measure_median(difference, o->blocks);
    if (o->csv)
        printf("%s,%d,%s,%.1f,%.1f,%.1f,%.6f\n", o->csv, ranks,
               level == MPI_THREAD_MULTIPLE ? "multiple" : "less", measure_median(bare, o->blocks),
               measure_median(seen, o->blocks), d, idle);
    else
        printf("8 bytes, %s: PMPI %.1f ns, MPI %.1f ns, difference %.1f ns (quartiles %.1f, %.1f); "
               "CPU time of an idle second %.6f s\n",
               level == MPI_THREAD_MULTIPLE ? "multiple" : "less than multiple",
               measure_median(bare, o->blocks), measure_median(seen, o->blocks), d,
               difference[o->blocks / 4], difference[3 * o->blocks / 4], idle);
}

/* Elements of all tensors. */
static int divided(const struct options *o, struct job *job)
{
    int sum = 0;

    job->layers = o->lstm ? LAYERS_LSTM : LAYERS_RESNET;
    if (o->lstm)
        layers_lstm(job->layer);
    else
        layers_resnet(job->layer);
    for (int i = 0; i < job->layers; i++)
        sum += job->layer[i] = (job->layer[i] + o->divide - 1) / o->divide;
    return sum;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    struct job job = {0};
    int level;

    MPI_Init_thread(&argc, &argv, o.multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(o.what, "layers") == 0)
        o.count = divided(&o, &job);
    const size_t bytes = (size_t)o.count * sizeof *job.in;
    job.in = malloc(bytes + SHIFT * SHIFTS * sizeof *job.in);
    job.out = malloc(bytes);
    if (!job.in || !job.out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fill(&o, job.in);
    memset(job.out, 0, bytes);
    struct options warm = o;
    warm.calls = 1;
    for (int i = 0; i < 8; i++) { /* first exchange, calibration, first choices */
        block(&warm, &job, COMMUNICATION, 0);
        block(&warm, &job, BLOCKING, 0);
    }
    if (strcmp(o.what, "hide") == 0)
        hide(&o, &job);
    else if (strcmp(o.what, "pair") == 0)
        pair(&o, &job);
    else if (strcmp(o.what, "layers") == 0)
        layers(&o, &job);
    else
        small(&o);
    free(job.in);
    free(job.out);
    MPI_Finalize();
    return 0;
}
