/* Rice coding of ascending indices (Rice, 1979), the packed representation of core/wire/wire.h.
 *
 * The code of a number x with parameter k is x >> k ones, a zero, then the k low bits of x. If
 * there would be 32 ones or more, the code is an escape: 32 ones and x in 32 bits. Bits fill bytes
 * from the least significant one. A code holds one of
 *
 *     present  the gaps (index - previous - 1) of all indices but the first, which is stored apart
 *     absent   the lengths of the runs of present indices before each absent one, and of the last
 *              run: for sets that are more than half full; the decoder stops at the last entry
 *
 * A long sequence of gaps is divided into runs of SS_RICE_RUN gaps, so that several readers can
 * decode it at once. The message holds the bits of each run's code as a u16. The first index of a
 * run follows from all gaps before it, so each reader needs the sums of the runs before its own.
 * SS_RICE_RUN is a multiple of the group sizes of the decoder in rice.c.
 */
#ifndef CORE_WIRE_RICE_H
#define CORE_WIRE_RICE_H

#include "core/base/types.h"

enum { SS_RICE_ESCAPE = 32, SS_RICE_MAX = 31, SS_RICE_LONG = 2048, SS_RICE_RUN = 240 };

struct ss_rice {
    unsigned parameter; /* 0..SS_RICE_MAX */
    bool absent;
    size_t bytes; /* bytes of the code; the last byte is padded with zero bits */
};

/* Returns the number of runs whose lengths the message holds; 0 if the code is not divided. */
static inline uint32_t ss_rice_runs(bool absent, uint32_t nnz)
{
    return absent || nnz < SS_RICE_LONG ? 0 : (nnz - 1 + SS_RICE_RUN - 1) / SS_RICE_RUN;
}

/* Returns the bits of a run. */
static inline uint32_t ss_rice_run_bits(const uint8_t *runs, uint32_t run)
{
    return runs[2 * run] | (uint32_t)runs[2 * run + 1] << 8;
}

/* Returns the cheaper kind of code for idx[0..nnz), nnz >= 1, with the best parameter found. The
 * code takes at most 33 (nnz - 1) bits. */
struct ss_rice ss_rice_plan(const uint32_t *idx, uint32_t nnz);

/* Writes plan.bytes bytes of code, and 2 bytes per run to `runs`. May overwrite 8 bytes behind the
 * code. */
void ss_rice_encode(const struct ss_rice *plan, const uint32_t *idx, uint32_t nnz, uint8_t *code,
                    uint8_t *runs);

/* Decodes nnz indices, the first of which is `first`, from plan.bytes bytes of code. Returns
 * SS_ERR_MESSAGE if the code has another length or other bits than the encoder's, if a run's length
 * disagrees with `runs`, or if an index is not below n. Writes nnz entries to idx in any case. */
int ss_rice_decode(const struct ss_rice *plan, const uint8_t *code, const uint8_t *runs,
                   uint32_t first, uint32_t nnz, uint32_t n, uint32_t *idx);

/* Returns true if the code has the total length of its runs and is padded with zeros. */
bool ss_rice_fits(const struct ss_rice *plan, const uint8_t *code, const uint8_t *runs,
                  uint32_t nnz);

/* Returns the expected bits per entry for a uniform set of density d in (0, 1]. */
double ss_rice_bits_per_entry(double d);

#endif
