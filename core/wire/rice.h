/* Rice coding of ascending indices (Rice, 1979), the packed representation of core/wire/wire.h.
 *
 * A number x under the parameter k is x >> k ones, a zero, then the k low bits of x; from 32 ones
 * on there is an escape instead: 32 ones and x in 32 bits. Bits fill bytes from the least
 * significant one. Coded are
 *
 *     present  the gaps (index - previous - 1) of all indices but the first, which is stored apart
 *     absent   the lengths of the runs of present indices before each absent one, and of the last
 * run: for sets that are more full than empty; the decoder stops when the runs hold all entries
 */
#ifndef CORE_WIRE_RICE_H
#define CORE_WIRE_RICE_H

#include "core/base/types.h"

enum { SS_RICE_ESCAPE = 32, SS_RICE_MAX = 31 };

struct ss_rice {
    unsigned parameter; /* 0..SS_RICE_MAX */
    bool absent;
    size_t bytes; /* of the code, last byte padded with zero bits */
};

/* The cheaper kind and the best parameter found for idx[0..nnz), nnz >= 1. At most 33 (nnz - 1)
 * bits. */
struct ss_rice ss_rice_plan(const uint32_t *idx, uint32_t nnz);

/* Writes plan.bytes bytes of code; may write up to 8 bytes more. */
void ss_rice_encode(const struct ss_rice *plan, const uint32_t *idx, uint32_t nnz, uint8_t *code);

/* Reads nnz indices starting with `first` from plan.bytes bytes of code. SS_ERR_MESSAGE when the
 * code is longer, shorter or other than the encoder's, or an index would not be below n. idx is
 * written in any case (nnz entries). */
int ss_rice_decode(const struct ss_rice *plan, const uint8_t *code, uint32_t first, uint32_t nnz,
                   uint32_t n, uint32_t *idx);

/* Expected bits per entry for a uniform set of density d in (0, 1]. */
double ss_rice_bits_per_entry(double d);

#endif
