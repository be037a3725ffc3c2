/* The quantizers in plain C. */
#include "core/compute/quantize_impl.h"

#define TABLE      ss_quantizers_plain
#define TABLE_NAME "plain"
#include "core/compute/quantize_table.inc"
