/* What the norms of calls tell of steps. */
#include <math.h>
#include <string.h>

#include "core/compute/kernels.h"
#include "core/compute/select.h"
#include "core/compute/vector.h"
#include "core/tensor/steps_impl.h"

enum {
    MOST_LAYERS = 32, /* where nothing is known of levels */
    FEW_LAYERS = 16,  /* where they do not tell layers apart */
    LEAST_PAIRS = 5,
    LONGEST_OF_LEVELS = 128,
    JUMP = 3 * SS_STEP_OCTAVE,                /* of a part */
    PRESENT = UINT8_MAX - 10 * SS_STEP_OCTAVE /* a part that holds something */
};

/* ---- two calls ---- */

/* How two calls of one lane differ; of parts in the mean. */
struct unlikeness {
    bool known, parts_known;
    int norm, parts;
    int jumps;   /* parts that differ by more than JUMP */
    int emptied; /* parts that hold something in one call and nothing in the other */
};

static void compare_parts(const struct ss_step_level *a, const struct ss_step_level *b,
                          struct unlikeness *u)
{
    int sum = 0, known_a = 0, known_b = 0;

    for (int i = 0; i < SS_STEP_PARTS; i++) {
        int away = a->part[i] > b->part[i] ? a->part[i] - b->part[i] : b->part[i] - a->part[i];
        sum += away;
        u->jumps += away > JUMP;
        u->emptied += (a->part[i] == 0 && b->part[i] >= PRESENT) ||
                      (b->part[i] == 0 && a->part[i] >= PRESENT);
        known_a |= a->part[i];
        known_b |= b->part[i];
    }
    u->parts_known = known_a && known_b;
    u->parts = sum / SS_STEP_PARTS;
}

/* Of the call so many calls ago and the one `apart` before it, whose lanes are the same. */
static struct unlikeness compare(const struct ss_steps *s, uint32_t calls, uint32_t apart)
{
    struct unlikeness u = {.known = false};

    if (s->blind || calls + apart >= s->end)
        return u;
    const struct ss_step_level *a = &s->level[s->end - 1 - calls], *b = a - apart;
    if (a->norm == 0 || b->norm == 0)
        return u;
    u.known = true;
    u.norm = a->norm > b->norm ? a->norm - b->norm : b->norm - a->norm;
    compare_parts(a, b, &u);
    return u;
}

static bool are_alike(const struct unlikeness *u)
{
    return u->known && u->parts_known && u->jumps == 0 && 2 * u->norm <= SS_STEP_OCTAVE &&
           2 * u->parts <= SS_STEP_OCTAVE;
}

static bool same_lane(const struct ss_steps *s, uint32_t calls, uint32_t apart)
{
    return calls + apart < s->end && ss_step_ago(s, calls) == ss_step_ago(s, calls + apart);
}

static bool same_number(const struct ss_steps *s, uint32_t calls, uint32_t apart)
{
    return calls + apart < s->end &&
           ss_step_number(ss_step_ago(s, calls)) == ss_step_number(ss_step_ago(s, calls + apart));
}

/* ---- stretches ---- */

/* Sum of how far the norms of the last `calls` calls are from those `apart` before; -1 where too
 * few are known. */
static int64_t unevenness(const struct ss_steps *s, uint32_t calls, uint32_t apart)
{
    int64_t sum = 0, known = 0;

    for (uint32_t i = 0; i < calls; i++) {
        if (!same_lane(s, i, apart))
            continue;
        struct unlikeness u = compare(s, i, apart);
        known += u.known;
        sum += u.norm;
    }
    return known > 0 && 2 * known >= calls ? sum * calls / known : -1;
}

/* This call is not among them, whose level is not known yet: of those different layers. */
bool ss_step_uneven(const struct ss_steps *s, uint32_t p)
{
    uint32_t calls = SS_STEADY > p ? SS_STEADY : p;

    return unevenness(s, calls, p) > (int64_t)SS_STEP_OCTAVE * calls;
}

/* Of pairs: how many there are, the sum of how far their norms are from each other, how many have
 * known parts, and in how many of these a part is empty in one only. */
struct pairs {
    int64_t known, away, parts_known, emptied;
};

static struct pairs pairs_of(const struct ss_steps *s, uint32_t calls, uint32_t apart, bool same)
{
    struct pairs all = {.known = 0};

    for (uint32_t i = 1; i < calls; i++) {
        if (same_lane(s, i, apart) != same || (!same && !same_number(s, i, apart)))
            continue;
        struct unlikeness u = compare(s, i, apart);
        all.known += u.known;
        all.away += u.norm;
        all.parts_known += u.parts_known;
        all.emptied += u.parts_known && u.emptied > 0;
    }
    return all;
}

static bool is_patchy(const struct pairs *all)
{
    return all->parts_known >= LEAST_PAIRS && 4 * all->emptied >= 3 * all->parts_known;
}

bool ss_step_patchy(const struct ss_steps *s, uint32_t p)
{
    struct pairs all = pairs_of(s, SS_STEADY > p ? SS_STEADY : p, p, true);

    return is_patchy(&all);
}

bool ss_step_labels_even(const struct ss_steps *s, uint32_t p)
{
    struct pairs all = pairs_of(s, 4 * (SS_STEADY > p ? SS_STEADY : p), p, false);

    return all.known >= LEAST_PAIRS && all.away <= SS_STEP_OCTAVE * all.known && !is_patchy(&all);
}

/* Of the pairs `apart` in the last `calls` calls before this one, at most: those known, alike. */
static uint32_t alike_pairs(const struct ss_steps *s, uint32_t calls, uint32_t apart,
                            uint32_t *known)
{
    uint32_t alike = 0;

    *known = 0;
    for (uint32_t i = 1; i <= calls; i++) {
        if (!same_lane(s, i, apart))
            continue;
        struct unlikeness u = compare(s, i, apart);
        *known += u.known;
        alike += are_alike(&u);
    }
    return alike;
}

/* Between any two of the last calls before this one came as many small calls: a loss, a metric. */
static bool are_apart(const struct ss_steps *s, uint32_t calls)
{
    uint8_t small = s->end > 1 ? s->level[s->end - 2].small : 0;
    bool same = small > 0;

    for (uint32_t i = 1; i <= calls && i < s->end && same; i++)
        same = s->level[s->end - 1 - i].small == small;
    return same;
}

bool ss_step_even(const struct ss_steps *s, uint32_t p)
{
    uint32_t calls = 3 * p > SS_EVEN ? 2 * p : SS_EVEN - p, known;

    return alike_pairs(s, calls, p, &known) == calls && (p > 1 || are_apart(s, calls));
}

uint32_t ss_step_of_levels(const struct ss_steps *s, const struct ss_step_cycle *c)
{
    uint32_t d = c->length, held = s->run[d] + d, known, alike;

    if (c->any_order || !(ss_step_uneven(s, d) || ss_step_patchy(s, d)))
        return 0;
    for (uint32_t p = 2 * d; p <= LONGEST_OF_LEVELS && 3 * p < held; p += d) {
        if (held % p != 1 % p) /* seldom, as it takes a while */
            continue;
        alike = alike_pairs(s, 2 * p, p, &known);
        if (known == 2 * p && 8 * alike >= 7 * known)
            return p;
    }
    return 0;
}

/* ---- layers or interruptions ---- */

static bool same_lanes(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    for (uint32_t i = 0; i < p; i++) {
        uint32_t q = 0;
        while (q < c->length && ss_step_number(c->lane[q]) != ss_step_number(ss_step_ago(s, i)))
            q++;
        if (q == c->length)
            return false;
    }
    return true;
}

/* The last p calls are little more than the cycle repeated more often than a network has equal
 * layers: a training interrupted at equal intervals. Layers keep their levels from one step to the
 * next, and differ. What comes from elsewhere with the counts of gradients is weights. */
bool ss_step_only_interrupts(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    uint32_t length = c->length, alike = 0, most = 0, layers = MOST_LAYERS;
    int64_t within = unevenness(s, p, p), between = unevenness(s, p, length);

    for (uint32_t i = 0; i < 2 * p; i++) { /* twice, as the stretch may cross the end */
        alike = ss_step_ago(s, i % p) == ss_step_ago(s, (i + length) % p) ? alike + 1 : 0;
        most = alike > most ? alike : most;
    }
    most += length;
    if (within >= 0 && between > 2 * within + SS_STEP_OCTAVE / 8 * (int64_t)p)
        return false;
    if (same_lanes(s, p, c))
        layers = SS_FEW_WEIGHTS;
    else if (within >= 0 && between >= 0)
        layers = FEW_LAYERS;
    return most > layers * length && 8 * most >= 7 * p;
}

/* ---- levels of a call ---- */

static int level_of(double square)
{
    int exponent;
    double mantissa = frexp(square, &exponent);

    return (exponent + 1100) * SS_STEP_OCTAVE + (int)(2 * (mantissa - 0.5) * SS_STEP_OCTAVE);
}

void ss_steps_level(struct ss_steps *s, double square, const uint8_t *parts, uint8_t small)
{
    struct ss_step_level *level = &s->level[s->end - 1];

    if (s->end == 0 || !(square > 0) || square - square != 0)
        return;
    level->norm = (int16_t)level_of(square);
    level->small = small;
    if (parts)
        memcpy(level->part, parts, sizeof level->part);
}

/* Where a part of n elements begins. */
static size_t part_at(size_t n, size_t part)
{
    return (size_t)((uint64_t)n * part / SS_STEP_PARTS);
}

/* From the squared norms of the parts to their shares; returns their sum. */
static double shares(const double *square, uint8_t *parts)
{
    double sum = 0;

    for (int i = 0; i < SS_STEP_PARTS; i++)
        sum += square[i];
    memset(parts, 0, SS_STEP_PARTS);
    for (int i = 0; i < SS_STEP_PARTS && sum > 0 && sum - sum == 0; i++) {
        int below = square[i] > 0 ? level_of(sum) - level_of(square[i]) : UINT8_MAX;
        parts[i] = (uint8_t)(below < UINT8_MAX ? UINT8_MAX - below : 0);
    }
    return sum;
}

size_t ss_steps_runs(size_t n, size_t most, struct ss_run *runs)
{
    size_t count = 0;

    for (size_t i = 0; i < SS_STEP_PARTS; i++) {
        size_t first = part_at(n, i), from = count;
        count += ss_sample_runs(part_at(n, i + 1) - first, most / SS_STEP_PARTS, runs + count);
        for (size_t j = from; j < count; j++)
            runs[j].first += first;
    }
    return count;
}

double ss_steps_parts(enum ss_type type, const void *sample, size_t n, size_t most, uint8_t *parts)
{
    double square[SS_STEP_PARTS];
    const char *from = sample;

    for (size_t i = 0; i < SS_STEP_PARTS; i++) {
        size_t all = part_at(n, i + 1) - part_at(n, i), share = most / SS_STEP_PARTS;
        size_t seen = all < share ? all : share;
        square[i] = ss_vector_square(type, from, seen);
        if (seen < all)
            square[i] *= (double)all / (double)seen;
        from += seen * ss_type_size(type);
    }
    return shares(square, parts);
}

double ss_steps_parts_sparse(enum ss_type type, const uint32_t *idx, const void *val, size_t nnz,
                             size_t n, uint8_t *parts)
{
    double square[SS_STEP_PARTS];
    const char *first = val;
    size_t from = 0, to;

    for (size_t i = 0; i < SS_STEP_PARTS; i++, from = to) {
        to = from + ss_lower_bound(idx + from, nnz - from, (uint32_t)part_at(n, i + 1));
        square[i] = ss_vector_square(type, first + from * ss_type_size(type), to - from);
    }
    return shares(square, parts);
}

void ss_steps_blind(struct ss_steps *s)
{
    s->blind = true;
}
