/* Memory that all ranks of a communicator share, where they are on one host. Each rank has an area
 * in which it alone writes, in two halves: while the other ranks read one half, it fills the other.
 *
 * Rounds are counted from 1, over all calls. In round r, a rank writes into half r mod 2 and then
 * sets `written` to r; when it has read what all ranks have written, it sets `read` to r. A rank
 * may write in round r once all ranks have read round r - 2.
 */
#ifndef CORE_NET_SHARED_MEMORY_H
#define CORE_NET_SHARED_MEMORY_H

#include <stdatomic.h>

#include "core/base/types.h"

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics work between processes");

/* The description of a half: the next entries of a rank's stream. */
struct ss_shared_half {
    uint64_t end;  /* the stream has no further entry before this element */
    uint32_t call; /* number of the call */
    uint32_t nnz;  /* entries */
};

/* The beginning of a rank's area. */
struct ss_shared_head {
    _Alignas(64) atomic_ullong written;
    _Alignas(64) atomic_ullong read;
    atomic_bool failed; /* the rank has failed, and writes no more */
    struct ss_shared_half half[2];
};

/* The memory as one rank sees it. */
struct ss_shared {
    unsigned char *areas;
    size_t area; /* bytes of an area */
    int size;    /* ranks */
    uint64_t rounds;
};

/* Returns the bytes of the memory of `size` ranks, which are zero at first; 0: too many ranks. */
size_t ss_shared_bytes(int size);
void ss_shared_open(struct ss_shared *s, void *memory, int size);

struct ss_shared_head *ss_shared_head(const struct ss_shared *s, int rank);
/* Returns the number of entries that a half holds. */
uint32_t ss_shared_capacity(const struct ss_shared *s, size_t esize);
/* Return the indices and values of a half. */
uint32_t *ss_shared_idx(const struct ss_shared *s, int rank, uint64_t round);
void *ss_shared_val(const struct ss_shared *s, int rank, uint64_t round, size_t esize);

/* Return the first rank from `rank` on that has not written, or read, that round; `size` if all
 * have. */
int ss_shared_unwritten(const struct ss_shared *s, int rank, uint64_t round);
int ss_shared_unread(const struct ss_shared *s, int rank, uint64_t round);

#endif
