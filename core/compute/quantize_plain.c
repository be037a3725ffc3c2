/* The quantizers in plain C. */
#include "core/compute/quantize_impl.h"

enum { SS_VECTOR_BYTES = 16 };
#define TABLE      ss_quantizers_plain
#define TABLE_NAME "plain"
#include "core/compute/quantize_table.inc"
