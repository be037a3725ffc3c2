/* Implements the pool as an atomic counter, and buffers that grow in whole cache lines. */
#define _POSIX_C_SOURCE 200809L
#include "core/base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"

enum { ALIGNMENT = 64 };

/* Takes `size` bytes from the pool. Returns false if they would pass the limit and were not
 * promised. */
static bool take(struct ss_mem *mem, size_t size, bool promised)
{
    size_t used = atomic_load(&mem->used);

    do {
        if (used > SIZE_MAX - size) /* the counter would overflow */
            return false;
        if (!promised && mem->limit != 0 && (size > mem->limit || used > mem->limit - size))
            return false;
    } while (!atomic_compare_exchange_weak(&mem->used, &used, used + size));

    size_t now = used + size;
    size_t peak = atomic_load(&mem->peak);
    while (peak < now && !atomic_compare_exchange_weak(&mem->peak, &peak, now))
        ;
    return true;
}

bool ss_mem_take(struct ss_mem *mem, size_t size)
{
    return take(mem, size, false);
}

void ss_mem_give(struct ss_mem *mem, size_t size)
{
    atomic_fetch_sub(&mem->used, size);
}

/* Returns `size` rounded up to whole cache lines. */
static size_t lines(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int replace(struct ss_buf *buf, struct ss_mem *mem, size_t size, size_t keep, bool promised)
{
    void *data;

    if (!take(mem, size, promised)) {
        atomic_store(&mem->limited, true);
        return SS_ERR_MEMORY;
    }
    if (posix_memalign(&data, ALIGNMENT, size) != 0) {
        atomic_store(&mem->refused, true);
        ss_mem_give(mem, size);
        atomic_store(&mem->limited, false);
        return SS_ERR_MEMORY;
    }
    if (keep > 0)
        memcpy(data, buf->data, keep);
    ss_buf_free(buf);
    *buf = (struct ss_buf){.data = data, .size = size, .mem = mem};
    return SS_OK;
}

/* Returns true if the pool stays at most half full when `size` is taken from it. Only then may a
 * buffer be larger than its caller asked for. */
static bool is_ample(struct ss_mem *mem, size_t size)
{
    size_t used = atomic_load(&mem->used), half = mem->limit / 2;

    return mem->limit == 0 || (size <= half && used <= half - size);
}

static int grow(struct ss_buf *buf, struct ss_mem *mem, size_t size, size_t keep, bool promised)
{
    size_t slack = buf->size / 2 + buf->size;

    if (size <= buf->size)
        return SS_OK;
    if (size > SIZE_MAX - ALIGNMENT)
        return SS_ERR_MEMORY;
    if (keep == 0 && buf->data) /* frees first, so that the peak stays low */
        ss_buf_free(buf);
    if (slack > size && is_ample(mem, lines(slack)) &&
        replace(buf, mem, lines(slack), keep, false) == SS_OK)
        return SS_OK;
    return replace(buf, mem, lines(size), keep, promised);
}

int ss_buf_grow(struct ss_buf *buf, struct ss_mem *mem, size_t size, size_t keep)
{
    return grow(buf, mem, size, keep, false);
}

int ss_buf_reserve_voted(struct ss_buf *buf, struct ss_mem *mem, size_t size)
{
    return grow(buf, mem, size, 0, true);
}

int ss_buf_reserve(struct ss_buf *buf, struct ss_mem *mem, size_t size)
{
    return grow(buf, mem, size, 0, false);
}

void ss_buf_free(struct ss_buf *buf)
{
    if (buf->data) {
        free(buf->data);
        ss_mem_give(buf->mem, buf->size);
    }
    *buf = (struct ss_buf){0};
}
