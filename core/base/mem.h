/* Accounted memory: every allocation that grows with N, k or P passes through a pool with a
 * limit. */
#ifndef CORE_BASE_MEM_H
#define CORE_BASE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A pool, shared by all communicators of a process and safe from several threads. `limit` is in
 * bytes, 0 for none. */
struct ss_mem {
    size_t limit;
    atomic_size_t used;
    atomic_size_t peak;
    atomic_bool limited; /* the last failure came from the limit */
    atomic_bool refused; /* the system had no memory; reset by the caller that frees some */
};

/* A buffer that keeps its largest size between calls. `data` is aligned to 64 bytes. A
 * zero-initialised buffer is empty. When a buffer grows it grows by at least half of its size, so
 * that slowly rising sizes cost few allocations. The first allocation is exact, and so is every one
 * that would leave the pool more than half full. */
struct ss_buf {
    void *data;
    size_t size; /* bytes */
    struct ss_mem *mem;
};

/* Makes `buf` at least `size` bytes long; a buffer that grows loses its contents. Returns SS_OK, or
 * SS_ERR_MEMORY with `buf` empty. */
int ss_buf_reserve(struct ss_buf *buf, struct ss_mem *mem, size_t size);

/* Acts like ss_buf_reserve for room that the vote has promised: ignores the limit, which other
 * threads may have used up since. Fails only if the system has no memory. */
int ss_buf_reserve_voted(struct ss_buf *buf, struct ss_mem *mem, size_t size);

/* Acts like ss_buf_reserve, but keeps the first `keep` bytes. With keep > 0, `buf` is unchanged on
 * failure. */
int ss_buf_grow(struct ss_buf *buf, struct ss_mem *mem, size_t size, size_t keep);

void ss_buf_free(struct ss_buf *buf);

/* Takes bytes of memory that is no buffer from the pool. Returns false if the limit forbids it. */
bool ss_mem_take(struct ss_mem *mem, size_t size);
void ss_mem_give(struct ss_mem *mem, size_t size);

#endif
