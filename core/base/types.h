/* Types every part of core shares: element types, operators, status codes, and what an option
 * chooses between. */
#ifndef CORE_BASE_TYPES_H
#define CORE_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/choices.h"

/* Type classes: what a lane is keyed by, whatever handle the application used. */
enum ss_type { SS_F32, SS_F64, SS_I32, SS_I64, SS_TYPES };

/* Operators whose neutral element is 0. Logical results are 0 or 1 and need integer types, as do
 * the bitwise ones. */
enum ss_op { SS_SUM, SS_BOR, SS_BXOR, SS_LOR, SS_LXOR, SS_OPS };

/* Status of a step or call: below zero is an error. */
enum ss_status {
    SS_PENDING = 1, /* not finished; step again */
    SS_OK = 0,
    SS_ERR_MEMORY = -1,    /* an allocation failed or would pass MAX_MEMORY */
    SS_ERR_MESSAGE = -2,   /* a message was malformed */
    SS_ERR_TRANSPORT = -3, /* the transport reported an error */
    SS_ERR_TIMEOUT = -4,   /* a wait outlasted TIMEOUT */
    SS_ERR_PEER = -5,      /* another rank failed and said so */
    SS_ERR_PROTOCOL = -6,  /* ranks disagree about the number of the call, or speak otherwise */
    SS_ERR_DIFFERENT = -7, /* what ranks called it with belongs to different lanes */
    SS_ERR_DEVICE = -8     /* the device that holds the buffers failed */
};

static inline size_t ss_type_size(enum ss_type type)
{
    return type == SS_F32 || type == SS_I32 ? 4 : 8;
}

static inline bool ss_type_is_float(enum ss_type type)
{
    return type == SS_F32 || type == SS_F64;
}

const char *ss_type_name(enum ss_type type);
const char *ss_op_name(enum ss_op op);
const char *ss_algorithm_name(enum ss_algorithm algorithm);
const char *ss_status_text(int status);

/* One more word into a hash. */
static inline uint64_t ss_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0xd6e8feb86659fd93ULL;
    return h ^ h >> 32;
}

/* x to the power of n, by squaring. */
double ss_power(double x, uint64_t n);

/* Square root without libm, 0 for what is not positive. */
double ss_root(double x);

/* Base 2 logarithm without libm, 0 for what is not positive, subnormal or not finite. */
double ss_log2(double x);

/* Calls are cut into windows of at most this many elements, so that indices fit 32 bits. */
#define SS_WINDOW ((uint64_t)1 << 30)

/* The bits of a double that is not negative: as unsigned integers they order as the numbers do. */
static inline uint64_t ss_double_bits(double x)
{
    union {
        double d;
        uint64_t u;
    } v = {.d = x > 0 ? x : 0};
    return v.u;
}

static inline double ss_bits_double(uint64_t bits)
{
    union {
        uint64_t u;
        double d;
    } v = {.u = bits};
    return v.d;
}

/* The same of a float. */
static inline uint32_t ss_float_bits(double x)
{
    union {
        float f;
        uint32_t u;
    } v = {.f = x > 0 ? (float)x : 0};
    return v.u;
}

static inline double ss_bits_float(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } v = {.u = bits};
    return (double)v.f;
}

#endif
