/* Accounted memory: every byte that grows with N, k or P passes through a pool with a limit. */
#ifndef CORE_BASE_MEM_H
#define CORE_BASE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Shared by all communicators of a process; safe from several threads. limit in bytes, 0 = none. */
struct ss_mem {
    size_t limit;
    atomic_size_t used;
    atomic_size_t peak;
    atomic_bool limited; /* the last lack of memory was the limit's */
    atomic_bool refused; /* the system had no memory for a buffer; cleared by who frees some */
};

/* A buffer that keeps its largest size between calls. data is aligned to 64 bytes. Zero-initialised
 * = empty. Where it is asked to grow it grows by half of what it was or more, so that sizes that
 * creep up cost few allocations: not on the first allocation, and not where more than half of the
 * pool would then be used. */
struct ss_buf {
    void *data;
    size_t size; /* bytes */
    struct ss_mem *mem;
};

/* Makes buf at least `size` bytes; contents are lost when it grows. SS_OK, or SS_ERR_MEMORY with
 * buf empty. */
int ss_buf_reserve(struct ss_buf *buf, struct ss_mem *mem, size_t size);

/* The same where the vote has promised the room: the limit, which other threads may have used up
 * since, does not stop it, only a lack of memory does. */
int ss_buf_reserve_voted(struct ss_buf *buf, struct ss_mem *mem, size_t size);

/* The same as ss_buf_reserve, keeping the first `keep` bytes; with keep > 0 buf is unchanged on
 * failure. */
int ss_buf_grow(struct ss_buf *buf, struct ss_mem *mem, size_t size, size_t keep);

void ss_buf_free(struct ss_buf *buf);

#endif
