/* Boundaries of parts: quantiles found by bins that are cut again. */
#include "core/tensor/part_bounds.h"

#include <string.h>

#include "core/compute/kernels.h"
#include "core/net/ranks.h"

enum { FINEST = 16, SETTLED = 8 }; /* bins per rank; a boundary's holds a part in SETTLED */

uint64_t ss_agreed_hash(const struct ss_agreed *a, int size)
{
    const struct ss_threshold *t = &a->global;
    uint64_t h = ss_mix(0x9e3779b97f4a7c15ULL, a->calls);
    const uint32_t *bounds = a->bounds.data;

    h = ss_mix(h, a->partition_call);
    for (int p = 0; a->partition_call > 0 && p <= size; p++)
        h = ss_mix(h, bounds[p]);
    h = ss_mix(h, t->magnitude);
    h = ss_mix(h, t->k);
    h = ss_mix(h, t->calls);
    h = ss_mix(h, t->reevaluate);
    return h > 0 ? h : 1;
}

void ss_agreed_forget(struct ss_agreed *a)
{
    a->calls = 0;
    a->partition_call = 0;
    a->global = (struct ss_threshold){0};
}

size_t ss_cuts_words(int size)
{
    return FINEST * (size_t)size;
}

void ss_cuts_start(struct ss_cuts *c, int size, uint64_t n, uint64_t most, struct ss_cut *cut)
{
    *c = (struct ss_cuts){
        .size = size, .n = n, .total = most, .cut = cut, .packed = most <= UINT32_MAX};
    for (int j = 0; j <= size; j++)
        cut[j] = (struct ss_cut){.hi = (uint32_t)n, .inside = most};
}

static bool settled(const struct ss_cuts *c, const struct ss_cut *cut)
{
    return cut->hi - cut->lo <= 1 || cut->inside <= c->total / (SETTLED * (uint64_t)c->size);
}

/* Returns the first cut behind j in another bin. Cuts of one bin are adjacent. */
static int same_bin(const struct ss_cuts *c, int j)
{
    int end = j + 1;

    while (end < c->size && c->cut[end].lo == c->cut[j].lo && c->cut[end].hi == c->cut[j].hi)
        end++;
    return end;
}

/* Returns the number of pieces into which each open bin is cut; 0 if no bin is open. */
static uint32_t pieces(const struct ss_cuts *c)
{
    uint32_t open = 0;

    for (int j = 1; j < c->size; j = same_bin(c, j))
        open += !settled(c, &c->cut[j]);
    return open > 0 ? (uint32_t)(FINEST * c->size) / open : 0;
}

static uint32_t edge(const struct ss_cut *cut, uint32_t i, uint32_t of)
{
    return cut->lo + (uint32_t)((uint64_t)(cut->hi - cut->lo) * i / of);
}

static void put_count(const struct ss_cuts *c, uint64_t *words, size_t bin, uint64_t count)
{
    if (c->packed)
        words[bin / 2] += count << 32 * (bin & 1);
    else
        words[bin] = count;
}

static uint64_t get_count(const struct ss_cuts *c, const uint64_t *words, size_t bin)
{
    return c->packed ? words[bin / 2] >> 32 * (bin & 1) & UINT32_MAX : words[bin];
}

size_t ss_cuts_count(struct ss_cuts *c, const uint32_t *idx, size_t nnz, uint64_t *words)
{
    uint32_t of = pieces(c);

    c->bins = 0;
    if (of == 0)
        return 0;
    memset(words, 0, ss_cuts_words(c->size) * sizeof *words);
    for (int j = 1; j < c->size; j = same_bin(c, j)) {
        const struct ss_cut *cut = &c->cut[j];
        if (settled(c, cut))
            continue;
        size_t below = ss_lower_bound(idx, nnz, cut->lo);
        for (uint32_t i = 0; i < of; i++) {
            size_t upto = below + ss_lower_bound(idx + below, nnz - below, edge(cut, i + 1, of));
            put_count(c, words, c->bins++, upto - below);
            below = upto;
        }
    }
    return c->packed ? (c->bins + 1) / 2 : c->bins;
}

static uint64_t target(const struct ss_cuts *c, int j)
{
    return c->total * (uint64_t)j / (uint64_t)c->size;
}

/* Moves the cuts [j, end), which share a bin, each to the piece in which its target is reached. The
 * counts of the pieces begin at words[bin]. */
static void narrow(const struct ss_cuts *c, int j, int end, uint32_t of, const uint64_t *words,
                   size_t bin)
{
    const struct ss_cut whole = c->cut[j];
    uint64_t before = whole.before, inside = get_count(c, words, bin);
    uint32_t i = 0;

    for (; j < end; j++) {
        while (before + inside < target(c, j) && i + 1 < of) {
            before += inside;
            inside = get_count(c, words, bin + ++i);
        }
        c->cut[j] = (struct ss_cut){.lo = edge(&whole, i, of),
                                    .hi = edge(&whole, i + 1, of),
                                    .before = before,
                                    .inside = inside};
    }
}

/* Adds up the counts of the first round, whose bins hold all entries. */
static void count_total(struct ss_cuts *c, const uint64_t *words)
{
    c->total = 0;
    for (size_t bin = 0; bin < c->bins; bin++)
        c->total += get_count(c, words, bin);
    c->counted = true;
}

void ss_cuts_narrow(struct ss_cuts *c, const uint64_t *words)
{
    uint32_t of = pieces(c);
    size_t bin = 0;

    if (!c->counted)
        count_total(c, words);
    for (int j = 1, end; j < c->size; j = end) {
        end = same_bin(c, j);
        if (settled(c, &c->cut[j]))
            continue;
        narrow(c, j, end, of, words, bin);
        bin += of;
    }
}

/* Places each boundary in its last bin as if the entries were spread evenly there. */
void ss_cuts_bounds(const struct ss_cuts *c, uint32_t *bounds)
{
    bounds[0] = 0;
    for (int j = 1; j < c->size; j++) {
        const struct ss_cut *cut = &c->cut[j];
        uint64_t missing = target(c, j) - cut->before, width = cut->hi - cut->lo;
        uint64_t into = cut->inside > 0 ? (missing * width + cut->inside / 2) / cut->inside : 0;
        uint32_t at = cut->lo + (uint32_t)(into < width ? into : width);
        bounds[j] = at > bounds[j - 1] ? at : bounds[j - 1];
    }
    bounds[c->size] = (uint32_t)c->n;
    for (int j = 1; c->total == 0 && j < c->size; j++)
        bounds[j] = (uint32_t)ss_part_first(c->n, c->size, j);
}
