/* Rice coding of ascending indices (Rice, 1979), the packed representation of core/wire/wire.h.
 *
 * A number x under the parameter k is x >> k ones, a zero, then the k low bits of x; from 32 ones
 * on there is an escape instead: 32 ones and x in 32 bits. Bits fill bytes from the least
 * significant one. Coded are
 *
 *     present  the gaps (index - previous - 1) of all indices but the first, which is stored apart
 *     absent   the lengths of the runs of present indices before each absent one, and of the last
 * run: for sets that are more full than empty; the decoder stops when the runs hold all entries
 *
 * The gaps of a long set have places to start from, so that several can read at once: how many bits
 * each run of SS_RICE_RUN gaps takes, as u16. What index a run starts at follows from the gaps
 * before it, which whoever reads all runs has. A run is a multiple of what is read at once below.
 */
#ifndef CORE_WIRE_RICE_H
#define CORE_WIRE_RICE_H

#include "core/base/types.h"

enum { SS_RICE_ESCAPE = 32, SS_RICE_MAX = 31, SS_RICE_LONG = 2048, SS_RICE_RUN = 240 };

struct ss_rice {
    unsigned parameter; /* 0..SS_RICE_MAX */
    bool absent;
    size_t bytes; /* of the code, last byte padded with zero bits */
};

/* Runs that have a place to start from; 0: the code has none. */
static inline uint32_t ss_rice_runs(bool absent, uint32_t nnz)
{
    return absent || nnz < SS_RICE_LONG ? 0 : (nnz - 1 + SS_RICE_RUN - 1) / SS_RICE_RUN;
}

/* Bits of a run. */
static inline uint32_t ss_rice_run_bits(const uint8_t *runs, uint32_t run)
{
    return runs[2 * run] | (uint32_t)runs[2 * run + 1] << 8;
}

/* The cheaper kind and the best parameter found for idx[0..nnz), nnz >= 1. At most 33 (nnz - 1)
 * bits. */
struct ss_rice ss_rice_plan(const uint32_t *idx, uint32_t nnz);

/* Writes plan.bytes bytes of code, may write up to 8 bytes more, and 2 bytes for each of its runs
 * to `runs`. */
void ss_rice_encode(const struct ss_rice *plan, const uint32_t *idx, uint32_t nnz, uint8_t *code,
                    uint8_t *runs);

/* Reads nnz indices starting with `first` from plan.bytes bytes of code. SS_ERR_MESSAGE when the
 * code is longer, shorter or other than the encoder's, its runs do not take what is told of them,
 * or an index would not be below n. idx is written in any case (nnz entries). */
int ss_rice_decode(const struct ss_rice *plan, const uint8_t *code, const uint8_t *runs,
                   uint32_t first, uint32_t nnz, uint32_t n, uint32_t *idx);

/* Whether a code with runs is as long as they tell, and padded with zeros. */
bool ss_rice_fits(const struct ss_rice *plan, const uint8_t *code, const uint8_t *runs,
                  uint32_t nnz);

/* Expected bits per entry for a uniform set of density d in (0, 1]. */
double ss_rice_bits_per_entry(double d);

#endif
