/* positives MODE [STEPS]: what trainings reduce, in the ways they reduce it. Each gradient is to be
 * found within 20 steps and sparse from there on, on all ranks alike; none may leave a trace in
 * another.
 *
 * The data looks like gradients: noise of both signs, independent between ranks, a part that all
 * ranks share, a little that stays from step to step, blocks of unlike size. Every layer is zero in
 * a window of its own, so that what comes from another layer shows.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/gradient.h"
#include "tests/mpi/tap.h"

enum { MOST = 100, BLOCK = 256, FOUND = 20, POOL = 8 };

struct layer {
    int n, index;
    float *kept;
    int calls, first;     /* since it came, and the step in which it did */
    int last_dense;       /* step */
    double bytes, sparse; /* of its calls in the second half */
};

struct job {
    int step, steps, count;
    struct layer layer[MOST];
    float *pool[POOL]; /* of buffers in turn */
    long astray;       /* entries that came from another layer */
    struct hashes hashes;
    uint64_t bits; /* of all results */
};

static int window_first(const struct layer *l)
{
    return (int)((long)l->index * 37 % 16) * (l->n / 16);
}

static float value(const struct job *job, const struct layer *l, double size, int i)
{
    uint64_t place = (uint64_t)l->index << 32 | (uint64_t)i;
    int step = job->step, rank = tap.rank;
    double own = gradient_fraction(input_word(1 + (uint64_t)step, rank, place));
    double shared = gradient_fraction(input_word(1001 + (uint64_t)step, 0, place));
    double steady = gradient_fraction(input_word(7, 0, place));

    return (float)(size * (own + 0.5 * shared + 0.1 * steady) / (1 + l->index % 5));
}

static void fill(const struct job *job, const struct layer *l, float *g)
{
    int first = window_first(l);
    double size = 1;

    for (int i = 0; i < l->n; i++) {
        if (i % BLOCK == 0)
            size = exp(2 * gradient_fraction(input_word(8, l->index, (uint64_t)(i / BLOCK))));
        g[i] = i >= first && i < first + l->n / 16 ? 0 : value(job, l, size, i);
    }
}

/* A lossy result is zero in most places, an exact one hardly anywhere. */
static void look(struct job *job, struct layer *l, const float *sum)
{
    int zeros = 0, first = window_first(l), width = l->n / 16;

    for (int i = 0; i < l->n; i++) {
        bool window = i >= first && i < first + width;
        zeros += !window && sum[i] == 0;
        job->astray += window && sum[i] != 0;
    }
    bool sparse = zeros > (l->n - width) / 2;
    if (l->calls++ == 0)
        l->first = job->step;
    if (!sparse)
        l->last_dense = job->step;
    if (job->step >= job->steps / 2) {
        l->bytes += l->n;
        l->sparse += sparse ? l->n : 0;
    }
    job->bits = gradient_hash(job->bits, sum, (size_t)l->n * sizeof *sum);
    hashes_add(&job->hashes, gradient_hash(1, sum, (size_t)l->n * sizeof *sum));
}

/* What follows the call keeps the compiler from turning it into a jump. */
__attribute__((noinline)) static void reduce(struct job *job, struct layer *l, float *g)
{
    MPI_Allreduce(MPI_IN_PLACE, g, l->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    look(job, l, g);
}

static void reduce_kept(struct job *job, int k)
{
    fill(job, &job->layer[k], job->layer[k].kept);
    reduce(job, &job->layer[k], job->layer[k].kept);
}

static void all_kept(struct job *job)
{
    for (int k = job->count - 1; k >= 0; k--)
        reduce_kept(job, k);
}

/* A scalar, such as a loss: fewer elements than MIN_COUNT. */
static double scalar(double mine)
{
    double sum;

    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* Sums of something else, of counts of their own. */
static void other_sums(int calls, int n)
{
    float *sums = calloc((size_t)n + 8, sizeof *sums);

    for (int c = 0; c < calls; c++) {
        for (int i = 0; i < n; i++)
            sums[i] = 1;
        MPI_Allreduce(MPI_IN_PLACE, sums, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    free(sums);
}

/* ---- modes: one step each ---- */

static void kept(struct job *job)
{
    all_kept(job);
    scalar(job->step);
}

/* Arrays that are made anew; what else a rank allocates decides where they come to lie. */
static void fresh(struct job *job)
{
    for (int k = 0; k < job->count; k++) {
        struct layer *l = &job->layer[k];
        void *other = (job->step + tap.rank) % 3 == 0 ? malloc((size_t)l->n * 4) : NULL;
        float *g = malloc((size_t)l->n * sizeof *g);
        fill(job, l, g);
        reduce(job, l, g);
        free(g);
        free(other);
    }
}

static void in_turn(struct job *job, int buffers)
{
    for (int k = 0; k < job->count; k++) {
        float *g = job->pool[job->step % buffers];
        fill(job, &job->layer[k], g);
        reduce(job, &job->layer[k], g);
    }
}

static void one_set(struct job *job)
{
    in_turn(job, 1);
}

static void two_sets(struct job *job)
{
    in_turn(job, 2);
}

static void three_sets(struct job *job)
{
    in_turn(job, 3);
}

static void pool_of_six(struct job *job)
{
    in_turn(job, 6);
}

static void one_rank_in_turn(struct job *job)
{
    in_turn(job, tap.rank == 0 ? 2 : 1);
}

static void changing_order(struct job *job)
{
    int order[MOST];

    for (int k = 0; k < job->count; k++)
        order[k] = k;
    for (int k = job->count - 1; k > 0; k--) {
        int other = (int)(input_word(9, job->step, (uint64_t)k) % (unsigned)(k + 1));
        int swapped = order[k];
        order[k] = order[other];
        order[other] = swapped;
    }
    for (int k = 0; k < job->count; k++)
        reduce_kept(job, order[k]);
}

/* Two layers each in one buffer. */
static void fused(struct job *job)
{
    for (int k = 0; k + 1 < job->count; k += 2) {
        struct layer both = job->layer[k];
        fill(job, &job->layer[k], job->pool[0]);
        reduce(job, &both, job->pool[0]);
        job->layer[k] = both;
    }
}

static void accumulated(struct job *job)
{
    for (int batch = 0; batch < 4; batch++)
        scalar(batch);
    all_kept(job);
}

static void evaluated(struct job *job)
{
    all_kept(job);
    if (job->step % 10 == 9)
        other_sums(5, 1500);
    if (job->step % 7 == 6)
        other_sums(1, 1600 + job->step);
}

static void clipped(struct job *job)
{
    for (int k = 0; k < job->count; k++) {
        reduce_kept(job, k);
        scalar(k);
    }
    other_sums(1, 1024);
}

/* Discriminator and generator by turns. */
static void gan(struct job *job)
{
    int half = job->count / 2;

    for (int k = 0; k < half; k++)
        reduce_kept(job, k);
    scalar(1);
    for (int k = half; k < job->count; k++)
        reduce_kept(job, k);
    scalar(2);
}

/* A further layer every ten steps. */
static void unfrozen(struct job *job)
{
    int live = 2 + job->step / 10;

    for (int k = 0; k < job->count && k < live; k++)
        reduce_kept(job, k);
}

/* From the middle on one rank's gradients are several times as large, or of other places. */
static void new_domain(struct job *job)
{
    for (int k = 0; k < job->count; k++) {
        struct layer *l = &job->layer[k];
        fill(job, l, l->kept);
        for (int i = 0; i < l->n && job->step >= job->steps / 2 && tap.rank == 0; i++)
            l->kept[i] *= i < l->n / 2 ? 8 : 0.5F;
        reduce(job, l, l->kept);
    }
}

static const struct {
    const char *name;
    void (*step)(struct job *job);
    int layers, n, grows;
} modes[] = {
    {"kept", kept, 5, 4096, 512},
    {"single", kept, 1, 8192, 0},
    {"fresh", fresh, 4, 4096, 512},
    {"one_set", one_set, 2, 4096, 512},
    {"two_sets", two_sets, 2, 4096, 512},
    {"three_sets", three_sets, 2, 4096, 512},
    {"pool_of_six", pool_of_six, 1, 8192, 0},
    {"one_rank_in_turn", one_rank_in_turn, 2, 4096, 512},
    {"layers8", kept, 9, 4096, -1},
    {"layers96", kept, 97, 2048, -1},
    {"changing_order", changing_order, 6, 4096, 512},
    {"fused", fused, 6, 4096, 512},
    {"accumulated", accumulated, 3, 4096, 512},
    {"evaluated", evaluated, 4, 4096, 512},
    {"clipped", clipped, 4, 4096, 512},
    {"gan", gan, 6, 4096, 512},
    {"unfrozen", unfrozen, 5, 4096, 512},
    {"new_domain", new_domain, 4, 4096, 512},
};

/* Equal layers: the first, an embedding, is of another count. */
static void make_layers(struct job *job, int count, int n, int grows)
{
    job->count = count;
    for (int k = 0; k < count; k++) {
        int size = grows < 0 ? n + (k == 0) * 1024 : n + grows * k;
        job->layer[k] = (struct layer){.n = size,
                                       .index = k,
                                       .kept = input_alloc((size_t)size * sizeof(float)),
                                       .last_dense = -1};
    }
    for (int b = 0; b < POOL; b++)
        job->pool[b] = input_alloc((size_t)(n + 1024 + count * 512) * sizeof(float));
}

static void judge(struct job *job)
{
    double bytes = 0, sparse = 0;
    int found = 0, late = -1, differ = hashes_differ(&job->hashes, tap.rank, tap.size);

    for (int k = 0; k < job->count; k++) {
        const struct layer *l = &job->layer[k];
        int took = l->last_dense - l->first + 1;
        bytes += l->bytes;
        sparse += l->sparse;
        if (l->calls > 0 && took > found) {
            found = took;
            late = k;
        }
    }
    tap_note("sparse %.1f %%, found after %d steps (layer %d), astray %ld", 100 * sparse / bytes,
             found, late, job->astray);
    tap_note("bits %016llx", (unsigned long long)job->bits);
    tap_ok(sparse >= 0.9 * bytes, "nine tenths of the second half are sparse");
    tap_ok(found <= FOUND, "every gradient is found within %d steps, and stays", FOUND);
    tap_ok(job->astray == 0, "no gradient leaves a trace in another");
    tap_ok(differ < 0, "all ranks hold the same bits");
}

int main(int argc, char **argv)
{
    static struct job job;
    const char *name = argc > 1 ? argv[1] : "kept";
    size_t mode = 0;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    while (mode < sizeof modes / sizeof *modes && strcmp(modes[mode].name, name) != 0)
        mode++;
    if (mode == sizeof modes / sizeof *modes)
        MPI_Abort(MPI_COMM_WORLD, 2);
    job.steps = argc > 2 ? atoi(argv[2]) : 80;
    make_layers(&job, modes[mode].layers, modes[mode].n, modes[mode].grows);
    for (job.step = 0; job.step < job.steps; job.step++)
        modes[mode].step(&job);
    judge(&job);
    MPI_Finalize();
    return tap_end();
}
