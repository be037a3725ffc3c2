/* Shared by the files of the quantizers. */
#ifndef CORE_COMPUTE_QUANTIZE_IMPL_H
#define CORE_COMPUTE_QUANTIZE_IMPL_H

#include <string.h>

#include "core/compute/quantize.h"
#include "core/compute/width.h"

extern const struct ss_quantizers ss_quantizers_plain;
#if defined(__x86_64__)
extern const struct ss_quantizers ss_quantizers_avx2, ss_quantizers_avx512;
#endif

#endif
