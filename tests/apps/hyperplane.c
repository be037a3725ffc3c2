/* hyperplane: data-parallel regression of a hyperplane, as in eager-SGD (Li et al., PPoPP'20,
 * section 7.2.1): y = w x + noise, x of 8,192 numbers between -1 and 1, every rank with its share
 * of the samples in its memory. A step adds up the gradient of the mean squared error over a batch
 * of all ranks together by one MPI_Allreduce; then every rank takes the same step of SGD.
 */
#include <math.h>

#include "tests/apps/half_sum.h"
#include "tests/apps/late.h"

enum { HELD_OUT = 4096 /* samples */, LANES = 16 /* sums side by side, for vectors */ };

struct options {
    long dims, batch, samples, steps, seed;
    double lr, noise;
    int sums;
};

struct samples {
    size_t count;
    int8_t *x; /* count x dims, in 127ths */
    float *y;
};

struct trainer {
    const struct options *o;
    struct late late;
    struct samples train, test; /* of this rank */
    float *weight, *gradient, *sum;
    double start, allreduce;
    long step;
};

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Normal, by the sum of twelve. */
static double normal(uint64_t *state)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += (double)(draw(state) >> 11) / 0x1p53;
    return sum;
}

static void *room(size_t members, size_t size)
{
    void *memory = calloc(members > 0 ? members : 1, size);

    if (!memory)
        fail("no memory for %zu bytes", members * size);
    return memory;
}

static double dot(const int8_t *x, const float *weight, size_t dims)
{
    float lane[LANES] = {0};
    double sum = 0;
    size_t j = 0;

    for (; j + LANES <= dims; j += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (float)x[j + l] * weight[j + l];
    for (; j < dims; j++)
        lane[0] += (float)x[j] * weight[j];
    for (size_t l = 0; l < LANES; l++)
        sum += (double)lane[l];
    return sum / 127;
}

/* A variance of about 1 comes from the plane, one of noise^2 from the noise. */
static void make_samples(const struct options *o, struct samples *s, size_t count,
                         const float *plane, uint64_t state)
{
    size_t dims = (size_t)o->dims;

    s->count = count;
    s->x = room(count * dims, sizeof *s->x);
    s->y = room(count, sizeof *s->y);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < dims; j++)
            s->x[i * dims + j] = (int8_t)((int)(draw(&state) % 255) - 127);
        s->y[i] = (float)(dot(s->x + i * dims, plane, dims) + o->noise * normal(&state));
    }
}

static void make_trainer(struct trainer *t, const struct options *o)
{
    size_t dims = (size_t)o->dims;
    float *plane = room(dims, sizeof *plane);
    uint64_t state = (uint64_t)o->seed, own;

    for (size_t j = 0; j < dims; j++)
        plane[j] = (float)(normal(&state) * sqrt(3 / (double)dims));
    own = state + 1000003 * (uint64_t)(my_rank + 1);
    t->o = o;
    make_samples(o, &t->train, (size_t)(o->samples / ranks), plane, draw(&own));
    make_samples(o, &t->test, (size_t)(HELD_OUT / ranks), plane, draw(&own));
    t->weight = room(dims, sizeof *t->weight);
    t->gradient = room(dims, sizeof *t->gradient);
    t->sum = room(dims, sizeof *t->sum);
    free(plane);
}

static void free_trainer(struct trainer *t)
{
    struct samples *all[] = {&t->train, &t->test};

    for (int i = 0; i < 2; i++) {
        free(all[i]->x);
        free(all[i]->y);
    }
    free(t->weight);
    free(t->gradient);
    free(t->sum);
}

/* Adds the gradient of one sample's squared error; scale: of the mean. */
static void add_gradient(struct trainer *t, size_t i, float scale)
{
    size_t dims = (size_t)t->o->dims;
    const int8_t *x = t->train.x + i * dims;
    float error = (float)dot(x, t->weight, dims) - t->train.y[i];
    float factor = scale * 2 * error / 127;

    for (size_t j = 0; j < dims; j++)
        t->gradient[j] += factor * (float)x[j];
}

static void train_step(struct trainer *t)
{
    const struct options *o = t->o;
    size_t dims = (size_t)o->dims, own = (size_t)(o->batch / ranks);
    double lr = o->lr * (double)(o->steps - t->step) / (double)o->steps, before;

    late_begin(&t->late);
    memset(t->gradient, 0, dims * sizeof *t->gradient);
    for (size_t i = 0; i < own; i++)
        add_gradient(t, ((size_t)t->step * own + i) % t->train.count, 1 / (float)o->batch);
    late_wait(&t->late);
    before = MPI_Wtime();
    add_up(o->sums, t->gradient, t->sum, dims, MPI_COMM_WORLD);
    t->allreduce += MPI_Wtime() - before;
    for (size_t j = 0; j < dims; j++)
        t->weight[j] -= (float)lr * t->sum[j];
    t->step++;
}

/* Mean squared error over the samples of all ranks. Collective. */
static double mean_loss(const struct trainer *t, const struct samples *s)
{
    size_t dims = (size_t)t->o->dims;
    double mine[2] = {0, (double)s->count}, all[2];

    for (size_t i = 0; i < s->count; i++) {
        double error = dot(s->x + i * dims, t->weight, dims) - (double)s->y[i];
        mine[0] += error * error;
    }
    PMPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all[0] / all[1];
}

static void report(const struct trainer *t, double total)
{
    bool same = replicas_agree(t->weight, (size_t)t->o->dims);
    double loss = mean_loss(t, &t->train), test_loss = mean_loss(t, &t->test), allreduce;
    double model = late_model_seconds(&t->late);

    MPI_Reduce(&t->allreduce, &allreduce, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (my_rank == 0)
        printf("result: loss=%.6f test_loss=%.6f allreduce_s=%.3f total_s=%.3f model_s=%.3f "
               "replicas=%s steps=%ld weights=%ld ranks=%d\n",
               loss, test_loss, allreduce, total, model, same ? "identical" : "different", t->step,
               t->o->dims, ranks);
}

/* Returns false when all that was wanted is the help. */
static bool parse(int argc, char **argv, struct options *o, struct late *late)
{
    const struct app_option table[] = {
        WHOLE("dims", "N", &o->dims, 1, 100000000, "of the hyperplane"),
        WHOLE("batch", "N", &o->batch, 1, 100000000, "samples per step, of all ranks together"),
        WHOLE("samples", "N", &o->samples, 1, 100000000, "to train on, of all ranks together"),
        WHOLE("steps", "N", &o->steps, 1, 1000000000, "in all"),
        NUMBER("lr", "X", &o->lr, 0, 1e9, "learning rate, falls to 0"),
        NUMBER("noise", "X", &o->noise, 0, 1e9, "standard deviation of what no plane explains"),
        WHOLE("seed", "N", &o->seed, 0, 1000000000, "of the samples and of who is late"),
        CHOICE("sums", "HOW", &o->sums, sums_names, SUMS_HELP),
        LATE_OPTIONS(late),
    };

    if (!read_options(argc, argv, table, sizeof table / sizeof *table))
        return false;
    if (o->batch < ranks || o->samples < ranks)
        fail("--batch and --samples must be %d or more, the number of ranks", ranks);
    late_open(late, o->seed);
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {.dims = 8192,
                        .batch = 2048,
                        .samples = 32768,
                        .steps = 64,
                        .seed = 1,
                        .lr = 0.15,
                        .noise = 0.5};
    struct trainer t = {.o = &o};

    app_begin(&argc, &argv);
    if (!parse(argc, argv, &o, &t.late)) {
        MPI_Finalize();
        return 0;
    }
    make_trainer(&t, &o);
    MPI_Barrier(MPI_COMM_WORLD);
    t.start = MPI_Wtime();
    while (t.step < o.steps)
        train_step(&t);
    MPI_Barrier(MPI_COMM_WORLD); /* the last rank has its last result */
    report(&t, MPI_Wtime() - t.start);
    free_trainer(&t);
    MPI_Finalize();
    return 0;
}
