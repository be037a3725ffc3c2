/* fmnist: data-parallel training of a fully connected network 784-1024-10 on Fashion-MNIST.
 *
 * Every step adds up the dense gradient of the ranks' shares of one batch with one blocking
 * MPI_Allreduce (or one per tensor), as data-parallel programs do; then every rank takes the same
 * step of SGD with momentum. The batch is that of all ranks together, so that runs with different
 * numbers of ranks train alike.
 */
#include <stdbool.h>

#include "tests/apps/fmnist_data.h"
#include "tests/apps/fmnist_net.h"
#include "tests/apps/half_sum.h"
#include "tests/apps/late.h"

struct options {
    long epochs, batch, hidden, warmup, seed, limit, window, check_every, piece;
    double lr, momentum, weight_decay, progress;
    int sums;
    bool in_place, layers;
    const char *data, *log;
};

struct totals {
    double loss, images, test_loss, right, tested;
};

struct trainer {
    const struct options *o;
    struct late late;
    struct dataset data;
    struct net net;
    float *scratch;                 /* of a piece */
    double start, allreduce, shown; /* seconds */
    long step, steps;
    struct totals window; /* this rank's since the last line of the log */
    struct log log;
};

/* This rank's share of `count` items: from the returned one up to *end. */
static size_t share(size_t count, size_t *end)
{
    *end = count * (size_t)(my_rank + 1) / (size_t)ranks;
    return count * (size_t)my_rank / (size_t)ranks;
}

static void load(struct trainer *t, const struct images *from, size_t row, size_t image)
{
    take_image(&t->data, from, image, t->net.input + row * PIXELS);
    t->net.label[row] = from->label[image];
}

/* Losses of the loaded images, whose scores become derivatives of the mean loss over the batch of
 * all ranks. */
static double losses(struct trainer *t, size_t images, size_t batch)
{
    double loss = 0;

    for (size_t i = 0; i < images; i++)
        loss += softmax_loss(t->net.output + i * CLASSES, t->net.label[i], 1 / (double)batch);
    return loss;
}

/* Sums the gradient in equal pieces, all of them in one scratch buffer, as wrappers do that bound
 * their memory. Zeros fill up the last piece. */
static void reduce_pieces(struct trainer *t)
{
    const struct net *net = &t->net;
    size_t piece = (size_t)t->o->piece;

    for (size_t at = 0; at < net->layout.weights; at += piece) {
        size_t left = net->layout.weights - at, count = left < piece ? left : piece;

        memset(t->scratch, 0, piece * sizeof *t->scratch);
        memcpy(t->scratch, net->gradient + at, count * sizeof *t->scratch);
        add_up(t->o->sums, MPI_IN_PLACE, t->scratch, piece, MPI_COMM_WORLD);
        memcpy(net->sum + at, t->scratch, count * sizeof *t->scratch);
    }
}

static void reduce_tensors(struct trainer *t)
{
    const struct net *net = &t->net;

    for (int tensor = 0; tensor < TENSORS; tensor++) {
        size_t at = t->o->layers ? net->layout.begin[tensor] : 0;
        size_t count = t->o->layers ? net->layout.count[tensor] : net->layout.weights;

        add_up(t->o->sums, t->o->in_place ? MPI_IN_PLACE : net->gradient + at, net->sum + at, count,
               MPI_COMM_WORLD);
        if (!t->o->layers)
            break;
    }
}

static void reduce(struct trainer *t)
{
    double before = MPI_Wtime();

    if (t->o->piece > 0)
        reduce_pieces(t);
    else
        reduce_tensors(t);
    t->allreduce += MPI_Wtime() - before;
}

/* Rises over the warm-up, then stays, then is a tenth over the last third of the steps. */
static double rate(const struct options *o, long step, long steps)
{
    double rise = step < o->warmup ? (double)(step + 1) / (double)o->warmup : 1;

    return o->lr * rise * (3 * step >= 2 * steps ? 0.1 : 1);
}

/* One step over the images [first, last) of the epoch's order; returns the loss of this rank's. */
static double train_step(struct trainer *t, size_t first, size_t last)
{
    size_t end, begin = share(last - first, &end);
    double lr = rate(t->o, t->step, t->steps), loss;

    late_begin(&t->late);
    for (size_t i = begin; i < end; i++)
        load(t, &t->data.train, i - begin, t->data.order[first + i]);
    forward(&t->net, end - begin);
    loss = losses(t, end - begin, last - first);
    backward(&t->net, end - begin);
    late_wait(&t->late);
    reduce(t);
    descend(&t->net, (float)lr, (float)t->o->momentum, (float)(1 - lr * t->o->weight_decay));
    t->step++;
    return loss;
}

/* After the last step of a window all ranks add up its loss, and rank 0 writes it. */
static void end_window(struct trainer *t, long epoch)
{
    double mine = t->window.loss, loss, now;

    MPI_Allreduce(&mine, &loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    loss /= t->window.images;
    t->window = (struct totals){0};
    if (my_rank != 0)
        return;
    now = MPI_Wtime();
    log_line(&t->log, t->step, epoch, now - t->start, t->allreduce, loss);
    if (t->o->progress > 0 && now - t->shown >= t->o->progress) {
        t->shown = now;
        fprintf(stderr, "  step %ld of %ld, loss %.4f, %.1f s, of which allreduce %.1f s\n",
                t->step, t->steps, loss, now - t->start, t->allreduce);
    }
}

/* Adds up loss and right guesses over this rank's share of the test images. */
static void evaluate(struct trainer *t, struct totals *totals)
{
    size_t end, begin = share(t->data.test.count, &end);

    for (size_t rows; begin < end; begin += rows) {
        rows = end - begin < t->net.room ? end - begin : t->net.room;
        for (size_t i = 0; i < rows; i++)
            load(t, &t->data.test, i, begin + i);
        forward(&t->net, rows);
        for (size_t i = 0; i < rows; i++)
            totals->right += best_class(t->net.output + i * CLASSES) == t->net.label[i];
        totals->test_loss += losses(t, rows, rows);
        totals->tested += (double)rows;
    }
}

static void end_epoch(struct trainer *t, long epoch, struct totals *mine, struct totals *out)
{
    evaluate(t, mine);
    mine->images /= ranks;
    MPI_Allreduce(mine, out, 5, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    out->loss /= out->images;
    out->test_loss /= out->tested;
    out->right /= out->tested;
    if (my_rank == 0)
        printf("epoch %ld: %.0f images, loss %.6f; test loss %.6f, accuracy %.2f %%; %.1f s\n",
               epoch, out->images, out->loss, out->test_loss, 100 * out->right,
               MPI_Wtime() - t->start);
    fflush(stdout);
}

/* Trains as the options say; leaves in last what the last epoch came to. */
static void train(struct trainer *t, struct totals *last)
{
    const struct options *o = t->o;
    size_t count = t->data.train.count, batch = (size_t)o->batch;

    t->steps = (long)((count + batch - 1) / batch) * o->epochs;
    for (long epoch = 1; epoch <= o->epochs; epoch++) {
        struct totals mine = {0};

        shuffle_images(&t->data, (uint64_t)o->seed, epoch);
        for (size_t first = 0; first < count; first += batch) {
            size_t end = first + batch < count ? first + batch : count;
            double loss = train_step(t, first, end);

            mine.loss += loss;
            t->window.loss += loss;
            t->window.images += (double)(end - first);
            if (t->step % o->window == 0)
                end_window(t, epoch);
            if (o->check_every > 0 && t->step % o->check_every == 0 &&
                !replicas_agree(t->net.weight, t->net.layout.weights))
                fail("the ranks hold different weights after step %ld", t->step);
        }
        mine.images = (double)count;
        end_epoch(t, epoch, &mine, last);
    }
}

static void report(const struct trainer *t, const struct totals *last)
{
    double total = MPI_Wtime() - t->start, allreduce, model = late_model_seconds(&t->late);
    bool same = replicas_agree(t->net.weight, t->net.layout.weights);

    MPI_Reduce(&t->allreduce, &allreduce, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (my_rank != 0)
        return;
    printf("result: loss=%.6f test_loss=%.6f accuracy=%.6f allreduce_s=%.3f total_s=%.3f "
           "model_s=%.3f replicas=%s steps=%ld weights=%zu ranks=%d\n",
           last->loss, last->test_loss, last->right, allreduce, total, model,
           same ? "identical" : "different", t->step, t->net.layout.weights, ranks);
}

/* Returns false when all that was wanted is the help. */
static bool parse(int argc, char **argv, struct options *o, struct late *late)
{
    const struct app_option table[] = {
        WHOLE("epochs", "N", &o->epochs, 1, 1000000, "passes over the training images"),
        WHOLE("batch", "N", &o->batch, 1, 1000000, "images per step, of all ranks together"),
        NUMBER("lr", "X", &o->lr, 0, 1e9,
               "learning rate; a tenth of it over the last third of the steps"),
        NUMBER("momentum", "X", &o->momentum, 0, 1, "of SGD"),
        WHOLE("warmup", "N", &o->warmup, 0, 1000000000, "steps over which the learning rate rises"),
        NUMBER("weight-decay", "X", &o->weight_decay, 0, 1e9,
               "weights shrink by this times the learning rate"),
        WHOLE("hidden", "N", &o->hidden, 1, 1000000, "units of the hidden layer"),
        WHOLE("limit", "N", &o->limit, 0, 1000000000,
              "use the first N training images only, 0: all"),
        WHOLE("seed", "N", &o->seed, 0, 1000000000, "first weights and order of the images"),
        FLAG("in-place", &o->in_place, "reduce with MPI_IN_PLACE, not into a second buffer"),
        CHOICE("sums", "HOW", &o->sums, sums_names, SUMS_HELP),
        FLAG("layers", &o->layers, "one allreduce per tensor (W1, b1, W2, b2), not one for all"),
        WHOLE("piece", "N", &o->piece, 0, 1000000000,
              "sum pieces of N weights in one scratch buffer, 0: no pieces"),
        TEXT("log", "FILE", &o->log, "CSV by rank 0: step,epoch,seconds,allreduce_seconds,loss"),
        WHOLE("window", "N", &o->window, 1, 1000000000, "steps that one line of it is the mean of"),
        WHOLE("check-every", "N", &o->check_every, 0, 1000000000,
              "compare the ranks' weights every N steps, 0: at the end"),
        TEXT("data", "DIR", &o->data, "folder of the data set"),
        NUMBER("progress", "S", &o->progress, 0, 1e9, "a line on stderr every S seconds, 0: none"),
        LATE_OPTIONS(late),
    };

    if (!read_options(argc, argv, table, sizeof table / sizeof *table))
        return false;
    late_open(late, o->seed);
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {.epochs = 5,
                        .batch = 256,
                        .hidden = 1024,
                        .warmup = 100,
                        .seed = 1,
                        .window = 10,
                        .lr = 0.03,
                        .momentum = 0.9,
                        .progress = 5,
                        .data = "/usr/share/datasets/fashion-mnist"};
    struct trainer t = {.o = &o};
    struct totals last = {0};

    app_begin(&argc, &argv);
    if (!parse(argc, argv, &o, &t.late)) {
        MPI_Finalize();
        return 0;
    }
    log_open(&t.log, o.log, my_rank);
    read_dataset(&t.data, o.data, (size_t)o.limit);
    make_net(&t.net, (size_t)o.hidden, (size_t)(o.batch / ranks + 1), (uint64_t)o.seed, o.in_place);
    t.scratch = calloc((size_t)o.piece + 1, sizeof *t.scratch);
    if (!t.scratch)
        fail("no memory for a piece of %ld weights", o.piece);
    if (my_rank == 0)
        printf("fmnist: %zu images to train on, %zu to test; %zu weights; %d ranks, %ld images per "
               "step\n",
               t.data.train.count, t.data.test.count, t.net.layout.weights, ranks, o.batch);
    fflush(stdout);
    t.start = t.shown = MPI_Wtime();
    train(&t, &last);
    report(&t, &last);
    log_close(&t.log, o.log);
    free(t.scratch);
    free_net(&t.net);
    free_dataset(&t.data);
    MPI_Finalize();
    return 0;
}
