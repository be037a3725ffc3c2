/* scd: distributed block coordinate descent for logistic regression, as in SparCML (Renggli et al.,
 * SC'19): tells the words of one language from the rest.
 *
 * The coordinates are hashed character n-grams, in equal slices over the ranks. In a step each rank
 * takes some coordinates of its slice, one Newton step each, into a vector of updates as long as
 * the slice, zero but for them, and all ranks gather these vectors whole with MPI_Allgather. Each
 * rank keeps all words, all weights and the score of each word.
 */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/apps/app.h"
#include "tests/apps/langid_features.h"

enum call { ALLGATHER, ALLGATHERV, IALLGATHER, IALLGATHERV, CALLS };

static const char *const call_names[CALLS + 1] = {"allgather", "allgatherv", "iallgather",
                                                  "iallgatherv"};

struct options {
    long coordinates, block, epochs, steps, words, seed;
    double rate, l2, progress;
    int call;
    const char *dict, *languages, *positive, *device, *log;
};

/* The training words by columns: the rows of column j are row[begin[j]] to row[begin[j + 1]], in
 * ascending order, a row once for each time the n-gram is in the word. */
struct matrix {
    size_t columns, rows;
    size_t *begin;
    uint32_t *row;
    float *scale; /* of each row: every entry of it has this value */
};

struct model {
    struct matrix x;
    float *weight;  /* padded to ranks * slice */
    float *update;  /* slice */
    float *updates; /* ranks * slice */
    double *score;  /* of each training word */
    bool *label;
    size_t slice;
    uint32_t *mine; /* columns of this rank that hold anything, in the order of this epoch */
    size_t mine_used;
};

struct timing {
    double start, allgather, shown;
    long steps;
    struct log log;
    double nonzero, bytes;
};

static void build_matrix(struct matrix *x, const struct corpus *corpus, size_t columns)
{
    uint32_t column[MAX_FEATURES];
    size_t entries = 0, *next;

    x->columns = columns;
    x->rows = corpus->train;
    x->begin = grow(NULL, columns + 1, sizeof *x->begin);
    next = grow(NULL, columns + 1, sizeof *next);
    x->scale = grow(NULL, x->rows, sizeof *x->scale);
    memset(x->begin, 0, (columns + 1) * sizeof *x->begin);
    for (size_t i = 0; i < x->rows; i++) {
        int found = features(corpus, &corpus->sample[i], columns, column);

        x->scale[i] = (float)(1 / sqrt(found));
        for (int f = 0; f < found; f++)
            x->begin[column[f] + 1]++;
        entries += (size_t)found;
    }
    for (size_t j = 0; j < columns; j++)
        x->begin[j + 1] += x->begin[j];
    memcpy(next, x->begin, (columns + 1) * sizeof *next);
    x->row = grow(NULL, entries, sizeof *x->row);
    for (size_t i = 0; i < x->rows; i++) {
        int found = features(corpus, &corpus->sample[i], columns, column);

        for (int f = 0; f < found; f++)
            x->row[next[column[f]]++] = (uint32_t)i;
    }
    free(next);
}

/* One Newton step along a coordinate, with the largest curvature the logistic loss can have (1/4),
 * so that no step overshoots on its own. */
static float newton(const struct model *m, const struct options *o, size_t j)
{
    const struct matrix *x = &m->x;
    double gradient = 0, squares = 0, n = (double)x->rows;

    for (size_t e = x->begin[j]; e < x->begin[j + 1];) {
        uint32_t i = x->row[e];
        double value = 0;

        for (; e < x->begin[j + 1] && x->row[e] == i; e++)
            value += (double)x->scale[i];
        gradient += value * (1 / (1 + exp(-m->score[i])) - m->label[i]);
        squares += value * value;
    }
    gradient += o->l2 * n * (double)m->weight[j];
    return (float)(-o->rate * gradient / (squares / 4 + o->l2 * n));
}

/* Adds the updates of all ranks to weights and scores, in ascending order on every rank. */
static void apply(struct model *m, double *nonzero)
{
    for (size_t j = 0; j < m->x.columns; j++) {
        float update = m->updates[j];

        if (update == 0)
            continue;
        m->weight[j] += update;
        for (size_t e = m->x.begin[j]; e < m->x.begin[j + 1]; e++)
            m->score[m->x.row[e]] += (double)update * (double)m->x.scale[m->x.row[e]];
        *nonzero += 1;
    }
}

static void gather(const struct model *m, int call, int *counts, int *places)
{
    int n = (int)m->slice;
    MPI_Request request = MPI_REQUEST_NULL;

    for (int r = 0; r < ranks; r++) {
        counts[r] = n;
        places[r] = r * n;
    }
    switch (call) {
    case ALLGATHER:
        MPI_Allgather(m->update, n, MPI_FLOAT, m->updates, n, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case ALLGATHERV:
        MPI_Allgatherv(m->update, n, MPI_FLOAT, m->updates, counts, places, MPI_FLOAT,
                       MPI_COMM_WORLD);
        break;
    case IALLGATHER:
        MPI_Iallgather(m->update, n, MPI_FLOAT, m->updates, n, MPI_FLOAT, MPI_COMM_WORLD, &request);
        break;
    default:
        MPI_Iallgatherv(m->update, n, MPI_FLOAT, m->updates, counts, places, MPI_FLOAT,
                        MPI_COMM_WORLD, &request);
        break;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A step on the columns of this rank from `first` on. */
static void step(struct model *m, const struct options *o, size_t first, int *counts, int *places,
                 struct timing *timing)
{
    size_t last = first + (size_t)o->block < m->mine_used ? first + (size_t)o->block : m->mine_used;
    size_t offset = m->slice * (size_t)my_rank;
    double before;

    for (size_t c = first; c < last; c++)
        m->update[m->mine[c] - offset] = newton(m, o, m->mine[c]);
    before = MPI_Wtime();
    gather(m, o->call, counts, places);
    timing->allgather += MPI_Wtime() - before;
    apply(m, &timing->nonzero);
    for (size_t c = first; c < last; c++)
        m->update[m->mine[c] - offset] = 0;
    timing->steps++;
}

static double training_loss(const struct model *m, const struct options *o)
{
    double loss = 0, squares = 0;

    for (size_t i = 0; i < m->x.rows; i++) {
        double margin = m->label[i] ? m->score[i] : -m->score[i];
        loss += margin > 0 ? log1p(exp(-margin)) : -margin + log1p(exp(margin));
    }
    for (size_t j = 0; j < m->x.columns; j++)
        squares += (double)m->weight[j] * (double)m->weight[j];
    return loss / (double)m->x.rows + o->l2 / 2 * squares;
}

static double held_out_accuracy(const struct model *m, const struct corpus *corpus, int positive)
{
    uint32_t column[MAX_FEATURES];
    size_t right = 0;

    for (size_t i = corpus->train; i < corpus->samples; i++) {
        int found = features(corpus, &corpus->sample[i], m->x.columns, column);
        double score = 0;

        for (int f = 0; f < found; f++)
            score += (double)m->weight[column[f]];
        right += (score > 0) == (corpus->sample[i].language == positive);
    }
    return (double)right / (double)(corpus->samples - corpus->train);
}

static void shuffle_mine(struct model *m, uint64_t state)
{
    for (size_t i = m->mine_used; i > 1; i--) {
        size_t j = (size_t)(draw(&state) % i);
        uint32_t swapped = m->mine[i - 1];

        m->mine[i - 1] = m->mine[j];
        m->mine[j] = swapped;
    }
}

static void show_progress(const struct options *o, struct timing *timing, long steps)
{
    double now = MPI_Wtime();

    if (my_rank != 0 || o->progress <= 0 || now - timing->shown < o->progress)
        return;
    timing->shown = now;
    fprintf(stderr, "  step %ld of %ld, %.1f s, of which allgather %.1f s\n", timing->steps, steps,
            now - timing->start, timing->allgather);
}

/* An epoch visits each column that holds anything once; ranks that run out send zeros. */
static void train(struct model *m, const struct options *o, const struct corpus *corpus,
                  int positive, struct timing *timing)
{
    long mine = (long)((m->mine_used + (size_t)o->block - 1) / (size_t)o->block), per_epoch, steps;
    int *counts = grow(NULL, (size_t)ranks, sizeof *counts);
    int *places = grow(NULL, (size_t)ranks, sizeof *places);

    MPI_Allreduce(&mine, &per_epoch, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    steps = o->steps > 0 && o->steps < per_epoch * o->epochs ? o->steps : per_epoch * o->epochs;
    for (long epoch = 0; timing->steps < steps; epoch++) {
        double begin = MPI_Wtime();

        shuffle_mine(m, mix((uint64_t)(o->seed * 1000003 + epoch * 1009 + my_rank)));
        for (long s = 0; s < per_epoch && timing->steps < steps; s++) {
            step(m, o, (size_t)(s < mine ? s * o->block : (long)m->mine_used), counts, places,
                 timing);
            if (timing->log.wanted && timing->steps % LOG_STEPS == 0)
                log_step(&timing->log, timing->steps, epoch + 1, MPI_Wtime() - timing->start,
                         timing->allgather, training_loss(m, o), 1);
            show_progress(o, timing, steps);
        }
        double seconds = MPI_Wtime() - begin, loss = training_loss(m, o);
        if (my_rank == 0)
            printf("epoch %ld: %ld steps in all, %.3f s, loss %.6f; held-out accuracy %.3f %%\n",
                   epoch + 1, timing->steps, seconds, loss,
                   100 * held_out_accuracy(m, corpus, positive));
        fflush(stdout);
    }
    free(counts);
    free(places);
}

/* Bytes this host's interface sent so far; 0 where there is none of that name. */
static double sent_bytes(const char *device)
{
    char line[512];
    double sent = 0;
    FILE *file = fopen("/proc/self/net/dev", "r");

    while (file && fgets(line, sizeof line, file)) {
        char name[64];
        unsigned long long out;

        if (sscanf(line, " %63[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %llu", name, &out) == 2 &&
            strcmp(name, device) == 0)
            sent = (double)out;
    }
    if (file)
        fclose(file);
    return sent;
}

static void report(const struct model *m, const struct options *o, const struct corpus *corpus,
                   int positive, struct timing *timing)
{
    double total = MPI_Wtime() - timing->start, allgather, bytes, steps = (double)timing->steps;
    bool same = replicas_agree(m->weight, m->x.columns);

    MPI_Reduce(&timing->allgather, &allgather, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&timing->bytes, &bytes, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (my_rank != 0)
        return;
    printf("result: loss=%.6f accuracy=%.6f steps=%ld coordinates=%zu ranks=%d call=%s "
           "updates=%.1f dense_bytes=%.0f sent_bytes=%.0f allgather_s=%.3f total_s=%.3f "
           "replicas=%s\n",
           training_loss(m, o), held_out_accuracy(m, corpus, positive), timing->steps, m->x.columns,
           ranks, call_names[o->call], timing->nonzero / steps,
           (double)(ranks - 1) * (double)m->slice * sizeof(float) * steps, bytes, allgather, total,
           same ? "identical" : "different");
}

/* Returns false when all that was wanted is the help. */
static bool parse(int argc, char **argv, struct options *o)
{
    const struct app_option table[] = {
        WHOLE("coordinates", "N", &o->coordinates, 1, 2000000000, "number of coordinates"),
        WHOLE("block", "N", &o->block, 1, 100000000, "coordinates per rank and step"),
        WHOLE("epochs", "N", &o->epochs, 1, 1000000, "passes over the coordinates"),
        WHOLE("steps", "N", &o->steps, 0, 1000000000,
              "stop after N steps in all, 0: when the epochs are over"),
        CHOICE("call", "NAME", &o->call, call_names, "what the updates are gathered with\n"),
        NUMBER("rate", "X", &o->rate, 0, 2, "share of a Newton step"),
        NUMBER("l2", "LAMBDA", &o->l2, 0, 1, "weight of the squared norm"),
        WHOLE("words", "N", &o->words, 0, 1000000000, "use N of the words only, 0: all"),
        WHOLE("seed", "N", &o->seed, 0, 1000000000, "order of words and coordinates"),
        TEXT("dict", "DIR", &o->dict, "folder of the word lists"),
        TEXT("languages", "A,B,...", &o->languages, "their names, one list per language\n"),
        TEXT("positive", "NAME", &o->positive, "the list to tell from the others"),
        TEXT("device", "NAME", &o->device, "interface whose bytes are counted"),
        TEXT("log", "FILE", &o->log,
             "write step,epoch,seconds,allreduce_seconds,loss every 10 steps\n(allreduce_seconds: "
             "of the allgather)"),
        NUMBER("progress", "S", &o->progress, 0, 1e9, "a line on stderr every S seconds, 0: none"),
    };

    return read_options(argc, argv, table, sizeof table / sizeof *table);
}

static int language_of(const struct corpus *corpus, const char *name)
{
    for (int l = 0; l < corpus->languages; l++)
        if (strcmp(corpus->language[l], name) == 0)
            return l;
    fail("--positive %s is none of --languages", name);
}

static void make_model(struct model *m, const struct options *o, const struct corpus *corpus,
                       int positive)
{
    size_t columns = (size_t)o->coordinates, padded, first, end;

    build_matrix(&m->x, corpus, columns);
    m->slice = (columns + (size_t)ranks - 1) / (size_t)ranks;
    padded = m->slice * (size_t)ranks;
    m->weight = calloc(padded, sizeof *m->weight);
    m->update = calloc(m->slice, sizeof *m->update);
    m->updates = calloc(padded, sizeof *m->updates);
    m->score = calloc(m->x.rows, sizeof *m->score);
    m->label = calloc(m->x.rows, sizeof *m->label);
    m->mine = calloc(m->slice, sizeof *m->mine);
    if (!m->weight || !m->update || !m->updates || !m->score || !m->label || !m->mine)
        fail("no memory for %zu coordinates", columns);
    for (size_t i = 0; i < m->x.rows; i++)
        m->label[i] = corpus->sample[i].language == positive;
    first = m->slice * (size_t)my_rank;
    end = first + m->slice < columns ? first + m->slice : columns;
    for (size_t j = first; j < end; j++)
        if (m->x.begin[j] < m->x.begin[j + 1])
            m->mine[m->mine_used++] = (uint32_t)j;
}

static void free_all(struct model *m, struct corpus *corpus)
{
    free(m->x.begin);
    free(m->x.row);
    free(m->x.scale);
    free(m->weight);
    free(m->update);
    free(m->updates);
    free(m->score);
    free(m->label);
    free(m->mine);
    free_corpus(corpus);
}

int main(int argc, char **argv)
{
    struct options o = {.coordinates = 1048576,
                        .block = 100,
                        .epochs = 1,
                        .words = 100000,
                        .seed = 1,
                        .rate = 1,
                        .l2 = 1e-7,
                        .progress = 5,
                        .dict = "/usr/share/dict",
                        .positive = "ngerman",
                        .device = "eth0",
                        .languages = ALL_LANGUAGES};
    struct corpus corpus = {0};
    struct model model = {0};
    struct timing timing = {0};
    int positive;

    app_begin(&argc, &argv);
    if (!parse(argc, argv, &o)) {
        MPI_Finalize();
        return 0;
    }
    read_corpus(&corpus, o.dict, o.languages, (size_t)o.words, (uint64_t)o.seed);
    positive = language_of(&corpus, o.positive);
    make_model(&model, &o, &corpus, positive);
    if (my_rank == 0)
        printf("scd: %zu words, %zu of them held out; %zu coordinates, %zu in a slice; %d ranks, "
               "%ld coordinates per rank and step\n",
               corpus.samples, corpus.samples - corpus.train, model.x.columns, model.slice, ranks,
               o.block);
    fflush(stdout);
    log_open(&timing.log, o.log, my_rank);
    MPI_Barrier(MPI_COMM_WORLD);
    timing.start = timing.shown = MPI_Wtime();
    timing.bytes = -sent_bytes(o.device);
    train(&model, &o, &corpus, positive, &timing);
    timing.bytes += sent_bytes(o.device);
    log_close(&timing.log, o.log);
    report(&model, &o, &corpus, positive, &timing);
    free_all(&model, &corpus);
    MPI_Finalize();
    return 0;
}
