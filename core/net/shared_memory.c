/* Implements the areas of shared memory. */
#include "core/net/shared_memory.h"

/* Bytes. An area is a page with its head, and two halves. HALF holds as many entries of floats as
 * a chunk; many ranks have less each. */
enum { PAGE = 4096, HALF = 256 << 10, ALL_HALVES = 8 << 20 };
_Static_assert(sizeof(struct ss_shared_head) <= PAGE, "the head fits its page");

static size_t area_bytes(int size)
{
    const size_t share = (size_t)ALL_HALVES / 2 / (size_t)size / PAGE * PAGE;

    return share == 0 ? 0 : PAGE + 2 * (share < HALF ? share : HALF);
}

size_t ss_shared_bytes(int size)
{
    return (size_t)size * area_bytes(size);
}

void ss_shared_open(struct ss_shared *s, void *memory, int size)
{
    *s = (struct ss_shared){.areas = memory, .area = area_bytes(size), .size = size};
}

struct ss_shared_head *ss_shared_head(const struct ss_shared *s, int rank)
{
    return (struct ss_shared_head *)(void *)(s->areas + (size_t)rank * s->area);
}

static size_t half_bytes(const struct ss_shared *s)
{
    return (s->area - PAGE) / 2;
}

uint32_t ss_shared_capacity(const struct ss_shared *s, size_t esize)
{
    return (uint32_t)(half_bytes(s) / (sizeof(uint32_t) + esize)) / 16 * 16;
}

static unsigned char *half_at(const struct ss_shared *s, int rank, uint64_t round)
{
    return s->areas + (size_t)rank * s->area + PAGE + (round % 2) * half_bytes(s);
}

uint32_t *ss_shared_idx(const struct ss_shared *s, int rank, uint64_t round)
{
    return (uint32_t *)(void *)half_at(s, rank, round);
}

void *ss_shared_val(const struct ss_shared *s, int rank, uint64_t round, size_t esize)
{
    return half_at(s, rank, round) + ss_shared_capacity(s, esize) * sizeof(uint32_t);
}

int ss_shared_unwritten(const struct ss_shared *s, int rank, uint64_t round)
{
    while (rank < s->size &&
           atomic_load_explicit(&ss_shared_head(s, rank)->written, memory_order_acquire) >= round)
        rank++;
    return rank;
}

int ss_shared_unread(const struct ss_shared *s, int rank, uint64_t round)
{
    while (rank < s->size &&
           atomic_load_explicit(&ss_shared_head(s, rank)->read, memory_order_acquire) >= round)
        rank++;
    return rank;
}
