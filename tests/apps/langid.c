/* langid: a data-parallel linear classifier that tells the language of a single word.
 *
 * Samples are the words of word lists, features are hashed character n-grams, the model is one
 * weight per (bucket, language), trained by minibatch SGD. Every step adds up the dense gradient
 * of all weights over the ranks with one blocking MPI_Allreduce, as data-parallel programs do.
 *
 * Losses: logistic is the softmax cross entropy; hinge is the multiclass hinge of Crammer and
 * Singer (JMLR 2, 2001), whose gradient is zero where the margin is kept.
 */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/apps/app.h"
#include "tests/apps/half_sum.h"
#include "tests/apps/langid_features.h"

enum loss { LOGISTIC, HINGE };

static const char *const loss_names[] = {"logistic", "hinge", NULL};

struct options {
    int loss, sums;
    long epochs, batch, dim, steps, words, seed;
    double lr, l2, progress;
    bool in_place;
    const char *dict, *languages, *log;
};

struct model {
    size_t buckets, weights; /* weights = buckets * languages, the languages side by side */
    int languages;
    float *weight, *gradient, *sum; /* sum is gradient itself with --in-place */
};

struct totals {
    double loss, words, held_out_loss, right, held_out;
};

struct timing {
    double start, allreduce, shown;
    long steps;
    struct log log;
    double nonzero_local, nonzero_sum; /* entries, added up over the steps */
};

static void score(const struct model *model, const uint32_t *bucket, int found, double *out)
{
    double scale = 1 / sqrt(found);

    for (int c = 0; c < model->languages; c++)
        out[c] = 0;
    for (int f = 0; f < found; f++) {
        const float *weight = model->weight + (size_t)bucket[f] * (size_t)model->languages;

        for (int c = 0; c < model->languages; c++)
            out[c] += (double)weight[c];
    }
    for (int c = 0; c < model->languages; c++)
        out[c] *= scale;
}

static int best_but(const double *value, int members, int excluded)
{
    int best = excluded == 0 ? 1 : 0;

    for (int c = best + 1; c < members; c++)
        if (c != excluded && value[c] > value[best])
            best = c;
    return best;
}

/* Turns scores into the derivative of the loss by each score; returns the loss. */
static double logistic(double *value, int members, int truth)
{
    int best = best_but(value, members, -1);
    double top = value[best], total = 1, loss;

    for (int c = 0; c < members; c++)
        total += c == best ? 0 : exp(value[c] - top);
    loss = top + log(total) - value[truth];
    for (int c = 0; c < members; c++)
        value[c] = exp(value[c] - top) / total - (c == truth);
    return loss;
}

static double hinge(double *value, int members, int truth)
{
    int rival = best_but(value, members, truth);
    double loss = 1 + value[rival] - value[truth];

    for (int c = 0; c < members; c++)
        value[c] = 0;
    if (loss <= 0)
        return 0;
    value[rival] = 1;
    value[truth] = -1;
    return loss;
}

static double loss_of(int loss, double *value, int members, int truth)
{
    return (loss == HINGE ? hinge : logistic)(value, members, truth);
}

/* Adds one word's gradient to the rank's; returns its loss. */
static double learn(struct model *model, int loss, const struct corpus *corpus,
                    const struct sample *sample)
{
    uint32_t bucket[MAX_FEATURES];
    double value[MAX_LANGUAGES], cost, scale;
    int found = features(corpus, sample, model->buckets, bucket);

    score(model, bucket, found, value);
    cost = loss_of(loss, value, model->languages, sample->language);
    if (cost <= 0)
        return 0;
    scale = 1 / sqrt(found);
    for (int f = 0; f < found; f++) {
        float *gradient = model->gradient + (size_t)bucket[f] * (size_t)model->languages;

        for (int c = 0; c < model->languages; c++)
            gradient[c] += (float)(value[c] * scale);
    }
    return cost;
}

static double count_nonzero(const float *values, size_t members)
{
    size_t nonzero = 0;

    for (size_t i = 0; i < members; i++)
        nonzero += values[i] != 0;
    return (double)nonzero;
}

/* The regularisation is part of the update, not of the gradient that is reduced: adding it there
 * would leave no entry zero. */
static void apply(struct model *model, float rate, float decay)
{
    for (size_t i = 0; i < model->weights; i++)
        model->weight[i] -= rate * model->sum[i] + decay * model->weight[i];
    memset(model->gradient, 0, model->weights * sizeof *model->gradient);
}

/* One step over the words [first, last) of all ranks, of which each takes an equal share. */
static double train_step(struct model *model, const struct options *o, const struct corpus *corpus,
                         size_t first, size_t last, double rate, struct timing *timing)
{
    size_t words = last - first;
    size_t mine = first + words * (size_t)my_rank / (size_t)ranks;
    size_t end = first + words * (size_t)(my_rank + 1) / (size_t)ranks;
    double loss = 0, before;

    for (size_t i = mine; i < end; i++)
        loss += learn(model, o->loss, corpus, &corpus->sample[i]);
    timing->nonzero_local += count_nonzero(model->gradient, model->weights);
    before = MPI_Wtime();
    add_up(o->sums, o->in_place ? MPI_IN_PLACE : model->gradient, model->sum, model->weights,
           MPI_COMM_WORLD);
    timing->allreduce += MPI_Wtime() - before;
    timing->nonzero_sum += count_nonzero(model->sum, model->weights);
    timing->steps++;
    apply(model, (float)(rate / (double)words), (float)(rate * o->l2));
    return loss;
}

static void show_progress(const struct options *o, struct timing *timing, long step, long of,
                          double loss)
{
    double now = MPI_Wtime();

    if (my_rank != 0 || o->progress <= 0 || now - timing->shown < o->progress)
        return;
    timing->shown = now;
    fprintf(stderr, "  step %ld of %ld, loss here %.4f, %.1f s, of which allreduce %.1f s\n", step,
            of, loss, now - timing->start, timing->allreduce);
}

/* Adds up loss and right guesses over this rank's share of the held-out words. */
static void evaluate(const struct model *model, int loss, const struct corpus *corpus,
                     struct totals *totals)
{
    for (size_t i = corpus->train + (size_t)my_rank; i < corpus->samples; i += (size_t)ranks) {
        const struct sample *sample = &corpus->sample[i];
        uint32_t bucket[MAX_FEATURES];
        double value[MAX_LANGUAGES];
        int found = features(corpus, sample, model->buckets, bucket);

        score(model, bucket, found, value);
        totals->right += best_but(value, model->languages, -1) == sample->language;
        totals->held_out_loss += loss_of(loss, value, model->languages, sample->language);
        totals->held_out++;
    }
}

/* Rises over the first tenth of the steps, as large batches need it, then falls to 0. */
static double rate(const struct options *o, long step, long steps)
{
    double rise = (double)(step + 1) * 10 / (double)steps;
    double fall = (double)(steps - step) / (double)steps;

    return o->lr * (rise < fall ? rise : fall);
}

/* Trains as the options say; returns the words visited and what the last epoch came to. */
static double train(struct model *model, const struct options *o, struct corpus *corpus,
                    struct timing *timing, struct totals *out)
{
    size_t per_step = (size_t)o->batch * (size_t)ranks;
    long per_epoch = (long)((corpus->train + per_step - 1) / per_step);
    long steps =
        o->steps > 0 && o->steps < per_epoch * o->epochs ? o->steps : per_epoch * o->epochs;
    double visited = 0;

    for (long epoch = 0; timing->steps < steps; epoch++) {
        struct totals mine = {0};
        size_t first = 0, last;

        shuffle(corpus, corpus->train, mix((uint64_t)o->seed) + (uint64_t)epoch);
        for (; first < corpus->train && timing->steps < steps; first = last) {
            double loss;

            last = first + per_step < corpus->train ? first + per_step : corpus->train;
            loss = train_step(model, o, corpus, first, last, rate(o, timing->steps, steps), timing);
            mine.loss += loss;
            log_step(&timing->log, timing->steps, epoch + 1, MPI_Wtime() - timing->start,
                     timing->allreduce, loss, (double)(last - first) / ranks);
            show_progress(o, timing, timing->steps, steps, loss * ranks / (double)(last - first));
        }
        visited += mine.words = (double)first;
        evaluate(model, o->loss, corpus, &mine);
        mine.words /= ranks;
        MPI_Allreduce(&mine, out, 5, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        out->loss /= out->words;
        out->held_out_loss /= out->held_out;
        if (my_rank == 0)
            printf("epoch %ld: %.0f words in %ld steps, loss %.6f; held-out loss %.6f, accuracy "
                   "%.3f %%\n",
                   epoch + 1, out->words, timing->steps - epoch * per_epoch, out->loss,
                   out->held_out_loss, 100 * out->right / out->held_out);
        fflush(stdout);
    }
    return visited;
}

static void report(const struct model *model, struct timing *timing, const struct totals *last,
                   double visited)
{
    double total = MPI_Wtime() - timing->start, allreduce, nonzero, steps = (double)timing->steps;
    bool same = replicas_agree(model->weight, model->weights);

    MPI_Reduce(&timing->allreduce, &allreduce, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&timing->nonzero_local, &nonzero, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (my_rank != 0)
        return;
    nonzero /= ranks;
    printf("result: loss=%.6f held_out_loss=%.6f accuracy=%.6f steps=%ld words=%.0f weights=%zu "
           "ranks=%d "
           "density=%.6f density_sum=%.6f allreduce_s=%.3f total_s=%.3f replicas=%s\n",
           last->loss, last->held_out_loss, last->right / last->held_out, timing->steps, visited,
           model->weights, ranks, nonzero / steps / (double)model->weights,
           timing->nonzero_sum / steps / (double)model->weights, allreduce, total,
           same ? "identical" : "different");
}

/* Returns false when all that was wanted is the help. */
static bool parse(int argc, char **argv, struct options *o)
{
    const struct app_option table[] = {
        CHOICE("loss", "NAME", &o->loss, loss_names, "softmax cross entropy or multiclass hinge\n"),
        WHOLE("epochs", "N", &o->epochs, 1, 1000000, "passes over the training words"),
        WHOLE("steps", "N", &o->steps, 0, 1000000000,
              "stop after N steps in all, 0: when the epochs are over"),
        WHOLE("batch", "N", &o->batch, 1, 100000000, "words per rank and step"),
        WHOLE("dim", "D", &o->dim, 10, 30, "2^D weights or a few more, 10 to 30"),
        NUMBER("lr", "X", &o->lr, 0, 1e9,
               "learning rate: rises in a tenth of the steps, falls to 0"),
        NUMBER("l2", "LAMBDA", &o->l2, 0, 1,
               "weight decay: LAMBDA times the learning rate, per step"),
        WHOLE("words", "N", &o->words, 0, 1000000000, "use N of the words only, 0: all"),
        WHOLE("seed", "N", &o->seed, 0, 1000000000, "order of the words"),
        CHOICE("sums", "HOW", &o->sums, sums_names, SUMS_HELP),
        FLAG("in-place", &o->in_place, "reduce with MPI_IN_PLACE, not into a second buffer"),
        TEXT("dict", "DIR", &o->dict, "folder of the word lists"),
        TEXT("languages", "A,B,...", &o->languages, "their names, one list per language\n"),
        TEXT("log", "FILE", &o->log,
             "write step,epoch,seconds,allreduce_seconds,loss every 10 steps"),
        NUMBER("progress", "S", &o->progress, 0, 1e9, "a line on stderr every S seconds, 0: none"),
    };

    return read_options(argc, argv, table, sizeof table / sizeof *table);
}

static void make_model(struct model *model, const struct options *o, const struct corpus *corpus)
{
    size_t languages = (size_t)corpus->languages;

    model->languages = corpus->languages;
    model->buckets = (((size_t)1 << o->dim) + languages - 1) / languages;
    model->weights = model->buckets * languages;
    model->weight = calloc(model->weights, sizeof *model->weight);
    model->gradient = calloc(model->weights, sizeof *model->gradient);
    model->sum = o->in_place ? model->gradient : calloc(model->weights, sizeof *model->sum);
    if (!model->weight || !model->gradient || !model->sum)
        fail("no memory for %zu weights", model->weights);
}

static void free_all(struct model *model, struct corpus *corpus)
{
    if (model->sum != model->gradient)
        free(model->sum);
    free(model->gradient);
    free(model->weight);
    free_corpus(corpus);
}

int main(int argc, char **argv)
{
    struct options o = {.epochs = 1,
                        .batch = 8192,
                        .dim = 22,
                        .seed = 1,
                        .lr = 50,
                        .progress = 5,
                        .dict = "/usr/share/dict",
                        .languages = ALL_LANGUAGES};
    struct corpus corpus = {0};
    struct model model = {0};
    struct timing timing = {0};
    struct totals last = {0};
    double visited;

    app_begin(&argc, &argv);
    if (!parse(argc, argv, &o)) {
        MPI_Finalize();
        return 0;
    }
    read_corpus(&corpus, o.dict, o.languages, (size_t)o.words, (uint64_t)o.seed);
    make_model(&model, &o, &corpus);
    if (my_rank == 0)
        printf("langid: %zu words in %d languages, %zu of them held out; %zu weights; "
               "%d ranks, %ld words per rank and step\n",
               corpus.samples, corpus.languages, corpus.samples - corpus.train, model.weights,
               ranks, o.batch);
    fflush(stdout);
    log_open(&timing.log, o.log, my_rank);
    timing.start = timing.shown = MPI_Wtime();
    visited = train(&model, &o, &corpus, &timing, &last);
    log_close(&timing.log, o.log);
    report(&model, &timing, &last, visited);
    free_all(&model, &corpus);
    MPI_Finalize();
    return 0;
}
