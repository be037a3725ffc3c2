/* Elements as integers of their width, so that kernels recognise zeros, magnitudes and infinities
 * by their bits. Code for both widths is written once, in .inc files, with the macros of the second
 * half. */
#ifndef CORE_COMPUTE_WIDTH_H
#define CORE_COMPUTE_WIDTH_H

#include <stdint.h>

/* Elements as numbers and as bits, for any type that the application stored. */
typedef float __attribute__((may_alias)) ss_float32;
typedef double __attribute__((may_alias)) ss_float64;
typedef uint32_t __attribute__((may_alias)) ss_bits32;
typedef uint64_t __attribute__((may_alias)) ss_bits64;
typedef int32_t ss_whole32;
typedef int64_t ss_whole64;

/* Masks of all bits but the sign, and the bits of infinity. */
#define SS_ABS32 0x7fffffffu
#define SS_ABS64 0x7fffffffffffffffu
#define SS_INF32 0x7f800000u
#define SS_INF64 0x7ff0000000000000u

enum { SS_BLOCK = 64 }; /* elements that a pass handles at once: one bit each in a mask */

#define SS_INLINE static inline __attribute__((always_inline))

/* Unrolls the next loop, of at most 16 turns. */
#if defined __clang__
#define SS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SS_UNROLL _Pragma("GCC unroll 16")
#endif

/* clang-format off */
/* A file of functions for one width is included twice:
 *
 *     #define WIDTH 32
 *     #include "core/compute/kernels_plain.inc"
 *     #define WIDTH 64
 *     #include "core/compute/kernels_plain.inc"
 *
 * It undefines WIDTH at its end. Until then these macros mean
 *
 *     NAME(x)          x_32: a function of the file, or of its includer, for the width
 *     REAL, BITS       the element as a number and as an unsigned integer
 *     WHOLE            as a signed integer, which holds magnitudes as well
 *     ABS, INFINITE    bits of everything but the sign, and of infinity
 *     OP(x)            x32: an intrinsic named for the width
 *     OP_MASK(x)       x32_mask: an intrinsic that gives a mask
 */
/* clang-format on */
#define SS_PASTE_(a, b) a##b
#define SS_PASTE(a, b)  SS_PASTE_(a, b)
#define NAME(x)         SS_PASTE(x##_, WIDTH)
#define REAL            SS_PASTE(ss_float, WIDTH)
#define BITS            SS_PASTE(ss_bits, WIDTH)
#define WHOLE           SS_PASTE(ss_whole, WIDTH)
#define ABS             SS_PASTE(SS_ABS, WIDTH)
#define INFINITE        SS_PASTE(SS_INF, WIDTH)
#define OP(x)           SS_PASTE(x, WIDTH)
#define OP_MASK(x)      SS_PASTE(SS_PASTE(x, WIDTH), _mask)

#endif
