/* astray SEED [rules|steady|told|changing [STEPS [at_once|tested]]]: rules prints a rule for each
 * count, with its calls per step. Else trainings of random structure: few
 * counts, equal layers, phases in which some layers are frozen, steps that change their order,
 * calls of the same counts in evaluations, steps cut short, small sums that come and go. Each layer
 * is zero in a window of its own, so that what comes from another shows. Nothing is asked but that
 * none does, and that all ranks hold the same bits.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

enum { MOST = 24, WINDOWS = 32, LONGEST = 4096 };

static struct {
    uint64_t seed;
    int layers, step, n[MOST], sizes;
    bool alike, at_once, tested;
    uint64_t digest;
    int losses, backward, evaluated, cut, phases, steps;
    float *buffer;
    long astray, sparse, calls;
    int first_astray, culprit;
} job;

static unsigned draw(int what, int a, int b)
{
    return (unsigned)(input_word(job.seed * 977 + (uint64_t)what, a, (uint64_t)b) >> 33);
}

static int window_of(int layer, int n)
{
    return (layer * 7 % WINDOWS) * (n / WINDOWS);
}

static void fill(float *buffer, int layer, int n)
{
    int first = window_of(layer, n), width = n / WINDOWS;
    double size = job.alike ? 1 : 1.0 / (1 + layer % 5);

    for (int i = 0; i < n; i++) {
        uint64_t place = (uint64_t)layer << 32 | (uint64_t)i;
        double own = gradient_fraction(input_word(job.seed + (uint64_t)job.step, tap.rank, place));
        double all = gradient_fraction(input_word(job.seed + 1000 + (uint64_t)job.step, 0, place));
        bool window = i >= first && i < first + width;
        buffer[i] = window ? 0 : (float)(size * (own + 0.5 * all));
    }
}

static void look(const float *buffer, int layer, int n)
{
    int first = window_of(layer, n), width = n / WINDOWS, zeros = 0, strays = 0;

    for (int i = 0; i < n; i++) {
        bool window = i >= first && i < first + width;
        zeros += !window && buffer[i] == 0;
        strays += window && buffer[i] != 0;
    }
    if (strays > 0 && job.first_astray < 0) {
        job.first_astray = job.step;
        job.culprit = layer;
    }
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &buffer[i], sizeof bits);
        job.digest = (job.digest ^ bits) * 0x100000001b3u;
    }
    job.astray += strays;
    job.calls++;
    job.sparse += zeros > n / 2;
}

static void reduce(int layer, int n)
{
    fill(job.buffer, layer, n);
    MPI_Allreduce(MPI_IN_PLACE, job.buffer, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    look(job.buffer, layer, n);
}

/* Which of them end here is a matter of time, on each rank. */
static void test_some(int count, MPI_Request *request)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    for (long tests = now.tv_nsec / 64 % (4 + 8 * tap.rank); tests > 0; tests--) {
        int ended;
        MPI_Test(&request[tests % count], &ended, MPI_STATUS_IGNORE);
    }
}

/* Of a step: one after the other, or all at once. */
static void reduce_all(const int *layers, int count)
{
    MPI_Request request[MOST];

    for (int k = 0; k < count && !job.at_once; k++)
        reduce(layers[k], job.n[layers[k]]);
    if (!job.at_once)
        return;
    for (int k = 0; k < count; k++) {
        int n = job.n[layers[k]];
        float *buffer = job.buffer + (size_t)layers[k] * LONGEST;
        fill(buffer, layers[k], n);
        MPI_Iallreduce(MPI_IN_PLACE, buffer, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request[k]);
        if (job.tested)
            test_some(k + 1, request);
    }
    for (int k = 0; k < count; k++)
        MPI_Wait(&request[k], MPI_STATUS_IGNORE);
    for (int k = 0; k < count; k++)
        look(job.buffer + (size_t)layers[k] * LONGEST, layers[k], job.n[layers[k]]);
}

static void small(int count)
{
    for (int i = 0; i < count; i++) {
        double one = 1;
        MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void train(void)
{
    int phase = job.step * job.phases / job.steps, order[MOST] = {0}, turn[MOST], live = 0;

    for (int k = 0; k < job.layers; k++) {
        bool frozen = phase > 0 && draw(5, phase, k) % 4 == 0;
        if (!frozen)
            order[live++] = k;
    }
    if (job.cut && draw(6, job.step, 0) % (unsigned)job.cut == 0)
        live = (int)(draw(7, job.step, 0) % (unsigned)(live + 1));
    for (int k = 0; k < live; k++)
        turn[k] = order[job.backward ? live - 1 - k : k];
    reduce_all(turn, live);
    small(job.losses);
    if (job.evaluated && job.step % job.evaluated == job.evaluated - 1) {
        int calls = 1 + (int)(draw(8, job.step, 0) % 3);
        for (int c = 0; c < calls; c++)
            reduce(MOST + (int)draw(9, c, 0) % 2, job.n[draw(10, c, 0) % (unsigned)job.layers]);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = {2048, 3072, 4096};

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    job.seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const char *form = argc > 2 ? argv[2] : "changing";
    bool steady = strcmp(form, "steady") == 0, free = strcmp(form, "changing") == 0;
    job.steps = argc > 3 ? atoi(argv[3]) : 90;
    job.tested = argc > 4 && strcmp(argv[4], "tested") == 0;
    job.at_once = job.tested || (argc > 4 && strcmp(argv[4], "at_once") == 0);
    job.layers = 1 + (int)(draw(0, 0, 0) % 10);
    job.sizes = 1 + (int)(draw(1, 0, 0) % 3);
    for (int k = 0; k < job.layers; k++)
        job.n[k] = counts[draw(2, k, 0) % (unsigned)job.sizes];
    job.alike = draw(3, 0, 0) % 2;
    job.losses = (int)(draw(4, 0, 0) % 3);
    job.backward = draw(11, 0, 0) % 2;
    job.phases = steady ? 1 : 1 + (int)(draw(12, 0, 0) % 3);
    job.cut = steady || draw(13, 0, 0) % 2 ? 0 : 5 + (int)(draw(14, 0, 0) % 20);
    job.evaluated = steady || draw(15, 0, 0) % 2 ? 0 : 3 + (int)(draw(16, 0, 0) % 20);
    if (strcmp(form, "rules") == 0) {
        for (int s = 0; s < job.sizes && tap.rank == 0; s++) {
            int calls = 0;
            for (int k = 0; k < job.layers; k++)
                calls += job.n[k] == counts[s];
            if (calls > 0)
                printf("count=%d:calls=%d;", counts[s], calls);
        }
        MPI_Finalize();
        return 0;
    }
    job.first_astray = -1;
    job.buffer = input_alloc(MOST * LONGEST * sizeof(float));
    for (job.step = 0; job.step < job.steps; job.step++)
        train();
    tap_note(
        "layers %d sizes %d alike %d losses %d phases %d cut %d evaluated %d: sparse %ld of %ld, "
        "astray %ld from step %d in %d",
        job.layers, job.sizes, job.alike, job.losses, job.phases, job.cut, job.evaluated,
        job.sparse, job.calls, job.astray, job.first_astray, job.culprit);
    tap_note("digest %016llx", (unsigned long long)job.digest);
    tap_ok(free || job.astray == 0, "no gradient leaves a trace in another");
    tap_ok(free || job.sparse > job.calls / 2, "most calls are sparse");
    MPI_Finalize();
    return tap_end();
}
