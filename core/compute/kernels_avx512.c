/* The kernels in AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/kernels_impl.h"
#include "core/compute/vectors_avx512.h"

enum { SS_VECTOR_BYTES = 64, SS_FEW = 2 };

/* Largest magnitude as unsigned, which Inf and NaN exceed; least element as signed, which is -0.0
 * if there is one. */
struct flags {
    __m512i largest, least;
};

SS_INLINE struct flags flags_none(void)
{
    return (struct flags){_mm512_setzero_si512(), _mm512_setzero_si512()};
}

/* -0.0 as a signed integer. */
static const int32_t minus_zero_32 = INT32_MIN;
static const int64_t minus_zero_64 = INT64_MIN;

#define WIDTH 32
#include "core/compute/kernels_avx512.inc"
#define WIDTH 64
#include "core/compute/kernels_avx512.inc"

#define TABLE      ss_kernels_avx512
#define TABLE_NAME "avx512"
#include "core/compute/kernels_table.inc"
#else
typedef int ss_kernels_avx512_needs_x86;
#endif
