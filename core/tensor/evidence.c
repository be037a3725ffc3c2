/* What a rank shows of its sample, what all conclude from the sums, and what is remembered. */
#include "core/tensor/evidence.h"

#include <string.h>

#include "core/base/types.h"

/* ---- in the vote ---- */

void ss_evidence_init(struct ss_evidence *e)
{
    *e = (struct ss_evidence){.energy_min = UINT64_MAX, .balance_min = UINT32_MAX};
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void ss_evidence_merge(struct ss_evidence *into, const struct ss_evidence *other)
{
    into->shown += other->shown;
    into->nonzero += other->nonzero;
    into->energy_min = min64(into->energy_min, other->energy_min);
    into->energy_max = max64(into->energy_max, other->energy_max);
    into->balance_min = (uint32_t)min64(into->balance_min, other->balance_min);
    into->balance_max = (uint32_t)max64(into->balance_max, other->balance_max);
    into->marked += other->marked;
    into->with_past += other->with_past;
    into->stay += other->stay;
    for (int i = 0; i < SS_MARKS / 64; i++)
        into->marks[i] |= other->marks[i];
    for (int i = 0; i < SS_SKETCH; i++) /* of thousands of ranks it may wrap: mod 2^32 */
        into->sketch[i] = (int32_t)((uint32_t)into->sketch[i] + (uint32_t)other->sketch[i]);
    for (int i = 0; i < SS_BLOCKS; i++)
        into->blocks[i] = (uint16_t)max64(into->blocks[i], other->blocks[i]);
}

/* ---- the sample ---- */

static uint64_t scramble(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
    return x ^ x >> 29;
}

static size_t runs_of(size_t n)
{
    size_t elements = n / 32;

    if (elements > SS_SAMPLE)
        elements = SS_SAMPLE;
    if (elements < SS_SAMPLE_LEAST)
        elements = SS_SAMPLE_LEAST;
    return elements < n ? elements / SS_RUN : (n + SS_RUN - 1) / SS_RUN;
}

/* Sums are kept for each place in a run by itself, so that a run is added by vector instructions.
 */
struct sample {
    double sketch[SS_SKETCH];
    double squares[SS_BLOCKS][SS_RUN];
    double above[SS_RUN];     /* squares of positive elements */
    double blocks[SS_BLOCKS]; /* energies */
    uint64_t marks[SS_MARKS / 64];
    double energy, positive;
    size_t count;
};

static void widen(const float *restrict from, double *restrict x)
{
    for (int i = 0; i < SS_RUN; i++)
        x[i] = (double)from[i];
}

/* `count` elements, at most SS_RUN, as doubles; those behind them are zero. */
static void load(enum ss_type type, const void *from, size_t count, double *x)
{
    float few[SS_RUN] = {0};

    if (type == SS_F64) {
        memset(x, 0, SS_RUN * sizeof *x);
        memcpy(x, from, count * sizeof *x);
    } else if (count == SS_RUN) {
        widen(from, x);
    } else {
        memcpy(few, from, count * sizeof *few);
        widen(few, x);
    }
}

/* Of four elements, by the bits of a number. */
#define BY_BIT(b, i) ((b) >> (i)&1 ? 1 : -1)
#define SIGNS(b)                                                                                   \
    {                                                                                              \
        BY_BIT(b, 0), BY_BIT(b, 1), BY_BIT(b, 2), BY_BIT(b, 3)                                     \
    }
static const double signs[16][4] = {
    SIGNS(0), SIGNS(1), SIGNS(2),  SIGNS(3),  SIGNS(4),  SIGNS(5),  SIGNS(6),  SIGNS(7),
    SIGNS(8), SIGNS(9), SIGNS(10), SIGNS(11), SIGNS(12), SIGNS(13), SIGNS(14), SIGNS(15),
};

static void add_four(double *restrict bucket, double *restrict squares, double *restrict above,
                     const double *restrict x, const double *restrict sign)
{
    for (int i = 0; i < 4; i++) {
        double square = x[i] * x[i];
        squares[i] += square;
        above[i] += x[i] > 0 ? square : 0;
        bucket[i] += x[i] * sign[i];
    }
}

static void add_run(struct sample *s, const double *x, uint64_t h, size_t block)
{
    double *bucket = s->sketch + (h >> 61) * SS_RUN;

    for (int i = 0; i < SS_RUN; i += 4)
        add_four(bucket + i, s->squares[block] + i, s->above + i, x + i, signs[h >> i & 15]);
}

static void add_up(struct sample *s)
{
    for (int i = 0; i < SS_RUN; i++)
        s->positive += s->above[i];
    for (int b = 0; b < SS_BLOCKS; b++) {
        for (int i = 0; i < SS_RUN; i++)
            s->blocks[b] += s->squares[b][i];
        s->energy += s->blocks[b];
    }
}

/* The marks that fall to run j of `runs`, each at a random place of it. */
static void mark_run(struct sample *s, const double *x, size_t count, uint64_t h, size_t j,
                     size_t runs)
{
    for (size_t m = j * SS_MARKS / runs; m < (j + 1) * SS_MARKS / runs; m++) {
        h = h << 20 | h >> 44;
        if (x[(h >> 32) % count] != 0)
            s->marks[m / 64] |= (uint64_t)1 << m % 64;
    }
}

/* Run j of `runs`: a random place in the j-th of as many equal parts. */
static struct ss_run run_at(size_t n, size_t j, size_t runs)
{
    size_t low = (size_t)((uint64_t)n * j / runs);
    size_t room = (size_t)((uint64_t)n * (j + 1) / runs) - low;

    if (room <= SS_RUN)
        return (struct ss_run){low, room};
    low += (size_t)((scramble(j + 1) >> 16 & 0xffffffff) * (room - SS_RUN + 1) >> 32);
    return (struct ss_run){low, SS_RUN};
}

size_t ss_evidence_runs(size_t n, struct ss_run *runs)
{
    size_t count = runs_of(n);

    for (size_t j = 0; j < count; j++)
        runs[j] = run_at(n, j, count);
    return count;
}

size_t ss_evidence_elements(size_t n)
{
    return runs_of(n) * SS_RUN;
}

static void take(struct sample *s, enum ss_type type, const void *sample, size_t n)
{
    size_t runs = runs_of(n);
    const char *from = sample;
    double x[SS_RUN];

    *s = (struct sample){.count = 0};
    for (size_t j = 0; j < runs; j++) {
        struct ss_run run = run_at(n, j, runs);
        uint64_t h = scramble(j + 1);

        load(type, from + s->count * ss_type_size(type), run.count, x);
        add_run(s, x, h, (size_t)((uint64_t)run.first * SS_BLOCKS / n));
        mark_run(s, x, run.count, h, j, runs);
        s->count += run.count;
    }
    add_up(s);
}

/* ---- what this rank shows ---- */

static const double UNIT = 1 << 18, SHARE = 1 << 20;

static double dot(const int32_t *a, const int32_t *b)
{
    double sum = 0;

    for (int i = 0; i < SS_SKETCH; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double cosine(const int32_t *a, const int32_t *b)
{
    double norms = ss_root(dot(a, a)) * ss_root(dot(b, b));

    return norms > 0 ? dot(a, b) / norms : 0;
}

static int32_t whole(double x)
{
    return (int32_t)(x < 0 ? x - 0.5 : x + 0.5);
}

static void show_blocks(struct ss_evidence *e, struct ss_watch *w, const struct sample *s,
                        bool again)
{
    w->own_calls += !again;
    for (int b = 0; b < SS_BLOCKS; b++) {
        w->own[b] += again ? 0 : s->blocks[b] / s->energy;
        e->blocks[b] = (uint16_t)whole(w->own[b] / w->own_calls * UINT16_MAX);
    }
}

static uint32_t bits_in(const uint64_t *marks)
{
    uint32_t bits = 0;

    for (int i = 0; i < SS_MARKS / 64; i++)
        bits += (uint32_t)__builtin_popcountll(marks[i]);
    return bits;
}

static void show_stay(struct ss_evidence *e, struct ss_watch *w)
{
    memcpy(w->now, e->sketch, sizeof w->now);
    if (!w->has_mine)
        return;
    e->with_past = 1;
    e->stay = whole(cosine(w->now, w->mine) * SHARE);
}

void ss_evidence_show(struct ss_evidence *e, struct ss_watch *w, enum ss_type type,
                      const void *sample, size_t n, bool again)
{
    struct sample s;

    ss_evidence_init(e);
    take(&s, type, sample, n);
    if (s.energy - s.energy != 0)
        return;
    e->shown = 1;
    if (!(s.energy > 0))
        return;
    double square = 0, positive = s.positive / s.energy;
    for (int i = 0; i < SS_SKETCH; i++)
        square += s.sketch[i] * s.sketch[i];
    double scale = square > 0 ? UNIT / ss_root(square) : 0;
    e->nonzero = 1;
    e->energy_min = e->energy_max = ss_double_bits(s.energy / (double)s.count);
    e->balance_min = e->balance_max =
        (uint32_t)whole((positive < 0.5 ? positive : 1 - positive) * SHARE);
    for (int i = 0; i < SS_SKETCH; i++)
        e->sketch[i] = whole(s.sketch[i] * scale);
    memcpy(e->marks, s.marks, sizeof e->marks);
    e->marked = bits_in(e->marks);
    show_blocks(e, w, &s, again);
    show_stay(e, w);
}

/* ---- what all ranks conclude ---- */

/* Limits of a single call; scripts/results.md has the table that they are from. */
static const double ALIKE = 0.99, SAME = 0.99, ONE_SIGN = 1e-4, FAR = 8 /* octaves of energy */;
enum { FORGIVEN = 4, LONG = 14, EARLY = 4 };

/* And of the means over a window. */
static const struct {
    double alike, cancelling, again, along, both, same, balance, parts, drift, moved;
    double overlap, fresh, first, early, third, lasting, common, sure;
} MEAN = {.alike = 0.88,
          .cancelling = -0.12,
          .again = 0.88,
          .along = 0.72,
          .both = 0.38,
          .same = 0.05,
          .balance = 0.03,
          .parts = 0.5,
          .drift = 1,
          .moved = 1.5,
          .overlap = 0.25,
          .fresh = 0.6, /* (1 - stay) / (1 - alike) */
          .first = 0.3,
          .early = 0.45,
          .third = 0.45, /* of the first */
          .lasting = 0.88,
          .common = 0.02,
          .sure = 2 /* standard errors above that */};
static const double NEARLY_SAME = 0.98;

/* log2 by exponent and linear mantissa: off by at most 0.09, the same on every machine. */
static double level_of(uint64_t bits)
{
    return (double)bits / ((uint64_t)1 << 52) - 1023;
}

/* Of unit vectors, from the length of their sum. */
static double alike(const struct ss_evidence *all)
{
    double ranks = all->nonzero, square = dot(all->sketch, all->sketch) / UNIT / UNIT;

    return ranks > 1 ? (square - ranks) / (ranks * (ranks - 1)) : 0;
}

/* The sum over the blocks of the largest share of a rank is 1 where all are alike, and the number
 * of ranks where they are disjoint. */
static double parts(const struct ss_evidence *all)
{
    double sum = 0;

    for (int b = 0; b < SS_BLOCKS; b++)
        sum += (double)all->blocks[b] / UINT16_MAX;
    return all->nonzero > 1 ? (sum - 1) / (all->nonzero - 1) : 0;
}

/* How much of what is not zero falls onto what is not zero on another rank. */
static double overlap(const struct ss_evidence *all)
{
    double marked = all->marked, ranks = all->nonzero;

    return ranks > 1 && marked > 0 ? (marked - bits_in(all->marks)) / (marked - marked / ranks) : 1;
}

static void compare(const struct ss_watch *w, const struct ss_evidence *all, struct ss_verdict *v)
{
    for (unsigned i = 1; i <= w->past; i++) {
        double cos = cosine(all->sketch, w->last[(w->seen - i) % SS_PAST]);
        if (i == 1)
            v->along = cos;
        if (i == 3)
            v->third = cos < 0 ? -cos : cos;
        if (cos > v->again || -cos > v->again)
            v->again = cos < 0 ? -cos : cos;
    }
}

static void remember(struct ss_watch *w, const struct ss_evidence *all)
{
    memcpy(w->last[w->seen++ % SS_PAST], all->sketch, sizeof all->sketch);
    w->past += w->past < SS_PAST;
    for (int i = 0; i < SS_SKETCH; i++)
        w->hash = (w->hash ^ (uint32_t)all->sketch[i]) * 0x9e3779b97f4a7c15ULL;
    w->hash ^= w->hash >> 32 ^ all->energy_max;
    memcpy(w->mine, w->now, sizeof w->mine);
    w->has_mine = true;
}

static void enter(double *mean, double x, unsigned calls)
{
    *mean += (x - *mean) / (calls < 8 ? calls : 8);
}

static double size_of(double x)
{
    return x < 0 ? -x : x;
}

/* What only two ranks can show whose inputs are not zero: a call with one such rank says nothing.
 */
static void book_pairs(struct ss_watch *w, const struct ss_verdict *v)
{
    double pairs = (double)v->ranks * (v->ranks - 1) / 2;

    if (v->ranks < 2)
        return;
    w->paired++;
    w->pairs += pairs;
    w->common += (v->alike - w->common) * pairs / w->pairs;
    w->doubt = 1 / ss_root(SS_SKETCH * w->pairs);
    enter(&w->alike, v->alike, w->paired);
    enter(&w->overlap, v->overlap, w->paired);
    w->parts = v->parts;
}

static void book_level(struct ss_watch *w, double level)
{
    double last = w->begin + w->moved;

    last += (level - last) / (w->calls < EARLY ? w->calls : EARLY);
    if (w->calls <= EARLY)
        w->begin = last;
    w->moved = last - w->begin;
    w->before = level;
}

/* A mean that stays is as near to the first sums as to the last. */
static void book_lasting(struct ss_watch *w, const struct ss_evidence *all)
{
    double norm = ss_root(dot(all->sketch, all->sketch)), square = 0, calls = w->calls;

    for (int i = 0; i < SS_SKETCH; i++) {
        w->total[i] += norm > 0 ? all->sketch[i] / norm : 0;
        square += w->total[i] * w->total[i];
    }
    double near = w->first > 0.01 ? w->first : 0.01;
    w->lasting = calls > 1 ? (square - calls) / (calls * (calls - 1)) / near : 0;
}

/* Cosines are with calls before: the first of a watch has none. */
static void book(struct ss_watch *w, const struct ss_evidence *all, const struct ss_verdict *v)
{
    unsigned calls = ++w->calls;

    book_pairs(w, v);
    enter(&w->balance, v->balance_max, calls);
    if (w->seen > 0 && calls > 1) {
        enter(&w->again, v->again, calls - 1);
        enter(&w->along, v->along, calls - 1);
        w->first += (size_of(v->along) - w->first) / (calls - 1);
        enter(&w->stay, v->stay, calls - 1);
        enter(&w->same, v->along > NEARLY_SAME, calls - 1);
        enter(&w->drift, v->level - w->before, calls - 1);
    }
    if (calls > 3)
        w->third += (v->third - w->third) / (calls - 3);
    book_lasting(w, all);
    book_level(w, v->level);
    w->calm = ss_watch_likeness(w) == SS_LIKE_GRADIENT ? w->calm + 1 : 0;
}

/* Elements that one rank alone fills, or blocks; or the whole, as in a broadcast by a sum. */
static bool is_in_parts(const struct ss_watch *w)
{
    return w->paired == 0 || w->parts > MEAN.parts || w->overlap < MEAN.overlap;
}

static bool comes_again(const struct ss_watch *w)
{
    return w->again > MEAN.again || w->along > MEAN.along || w->same > MEAN.same ||
           (w->along > 0 && w->alike * w->along > MEAN.both);
}

static bool forgets_early(const struct ss_watch *w)
{
    return w->calls > 4 && w->first > MEAN.early && w->third < MEAN.third * w->first;
}

/* In its first steps the norm of a training falls as fast as that of a solver; not later, when the
 * sums of a solver that goes on behind its end are noise that grows. */
static bool runs_away(const struct ss_watch *w)
{
    return size_of(w->drift) > MEAN.drift || (w->later && size_of(w->moved) > MEAN.moved);
}

/* Not known before some calls have passed. */
static bool lasts(const struct ss_watch *w)
{
    return w->along > MEAN.first && (w->calls < LONG || w->lasting > MEAN.lasting);
}

enum ss_likeness ss_watch_likeness(const struct ss_watch *w)
{
    if (w->balance < MEAN.balance)
        return SS_LIKE_COUNTS;
    if (is_in_parts(w))
        return SS_LIKE_PARTS;
    if (w->alike > MEAN.alike)
        return SS_LIKE_WEIGHTS;
    if (comes_again(w))
        return SS_LIKE_BEFORE;
    if (runs_away(w) || w->alike < MEAN.cancelling)
        return SS_LIKE_SOLVER;
    if (1 - w->stay < MEAN.fresh * (1 - w->alike))
        return SS_LIKE_DATA;
    if (forgets_early(w))
        return SS_LIKE_SHORT;
    if (lasts(w))
        return SS_LIKE_MEAN;
    if (w->common < MEAN.common + MEAN.sure * w->doubt)
        return SS_LIKE_LAYERS;
    return SS_LIKE_GRADIENT;
}

enum ss_likeness ss_watch_doubt(const struct ss_watch *w)
{
    static const double AGAIN = 0.65;

    if (w->window_against >= 2)
        return w->why;
    if (w->calls >= 2 && w->balance < MEAN.balance)
        return SS_LIKE_COUNTS;
    if (w->paired >= 2 && w->overlap < MEAN.overlap)
        return SS_LIKE_PARTS;
    if (w->calls >= 3 && w->along > AGAIN)
        return SS_LIKE_BEFORE;
    if (w->calls >= 3 && 1 - w->stay < MEAN.fresh * (1 - w->alike))
        return SS_LIKE_DATA;
    return SS_LIKE_GRADIENT;
}

/* The norm's past follows the calls that are near it; after some in a row that are not, the norm is
 * another one now. */
static void follow(struct ss_watch *w, struct ss_verdict *v)
{
    double away = v->level - w->level;

    v->far = w->leveled && (away > FAR || away < -FAR);
    w->far = v->far ? w->far + 1 : 0;
    if (!w->leveled || w->far >= FORGIVEN)
        w->level = v->level;
    else if (!v->far && !v->weights)
        w->level += away / 8;
    w->leveled = true;
}

static void speak_against(struct ss_watch *w, const struct ss_evidence *all, struct ss_verdict *v)
{
    enum ss_likeness why = SS_LIKE_GRADIENT;

    if (all->nonzero > 1 && v->alike > ALIKE)
        why = SS_LIKE_WEIGHTS;
    else if (v->along > SAME)
        why = SS_LIKE_BEFORE;
    else if (v->balance_max < ONE_SIGN)
        why = SS_LIKE_COUNTS;
    v->weights = why != SS_LIKE_GRADIENT;
    w->since = v->weights ? 0 : w->since + 1;
    w->window_against += v->weights;
    w->why = v->weights ? why : w->why;
}

const char *ss_likeness_text(enum ss_likeness likeness)
{
    static const char *const texts[] = {
        [SS_LIKE_GRADIENT] = "nothing speaks against a gradient",
        [SS_LIKE_WEIGHTS] = "inputs alike on all ranks, as of weights",
        [SS_LIKE_PARTS] = "elements that one rank each fills, as in a gather",
        [SS_LIKE_COUNTS] = "elements of one sign",
        [SS_LIKE_BEFORE] = "the same direction again",
        [SS_LIKE_SOLVER] = "a norm that falls or grows, as in a solver",
        [SS_LIKE_DATA] = "inputs of a rank that come again, as of data that stays",
        [SS_LIKE_SHORT] = "a short memory, as of a solver",
        [SS_LIKE_LAYERS] = "inputs that have nothing in common",
        [SS_LIKE_MEAN] = "a direction that stays, as of a mean",
    };
    return texts[likeness];
}

struct ss_verdict ss_watch_judge(struct ss_watch *w, const struct ss_evidence *all, int size)
{
    struct ss_verdict v = {.judged = all->shown == (uint32_t)size, .zero = all->nonzero == 0};

    if (!v.judged || v.zero)
        return v;
    v.level = level_of(all->energy_max);
    v.balance_min = (double)all->balance_min / SHARE;
    v.balance_max = (double)all->balance_max / SHARE;
    v.ranks = all->nonzero;
    v.alone = v.ranks == 1 && size > 1;
    v.alike = alike(all);
    v.overlap = overlap(all);
    v.stay = all->with_past > 0 ? (double)all->stay / SHARE / all->with_past : 0;
    v.parts = parts(all);
    compare(w, all, &v);
    speak_against(w, all, &v);
    if (v.weights)
        w->calm = 0;
    else
        book(w, all, &v);
    remember(w, all);
    follow(w, &v);
    return v;
}

void ss_watch_restart(struct ss_watch *w)
{
    struct ss_watch fresh = {.hash = w->hash,
                             .later = true,
                             .past = w->past,
                             .seen = w->seen,
                             .level = w->level,
                             .leveled = w->leveled,
                             .far = w->far,
                             .has_mine = w->has_mine};

    memcpy(fresh.last, w->last, sizeof fresh.last);
    memcpy(fresh.mine, w->mine, sizeof fresh.mine);
    memcpy(fresh.now, w->now, sizeof fresh.now);
    *w = fresh;
}

void ss_watch_free(struct ss_watch *w)
{
    memset(w, 0, sizeof *w);
}
