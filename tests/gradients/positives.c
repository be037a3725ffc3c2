/* positives PROGRAM [STEPS [SEED [plain]]]: what trainings reduce, in the ways they reduce it. Each
 * gradient is to be found within 20 steps and sparse from there on, on all ranks alike; none may
 * leave a trace in another. plain: asks for nothing.
 *
 * The data looks like gradients: noise of both signs, independent between ranks, a part that all
 * ranks share for some steps, a little that stays from step to step, blocks of unlike size. Every
 * layer is zero in a window of its own, so that what comes from another layer shows.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

enum { MOST = 100, BLOCK = 256, FOUND = 20, POOL = 8 };
enum { ALIKE = -1, EMBEDDED = -2, PAIRS = -3, MIRRORED = -4 }; /* grows */
enum { FRESH = -1, RANK0 = -2 };                               /* buffers */
enum { FORWARD, BACKWARD, SHUFFLED };                          /* order */
enum { ONE_SITE, TWO_SITES, IRREGULAR_SITES, MOVING };         /* sites */

struct layer {
    int n, index;
    float *kept;
    int calls, first;     /* since it came, and the step in which it did */
    int last_dense;       /* step */
    double bytes, sparse; /* of its calls in the second half */
};

/* One program: its layers, where their gradients lie, in which order and from where they are
 * reduced, and what else is between. */
struct program {
    const char *name;
    int layers, n, grows; /* elements of the first layer, and more of each; ALIKE, EMBEDDED, PAIRS,
                           MIRRORED */
    int buffers;          /* so many in turn; 0: each layer its own; FRESH, RANK0 */
    int order, sites;
    int group;                      /* layers in one buffer */
    int before, each, half, after;  /* scalars: before the step, behind each layer, ... */
    int norm;                       /* a sum over all layers, behind the step */
    int evaluated, ragged, printed; /* every so many steps */
    int grown, moved;               /* a layer more every so many steps; from that one on */
    bool domain;
    int biases; /* elements of a small sum behind each layer */
    bool alike; /* all layers but the first and the last have one norm, and no layer a large part of
                   its own that is zero */
};

struct job {
    const struct program *program;
    int step, steps, count;
    uint64_t seed;
    struct layer layer[MOST];
    float *pool[POOL]; /* of buffers in turn */
    long astray;       /* entries that came from another layer */
    struct hashes hashes;
    uint64_t bits; /* of all results */
};

static int window_width(const struct job *job, const struct layer *l)
{
    return l->n / (job->program->alike ? 64 : 16);
}

static int window_first(const struct layer *l)
{
    return (int)((long)l->index * 37 % 16) * (l->n / 16);
}

static float value(const struct job *job, const struct layer *l, double size, int i)
{
    uint64_t place = (uint64_t)l->index << 32 | (uint64_t)i;
    int step = job->step, rank = tap.rank;
    double own = gradient_fraction(input_word(job->seed + (uint64_t)step, rank, place));
    double shared = gradient_fraction(input_word(job->seed + 1000 + (uint64_t)step / 12, 0, place));
    double steady = gradient_fraction(input_word(7, 0, place));

    if (!job->program->alike)
        size /= 1 + l->index % 5;
    else if (l->index == 0 || l->index == job->count - 1)
        size *= l->index == 0 ? 64 : 1.0 / 64;
    return (float)(size * (own + 0.5 * shared + 0.1 * steady));
}

static void fill(const struct job *job, const struct layer *l, float *g)
{
    int first = window_first(l), width = window_width(job, l);
    double size = 1;

    for (int i = 0; i < l->n; i++) {
        if (i % BLOCK == 0 && !job->program->alike)
            size = exp(2 * gradient_fraction(input_word(8, l->index, (uint64_t)(i / BLOCK))));
        g[i] = i >= first && i < first + width ? 0 : value(job, l, size, i);
    }
}

/* A lossy result is zero in most places, an exact one hardly anywhere. */
static void look(struct job *job, struct layer *l, const float *sum)
{
    int zeros = 0, first = window_first(l), width = window_width(job, l);

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

/* What follows the calls keeps the compiler from turning them into jumps. */
__attribute__((noinline)) static void reduce_here(struct job *job, struct layer *l, float *g)
{
    MPI_Allreduce(MPI_IN_PLACE, g, l->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    look(job, l, g);
}

__attribute__((noinline)) static void reduce_there(struct job *job, struct layer *l, float *g)
{
    int status = MPI_Allreduce(MPI_IN_PLACE, g, l->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);

    if (status == MPI_SUCCESS)
        look(job, l, g);
}

static bool is_there(const struct job *job, const struct layer *l)
{
    switch (job->program->sites) {
    case TWO_SITES:
        return l->index % 2 == 1;
    case IRREGULAR_SITES:
        return input_word(job->seed + 5, job->step, (uint64_t)l->index) % 2 == 1;
    case MOVING:
        return job->step >= job->program->moved;
    default:
        return false;
    }
}

static void reduce(struct job *job, struct layer *l, float *g)
{
    (is_there(job, l) ? reduce_there : reduce_here)(job, l, g);
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

/* ---- a step ---- */

/* Where the gradient lies in this step, and what else this rank has allocated before it. */
static float *buffer_of(const struct job *job, const struct layer *l, void **other)
{
    int buffers = job->program->buffers;

    *other = NULL;
    if (buffers == 0)
        return l->kept;
    if (buffers == FRESH) {
        *other = (job->step + tap.rank) % 3 == 0 ? malloc((size_t)l->n * 4) : NULL;
        return malloc((size_t)l->n * sizeof(float));
    }
    if (buffers == RANK0)
        buffers = tap.rank == 0 ? 2 : 1;
    return job->pool[job->step % buffers];
}

/* From the middle on one rank's gradients are several times as large, or of other places. */
static void change_domain(const struct job *job, const struct layer *l, float *g)
{
    for (int i = 0; i < l->n && job->step >= job->steps / 2 && tap.rank == 0; i++)
        g[i] *= i < l->n / 2 ? 8 : 0.5F;
}

static void train(struct job *job, struct layer *l)
{
    void *other;
    float *g = buffer_of(job, l, &other);

    fill(job, l, g);
    if (job->program->domain)
        change_domain(job, l, g);
    reduce(job, l, g);
    if (job->program->buffers == FRESH)
        free(g);
    free(other);
}

static void scalars(int count)
{
    for (int i = 0; i < count; i++)
        scalar(i);
}

static void shuffle(const struct job *job, int *order)
{
    for (int k = job->count - 1; k > 0; k--) {
        int other = (int)(input_word(job->seed + 9, job->step, (uint64_t)k) % (unsigned)(k + 1));
        int swapped = order[k];
        order[k] = order[other];
        order[other] = swapped;
    }
}

static bool is_due(const struct job *job, int every)
{
    return every > 0 && job->step % every == every - 1;
}

static int layers_now(const struct job *job)
{
    int grown = job->program->grown, live = 2 + (grown > 0 ? job->step / grown : 0);

    return grown > 0 && live < job->count ? live : job->count;
}

static void go_through(struct job *job)
{
    const struct program *p = job->program;
    int order[MOST], count = layers_now(job), group = p->group > 0 ? p->group : 1;

    for (int k = 0; k < job->count; k++)
        order[k] = p->order == BACKWARD ? job->count - 1 - k : k;
    if (p->order == SHUFFLED)
        shuffle(job, order);
    for (int k = 0; k + group <= count; k += group) {
        train(job, &job->layer[order[k]]);
        scalars(p->each);
        if (p->biases > 0)
            other_sums(1, p->biases);
        if (k + group == count / 2)
            scalars(p->half);
    }
}

static void step(struct job *job)
{
    const struct program *p = job->program;

    if (p->moved > 0 && job->step == p->moved)
        for (int k = 0; k < job->count; k++)
            job->layer[k].calls = 0; /* to be found anew */
    scalars(p->before);
    go_through(job);
    scalars(is_due(job, p->printed) ? 1 : p->after);
    if (p->norm > 0)
        other_sums(1, p->norm);
    if (is_due(job, p->evaluated))
        other_sums(5, 1500);
    if (is_due(job, p->ragged))
        other_sums(1, 1600 + job->step);
}

static const struct program programs[] = {
    {.name = "kept", .layers = 5, .n = 4096, .grows = 512, .order = BACKWARD, .after = 1},
    {.name = "single", .layers = 1, .n = 8192, .after = 1},
    {.name = "alone", .layers = 1, .n = 8192},
    {.name = "printed", .layers = 1, .n = 8192, .printed = 10},
    {.name = "fresh", .layers = 4, .n = 4096, .grows = 512, .buffers = FRESH},
    {.name = "one_set", .layers = 2, .n = 4096, .grows = 512, .buffers = 1},
    {.name = "two_sets", .layers = 2, .n = 4096, .grows = 512, .buffers = 2},
    {.name = "three_sets", .layers = 2, .n = 4096, .grows = 512, .buffers = 3},
    {.name = "pool_of_six", .layers = 1, .n = 8192, .buffers = 6},
    {.name = "one_rank_in_turn", .layers = 2, .n = 4096, .grows = 512, .buffers = RANK0},
    {.name = "layers8", .layers = 9, .n = 4096, .grows = EMBEDDED, .order = BACKWARD, .after = 1},
    {.name = "layers96", .layers = 97, .n = 2048, .grows = EMBEDDED, .order = BACKWARD, .after = 1},
    {.name = "equal8", .layers = 8, .n = 4096, .grows = ALIKE, .after = 1},
    {.name = "equal96", .layers = 96, .n = 2048, .grows = ALIKE},
    {.name = "pairs", .layers = 17, .n = 4096, .grows = PAIRS, .order = BACKWARD},
    {.name = "changing_order", .layers = 6, .n = 4096, .grows = 512, .order = SHUFFLED},
    {.name = "fused", .layers = 6, .n = 4096, .grows = 512, .group = 2},
    {.name = "accumulated", .layers = 3, .n = 4096, .grows = 512, .before = 4, .order = BACKWARD},
    {.name = "evaluated", .layers = 4, .n = 4096, .grows = 512, .evaluated = 10, .ragged = 7},
    {.name = "clipped", .layers = 4, .n = 4096, .grows = 512, .each = 1, .norm = 1024},
    {.name = "gan", .layers = 6, .n = 4096, .grows = 512, .half = 1, .after = 1},
    {.name = "unfrozen", .layers = 5, .n = 4096, .grows = 512, .grown = 10},
    {.name = "new_domain", .layers = 4, .n = 4096, .grows = 512, .domain = true},
    {.name = "two_sites", .layers = 1, .n = 8192, .sites = IRREGULAR_SITES},
    {.name = "two_sites_each", .layers = 3, .n = 4096, .grows = 512, .sites = IRREGULAR_SITES},
    {.name = "split_by_site", .layers = 2, .n = 4096, .grows = ALIKE, .sites = TWO_SITES},
    {.name = "moved", .layers = 3, .n = 4096, .grows = 512, .sites = MOVING, .moved = 20},
    {.name = "biases", .layers = 8, .n = 4096, .grows = ALIKE, .biases = 64, .alike = true},
    {.name = "biases_apart",
     .layers = 8,
     .n = 4096,
     .grows = ALIKE,
     .biases = 64,
     .alike = true,
     .after = 1,
     .evaluated = 10,
     .ragged = 7},
    {.name = "there_and_back", .layers = 6, .n = 4096, .grows = MIRRORED},
};

/* Elements of a layer. An embedding is of another count than the equal layers; weights and biases
 * take turns; an autoencoder has the same counts there and back. */
static int size_of(const struct program *p, int k)
{
    switch (p->grows) {
    case ALIKE:
        return p->n;
    case EMBEDDED:
        return p->n + (k == 0) * 1024;
    case PAIRS:
        return k == 0 ? p->n + 1024 : k % 2 == 0 ? p->n : p->n / 2;
    case MIRRORED:
        return p->n + 512 * (k < p->layers / 2 ? k : p->layers - 1 - k);
    default:
        return p->n + p->grows * k;
    }
}

static void make_layers(struct job *job)
{
    const struct program *p = job->program;

    job->count = p->layers;
    for (int k = 0; k < p->layers; k++) {
        int size = size_of(p, k);
        job->layer[k] = (struct layer){.n = size,
                                       .index = k,
                                       .kept = input_alloc((size_t)size * sizeof(float)),
                                       .last_dense = -1};
    }
    for (int b = 0; b < POOL; b++)
        job->pool[b] = input_alloc((size_t)(p->n + 1024 + p->layers * 512) * sizeof(float));
}

static void tell_counts(const struct job *job)
{
    char text[2000];
    int used = 0;

    for (int k = 0; k < job->count && used < (int)sizeof text - 16; k++)
        if (job->layer[k].calls > 0)
            used += snprintf(text + used, sizeof text - (size_t)used, " %d", job->layer[k].n);
    tap_note("counts%s", text);
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

static const struct program *program_of(const char *name)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, name) == 0)
            return &programs[i];
    return NULL;
}

static int list(void)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        puts(programs[i].name);
    return 0;
}

int main(int argc, char **argv)
{
    static struct job job;

    if (argc > 1 && strcmp(argv[1], "list") == 0)
        return list();
    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    job.program = program_of(argc > 1 ? argv[1] : "kept");
    if (!job.program)
        MPI_Abort(MPI_COMM_WORLD, 2);
    job.steps = argc > 2 ? atoi(argv[2]) : 80;
    job.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    make_layers(&job);
    for (job.step = 0; job.step < job.steps; job.step++)
        step(&job);
    tell_counts(&job);
    if (argc <= 4)
        judge(&job);
    MPI_Finalize();
    return tap_end();
}
