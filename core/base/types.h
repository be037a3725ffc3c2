/* Types that every folder of core shares: element types, operators and status codes. */
#ifndef CORE_BASE_TYPES_H
#define CORE_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/choices.h"

/* Type classes: a lane is keyed by these, not by the datatype handle of the application. */
enum ss_type { SS_F32, SS_F64, SS_I32, SS_I64, SS_TYPES };

/* Operators whose neutral element is 0. Logical and bitwise operators need integer types; logical
 * results are 0 or 1. */
enum ss_op { SS_SUM, SS_BOR, SS_BXOR, SS_LOR, SS_LXOR, SS_OPS };

/* Status of a step or a call; errors are negative. */
enum ss_status {
    SS_PENDING = 1, /* not finished; step again */
    SS_OK = 0,
    SS_ERR_MEMORY = -1,    /* an allocation failed or would pass MAX_MEMORY */
    SS_ERR_MESSAGE = -2,   /* a message was malformed */
    SS_ERR_TRANSPORT = -3, /* the transport reported an error */
    SS_ERR_TIMEOUT = -4,   /* a wait outlasted TIMEOUT */
    SS_ERR_PEER = -5,      /* another rank failed and said so */
    SS_ERR_PROTOCOL = -6,  /* ranks disagree about the call's number or the protocol */
    SS_ERR_DIFFERENT = -7, /* ranks passed arguments of different lanes */
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

/* Returns the hash h with one more word mixed in. */
static inline uint64_t ss_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0xd6e8feb86659fd93ULL;
    return h ^ h >> 32;
}

/* Returns x to the power of n, by squaring. */
double ss_power(double x, uint64_t n);

/* Returns the square root of x without libm; 0 if x is not positive. */
double ss_root(double x);

/* Calls are cut into windows of at most this many elements, so that indices fit 32 bits. */
#define SS_WINDOW ((uint64_t)1 << 30)

/* Returns the bits of a double that is not negative. As unsigned integers they order like the
 * numbers. */
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

/* Returns the bits of a float, like ss_double_bits. */
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

/* Return the word of a value of VALUE_TYPE, its coding, and whether it rounds at random. */
const char *ss_value_type_name(unsigned value_type);
static inline enum ss_values ss_values_of(unsigned value_type)
{
    return value_type < SS_VALUE_TYPES
               ? (enum ss_values)value_type
               : (enum ss_values)(SS_VALUES_Q8 + (value_type - SS_VALUE_TYPES));
}
static inline bool ss_rounds_at_random(unsigned value_type)
{
    return value_type >= SS_VALUE_TYPES;
}

#endif
