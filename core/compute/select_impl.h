/* Shared by the selection files. select_plain.c, select_avx2.c and select_avx512.c each define the
 * functions that select_loops.inc takes, with their instructions, and get the loops around them
 * from select_table.inc. */
#ifndef CORE_COMPUTE_SELECT_IMPL_H
#define CORE_COMPUTE_SELECT_IMPL_H

#include <string.h>

#include "core/compute/pass.h"
#include "core/compute/vector.h"
#include "core/compute/width.h"

enum { FEW_VECTORS = 2 };

/* The operands of a: g + r, or one of them. A constant wherever it is used. */
enum source { BOTH = 1, INPUT, RESIDUAL };

/* g + i and r + i. An absent array is replaced by the other one and not read. */
#define SS_INPUT_AT(i)    ((source == RESIDUAL ? r : g) + (i))
#define SS_RESIDUAL_AT(i) ((source == INPUT ? g : r) + (i))

/* An eighth of an octave. */
#define STEP_32 ((ss_bits32)1 << 20)
#define STEP_64 ((ss_bits64)1 << 49)

extern const struct ss_selectors ss_selectors_plain;
#if defined(__x86_64__)
extern const struct ss_selectors ss_selectors_avx2, ss_selectors_avx512;
#endif

/* Select or gather element by element with every check: for short ranges, and for blocks that hold
 * a value that is not finite or have too little room. After an overflow the select counts to the
 * end of the range. `from` is a multiple of SS_PARTIALS. */
void ss_select_some_32(struct ss_pass *pass, const ss_float32 *g, ss_float32 *r, size_t from,
                       size_t to);
void ss_select_some_64(struct ss_pass *pass, const ss_float64 *g, ss_float64 *r, size_t from,
                       size_t to);
size_t ss_gather_some_32(const ss_float32 *g, const ss_float32 *r, size_t n, ss_magnitude low,
                         ss_magnitude high, ss_magnitude *out, size_t capacity);
size_t ss_gather_some_64(const ss_float64 *g, const ss_float64 *r, size_t n, ss_magnitude low,
                         ss_magnitude high, ss_magnitude *out, size_t capacity);

/* Prefetches a page ahead, which the processor does not do by itself. A prefetch past the end of
 * the array never faults. Measured on Zen 5, in times of r += g for doubles: 0.9 to 1.05, without
 * it 1.0 to 1.15. */
SS_INLINE void fetch_ahead(const void *p, size_t bytes)
{
    enum { AHEAD = 4096, LINE = 64 };
    for (size_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch((const void *)((uintptr_t)p + AHEAD + at));
}

#endif
