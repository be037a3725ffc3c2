/* charlm: a data-parallel character language model over word lists.
 *
 * The text is words in random order, each ended by a boundary character, cut into equal streams
 * that are dealt out to the ranks. The model (charlm_model.h) is an LSTM, trained by truncated
 * backpropagation through time with Adam (Kingma and Ba, ICLR 2015). The gradient of the mean loss
 * is added up over the ranks; clipping by its norm and Adam see the sum, as data-parallel programs
 * do it.
 */
#ifdef __SSE2__
#include <pmmintrin.h>
#endif

#include "tests/apps/app.h"
#include "tests/apps/charlm_model.h"
#include "tests/apps/half_sum.h"
#include "tests/apps/langid_corpus.h"
#include "tests/apps/late.h"

enum { MAX_SYMBOLS = 256, HELD_OUT_PART = 10 /* as many held-out characters as chars over this */ };

struct options {
    long epochs, steps, streams, window, hidden, embedding, chars, seed;
    double lr, clip, progress;
    int sums;
    bool layers, nonblocking; /* a call per tensor, blocking or not; else one of all */
    bool in_place, check;
    const char *dict, *languages, *log;
};

struct text {
    uint8_t *symbol;
    size_t length;
};

struct trainer {
    const struct options *o;
    struct late late;
    struct model model;
    float *gradient, *sum;  /* sum is gradient itself with --in-place */
    float *mean, *variance; /* Adam's moments */
    uint8_t *window;        /* of this rank's streams, by time */
    MPI_Request pending[TENSORS];
    long steps, epoch;
    double start, shown, allreduce;
    double told; /* characters of this rank in the last step */
    struct log log;
};

static void reduce(struct trainer *t, size_t begin, size_t end, MPI_Request *request)
{
    double before = MPI_Wtime();
    const void *from = t->o->in_place ? MPI_IN_PLACE : t->gradient + begin;

    if (request)
        MPI_Iallreduce(from, t->sum + begin, (int)(end - begin), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                       request);
    else
        add_up(t->o->sums, from, t->sum + begin, end - begin, MPI_COMM_WORLD);
    t->allreduce += MPI_Wtime() - before;
}

static void tensor_complete(void *context, enum tensor tensor)
{
    struct trainer *t = context;
    const size_t *begin = t->model.begin;

    if (t->o->layers || t->o->nonblocking)
        reduce(t, begin[tensor], begin[tensor + 1], t->o->nonblocking ? &t->pending[tensor] : NULL);
}

static void finish_reduction(struct trainer *t)
{
    MPI_Status status[TENSORS];
    double before = MPI_Wtime();

    if (!t->o->layers && !t->o->nonblocking)
        reduce(t, 0, t->model.begin[TENSORS], NULL);
    if (!t->o->nonblocking)
        return;
    MPI_Waitall(TENSORS, t->pending, status);
    t->allreduce += MPI_Wtime() - before;
}

static double norm(const float *x, size_t members)
{
    double squares = 0;

    for (size_t i = 0; i < members; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* Rises over the first tenth of the steps, then falls to 0. */
static double rate(const struct options *o, long step, long steps)
{
    double rise = (double)(step + 1) * 10 / (double)steps;
    double fall = (double)(steps - step) / (double)steps;

    return o->lr * (rise < fall ? rise : fall);
}

static void adam(struct trainer *t, double lr)
{
    const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
    double size = norm(t->sum, t->model.begin[TENSORS]);
    float clip = (float)(t->o->clip > 0 && size > t->o->clip ? t->o->clip / size : 1);
    float step = (float)(lr / (1 - pow((double)beta1, (double)t->steps)));
    float unbias = (float)(1 / (1 - pow((double)beta2, (double)t->steps)));

    for (size_t i = 0; i < t->model.begin[TENSORS]; i++) {
        float g = t->sum[i] * clip;

        t->mean[i] += (1 - beta1) * (g - t->mean[i]);
        t->variance[i] += (1 - beta2) * (g * g - t->variance[i]);
        t->model.weight[i] -= step * t->mean[i] / (sqrtf(t->variance[i] * unbias) + epsilon);
    }
    weights_changed(&t->model);
}

/* How many windows each stream has; the last character of a stream is only told, not told from. */
static size_t windows(const struct options *o, const struct text *text)
{
    return (text->length / (size_t)o->streams - 1) / (size_t)o->window;
}

/* Gathers window number w of this rank's streams. */
static void gather(const struct trainer *t, const struct text *text, size_t w)
{
    const struct shape *s = &t->model.shape;
    size_t stream_length = text->length / (size_t)t->o->streams;

    for (size_t b = 0; b < s->streams; b++) {
        size_t stream = (size_t)my_rank * s->streams + b;
        const uint8_t *from = text->symbol + stream * stream_length + w * s->window;

        for (size_t i = 0; i <= s->window; i++)
            t->window[i * s->streams + b] = from[i];
    }
}

/* Mean loss in bits per character over the held-out text, the same on all ranks. */
static double evaluate(struct trainer *t, const struct text *text)
{
    const struct shape *s = &t->model.shape;
    double mine[2] = {0}, all[2];

    forget_state(&t->model);
    for (size_t w = 0; w < windows(t->o, text); w++) {
        gather(t, text, w);
        mine[0] += forward(&t->model, t->window);
        mine[1] += (double)(s->window * s->streams);
        carry_state(&t->model);
    }
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all[0] / all[1] / M_LN2;
}

/* One step on the window that was gathered; returns this rank's loss, summed, in bits. */
static double train_step(struct trainer *t, double lr)
{
    struct shape *s = &t->model.shape;
    float scale = 1 / (float)(t->o->streams * t->o->window);
    double length = (double)t->o->window * late_length(&t->late, my_rank, t->late.steps), loss;

    late_begin(&t->late);
    s->window = length < 1 ? 1 : (size_t)length;
    loss = forward(&t->model, t->window) / M_LN2;

    backward(&t->model, t->window, scale, t->gradient, tensor_complete, t);
    late_wait(&t->late);
    finish_reduction(t);
    t->steps++;
    adam(t, lr);
    carry_state(&t->model);
    log_step(&t->log, t->steps, t->epoch, MPI_Wtime() - t->start, t->allreduce, loss,
             (double)(s->streams * s->window));
    t->told = (double)(s->streams * s->window);
    s->window = (size_t)t->o->window;
    return loss;
}

static void show_progress(struct trainer *t, long of, double loss)
{
    double now = MPI_Wtime();

    if (my_rank != 0 || t->o->progress <= 0 || now - t->shown < t->o->progress)
        return;
    t->shown = now;
    fprintf(stderr, "  step %ld of %ld, %.4f bits here, %.1f s, of which allreduce %.1f s\n",
            t->steps, of, loss, now - t->start, t->allreduce);
}

/* Leaves the mean loss of the last epoch's training and the held-out loss, in bits. */
static void train(struct trainer *t, const struct text *train_text, const struct text *held_out,
                  double result[2])
{
    long per_epoch = (long)windows(t->o, train_text), steps = per_epoch * t->o->epochs;

    if (t->o->steps > 0 && t->o->steps < steps)
        steps = t->o->steps;
    while (t->steps < steps) {
        double mine[2] = {0}, all[2];

        t->epoch++;
        forget_state(&t->model);
        for (size_t w = 0; w < (size_t)per_epoch && t->steps < steps; w++) {
            double loss;

            gather(t, train_text, w);
            loss = train_step(t, rate(t->o, t->steps, steps));
            mine[0] += loss;
            mine[1] += t->told;
            show_progress(t, steps, loss / t->told);
        }
        MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        result[0] = all[0] / all[1];
        result[1] = evaluate(t, held_out);
        if (my_rank == 0)
            printf("epoch %ld: %.0f characters in %zu steps, %.6f bits per character; "
                   "held out %.6f\n",
                   t->epoch, all[1], (size_t)(t->steps - (t->epoch - 1) * per_epoch), result[0],
                   result[1]);
        fflush(stdout);
    }
}

/* The slope of the mean loss of this rank's window along direction, by differences of fourth order
 * in steps of length width. */
static double slope(struct trainer *t, const float *direction, double width)
{
    const double step[4] = {-2, -1, 1, 2}, weight[4] = {1, -8, 8, -1};
    struct model *m = &t->model;
    size_t weights = m->begin[TENSORS];
    float *kept = floats(weights);
    double sum = 0;

    memcpy(kept, m->weight, weights * sizeof *kept);
    for (int i = 0; i < 4; i++) {
        for (size_t j = 0; j < weights; j++)
            m->weight[j] = kept[j] + (float)(step[i] * width) * direction[j];
        weights_changed(m);
        sum += weight[i] * forward(m, t->window);
    }
    memcpy(m->weight, kept, weights * sizeof *kept);
    weights_changed(m);
    free(kept);
    return sum / (12 * width * (double)(m->shape.streams * m->shape.window));
}

static void ignore(void *context, enum tensor tensor)
{
    (void)context;
    (void)tensor;
}

/* Sets a direction of length 1 within a tensor: number 0 is the gradient's own, the others are a
 * few entries drawn, so that a wrong one shows. Returns its product with the gradient. */
static double choose_direction(const struct trainer *t, enum tensor tensor, int which,
                               uint64_t *state, float *direction)
{
    enum { ENTRIES = 8 };
    size_t first = t->model.begin[tensor], members = t->model.begin[tensor + 1] - first;
    double product = 0, length;

    memset(direction, 0, t->model.begin[TENSORS] * sizeof *direction);
    if (which == 0)
        memcpy(direction + first, t->gradient + first, members * sizeof *direction);
    for (int i = 0; which > 0 && i < ENTRIES; i++) {
        size_t entry = first + (size_t)(draw(state) % members);

        direction[entry] = t->gradient[entry] < 0 ? -1 : 1;
    }
    length = norm(direction + first, members);
    for (size_t i = first; i < first + members; i++) {
        direction[i] = (float)((double)direction[i] / length);
        product += (double)direction[i] * (double)t->gradient[i];
    }
    return product;
}

/* Compares the gradient with differences of the loss, each tensor in DIRECTIONS directions, on the
 * second window, whose streams come with a state. Returns whether all agree on all ranks. */
static bool check_gradient(struct trainer *t, const struct text *text)
{
    enum { DIRECTIONS = 12 };
    const char *const name[TENSORS] = {"embedding",      "input weights",  "gate bias",
                                       "hidden weights", "output weights", "output bias"};
    const double allowed = 0.02, width = 0.2;
    struct model *m = &t->model;
    float *direction = floats(m->begin[TENSORS]);
    uint64_t state = (uint64_t)t->o->seed;
    double worst[TENSORS] = {0}, of_all[TENSORS];
    bool good = true;

    forget_state(m);
    gather(t, text, 0);
    forward(m, t->window);
    carry_state(m);
    gather(t, text, 1);
    forward(m, t->window);
    backward(m, t->window, 1 / (float)(m->shape.streams * m->shape.window), t->gradient, ignore,
             NULL);
    for (enum tensor tensor = 0; tensor < TENSORS; tensor++)
        for (int i = 0; i < DIRECTIONS; i++) {
            double exact = choose_direction(t, tensor, i, &state, direction);
            double off = fabs(slope(t, direction, width) - exact) / exact;

            worst[tensor] = isnan(off) ? INFINITY : fmax(worst[tensor], off);
        }
    MPI_Allreduce(worst, of_all, TENSORS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (enum tensor tensor = 0; tensor < TENSORS; tensor++) {
        good = good && of_all[tensor] <= allowed;
        if (my_rank == 0)
            printf("gradient of %s: off by at most %.2g of the slope (%g allowed)\n", name[tensor],
                   of_all[tensor], allowed);
    }
    free(direction);
    return good;
}

static void report(struct trainer *t, const double result[2])
{
    double total = MPI_Wtime() - t->start, allreduce;
    double model = late_model_seconds(&t->late);
    size_t weights = t->model.begin[TENSORS];
    bool same = replicas_agree(t->model.weight, weights);

    MPI_Reduce(&t->allreduce, &allreduce, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (my_rank == 0)
        printf("result: loss=%.6f held_out_bpc=%.6f allreduce_s=%.3f total_s=%.3f model_s=%.3f "
               "replicas=%s "
               "steps=%ld weights=%zu ranks=%d\n",
               result[0], result[1], allreduce, total, model, same ? "identical" : "different",
               t->steps, weights, ranks);
}

/* Appends the words' characters, numbered by their first appearance, up to length. Number 0 stands
 * after each word. */
static void append_words(struct text *text, size_t length, const struct corpus *corpus,
                         size_t first, size_t last, uint16_t *number_of, size_t *symbols)
{
    text->symbol = grow(NULL, length, sizeof *text->symbol);
    for (size_t i = first; i < last && text->length < length; i++) {
        const struct sample *word = &corpus->sample[i];

        for (size_t c = 0; c < word->chars && text->length < length; c++) {
            uint16_t *number = &number_of[corpus->text[word->begin + c]];

            if (*number == 0)
                *number = (uint16_t)(*symbols)++;
            if (*symbols > MAX_SYMBOLS)
                fail("the word lists have more than %d different characters", MAX_SYMBOLS);
            text->symbol[text->length++] = (uint8_t)*number;
        }
        if (text->length < length)
            text->symbol[text->length++] = 0;
    }
    if (text->length < length)
        fail("--chars: the word lists have only %zu characters for a text of %zu", text->length,
             length);
}

/* Returns the size of the alphabet. */
static size_t make_texts(const struct options *o, struct text *train_text, struct text *held_out)
{
    struct corpus corpus = {0};
    uint16_t *number_of = calloc(UINT16_MAX + 1, sizeof *number_of);
    size_t symbols = 1, chars = (size_t)o->chars, apart = chars / HELD_OUT_PART;
    size_t least = (size_t)(o->streams * (o->window + 1));

    if (!number_of)
        fail("no memory for the alphabet");
    if (apart < least)
        fail("--chars %ld: the held-out text, a tenth of it, must fill a window of each stream, "
             "%zu characters",
             o->chars, least);
    read_corpus(&corpus, o->dict, o->languages, 0, (uint64_t)o->seed);
    append_words(train_text, chars, &corpus, 0, corpus.train, number_of, &symbols);
    append_words(held_out, apart, &corpus, corpus.train, corpus.samples, number_of, &symbols);
    free(number_of);
    free_corpus(&corpus);
    return symbols;
}

/* Returns false when all that was wanted is the help. */
static bool parse(int argc, char **argv, struct options *o, struct late *late)
{
    const struct app_option table[] = {
        WHOLE("epochs", "N", &o->epochs, 1, 1000000, "passes over the training text"),
        WHOLE("steps", "N", &o->steps, 0, 1000000000,
              "stop after N steps in all, 0: when the epochs are over"),
        WHOLE("streams", "N", &o->streams, 1, 1000000, "texts read side by side, over all ranks"),
        WHOLE("bptt", "N", &o->window, 1, 10000, "characters per stream and step"),
        NUMBER("lr", "X", &o->lr, 0, 1e9,
               "learning rate: rises in a tenth of the steps, falls to 0"),
        NUMBER("clip", "X", &o->clip, 0, 1e9, "greatest norm of the summed gradient, 0: any"),
        MULTIPLE("hidden", "N", &o->hidden, LANES, 4096, LANES,
                 "size of the LSTM's state, a multiple of 16"),
        MULTIPLE("embedding", "N", &o->embedding, LANES, 4096, LANES,
                 "size of a character's vector, a multiple of 16"),
        WHOLE("chars", "N", &o->chars, 1000, 1000000000, "characters of training text"),
        WHOLE("seed", "N", &o->seed, 0, 1000000000, "order of the words, first weights"),
        FLAG("layers", &o->layers,
             "one MPI_Allreduce per tensor as its gradient is complete, last first,\nnot one of "
             "all"),
        FLAG("nonblocking", &o->nonblocking,
             "one MPI_Iallreduce per tensor likewise, and one MPI_Waitall"),
        CHOICE("sums", "HOW", &o->sums, sums_names, SUMS_HELP),
        FLAG("in-place", &o->in_place, "reduce with MPI_IN_PLACE, not into a second buffer"),
        FLAG("check-gradient", &o->check, "only compare the gradient with differences of the loss"),
        TEXT("dict", "DIR", &o->dict, "folder of the word lists"),
        TEXT("languages", "A,B,...", &o->languages, "their names, one list per language\n"),
        TEXT("log", "FILE", &o->log,
             "write step,epoch,seconds,allreduce_seconds,loss every 10 steps"),
        NUMBER("progress", "S", &o->progress, 0, 1e9, "a line on stderr every S seconds, 0: none"),
        LATE_OPTIONS(late),
    };

    if (!read_options(argc, argv, table, sizeof table / sizeof *table))
        return false;
    if (o->streams % ranks != 0)
        fail("--streams %ld: must be a multiple of the number of ranks, %d", o->streams, ranks);
    if (o->nonblocking && o->sums != ALLREDUCE)
        fail("--sums %s goes without --nonblocking", sums_names[o->sums]);
    late_open(late, o->seed);
    if ((late->spec || late->pace > 0) && (o->layers || o->nonblocking))
        fail("--late and --pace go with one reduction per step: without --layers, --nonblocking");
    return true;
}

static void make_trainer(struct trainer *t, const struct options *o, size_t symbols)
{
    struct shape shape = {.embedding = (size_t)o->embedding,
                          .hidden = (size_t)o->hidden,
                          .symbols = symbols,
                          .streams = (size_t)(o->streams / ranks),
                          .window = (size_t)o->window};
    size_t weights;

    t->o = o;
    make_model(&t->model, &shape, (uint64_t)o->seed);
    weights_changed(&t->model);
    weights = t->model.begin[TENSORS];
    t->gradient = floats(weights);
    t->sum = o->in_place ? t->gradient : floats(weights);
    t->mean = floats(weights);
    t->variance = floats(weights);
    t->window = grow(NULL, shape.streams * (shape.window + 1), 1);
}

static void free_trainer(struct trainer *t)
{
    if (t->sum != t->gradient)
        free(t->sum);
    free(t->gradient);
    free(t->mean);
    free(t->variance);
    free(t->window);
    free_model(&t->model);
}

/* Adam's averages of weights whose gradient stays zero shrink to subnormal numbers, which cost six
 * times the arithmetic of others. As trainings do, takes them for zero. */
static void flush_subnormals(void)
{
#ifdef __SSE2__
    _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
#endif
}

int main(int argc, char **argv)
{
    struct options o = {.epochs = 4,
                        .streams = 16,
                        .window = 16,
                        .lr = 0.016,
                        .clip = 1,
                        .hidden = 128,
                        .embedding = 64,
                        .chars = 500000,
                        .seed = 1,
                        .progress = 5,
                        .dict = "/usr/share/dict",
                        .languages = ALL_LANGUAGES};
    struct text train_text = {0}, held_out = {0};
    struct trainer t = {0};
    double result[2] = {0};
    bool good = true;
    size_t symbols;

    app_begin(&argc, &argv);
    if (!parse(argc, argv, &o, &t.late)) {
        MPI_Finalize();
        return 0;
    }
    flush_subnormals();
    symbols = make_texts(&o, &train_text, &held_out);
    make_trainer(&t, &o, symbols);
    if (my_rank == 0)
        printf("charlm: %zu characters of %zu kinds, %zu more held out; %zu weights; %d ranks, "
               "%ld streams\n",
               train_text.length, symbols, held_out.length, t.model.begin[TENSORS], ranks,
               o.streams);
    fflush(stdout);
    if (o.check) {
        good = check_gradient(&t, &train_text);
    } else {
        log_open(&t.log, o.log, my_rank);
        t.start = t.shown = MPI_Wtime();
        train(&t, &train_text, &held_out, result);
        log_close(&t.log, o.log);
        report(&t, result);
    }
    free_trainer(&t);
    free(train_text.symbol);
    free(held_out.symbol);
    MPI_Finalize();
    return good ? 0 : 1;
}
