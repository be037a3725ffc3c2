/* Divides the index space into parts of about equal load. Entries that crowd in some places, such
 * as the counts of frequent words, would make the owner of an equal part do most of the work.
 *
 * Each rank counts its entries in bins of equal width, and the counts are added over the ranks. The
 * load of a bin is the entries that its owner receives, and those that it sends on to P - 1 ranks.
 * Within a bin the load counts as even. A bin is so narrow that this hardly matters.
 */
#include <string.h>

#include "core/coll/coll.h"
#include "core/plan/cost.h"

/* A word never overflows into its upper half: a bin has less than 2^31 entries of all ranks. */
static uint64_t count_of(const struct ss_balance *b, uint64_t bin)
{
    return b->counts[bin / 2] >> 32 * (bin & 1) & UINT32_MAX;
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* Returns the load of a bin. Its entries fall on different elements as far as there are enough. */
static uint64_t load_of(const struct ss_coll *c, const struct ss_balance *b, uint64_t bin)
{
    const uint64_t count = count_of(b, bin);

    return count + at_most(count, b->width) * (uint64_t)(c->x.t->size - 1);
}

static int reserve(struct ss_coll *c, struct ss_balance *b, int parts)
{
    struct ss_buf *room = &c->x.work->balance;
    size_t words;

    b->width = ss_balance_width(c->x.n, c->x.t->size);
    b->bins = (c->x.n + b->width - 1) / b->width;
    words = (size_t)(b->bins + 1) / 2;
    if (ss_buf_reserve_voted(room, c->x.mem,
                             words * sizeof *b->counts + ((size_t)parts + 1) * sizeof *b->bounds) !=
        SS_OK)
        return SS_ERR_MEMORY;
    b->counts = room->data;
    b->bounds = (uint32_t *)(b->counts + words);
    return SS_OK;
}

/* Counts the entries of this rank. */
static void count(const struct ss_coll *c, const struct ss_balance *b)
{
    const struct ss_stream *own = &c->own;
    size_t below = 0;

    memset(b->counts, 0, (size_t)(b->bins + 1) / 2 * sizeof *b->counts);
    for (uint64_t bin = 0; bin < b->bins && below < own->nnz; bin++) {
        const uint64_t end = at_most((bin + 1) * b->width, c->x.n);
        size_t inside = ss_lower_bound(own->idx + below, own->nnz - below, (uint32_t)end);
        b->counts[bin / 2] += (uint64_t)inside << 32 * (bin & 1);
        below += inside;
    }
}

/* Places the border of each part where its share of the load is reached. */
static void find_borders(const struct ss_coll *c, const struct ss_balance *b, int parts)
{
    const uint64_t count = (uint64_t)parts;
    uint64_t total = 0, before = 0, bin = 0;

    for (uint64_t i = 0; i < b->bins; i++)
        total += load_of(c, b, i);
    for (uint64_t j = 0; j < count; j++) {
        const uint64_t target = total / count * j + total % count * j / count;
        while (bin < b->bins && before + load_of(c, b, bin) <= target)
            before += load_of(c, b, bin++);
        const uint64_t load = bin < b->bins ? load_of(c, b, bin) : 1;
        const uint64_t into = (target - before) * (b->width / 16) / load * 16;
        b->bounds[j] = (uint32_t)at_most(bin * b->width + into, c->x.n);
    }
    b->bounds[0] = 0;
    b->bounds[count] = (uint32_t)c->x.n;
}

uint64_t ss_balance_room(const struct ss_balance *b, uint64_t lo, uint64_t hi)
{
    uint64_t room = 0;

    for (uint64_t bin = lo / b->width; bin < b->bins && bin * b->width < hi; bin++) {
        const uint64_t first = bin * b->width, end = first + b->width;
        room += at_most(count_of(b, bin), (end < hi ? end : hi) - (first > lo ? first : lo));
    }
    return room;
}

int ss_balance_step(struct ss_coll *c, struct ss_balance *b, int parts)
{
    if (!b->started) {
        b->started = true;
        if (reserve(c, b, parts) != SS_OK)
            ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_WORDS);
        else
            count(c, b);
        ss_word_exchange_start(&c->x, &b->exchange, b->counts, (size_t)(b->bins + 1) / 2, 0, 0);
    }
    if (ss_word_exchange_step(&c->x, &b->exchange) == SS_PENDING)
        return SS_PENDING;
    if (c->x.failed == 0)
        find_borders(c, b, parts);
    return SS_OK;
}
