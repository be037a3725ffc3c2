/* Implements plain loops over dense vectors, which compilers vectorise. */
#include "core/compute/vector.h"

#include <float.h>
#include <string.h>

#include "core/base/fpenv.h"
#include "core/compute/select.h"
#include "core/compute/width.h"

#define LARGEST_32 FLT_MAX
#define LARGEST_64 DBL_MAX

bool ss_vector_is_clear(enum ss_type type, const void *v, size_t n)
{
    const unsigned char *bytes = v;
    size_t size = n * ss_type_size(type);

    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

unsigned ss_vector_exceptions(enum ss_type type, const void *v, size_t n)
{
    const uint64_t infinite = type == SS_F32 ? 0x7f800000 : 0x7ff0000000000000;
    unsigned exceptions = 0;

    for (size_t i = 0; i < n; i++) {
        const uint64_t magnitude = ss_magnitude_at(type, v, i);

        if (magnitude >= infinite)
            exceptions |= magnitude > infinite ? SS_OVERFLOW | SS_INVALID : SS_OVERFLOW;
    }
    return exceptions;
}

void ss_vector_clear(enum ss_type type, void *v, size_t n)
{
    memset(v, 0, n * ss_type_size(type));
}

#define WIDTH 32
#include "core/compute/vector.inc"
#define WIDTH 64
#include "core/compute/vector.inc"

void ss_vector_join(enum ss_type type, const void *in, const void *r, void *out, size_t n,
                    double share)
{
    if (type == SS_F32)
        join_32(in, r, out, n, (float)share);
    else
        join_64(in, r, out, n, share);
}

void ss_vector_leave(enum ss_type type, void *r, size_t n, double share)
{
    if (type == SS_F32)
        leave_32(r, n, (float)share);
    else
        leave_64(r, n, share);
}

void ss_vector_scale(enum ss_type type, void *r, size_t n, double factor)
{
    if (type == SS_F32)
        scale_32(r, n, factor);
    else
        scale_64(r, n, factor);
}

void ss_vector_add_at(enum ss_type type, void *r, uint32_t base, const uint32_t *idx,
                      const void *val, size_t count)
{
    if (type == SS_F32)
        add_32(r, base, idx, val, count);
    else
        add_64(r, base, idx, val, count);
}

void ss_vector_add(enum ss_type type, void *r, const void *val, size_t n)
{
    if (type == SS_F32)
        add_dense_32(r, val, n);
    else
        add_dense_64(r, val, n);
}

double ss_vector_square(enum ss_type type, const void *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i += 4096) { /* short sums keep the error small */
        size_t end = n - i < 4096 ? n : i + 4096;
        double part = 0;
        if (type == SS_F32)
            for (size_t j = i; j < end; j++)
                part += (double)((const float *)v)[j] * (double)((const float *)v)[j];
        else
            for (size_t j = i; j < end; j++)
                part += ((const double *)v)[j] * ((const double *)v)[j];
        sum += part;
    }
    return sum;
}
