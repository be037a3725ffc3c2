/* Sizes of packed indices: the bytes before a packed code, and the bound on the indices of a
 * message. */
#ifndef CORE_WIRE_PACKED_H
#define CORE_WIRE_PACKED_H

#include "core/wire/rice.h"

enum { SS_PACKED_HEAD = 5, SS_LONG_HEAD = 12 };

/* Returns the bytes before a packed code. */
static inline size_t ss_packed_head(bool absent, uint32_t nnz)
{
    const uint32_t runs = ss_rice_runs(absent, nnz);

    return runs > 0 ? SS_LONG_HEAD + 2 * (size_t)runs : SS_PACKED_HEAD;
}

/* Returns the most bytes that a packed code of `entries` entries takes. An index coding other than
 * u32 may take no more. */
static inline size_t ss_index_bound(uint32_t entries)
{
    return ss_packed_head(false, entries) + (33 * (size_t)entries + 7) / 8;
}

#endif
