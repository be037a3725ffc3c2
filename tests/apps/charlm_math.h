/* The arithmetic of charlm: matrix products and activations in single precision, row-major, in
 * blocks of LANES columns, as vectors of the compiler's own. */
#ifndef TESTS_APPS_CHARLM_MATH_H
#define TESTS_APPS_CHARLM_MATH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/apps/app.h"

enum {
    LANES = 16,
    KERNEL_ROWS = 4, /* rows of a product in registers at a time */
};

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lanes_i __attribute__((vector_size(LANES * sizeof(int32_t))));

#if defined __x86_64__
#define FOR_THIS_CPU __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define FOR_THIS_CPU
#endif
#define INLINE static inline __attribute__((always_inline))

static size_t round_up(size_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static float *floats(size_t members)
{
    float *memory = aligned_alloc(sizeof(lanes), round_up(members) * sizeof *memory);

    if (!memory)
        fail("no memory for %zu numbers", members);
    memset(memory, 0, round_up(members) * sizeof *memory);
    return memory;
}

/* The right-hand matrix of products: for each LANES columns, their rows one after another, so that
 * a product reads it from front to back. Columns are filled up with zeros. */
struct packed {
    float *data;
    size_t rows, columns;
};

static struct packed packed(size_t rows, size_t columns)
{
    return (struct packed){
        .data = floats(rows * round_up(columns)), .rows = rows, .columns = columns};
}

static void pack(struct packed *to, const float *from, size_t stride)
{
    for (size_t j = 0; j < to->columns; j += LANES) {
        size_t width = to->columns - j < LANES ? to->columns - j : LANES;

        for (size_t k = 0; k < to->rows; k++)
            memcpy(to->data + j * to->rows + k * LANES, from + k * stride + j,
                   width * sizeof *from);
    }
}

/* Packs the transpose of from, which is to->columns x filled; rows from filled on are zeros. */
static void pack_transposed(struct packed *to, const float *from, size_t filled)
{
    for (size_t j = 0; j < to->columns; j++) {
        float *column = to->data + j / LANES * LANES * to->rows + j % LANES;

        for (size_t k = 0; k < filled; k++)
            column[k * LANES] = from[j * filled + k];
    }
}

/* to, columns x rows, is the transpose of from, rows x columns. In blocks: both stay in cache. */
static void transpose(float *to, const float *from, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i += LANES)
        for (size_t j = 0; j < columns; j++)
            for (size_t k = i; k < rows && k < i + LANES; k++)
                to[j * rows + k] = from[k * columns + j];
}

/* Adds rows x LANES of a product to the sums. rows is a constant wherever this is inlined. */
INLINE void multiply_block(lanes *sum, const float *a, size_t a_stride, int rows,
                           const float *panel, size_t length)
{
    lanes s0 = sum[0], s1 = sum[rows > 1], s2 = sum[rows > 2 ? 2 : 0], s3 = sum[rows > 3 ? 3 : 0];
    const float *a1 = a + (rows > 1 ? a_stride : 0), *a2 = a + (rows > 2 ? 2 * a_stride : 0);
    const float *a3 = a + (rows > 3 ? 3 * a_stride : 0);

    for (size_t k = 0; k < length; k++) {
        lanes b;

        memcpy(&b, panel + k * LANES, sizeof b);
        s0 += a[k] * b;
        if (rows > 1)
            s1 += a1[k] * b;
        if (rows > 2)
            s2 += a2[k] * b;
        if (rows > 3)
            s3 += a3[k] * b;
    }
    sum[0] = s0;
    if (rows > 1)
        sum[1] = s1;
    if (rows > 2)
        sum[2] = s2;
    if (rows > 3)
        sum[3] = s3;
}

INLINE void copy_row(float *to, const float *from, size_t width)
{
    if (width == LANES)
        memcpy(to, from, sizeof(lanes));
    else
        memcpy(to, from, width * sizeof *to);
}

/* c = a b, or c += a b: a is rows x b->rows without gaps, the rows of c are stride apart. */
FOR_THIS_CPU static void multiply(float *c, size_t stride, const float *a, size_t rows,
                                  const struct packed *b, bool add)
{
    size_t length = b->rows;

    for (size_t j = 0; j < b->columns; j += LANES) {
        size_t width = b->columns - j < LANES ? b->columns - j : LANES;
        const float *panel = b->data + j * length;

        for (size_t i = 0; i < rows;) {
            lanes sum[KERNEL_ROWS] = {{0}};
            size_t taken = rows - i >= KERNEL_ROWS ? KERNEL_ROWS : 1;

            for (size_t r = 0; add && r < taken; r++)
                copy_row((float *)&sum[r], c + (i + r) * stride + j, width);
            if (taken == KERNEL_ROWS)
                multiply_block(sum, a + i * length, length, KERNEL_ROWS, panel, length);
            else
                multiply_block(sum, a + i * length, length, 1, panel, length);
            for (size_t r = 0; r < taken; r++)
                copy_row(c + (i + r) * stride + j, (const float *)&sum[r], width);
            i += taken;
        }
    }
}

/* to += from */
FOR_THIS_CPU static void add_row(float *to, const float *from, size_t members)
{
    for (size_t i = 0; i < members; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            to[i + l] += from[i + l];
}

INLINE void load(lanes *to, const float *from)
{
    memcpy(to, from, sizeof *to);
}

INLINE void store(float *to, const lanes *from)
{
    memcpy(to, from, sizeof *from);
}

/* x becomes exp(x), to 2e-7 of its size; x is cut at -87 and 87. It is 2^n times the Taylor series
 * at what is left of x, |f| <= ln 2 / 2. */
INLINE void exponential(lanes *x)
{
    const float log2_e = 1.44269504f, ln2_high = 355 / 512.0f, ln2_low = -2.12194440e-4f;
    const float round = 12582912; /* 1.5 2^23: adding it leaves the nearest whole number */
    const lanes bottom = (lanes){0} - 87, top = (lanes){0} + 87;
    lanes_i low = *x<bottom, high = *x> top;
    lanes v =
        (lanes)(((lanes_i)*x & ~(low | high)) | ((lanes_i)bottom & low) | ((lanes_i)top & high));
    lanes shifted = v * log2_e + round, n = shifted - round;
    lanes f = v - n * ln2_high - n * ln2_low, series = f * (1 / 720.0f) + 1 / 120.0f;

    series = series * f + 1 / 24.0f;
    series = series * f + 1 / 6.0f;
    series = series * f + 0.5f;
    series = series * f + 1;
    series = series * f + 1;
    *x = series * (lanes)(((lanes_i)shifted - 0x4b400000 + 127) << 23);
}

INLINE void sigmoid(lanes *x)
{
    *x = -*x;
    exponential(x);
    *x = 1 / (1 + *x);
}

INLINE void hyperbolic_tangent(lanes *x)
{
    *x = *x * -2;
    exponential(x);
    *x = (1 - *x) / (1 + *x);
}

#endif
