#include "core/wire/value_buckets.h"

#include <string.h>

unsigned ss_values_width(enum ss_values values)
{
    static const unsigned widths[SS_VALUE_TYPES] = {0, 16, 8, 4, 2};
    return widths[values];
}

static bool is_normal_32(const uint8_t *from)
{
    uint32_t bits;

    memcpy(&bits, from, sizeof bits);
    return bits >= 0x00800000u && bits < 0x7f800000u;
}

static bool is_normal_64(const uint8_t *from)
{
    uint64_t bits;

    memcpy(&bits, from, sizeof bits);
    return bits >= 0x0010000000000000u && bits < 0x7ff0000000000000u;
}

size_t ss_bucket_bytes(enum ss_type type, enum ss_values values, const uint8_t *from, size_t len,
                       size_t n)
{
    const size_t size = ss_type_size(type);
    const bool scaled = values != SS_VALUES_BF16;
    size_t bytes = 1;

    if (len < 1 || from[0] >= SS_BUCKET_FORMS)
        return 0;
    if (from[0] == SS_BUCKET_AS_IT_IS)
        bytes += n * size;
    else if (from[0] == SS_BUCKET_CODED)
        bytes += (n * ss_values_width(values) + 7) / 8 + (scaled ? size : 0);
    if (len < bytes)
        return 0;
    if (from[0] == SS_BUCKET_CODED && scaled &&
        !(type == SS_F32 ? is_normal_32(from + 1) : is_normal_64(from + 1)))
        return 0;
    return bytes;
}

uint32_t ss_values_bucket(const void *from)
{
    uint32_t bucket;

    memcpy(&bucket, from, sizeof bucket);
    return bucket;
}

size_t ss_values_look(enum ss_type type, enum ss_values values, const void *from, size_t len,
                      uint32_t *offsets, size_t count)
{
    const uint8_t *begin = from, *at = begin + SS_VALUES_HEAD;
    uint32_t bytes;
    size_t left;

    if (len < SS_VALUES_HEAD || !ss_type_is_float(type) || values <= SS_VALUES_SAME ||
        values >= SS_VALUE_TYPES)
        return 0;
    const uint32_t bucket = ss_values_bucket(from);
    memcpy(&bytes, begin + 4, sizeof bytes);
    const size_t padded = ((size_t)bytes + 7) & ~(size_t)7;
    if (bucket < SS_BUCKET_LEAST || bucket > SS_BUCKET_MOST || padded > len - SS_VALUES_HEAD)
        return 0;
    left = bytes;
    for (size_t i = 0; i < count; i += bucket) {
        const size_t n = count - i < bucket ? count - i : bucket;
        const size_t used = ss_bucket_bytes(type, values, at, left, n);
        if (used == 0)
            return 0;
        if (offsets)
            offsets[i / bucket] = (uint32_t)(at - begin);
        at += used;
        left -= used;
    }
    if (left > 0)
        return 0;
    for (size_t i = bytes; i < padded; i++)
        if (*at++ != 0)
            return 0;
    return SS_VALUES_HEAD + padded;
}
