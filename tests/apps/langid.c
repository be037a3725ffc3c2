/* langid: a data-parallel linear classifier that tells the language of a single word.
 *
 * Samples are the words of word lists, features are hashed character n-grams, the model is one
 * weight per (bucket, language), trained by minibatch SGD. Every step adds up the dense gradient
 * of all weights over the ranks with one blocking MPI_Allreduce, as data-parallel programs do.
 *
 * Losses: logistic is the softmax cross entropy; hinge is the multiclass hinge of Crammer and
 * Singer (JMLR 2, 2001), whose gradient is zero where the margin is kept.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LANGUAGES = 16,
    MAX_CHARS = 64, /* longer words are cut */
    MAX_GRAM = 5,
    MAX_FEATURES = MAX_GRAM * (MAX_CHARS + 2),
    WORD_MARK = 1, /* stands for both ends of a word */
};

enum loss { LOGISTIC, HINGE };

struct options {
    enum loss loss;
    long epochs, batch, dim, steps, words, seed;
    double lr, progress;
    bool in_place;
    const char *dict;
    char *languages;
};

struct sample {
    uint32_t begin; /* into text */
    uint8_t chars, language;
};

struct corpus {
    uint16_t *text; /* code points, lower case */
    size_t text_used, text_room;
    struct sample *sample; /* training words first, then the held-out ones */
    size_t samples, sample_room, train;
    const char *language[MAX_LANGUAGES];
    int languages;
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
    double nonzero_local, nonzero_sum; /* entries, added up over the steps */
};

static int my_rank, ranks;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("langid: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void *grow(void *memory, size_t members, size_t size)
{
    memory = realloc(memory, members * size);
    if (!memory)
        fail("no memory for %zu times %zu bytes", members, size);
    return memory;
}

static uint64_t mix(uint64_t x) /* the finalizer of splitmix64 */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return mix(*state);
}

/* ASCII and Latin-1 only: case would give the capitals of German nouns away. */
static unsigned lower(unsigned c)
{
    bool ascii = c >= 'A' && c <= 'Z';
    bool latin = c >= 0xc0 && c <= 0xde && c != 0xd7;

    return ascii || latin ? c + 0x20 : c;
}

/* Returns the next code point of the UTF-8 text at *s. A byte that is not UTF-8 is Latin-1. */
static unsigned next_char(const unsigned char **s)
{
    const unsigned char *p = *s;
    unsigned c = p[0];

    *s += 1;
    if (c >= 0xc2 && c <= 0xdf && (p[1] & 0xc0) == 0x80) {
        *s += 1;
        return (c & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if ((c & 0xf0) == 0xe0 && (p[1] & 0xc0) == 0x80 && (p[2] & 0xc0) == 0x80) {
        *s += 2;
        return (c & 0x0f) << 12 | (unsigned)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    }
    return c;
}

static void add_word(struct corpus *corpus, const char *line, int language)
{
    const unsigned char *s = (const unsigned char *)line;
    struct sample *sample;

    if (corpus->samples == corpus->sample_room) {
        corpus->sample_room = corpus->sample_room * 2 + 1024;
        corpus->sample = grow(corpus->sample, corpus->sample_room, sizeof *corpus->sample);
    }
    if (corpus->text_room - corpus->text_used < MAX_CHARS) {
        corpus->text_room = corpus->text_room * 2 + 65536;
        corpus->text = grow(corpus->text, corpus->text_room, sizeof *corpus->text);
    }
    sample = &corpus->sample[corpus->samples];
    *sample = (struct sample){.begin = (uint32_t)corpus->text_used, .language = (uint8_t)language};
    while (*s && *s != '\n' && *s != '\r' && sample->chars < MAX_CHARS) {
        corpus->text[corpus->text_used++] = (uint16_t)lower(next_char(&s));
        sample->chars++;
    }
    if (sample->chars > 0)
        corpus->samples++;
}

static void read_language(struct corpus *corpus, const char *dict, const char *name)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    FILE *file;

    if (corpus->languages == MAX_LANGUAGES)
        fail("--languages names more than %d lists", MAX_LANGUAGES);
    snprintf(path, sizeof path, "%s/%s", dict, name);
    file = fopen(path, "r");
    if (!file)
        fail("cannot open %s: %s; Debian's word lists are packages such as wngerman", path,
             strerror(errno));
    while (getline(&line, &room, file) > 0)
        add_word(corpus, line, corpus->languages);
    free(line);
    fclose(file);
    corpus->language[corpus->languages++] = name;
}

/* Puts the words in one random order, the same on every rank, and sets 1 in 20 apart. */
static void read_corpus(struct corpus *corpus, const struct options *o)
{
    uint64_t state = (uint64_t)o->seed;

    for (char *name = strtok(o->languages, ","); name; name = strtok(NULL, ","))
        read_language(corpus, o->dict, name);
    if (corpus->languages < 2)
        fail("--languages must name two word lists or more");
    for (size_t i = corpus->samples; i > 1; i--) {
        size_t j = (size_t)(draw(&state) % i);
        struct sample swapped = corpus->sample[i - 1];

        corpus->sample[i - 1] = corpus->sample[j];
        corpus->sample[j] = swapped;
    }
    if (o->words > 0 && (size_t)o->words < corpus->samples)
        corpus->samples = (size_t)o->words;
    corpus->train = corpus->samples - corpus->samples / 20;
}

static void shuffle_training_words(struct corpus *corpus, const struct options *o, long epoch)
{
    uint64_t state = mix((uint64_t)o->seed) + (uint64_t)epoch;

    for (size_t i = corpus->train; i > 1; i--) {
        size_t j = (size_t)(draw(&state) % i);
        struct sample swapped = corpus->sample[i - 1];

        corpus->sample[i - 1] = corpus->sample[j];
        corpus->sample[j] = swapped;
    }
}

/* Writes the bucket of every n-gram, n = 1..MAX_GRAM, of the marked word; returns their number. */
static int features(const struct corpus *corpus, const struct sample *sample, size_t buckets,
                    uint32_t *bucket)
{
    uint16_t marked[MAX_CHARS + 2];
    int chars = sample->chars + 2, found = 0;

    marked[0] = marked[chars - 1] = WORD_MARK;
    memcpy(marked + 1, corpus->text + sample->begin, sample->chars * sizeof *marked);
    for (int i = 0; i < chars; i++) {
        uint64_t hash = 0;

        for (int j = i; j < chars && j < i + MAX_GRAM; j++) {
            hash = mix((hash + marked[j]) * 0x9e3779b97f4a7c15u + 1);
            bucket[found++] = (uint32_t)((hash >> 32) * buckets >> 32);
        }
    }
    return found;
}

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
    double top = value[best_but(value, members, -1)], total = 0, loss;

    for (int c = 0; c < members; c++)
        total += exp(value[c] - top);
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

static double loss_of(enum loss loss, double *value, int members, int truth)
{
    return (loss == HINGE ? hinge : logistic)(value, members, truth);
}

/* Adds one word's gradient to the rank's; returns its loss. */
static double learn(struct model *model, enum loss loss, const struct corpus *corpus,
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

static void apply(struct model *model, float rate)
{
    for (size_t i = 0; i < model->weights; i++)
        model->weight[i] -= rate * model->sum[i];
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
    MPI_Allreduce(o->in_place ? MPI_IN_PLACE : model->gradient, model->sum, (int)model->weights,
                  MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    timing->allreduce += MPI_Wtime() - before;
    timing->nonzero_sum += count_nonzero(model->sum, model->weights);
    timing->steps++;
    apply(model, (float)(rate / (double)words));
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
static void evaluate(const struct model *model, enum loss loss, const struct corpus *corpus,
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

        shuffle_training_words(corpus, o, epoch);
        for (; first < corpus->train && timing->steps < steps; first = last) {
            double loss;

            last = first + per_step < corpus->train ? first + per_step : corpus->train;
            loss = train_step(model, o, corpus, first, last, rate(o, timing->steps, steps), timing);
            mine.loss += loss;
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

/* Whether all ranks hold the same bits in their weights. */
static bool replicas_agree(const struct model *model)
{
    uint64_t hash = 0, both[2], top[2];

    for (size_t i = 0; i < model->weights; i++) {
        uint32_t bits;

        memcpy(&bits, &model->weight[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u + (hash >> 47);
    }
    both[0] = hash;
    both[1] = ~hash;
    MPI_Allreduce(both, top, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return top[0] == ~top[1];
}

static void report(const struct model *model, struct timing *timing, const struct totals *last,
                   double visited)
{
    double total = MPI_Wtime() - timing->start, allreduce, nonzero, steps = (double)timing->steps;
    bool same = replicas_agree(model);

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

static void usage(void)
{
    puts("usage: mpirun -n P langid [option]...\n"
         "  --loss logistic|hinge  softmax cross entropy (default) or multiclass hinge\n"
         "  --epochs N      passes over the training words (default 1)\n"
         "  --steps N       stop after N steps in all (default 0: when the epochs are over)\n"
         "  --batch N       words per rank and step (default 8192)\n"
         "  --dim D         2^D weights or a few more (default 22, 10 to 30)\n"
         "  --lr X          learning rate: rises in a tenth of the steps, falls to 0 (default 50)\n"
         "  --words N       use N of the words only (default 0: all)\n"
         "  --seed N        order of the words (default 1)\n"
         "  --in-place      reduce with MPI_IN_PLACE, not into a second buffer\n"
         "  --dict DIR      folder of the word lists (default /usr/share/dict)\n"
         "  --languages A,B,...  their names, one list per language (default\n"
         "                  american-english,ngerman,french,spanish,italian)\n"
         "  --progress S    a line on stderr every S seconds (default 5, 0: none)");
}

static double number(const char *option, const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= low && value <= high))
        fail("--%s takes a number from %g to %g, not '%s'", option, low, high, text);
    return value;
}

static long whole(const char *option, const char *text, long low, long high)
{
    double value = number(option, text, (double)low, (double)high);

    if (value != (double)(long)value)
        fail("--%s takes a whole number, not '%s'", option, text);
    return (long)value;
}

/* Returns false when all that was wanted is the usage. */
static bool parse(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"loss", 1, NULL, 'l'},      {"epochs", 1, NULL, 'e'},
        {"steps", 1, NULL, 's'},     {"batch", 1, NULL, 'b'},
        {"dim", 1, NULL, 'd'},       {"lr", 1, NULL, 'r'},
        {"words", 1, NULL, 'w'},     {"seed", 1, NULL, 'S'},
        {"in-place", 0, NULL, 'i'},  {"dict", 1, NULL, 'D'},
        {"languages", 1, NULL, 'L'}, {"progress", 1, NULL, 'p'},
        {"help", 0, NULL, 'h'},      {0},
    };
    int c, at = 0;

    while ((c = getopt_long(argc, argv, "", known, &at)) != -1) {
        const char *name = c == '?' ? "" : known[at].name;

        switch (c) {
        case 'l':
            if (strcmp(optarg, "logistic") != 0 && strcmp(optarg, "hinge") != 0)
                fail("--loss is logistic or hinge, not '%s'", optarg);
            o->loss = *optarg == 'h' ? HINGE : LOGISTIC;
            break;
        case 'e':
            o->epochs = whole(name, optarg, 1, 1000000);
            break;
        case 's':
            o->steps = whole(name, optarg, 0, 1000000000);
            break;
        case 'b':
            o->batch = whole(name, optarg, 1, 100000000);
            break;
        case 'd':
            o->dim = whole(name, optarg, 10, 30);
            break;
        case 'r':
            o->lr = number(name, optarg, 0, 1e9);
            break;
        case 'w':
            o->words = whole(name, optarg, 0, 1000000000);
            break;
        case 'S':
            o->seed = whole(name, optarg, 0, 1000000000);
            break;
        case 'i':
            o->in_place = true;
            break;
        case 'D':
            o->dict = optarg;
            break;
        case 'L':
            o->languages = optarg;
            break;
        case 'p':
            o->progress = number(name, optarg, 0, 1e9);
            break;
        case 'h':
            return false;
        default:
            fail("see --help");
        }
    }
    if (optind < argc)
        fail("'%s' is not an option; see --help", argv[optind]);
    return true;
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
    free(corpus->sample);
    free(corpus->text);
}

int main(int argc, char **argv)
{
    char all[] = "american-english,ngerman,french,spanish,italian";
    struct options o = {.epochs = 1,
                        .batch = 8192,
                        .dim = 22,
                        .seed = 1,
                        .lr = 50,
                        .progress = 5,
                        .dict = "/usr/share/dict",
                        .languages = all};
    struct corpus corpus = {0};
    struct model model = {0};
    struct timing timing = {0};
    struct totals last = {0};
    double visited;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!parse(argc, argv, &o)) {
        if (my_rank == 0)
            usage();
        MPI_Finalize();
        return 0;
    }
    read_corpus(&corpus, &o);
    if (corpus.samples < 20)
        fail("only %zu words: too few to set one in 20 apart", corpus.samples);
    make_model(&model, &o, &corpus);
    if (my_rank == 0)
        printf("langid: %zu words in %d languages, %zu of them held out; %zu weights; "
               "%d ranks, %ld words per rank and step\n",
               corpus.samples, corpus.languages, corpus.samples - corpus.train, model.weights,
               ranks, o.batch);
    fflush(stdout);
    timing.start = timing.shown = MPI_Wtime();
    visited = train(&model, &o, &corpus, &timing, &last);
    report(&model, &timing, &last, visited);
    free_all(&model, &corpus);
    MPI_Finalize();
    return 0;
}
