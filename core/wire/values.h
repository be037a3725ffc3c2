/* Values in fewer bits (VALUE_TYPE). A bucket of consecutive values becomes a scale and
 * small integers c, L = 2^(b-1) - 1 levels for b bits.
 *
 * - Nearest: scale is the largest magnitude of the bucket. A value becomes the nearest scale * c /
 *   L with c in -L..L, ties to even c. Since c = 0 is among them, the rounding error is exact.
 * - Stochastic (QSGD, Alistarh et al. 2017, section 3.1): scale is the L2 norm of the bucket. |v| L
 *   / scale is rounded up with the probability of its fraction, so that the mean is v.
 * - bf16: the upper half of a float, nearest, ties to even, saturating at the largest finite bf16.
 *
 * A bucket travels unrounded if its scale is not a normal number. With bf16 the bucket travels
 * unrounded if its largest magnitude is not a normal float or exceeds the range of bf16. Infinities
 * and NaN count as not normal. A bucket of zeros takes a byte.
 *
 *     coded    u32 bucket | u32 bytes of the buckets, without padding | the buckets |
 *              padding to 8 bytes
 *     bucket   u8 form (0 unrounded, 1 coded, 2 zeros); in form 1 then
 *              for q8, q4, q2: the scale in the type of the values, and the codes c + L + 1, LSB
 *              first; zeros, which are no code, pad the last byte
 *              for bf16: the u16s
 */
#ifndef CORE_WIRE_VALUES_H
#define CORE_WIRE_VALUES_H

#include "core/base/types.h"

/* A rounding of values. */
struct ss_rounding {
    enum ss_values values;
    uint32_t bucket; /* values per scale, SS_BUCKET_LEAST..SS_BUCKET_MOST */
    bool stochastic; /* for q8, q4, q2 */
    uint64_t seed;   /* seed of the stochastic rounding; differs between ranks and calls */
};

/* Returns the most bytes that ss_values_encode writes for `count` values, a multiple of 8. */
size_t ss_values_bound(enum ss_type type, const struct ss_rounding *how, size_t count);

/* Rounds val[0..count) in place to the values that the receiver decodes, and writes the coded form
 * to `to` (8-byte aligned). If error is not NULL, writes value before minus value after to
 * error[0..count); with nearest rounding and finite values the difference is exact. type is SS_F32
 * or SS_F64. `position` is the number of values before these in the stream; the random number of a
 * value depends on seed and position alone. Returns the bytes written, a multiple of 8. */
size_t ss_values_encode(enum ss_type type, const struct ss_rounding *how, uint64_t position,
                        void *val, size_t count, void *error, void *to);

/* Decodes `count` values from at most `len` bytes into val. Returns the bytes read, or 0 if they
 * are malformed. */
size_t ss_values_decode(enum ss_type type, enum ss_values values, const void *from, size_t len,
                        void *val, size_t count);

/* Returns the expected bytes per value, for the plan. */
double ss_values_bytes(enum ss_type type, enum ss_values values, uint32_t bucket);

#endif
