/* Values on the wire in fewer bits (VALUE_TYPE, QUANT_BITS): per bucket of consecutive values, a
 * scale and small integers.
 *
 * Nearest: scale = largest magnitude of the bucket; with b bits a value becomes the nearest of
 * scale * c / L, c = -L..L, L = 2^(b-1) - 1, ties to even c; c = 0 included, so that the difference
 * to what was is exact. Stochastic (QSGD, Alistarh et al. 2017, section 3.1): scale = L2 norm of
 * the bucket, |v| L / scale rounded up with probability of its fraction, so that the mean is v.
 * bf16: the upper half of a float, nearest, ties to even, saturating at its largest finite number.
 *
 * A bucket whose scale is not a normal number (for bf16: whose largest magnitude is not a normal
 * float, or passes bf16's range), infinities and NaN included, travels as it is; one of zeros only
 * takes a byte.
 *
 *     coded    u32 bucket | u32 bytes of what follows, without padding | per bucket: u8 form (0 as
 *              it is, 1 coded, 2 zeros), then for q8, q4, q2 the scale in the value's own type and
 *              the codes c + L + 1, LSB first, padded to a byte by zeros, which are no code; for
 *              bf16 the u16s | padding to 8 bytes
 */
#ifndef CORE_WIRE_VALUES_H
#define CORE_WIRE_VALUES_H

#include "core/base/types.h"

const char *ss_values_name(enum ss_values values);

/* How values are rounded. */
struct ss_rounding {
    enum ss_values values;
    uint32_t bucket; /* values of one scale, SS_BUCKET_LEAST..SS_BUCKET_MOST */
    bool stochastic; /* q8, q4, q2 */
    uint64_t seed;   /* of the stochastic form: differs from rank to rank and call to call */
};

/* Bytes that ss_values_encode writes at most for `count` values, a multiple of 8. */
size_t ss_values_bound(enum ss_type type, const struct ss_rounding *how, size_t count);

/* Rounds val[0..count) in place to what the receiver will decode, writes the coded form to `to`
 * (8-byte aligned) and, where error is not NULL, the errors, value before minus value after, to
 * error[0..count): for finite values that is without rounding in the nearest form. type is SS_F32
 * or SS_F64. `position` counts values of the whole stream before this one: the random numbers of a
 * value depend on seed and position alone. Returns the bytes written, a multiple of 8. */
size_t ss_values_encode(enum ss_type type, const struct ss_rounding *how, uint64_t position,
                        void *val, size_t count, void *error, void *to);

/* Decodes `count` values from at most `len` bytes into val. Returns the bytes read, or 0 when they
 * are malformed. */
size_t ss_values_decode(enum ss_type type, enum ss_values values, const void *from, size_t len,
                        void *val, size_t count);

/* Expected bytes per value, for the plan. */
double ss_values_bytes(enum ss_type type, enum ss_values values, uint32_t bucket);

#endif
