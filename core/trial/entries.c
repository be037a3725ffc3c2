/* Draws the entries of a trial's inputs, with the same bits on every host: no libm. */
#include "core/trial/entries.h"

#include <math.h>
#include <string.h>

#include "core/base/types.h"

/* Returns the natural logarithm of 0 < x <= 1, off by less than 1e-8. */
static double logarithm(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1022;
    bits = (bits & 0xfffffffffffffULL) | 1022ULL << 52; /* 1/2 <= m < 1 */
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), q = s * s;
    return exponent * 0.69314718055994531 +
           2 * s * (1 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q / 9))));
}

static uint64_t hash(uint64_t key, uint64_t word)
{
    return ss_mix(ss_mix(key + 0x9e3779b97f4a7c15ULL, word + 0x632be59bd9b4e019ULL), key);
}

uint64_t ss_entries_each(const struct ss_entries *e)
{
    uint64_t k = (uint64_t)(e->density * (double)e->n + 0.5);

    return k < 1 ? 1 : k > e->n ? e->n : k;
}

static uint64_t in_common(const struct ss_entries *e)
{
    return (uint64_t)(e->overlap * (double)ss_entries_each(e) + 0.5);
}

double ss_entries_union(const struct ss_entries *e, int ranks)
{
    double n = (double)e->n, common = (double)in_common(e);
    double own = ((double)ss_entries_each(e) - common) / n;

    return n - (n - common) * ss_power(1 - own, (uint64_t)ranks);
}

/* Draws the next place; n if there is none. */
static uint64_t draw(struct ss_places *p)
{
    double u = ((double)(hash(p->key, ++p->draws) >> 11) + 0.5) * 0x1p-53;
    double skipped = logarithm(u) / p->log_absent;

    if (skipped >= (double)(p->n - p->at))
        return p->n;
    p->at += (uint64_t)skipped + 1;
    return p->at - 1;
}

static void advance(struct ss_places *p)
{
    p->place = p->n;
    while (p->wanted > 0) {
        uint64_t at = draw(p);
        bool picked = hash(~p->key, p->draws) % p->drawn-- < p->wanted;
        if (picked) {
            p->wanted--;
            p->place = at;
            return;
        }
    }
}

/* Starts a subset; six standard deviations more places are drawn than wanted. */
static void places_start(struct ss_places *p, uint64_t n, uint64_t count, uint64_t key)
{
    double drawn = ((double)count + 6 * ss_root((double)count) + 16) / (double)n;

    *p = (struct ss_places){.n = n, .key = key};
    p->log_absent = drawn < 1 ? logarithm(1 - drawn) : -INFINITY;
    if (count > 0)
        while (draw(p) < n)
            p->drawn++;
    p->draws = p->at = 0;
    p->wanted = count < p->drawn ? count : p->drawn;
    advance(p);
}

void ss_entries_start(struct ss_entries_cursor *c, const struct ss_entries *e, uint64_t call,
                      int rank)
{
    uint64_t all = hash(e->seed, call), common = in_common(e);

    c->key = hash(all, (uint64_t)rank + 1);
    places_start(&c->common, e->n, common, all);
    places_start(&c->own, e->n, ss_entries_each(e) - common, c->key);
}

bool ss_entries_next(struct ss_entries_cursor *c, uint32_t *idx, float *val)
{
    uint64_t n = c->own.n, common = c->common.place, own = c->own.place;
    uint64_t place = common < own ? common : own;

    if (place == n)
        return false;
    if (common == place)
        advance(&c->common);
    if (own == place)
        advance(&c->own);
    *idx = (uint32_t)place;
    *val = (float)(1 + hash(~c->key, place) % SS_ENTRY_MOST);
    return true;
}

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93ULL;
    return h ^ h >> 32;
}

void ss_digest_add(struct ss_digest *d, uint64_t idx, float val)
{
    uint32_t bits;

    memcpy(&bits, &val, sizeof bits);
    if (bits << 1 == 0)
        return;
    d->sum += mix(mix(idx + 1) ^ bits);
    d->nnz++;
}
