/* The sample of an input and its sums. */
#include "core/learn/learn_record.h"

#include <string.h>

/* Sums of the sample. */
struct sums {
    double sketch[SS_LEARN_SKETCH];
    double blocks[SS_LEARN_BLOCKS]; /* energies */
    double groups[SS_LEARN_GROUPS];
    double above;
};

static uint64_t scramble(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
    return x ^ x >> 29;
}

static size_t runs_of(size_t n)
{
    size_t elements = n / 32;

    if (elements > SS_LEARN_MOST)
        elements = SS_LEARN_MOST;
    if (elements < SS_LEARN_LEAST)
        elements = SS_LEARN_LEAST;
    return elements < n ? elements / SS_LEARN_RUN : (n + SS_LEARN_RUN - 1) / SS_LEARN_RUN;
}

/* Returns the first element of run j and sets *count to its elements. */
static size_t run_at(size_t n, size_t j, size_t runs, size_t *count)
{
    size_t low = (size_t)((uint64_t)n * j / runs);
    size_t room = (size_t)((uint64_t)n * (j + 1) / runs) - low;

    *count = room < SS_LEARN_RUN ? room : SS_LEARN_RUN;
    if (room > SS_LEARN_RUN)
        low += (size_t)((scramble(j + 1) >> 16 & 0xffffffff) * (room - SS_LEARN_RUN + 1) >> 32);
    return low;
}

static double value_at(enum ss_type type, const void *in, size_t i)
{
    return type == SS_F32 ? (double)((const float *)in)[i] : ((const double *)in)[i];
}

/* Records for the positions that fall to run j whether their elements are zero. */
static void note_positions(struct ss_learn_record *r, const double *x, size_t count, uint64_t h,
                           size_t j, size_t runs)
{
    for (size_t p = j * SS_LEARN_POSITIONS / runs;
         count > 0 && p < (j + 1) * SS_LEARN_POSITIONS / runs; p++) {
        h = h << 20 | h >> 44;
        if (x[(h >> 32) % count] != 0)
            r->nonzero[p / 64] |= (uint64_t)1 << p % 64;
    }
}

static void add_run(struct ss_learn_record *r, struct sums *s, const double *x, size_t count,
                    uint64_t h, size_t block)
{
    double *bucket = s->sketch + (h >> 61) * SS_LEARN_RUN;
    double *group = s->groups + (h >> 62) * SS_LEARN_RUN;

    for (size_t i = 0; i < count; i++) {
        double square = x[i] * x[i];
        s->blocks[block] += square;
        group[i] += square;
        s->above += x[i] > 0 ? square : 0;
        bucket[i] += h >> i & 1 ? x[i] : -x[i];
        r->zeros += x[i] == 0;
    }
    r->elements += (uint32_t)count;
}

static void finish(struct ss_learn_record *r, const struct sums *s)
{
    double root;

    for (int b = 0; b < SS_LEARN_BLOCKS; b++)
        r->energy += s->blocks[b];
    r->above = s->above;
    if (r->energy - r->energy != 0) { /* NaN or Inf */
        r->flags |= SS_LEARN_NOT_FINITE;
        r->energy = r->above = 0;
    }
    if (r->energy <= 0)
        return;
    root = ss_root(r->energy);
    for (int b = 0; b < SS_LEARN_BLOCKS; b++)
        r->blocks[b] = (uint16_t)(s->blocks[b] / r->energy * SS_LEARN_SHARE + 0.5);
    for (int g = 0; g < SS_LEARN_GROUPS; g++)
        r->groups[g] = (uint16_t)(s->groups[g] / r->energy * SS_LEARN_SHARE + 0.5);
    for (int i = 0; i < SS_LEARN_SKETCH; i++) {
        double x = s->sketch[i] / root * SS_LEARN_UNIT;
        x = x > INT16_MAX ? INT16_MAX : x < -INT16_MAX ? -INT16_MAX : x;
        r->sketch[i] = (int16_t)(x < 0 ? x - 0.5 : x + 0.5);
    }
}

void ss_learn_sample(struct ss_learn_record *record, enum ss_type type, const void *in, size_t n)
{
    size_t runs = runs_of(n);
    struct sums s = {.above = 0};

    for (size_t j = 0; j < runs; j++) {
        size_t count, first = run_at(n, j, runs, &count);
        uint64_t h = scramble(j + 1);
        double x[SS_LEARN_RUN];

        for (size_t i = 0; i < count; i++)
            x[i] = value_at(type, in, first + i);
        note_positions(record, x, count, h, j, runs);
        add_run(record, &s, x, count, h, (size_t)((uint64_t)first * SS_LEARN_BLOCKS / n));
    }
    finish(record, &s);
    record->head = (struct ss_learn_head){sizeof *record, SS_LEARN_SAMPLED};
}
