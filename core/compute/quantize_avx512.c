/* The quantizers, whose loops the compiler vectorises for AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/quantize_impl.h"

enum { SS_VECTOR_BYTES = 64 };
#define TABLE      ss_quantizers_avx512
#define TABLE_NAME "avx512"
#include "core/compute/quantize_table.inc"
#else
typedef int ss_quantizers_avx512_needs_x86;
#endif
