/* Rounds values, and packs and unpacks their codes. */
#include "core/wire/values.h"

#include <float.h>
#include <string.h>

#include "core/wire/value_buckets.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "codes are packed through little-endian words: swap bytes here for this architecture"
#endif

enum { BLOCK = 64, LANES = 8 };

#define BF16_MOST 0x1.fep127f

static int levels_of(enum ss_values values)
{
    return (1 << (ss_values_width(values) - 1)) - 1;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

/* Returns a number in [0, 1) from seed and position alone (Steele et al. 2014: SplitMix). */
static double random_unit(uint64_t seed, uint64_t position)
{
    return (double)(mix(seed + (position + 1) * 0x9e3779b97f4a7c15ULL) >> 11) * 0x1p-53;
}

/* Packs a block of codes, a byte each, into `width` bits each, LSB first. */
static void pack(unsigned width, const uint8_t *codes, uint8_t *to)
{
    if (width == 8) {
        memcpy(to, codes, BLOCK);
        return;
    }
    for (size_t i = 0; i < BLOCK / 8; i++) {
        uint64_t w;
        memcpy(&w, codes + 8 * i, sizeof w);
        if (width == 4) {
            w = (w | w >> 4) & 0x00ff00ff00ff00ffULL;
            w = (w | w >> 8) & 0x0000ffff0000ffffULL;
            uint32_t packed = (uint32_t)(w | w >> 16);
            memcpy(to + 4 * i, &packed, sizeof packed);
        } else {
            w = (w | w >> 6) & 0x000f000f000f000fULL;
            w = (w | w >> 12) & 0x000000ff000000ffULL;
            uint16_t packed = (uint16_t)(w | w >> 24);
            memcpy(to + 2 * i, &packed, sizeof packed);
        }
    }
}

static void unpack(unsigned width, const uint8_t *from, uint8_t *codes)
{
    if (width == 8) {
        memcpy(codes, from, BLOCK);
        return;
    }
    for (size_t i = 0; i < BLOCK / 8; i++) {
        uint64_t w;
        if (width == 4) {
            uint32_t packed;
            memcpy(&packed, from + 4 * i, sizeof packed);
            w = packed;
            w = (w | w << 16) & 0x0000ffff0000ffffULL;
            w = (w | w << 8) & 0x00ff00ff00ff00ffULL;
            w = (w | w << 4) & 0x0f0f0f0f0f0f0f0fULL;
        } else {
            uint16_t packed;
            memcpy(&packed, from + 2 * i, sizeof packed);
            w = packed;
            w = (w | w << 24) & 0x000000ff000000ffULL;
            w = (w | w << 12) & 0x000f000f000f000fULL;
            w = (w | w << 6) & 0x0303030303030303ULL;
        }
        memcpy(codes + 8 * i, &w, sizeof w);
    }
}

static size_t zeros_among(const uint8_t *codes)
{
    uint8_t zeros = 0;

    for (size_t i = 0; i < BLOCK; i++)
        zeros = (uint8_t)(zeros + (codes[i] == 0));
    return zeros;
}

/* Rounds a block of floats to the upper halves of their bits. */
static void to_bf16_32(float *restrict v, float *restrict error, uint16_t *restrict codes)
{
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t bits;
        float x = v[i], near;
        memcpy(&bits, &x, sizeof bits);
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
        memcpy(&near, &bits, sizeof near);
        v[i] = near;
        error[i] = x - near;
        codes[i] = (uint16_t)(bits >> 16);
    }
}

/* Rounds a block of doubles directly, without a detour through float. Below the least normal float
 * bf16 has a fixed point: adding and subtracting STEPS leaves multiples of 2^-133. */
static void to_bf16_64(double *restrict v, double *restrict error, uint16_t *restrict codes)
{
    const double STEPS = 0x1.8p-81;
    const uint64_t kept = ~(((uint64_t)1 << 45) - 1), half = ((uint64_t)1 << 44) - 1;

    for (size_t i = 0; i < BLOCK; i++) {
        uint64_t bits;
        uint32_t narrow_bits;
        double x = v[i], near, fixed = x + STEPS;
        fixed = fixed - STEPS;
        memcpy(&bits, &x, sizeof bits);
        bits = (bits + half + (bits >> 45 & 1)) & kept;
        memcpy(&near, &bits, sizeof near);
        near = __builtin_fabs(x) < (double)FLT_MIN ? fixed : near;
        float narrow = (float)near;
        memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
        v[i] = near;
        error[i] = x - near;
        codes[i] = (uint16_t)(narrow_bits >> 16);
    }
}

#define REAL     float
#define BITS     uint32_t
#define SIGNED   int32_t
#define NAME(x)  x##_32
#define ABS      0x7fffffffu
#define INFINITE 0x7f800000u
#define LEAST    0x00800000u
#define HALF_WAY 0x1.8p23f
#define FABS     __builtin_fabsf
#include "core/wire/values.inc"

#define REAL     double
#define BITS     uint64_t
#define SIGNED   int64_t
#define NAME(x)  x##_64
#define ABS      0x7fffffffffffffffULL
#define INFINITE 0x7ff0000000000000ULL
#define LEAST    0x0010000000000000ULL
#define HALF_WAY 0x1.8p52
#define FABS     __builtin_fabs
#include "core/wire/values.inc"

size_t ss_values_encode(enum ss_type type, const struct ss_rounding *how, uint64_t position,
                        void *val, size_t count, void *error, void *to)
{
    uint8_t *begin = (uint8_t *)to + SS_VALUES_HEAD, *at = begin;
    struct ss_rounding mixed = *how;
    uint32_t bucket = how->bucket, bytes;

    mixed.seed = mix(how->seed);
    for (size_t i = 0; i < count; i += bucket) {
        size_t n = count - i < bucket ? count - i : bucket;
        if (type == SS_F32)
            at = encode_bucket_32(&mixed, position + i, (float *)val + i, n,
                                  error ? (float *)error + i : NULL, at);
        else
            at = encode_bucket_64(&mixed, position + i, (double *)val + i, n,
                                  error ? (double *)error + i : NULL, at);
    }
    bytes = (uint32_t)(at - begin);
    memcpy(to, &bucket, sizeof bucket);
    memcpy((uint8_t *)to + 4, &bytes, sizeof bytes);
    for (; (at - begin) % 8 != 0; at++)
        *at = 0;
    return SS_VALUES_HEAD + (size_t)(at - begin);
}

size_t ss_values_decode(enum ss_type type, enum ss_values values, const void *from, size_t len,
                        void *val, size_t count)
{
    const size_t all = ss_values_look(type, values, from, len, NULL, count);
    const uint8_t *at = (const uint8_t *)from + SS_VALUES_HEAD;
    const uint32_t bucket = all > 0 ? ss_values_bucket(from) : 0;
    bool good = all > 0;

    for (size_t i = 0; good && i < count; i += bucket) {
        const size_t n = count - i < bucket ? count - i : bucket;
        if (type == SS_F32)
            good = decode_bucket_32(values, at, (float *)val + i, n);
        else
            good = decode_bucket_64(values, at, (double *)val + i, n);
        at += ss_bucket_bytes(type, values, at, SIZE_MAX, n);
    }
    return good ? all : 0;
}

double ss_values_bytes(enum ss_type type, enum ss_values values, uint32_t bucket)
{
    double size = (double)ss_type_size(type);

    if (values == SS_VALUES_SAME)
        return size;
    return ss_values_width(values) / 8.0 + ((values == SS_VALUES_BF16 ? 0 : size) + 1) / bucket;
}
