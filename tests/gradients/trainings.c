/* trainings KIND [steps=STEPS] [seed=SEED]: data-parallel trainings of small networks, which sum
 * their gradients over the ranks, by batches of data that are new to every rank in every step. KIND
 * list: the names of all kinds. Prints the loss at the beginning and at the end, and the counts of
 * the gradients, each of which is summed once in a step.
 */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 64, HIDDEN = 48, CLASSES = 10, WORDS = 512, WIDTH = 16, MOST = 16384 };

static const struct kind {
    const char *name;
    int batch,
        first; /* of a rank; of the data set, where batches take examples in turn: 0: all new */
    double rate, momentum, noise;
    bool hidden, words, halves; /* halves: the rate falls */
    int groups;                 /* calls per step */
} kinds[] = {
    {.name = "linear", .batch = 8, .rate = 0.1, .groups = 1},
    {.name = "network", .batch = 8, .rate = 0.1, .hidden = true, .groups = 1},
    {.name = "single", .batch = 1, .rate = 0.02, .hidden = true, .groups = 1},
    {.name = "large_batch", .batch = 256, .rate = 0.2, .hidden = true, .groups = 1},
    {.name = "slow", .batch = 128, .rate = 0.05, .hidden = true, .groups = 1},
    {.name = "noisy", .batch = 2, .rate = 0.01, .noise = 6, .hidden = true, .groups = 1},
    {.name = "momentum", .batch = 8, .rate = 0.02, .momentum = 0.9, .hidden = true, .groups = 1},
    {.name = "decay", .batch = 16, .rate = 0.4, .hidden = true, .halves = true, .groups = 1},
    {.name = "words", .batch = 32, .rate = 0.5, .words = true, .groups = 1},
    {.name = "epochs", .batch = 8, .first = 1024, .rate = 0.1, .hidden = true, .groups = 1},
    {.name = "layers", .batch = 8, .rate = 0.1, .hidden = true, .groups = 2},
};

static struct {
    const struct kind *kind;
    int rank, ranks, steps, step, n;
    uint64_t seed;
    double w[MOST], v[MOST], teacher[INPUTS * CLASSES];
    float g[MOST];
} job;

static double uniform(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = (job.seed * 0x9e3779b97f4a7c15u + a) * 0xd6e8feb86659fd93u;

    h = (h ^ h >> 32 ^ b) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 29 ^ c) * 0x94d049bb133111ebu;
    h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
    return (double)((h ^ h >> 32) >> 11) * 0x1p-53;
}

static double normal(uint64_t a, uint64_t b, uint64_t c)
{
    return sqrt(-2 * log(uniform(a, b, 2 * c) + 1e-300)) * cos(2 * M_PI * uniform(a, b, 2 * c + 1));
}

/* Softmax of z in place; returns the loss for the class. */
static double softmax(double *z, int class)
{
    double most = z[0], sum = 0;

    for (int k = 1; k < CLASSES; k++)
        most = fmax(most, z[k]);
    for (int k = 0; k < CLASSES; k++)
        sum += z[k] = exp(z[k] - most);
    for (int k = 0; k < CLASSES; k++)
        z[k] /= sum;
    return -log(z[class] + 1e-300);
}

/* Inputs and class of an example, by a linear teacher with noise. */
static int example(uint64_t id, double *x)
{
    int best = 0;
    double most = -INFINITY;

    for (int i = 0; i < INPUTS; i++)
        x[i] = normal(1, id, (uint64_t)i) * pow(i + 1, -0.3);
    for (int k = 0; k < CLASSES; k++) {
        double z = (0.3 + job.kind->noise) * normal(2, id, (uint64_t)k);
        for (int i = 0; i < INPUTS; i++)
            z += x[i] * job.teacher[i * CLASSES + k];
        if (z > most) {
            most = z;
            best = k;
        }
    }
    return best;
}

/* Weights from x to y and their gradient: y += x W, or back. */
static void forward(const double *w, const double *x, int nx, double *y, int ny)
{
    memset(y, 0, (size_t)ny * sizeof *y);
    for (int i = 0; i < nx; i++)
        for (int k = 0; k < ny && x[i] != 0; k++)
            y[k] += x[i] * w[i * ny + k];
}

static void backward(float *g, const double *x, int nx, const double *d, int ny)
{
    for (int i = 0; i < nx; i++)
        for (int k = 0; k < ny && x[i] != 0; k++)
            g[i * ny + k] += (float)(x[i] * d[k]);
}

/* One hidden layer of tanh, or none. */
static double learn_network(uint64_t id)
{
    double x[INPUTS], h[HIDDEN], z[CLASSES], d[HIDDEN];
    double *w = job.w, *out = w + INPUTS * HIDDEN;
    int class = example(id, x);

    if (!job.kind->hidden) {
        forward(w, x, INPUTS, z, CLASSES);
        double loss = softmax(z, class);
        z[class] -= 1;
        backward(job.g, x, INPUTS, z, CLASSES);
        return loss;
    }
    forward(w, x, INPUTS, h, HIDDEN);
    for (int j = 0; j < HIDDEN; j++)
        h[j] = tanh(h[j]);
    forward(out, h, HIDDEN, z, CLASSES);
    double loss = softmax(z, class);
    z[class] -= 1;
    for (int j = 0; j < HIDDEN; j++) {
        d[j] = 0;
        for (int k = 0; k < CLASSES; k++)
            d[j] += out[j * CLASSES + k] * z[k];
        d[j] *= 1 - h[j] * h[j];
    }
    backward(job.g + INPUTS * HIDDEN, h, HIDDEN, z, CLASSES);
    backward(job.g, x, INPUTS, d, HIDDEN);
    return loss;
}

/* The next word from the one before, which has a vector of its own: few rows have a gradient. */
static double learn_words(uint64_t id)
{
    int word = (int)(WORDS * pow(uniform(3, id, 0), 3)), class = word % CLASSES;
    double *row = job.w + word * WIDTH, *out = job.w + WORDS * WIDTH, z[CLASSES], d[WIDTH];

    if (uniform(4, id, 0) < 0.3)
        class = (int)(CLASSES * uniform(5, id, 0));
    forward(out, row, WIDTH, z, CLASSES);
    double loss = softmax(z, class);
    z[class] -= 1;
    for (int j = 0; j < WIDTH; j++) {
        d[j] = 0;
        for (int k = 0; k < CLASSES; k++)
            d[j] += out[j * CLASSES + k] * z[k];
    }
    backward(job.g + WORDS * WIDTH, row, WIDTH, z, CLASSES);
    for (int j = 0; j < WIDTH; j++)
        job.g[word * WIDTH + j] += (float)d[j];
    return loss;
}

static void make(void)
{
    const struct kind *k = job.kind;

    for (int i = 0; i < INPUTS * CLASSES; i++)
        job.teacher[i] = normal(6, (uint64_t)i, 0);
    job.n = k->words    ? WORDS * WIDTH + WIDTH * CLASSES
            : k->hidden ? INPUTS * HIDDEN + HIDDEN * CLASSES
                        : INPUTS * CLASSES;
    for (int i = 0; i < job.n; i++)
        job.w[i] = (k->hidden || k->words ? 0.15 : 0.01) * normal(7, (uint64_t)i, 0);
}

__attribute__((noinline)) static void reduce(float *g, int n)
{
    MPI_Allreduce(MPI_IN_PLACE, g, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int first_layer(void)
{
    return job.kind->groups > 1 ? INPUTS * HIDDEN : job.n;
}

/* Of the whole, or the layers one by one. */
static void reduce_gradient(void)
{
    int first = first_layer();

    if (first < job.n)
        reduce(job.g + first, job.n - first);
    reduce(job.g, first);
}

static double step(void)
{
    const struct kind *k = job.kind;
    double loss = 0;

    memset(job.g, 0, sizeof job.g);
    for (int b = 0; b < k->batch; b++) {
        uint64_t drawn = ((uint64_t)job.step * (uint64_t)k->batch + (uint64_t)b);
        if (k->first > 0)
            drawn = (uint64_t)(k->first * uniform(8, drawn, (uint64_t)job.rank));
        uint64_t id = drawn * (uint64_t)job.ranks + (uint64_t)job.rank;
        loss += k->words ? learn_words(id) : learn_network(id);
    }
    reduce_gradient();
    double rate = k->rate / k->batch / job.ranks;
    if (k->halves)
        rate *= pow(0.5, 4.0 * job.step / job.steps);
    for (int i = 0; i < job.n; i++) {
        job.v[i] = k->momentum * job.v[i] + (double)job.g[i];
        job.w[i] -= rate * job.v[i];
    }
    return loss / k->batch;
}

static long number(int argc, char **argv, const char *name, long otherwise)
{
    size_t length = strlen(name);

    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return strtol(argv[i] + length + 1, NULL, 10);
    return otherwise;
}

int main(int argc, char **argv)
{
    double begin = 0, end = 0;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc > 1 && strcmp(argv[1], "list") == 0)
            puts(kinds[i].name);
        else if (argc > 1 && strcmp(argv[1], kinds[i].name) == 0)
            job.kind = &kinds[i];
    if (!job.kind)
        return argc > 1 && strcmp(argv[1], "list") == 0 ? 0 : 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    job.steps = (int)number(argc, argv, "steps", 100);
    job.seed = (uint64_t)number(argc, argv, "seed", 1);
    make();
    for (job.step = 0; job.step < job.steps; job.step++) {
        double loss = step();
        begin += job.step < 10 ? loss / 10 : 0;
        end += job.step >= job.steps - 10 ? loss / 10 : 0;
    }
    if (job.rank == 0)
        printf("# loss %.3f to %.3f\n# counts %d %d\n", begin, end, first_layer(),
               job.n > first_layer() ? job.n - first_layer() : first_layer());
    return MPI_Finalize();
}
