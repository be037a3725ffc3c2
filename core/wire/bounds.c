/* Computes bounds on the length of values and messages, for backends that encode as well. */
#include "core/wire/packed.h"
#include "core/wire/value_buckets.h"
#include "core/wire/wire.h"

enum { SLACK = 8 };

size_t ss_values_bound(enum ss_type type, const struct ss_rounding *how, size_t count)
{
    size_t buckets = (count + how->bucket - 1) / how->bucket;

    /* one byte more for a single value that is coded behind its scale */
    return (SS_VALUES_HEAD + buckets + count * ss_type_size(type) + 1 + 7) & ~(size_t)7;
}

size_t ss_wire_bound(enum ss_type type, uint32_t entries)
{
    const struct ss_rounding longest = {.bucket = SS_BUCKET_LEAST};
    size_t values = ss_type_is_float(type) ? ss_values_bound(type, &longest, entries)
                                           : entries * ss_type_size(type);
    size_t size = SS_WIRE_HEADER + values + ss_index_bound(entries) + SLACK;

    return (size + 7) & ~(size_t)7;
}
