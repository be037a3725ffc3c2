/* The quantizers, whose loops the compiler vectorises for AVX2. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/quantize_impl.h"

enum { SS_VECTOR_BYTES = 32 };
#define TABLE      ss_quantizers_avx2
#define TABLE_NAME "avx2"
#include "core/compute/quantize_table.inc"
#else
typedef int ss_quantizers_avx2_needs_x86;
#endif
