/* Gradients that every rank can compute for every other rank, and a ledger of inputs and results,
 * kept by rank 0. */
#ifndef TESTS_MPI_GRADIENT_H
#define TESTS_MPI_GRADIENT_H

#include "tests/mpi/support/input.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum pattern { HEAVY, SPARSE, EQUAL, REGION, OPPOSITE, MAGNITUDES, CANCELLING, MASKED, PATTERNS };
static const char *const pattern_names[PATTERNS] = {
    "heavy", "sparse", "equal", "region", "opposite", "magnitudes", "cancelling", "masked"};

/* Kinds of values. FRACTIONS: full mantissas. SCALED: integers times a power of two that belongs to
 * the element, so that every sum of one element is exact. WHOLE: integers times one power of two,
 * so that differences between elements are exact as well. */
enum form { FRACTIONS, SCALED, WHOLE, FORMS };
static const char *const form_names[FORMS] = {"fractions", "scaled", "whole"};

/* Changes of the norm from step to step: none; powers of two that hold for some steps, with exact
 * sums; a twelfth per step, up or down; log-normal in each step. The last two with FRACTIONS
 * only. */
enum norms { STEADY, STEPS, DRIFT, LOGNORMAL, NORMS };

/* MASKED: most elements are large and cancel between two ranks, the fourth is small and does not
 * cancel. The large ones must not keep it from being sent for ever. */
struct gradient {
    enum pattern pattern;
    enum form form;
    enum norms norms;
    bool wide; /* double */
    int n;     /* elements */
    int ranks;
    uint64_t seed;
};

static inline bool gradient_present(const struct gradient *g, int rank, uint64_t word, int i)
{
    switch (g->pattern) {
    case SPARSE:
        return word >> 61 == 0;
    case REGION:
        return i >= g->n / 4 && i < g->n / 4 + g->n / 16 + 1;
    case OPPOSITE:
        return (int64_t)i * g->ranks / g->n == (rank + 1) % g->ranks;
    case MASKED:
        return i % 4 == 3 || (rank ^ 1) < g->ranks;
    default:
        return true;
    }
}

/* Draws an integer up to 2^12, or 2^36 for doubles; small integers are as frequent as large
 * ones. */
static inline long double gradient_whole(const struct gradient *g, uint64_t word)
{
    unsigned bits = g->wide ? 36 : 12;
    uint64_t magnitude = (word & (((uint64_t)1 << bits) - 1)) >> (word >> 40 & 0xffff) % bits;
    return word >> 63 ? -(long double)(magnitude + 1) : (long double)(magnitude + 1);
}

static inline double gradient_fraction(uint64_t word)
{
    double tail = (double)(word >> 40 & 0xffff) / 65536;
    double size = (double)(word & 0xffffffffff) * 0x1p-40 * (0.01 + tail * tail * tail * tail);
    return word >> 63 ? -size : size;
}

static inline double gradient_power(int exponent)
{
    return ldexp(1, exponent);
}

/* Returns the norm of all ranks in this step. */
static inline double gradient_norm_drawn(enum norms norms, uint64_t seed, int step)
{
    uint64_t word = input_word(seed + 4000, 0, (uint64_t)step);
    double normal = -6;

    if (norms == STEPS) /* holds for one or several steps */
        return gradient_power((int)(input_word(seed + 4000, 0, (uint64_t)step * 3 / 8) % 3));
    if (norms == DRIFT)
        return pow(13.0 / 12, input_word(seed + 4000, 0, 0) % 2 ? step : -step);
    for (int i = 0; i < 12; i++)
        normal += (double)(input_word(word, 0, (uint64_t)i) >> 11) * 0x1p-53;
    return exp(normal);
}

static inline double gradient_norm(const struct gradient *g, int step)
{
    static struct {
        enum norms norms;
        uint64_t seed;
        int step;
        double norm;
    } last = {.step = -1};

    if (g->norms == STEADY)
        return 1;
    if (last.norms != g->norms || last.seed != g->seed || last.step != step) {
        last.norms = g->norms;
        last.seed = g->seed;
        last.step = step;
        last.norm = gradient_norm_drawn(g->norms, g->seed, step);
    }
    return last.norm;
}

/* Returns true for elements that are equal on all ranks: a third of HEAVY, which is the gradient of
 * one model. */
static inline bool gradient_shared(const struct gradient *g, uint64_t seed, int i)
{
    return g->pattern == HEAVY && input_word(seed + 9000, 0, (uint64_t)i) % 3 == 0;
}

/* Returns element i of this rank in this step; exact in the type. */
static inline long double gradient_at(const struct gradient *g, int rank, int step, int i)
{
    uint64_t seed = g->seed * 1000003 + (uint64_t)step;
    bool cancels = g->pattern == CANCELLING || (g->pattern == MASKED && i % 4 != 3);
    int whose = cancels ? (g->pattern == MASKED ? rank / 2 : 0) : rank;
    uint64_t word = input_word(seed, gradient_shared(g, seed, i) ? 0 : whose, (uint64_t)i);
    int exponent = g->form == WHOLE ? -20 : -(int)(input_word(3, 0, (uint64_t)i) % 98);
    long double value;

    if (!gradient_present(g, rank, word, i))
        return 0;
    if (g->pattern == EQUAL) {
        word = input_word(seed, 0, 0);
        exponent = -20;
    }
    if (g->form == FRACTIONS) {
        double x = gradient_fraction(word);
        if (g->pattern == MAGNITUDES) /* 2^-100 is about 1e-30 */
            x *= gradient_power(-(int)(input_word(seed, rank + 100, (uint64_t)i) % 100));
        x *= gradient_norm(g, step);
        value = g->wide ? (long double)x : (long double)(float)x;
    } else {
        value = gradient_whole(g, word) *
                (long double)(gradient_power(exponent) * gradient_norm(g, step));
    }
    if (g->pattern == MASKED && cancels)
        value *= 1024;
    return cancels && rank % 2 ? -value : value;
}

static inline void gradient_fill(const struct gradient *g, int rank, int step, void *out)
{
    for (int i = 0; i < g->n; i++) {
        long double x = gradient_at(g, rank, step, i);
        if (g->wide)
            ((double *)out)[i] = (double)x;
        else
            ((float *)out)[i] = (float)x;
    }
}

static inline size_t gradient_bytes(const struct gradient *g)
{
    return (size_t)g->n * (g->wide ? sizeof(double) : sizeof(float));
}

static inline MPI_Datatype gradient_type(const struct gradient *g)
{
    return g->wide ? MPI_DOUBLE : MPI_FLOAT;
}

/* Sums of inputs, of their magnitudes and of results, per element. */
struct ledger {
    int n;
    long double *in, *magnitude, *out;
};

static inline struct ledger ledger_open(int n)
{
    struct ledger l = {.n = n};
    size_t bytes = (size_t)n * sizeof *l.in;
    l.in = memset(input_alloc(bytes), 0, bytes);
    l.magnitude = memset(input_alloc(bytes), 0, bytes);
    l.out = memset(input_alloc(bytes), 0, bytes);
    return l;
}

static inline void ledger_close(struct ledger *l)
{
    free(l->in);
    free(l->magnitude);
    free(l->out);
}

static inline void ledger_enter(struct ledger *l, const struct gradient *g, int step)
{
    for (int i = 0; i < l->n; i++)
        for (int r = 0; r < g->ranks; r++) {
            long double x = gradient_at(g, r, step, i);
            l->in[i] += x;
            l->magnitude[i] += fabsl(x);
        }
}

static inline void ledger_magnitudes(struct ledger *l, const struct gradient *g, int step)
{
    for (int i = 0; i < l->n; i++)
        for (int r = 0; r < g->ranks; r++)
            l->magnitude[i] += fabsl(gradient_at(g, r, step, i));
}

static inline void ledger_receive(struct ledger *l, bool wide, const void *result)
{
    for (int i = 0; i < l->n; i++)
        l->out[i] += wide ? (long double)((const double *)result)[i]
                          : (long double)((const float *)result)[i];
}

/* Returns the number of elements that do not balance within `bound` times the sum of magnitudes;
 * names the worst. */
static inline int ledger_wrong(const struct ledger *l, long double bound, const char *what)
{
    int wrong = 0, worst = -1;
    long double most = -1;
    for (int i = 0; i < l->n; i++) {
        long double error = fabsl(l->in[i] - l->out[i]);
        if (!(error <= bound * l->magnitude[i])) {
            long double excess = l->magnitude[i] > 0 ? error / l->magnitude[i] : error;
            wrong++;
            if (worst < 0 || excess > most || isnan(excess)) {
                worst = i;
                most = excess;
            }
        }
    }
    if (wrong)
        printf("# %s: %d of %d elements do not balance; element %d: in %.17Lg, out %.17Lg, "
               "magnitudes %.17Lg, bound %.3Lg\n",
               what, wrong, l->n, worst, l->in[worst], l->out[worst], l->magnitude[worst],
               bound * l->magnitude[worst]);
    return wrong;
}

static inline uint64_t gradient_hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (; bytes > 0; bytes--)
        h = (h ^ *p++) * 0x100000001b3u;
    return h;
}

static inline bool gradient_is_zero(const void *data, size_t bytes, bool wide)
{
    for (size_t i = 0; i < bytes / (wide ? 8 : 4); i++)
        if (wide ? ((const double *)data)[i] != 0 : ((const float *)data)[i] != 0)
            return false;
    return true;
}

/* Hashes of results, per call, to be compared between ranks. */
struct hashes {
    uint64_t *of;
    int made, room;
};

static inline void hashes_add(struct hashes *h, uint64_t hash)
{
    if (h->made == h->room) {
        h->room = h->room ? 2 * h->room : 1024;
        h->of = realloc(h->of, (size_t)h->room * sizeof *h->of);
        if (!h->of)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    h->of[h->made++] = hash;
}

/* Returns, on rank 0 only, the first call in which a rank's result differs from rank 0's, -1 if
 * none. Collective. */
static inline int hashes_differ(const struct hashes *h, int rank, int ranks)
{
    uint64_t *all = rank == 0 ? input_alloc((size_t)(ranks * h->made) * sizeof *all) : NULL;
    int first = -1;

    PMPI_Gather(h->of, h->made, MPI_UINT64_T, all, h->made, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int call = 0; rank == 0 && call < h->made && first < 0; call++)
        for (int r = 1; r < ranks; r++)
            if (all[r * h->made + call] != all[call])
                first = call;
    free(all);
    return first;
}

/* Returns the value of NAME=VALUE among the arguments, or `otherwise`. */
static inline const char *argument(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return otherwise;
}

static inline int argument_number(int argc, char **argv, const char *name, int otherwise)
{
    const char *text = argument(argc, argv, name, NULL);
    return text ? atoi(text) : otherwise;
}

/* Returns the index of `text` among the names; ends the program if it is none of them. */
static inline int argument_choice(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    fprintf(stderr, "%s: not a choice\n", text);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 0;
}

#endif
