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

/* Draws the next index; n if there is none. */
static uint64_t draw(struct ss_draw *p)
{
    double u = ((double)(hash(p->key, ++p->draws) >> 11) + 0.5) * 0x1p-53;
    double skipped = logarithm(u) / p->log_absent;

    if (skipped >= (double)(p->n - p->at))
        return p->n;
    p->at += (uint64_t)skipped + 1;
    return p->at - 1;
}

static void advance(struct ss_draw *p)
{
    p->index = p->n;
    while (p->wanted > 0) {
        uint64_t at = draw(p);
        bool picked = hash(~p->key, p->draws) % p->drawn-- < p->wanted;
        if (picked) {
            p->wanted--;
            p->index = at;
            return;
        }
    }
}

/* Starts a subset; six standard deviations more indices are drawn than wanted. */
static void draw_start(struct ss_draw *p, uint64_t n, uint64_t count, uint64_t key)
{
    double drawn = ((double)count + 6 * ss_root((double)count) + 16) / (double)n;

    *p = (struct ss_draw){.n = n, .key = key};
    p->log_absent = drawn < 1 ? logarithm(1 - drawn) : -INFINITY;
    if (count > 0)
        while (draw(p) < n)
            p->drawn++;
    p->draws = p->at = 0;
    p->wanted = count < p->drawn ? count : p->drawn;
    advance(p);
}

/* ---- the other supports ---- */

const char *ss_support_name(enum ss_support support)
{
    static const char *const names[SS_SUPPORTS] = {"uniform", "zipf", "own", "scattered",
                                                   "clustered"};
    return names[support];
}

/* Returns m for which the probabilities m / (m + i) add up to k: m log((m + n) / m) = k. */
static double zipf_head(double n, double k)
{
    double lo = 0, hi = n * n;

    for (int i = 0; i < 200; i++) {
        double m = (lo + hi) / 2;
        if (m * -logarithm(m / (m + n)) < k)
            lo = m;
        else
            hi = m;
    }
    return lo;
}

static void support_start(struct ss_entries_cursor *c, const struct ss_entries *e, uint64_t rank)
{
    uint64_t k = ss_entries_each(e), quarter = e->n / 4 > k ? e->n / 4 : k;

    c->n = e->n;
    c->at = 0;
    c->rank = rank;
    c->ranks = (e->n + k / 2) / k;
    c->length = e->support == SS_SUPPORT_OWN ? k : (k + SS_RUNS - 1) / SS_RUNS;
    for (uint64_t r = 0; r < SS_RUNS; r++)
        c->lo[r] = e->support == SS_SUPPORT_OWN ? rank * k % e->n
                                                : hash(c->key, r) % (quarter - c->length + 1);
    if (e->support == SS_SUPPORT_ZIPF)
        c->m = zipf_head((double)e->n, (double)k);
}

/* Returns true if element i is an entry. */
static bool is_entry(const struct ss_entries_cursor *c, uint64_t i)
{
    bool inside = false;

    switch (c->support) {
    case SS_SUPPORT_ZIPF:
        return ((double)(hash(c->key, i) >> 11) + 0.5) * 0x1p-53 < c->m / (c->m + (double)i);
    case SS_SUPPORT_SCATTERED:
        return hash(c->all, i) % c->ranks == c->rank % c->ranks;
    default:
        for (int r = 0; r < SS_RUNS; r++)
            inside = inside || (i >= c->lo[r] && i - c->lo[r] < c->length);
        return inside;
    }
}

/* ---- entries ---- */

void ss_entries_start(struct ss_entries_cursor *c, const struct ss_entries *e, uint64_t call,
                      int rank)
{
    uint64_t common = in_common(e);

    c->all = hash(e->seed, call);
    c->key = hash(c->all, (uint64_t)rank + 1);
    c->support = e->support;
    if (e->support != SS_SUPPORT_UNIFORM) {
        support_start(c, e, (uint64_t)rank);
        return;
    }
    draw_start(&c->common, e->n, common, c->all);
    draw_start(&c->own, e->n, ss_entries_each(e) - common, c->key);
}

/* Returns the next index, n if none is left. */
static uint64_t next_index(struct ss_entries_cursor *c)
{
    if (c->support != SS_SUPPORT_UNIFORM) {
        while (c->at < c->n && !is_entry(c, c->at))
            c->at++;
        return c->at < c->n ? c->at++ : c->n;
    }
    uint64_t common = c->common.index, own = c->own.index;
    uint64_t index = common < own ? common : own;

    c->n = c->own.n;
    if (common == index && index < c->n)
        advance(&c->common);
    if (own == index && index < c->n)
        advance(&c->own);
    return index;
}

bool ss_entries_next(struct ss_entries_cursor *c, uint32_t *idx, float *val)
{
    uint64_t index = next_index(c);

    if (index == c->n)
        return false;
    *idx = (uint32_t)index;
    *val = (float)(1 + hash(~c->key, index) % SS_ENTRY_MOST);
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
