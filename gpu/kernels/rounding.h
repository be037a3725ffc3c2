/* Rounds values to bf16 or q8, bit for bit as core/wire/values.c does. A warp takes each bucket of
 * consecutive values. */
#pragma once

#include "gpu/kernels/codes.h"
#include "gpu/kernels/subset.h"

enum { VALUES_HEAD = 8 };

/* Shared memory of a block. */
struct buckets {
    u32 offset[GPU_BUCKETS + 1]; /* offset of each bucket in bytes, then of their end */
    u64 largest[GPU_BUCKETS];    /* largest magnitudes */
};

/* Magnitudes that are coded: normal numbers; for bf16, those within the range of floats. */
template <class B> struct reach;

template <> struct reach<u32> {
    static constexpr u32 LEAST = 0x00800000u, MOST = 0x7f7fffffu, BF16_LEAST = LEAST,
                         BF16_MOST = 0x7f7f0000u;
};

template <> struct reach<u64> {
    static constexpr u64 LEAST = 0x0010000000000000u, MOST = 0x7fefffffffffffffu,
                         BF16_LEAST = 0x3810000000000000u, BF16_MOST = 0x47efe00000000000u;
};

template <class B> DEVICE u32 form_of(B largest, bool bf16)
{
    const B least = bf16 ? reach<B>::BF16_LEAST : reach<B>::LEAST,
            most = bf16 ? reach<B>::BF16_MOST : reach<B>::MOST;

    if (largest == 0)
        return GPU_ZEROS;
    return largest >= least && largest <= most ? GPU_CODED : GPU_AS_IT_IS;
}

template <class B> DEVICE u32 bucket_bytes(u32 form, bool bf16, u32 n)
{
    if (form == GPU_ZEROS)
        return 1;
    if (form == GPU_AS_IT_IS)
        return 1 + n * (u32)sizeof(B);
    return 1 + (bf16 ? 2 * n : (u32)sizeof(B) + n);
}

/* Rounds bits of floats, ties to even. */
DEVICE u32 to_bf16(u32 x, u32 *code)
{
    const u32 near = (x + 0x7fffu + (x >> 16 & 1)) & 0xffff0000u;

    *code = near >> 16;
    return near;
}

/* Rounds doubles. Below the least normal float, bf16 has a fixed point. */
DEVICE u64 to_bf16(u64 x, u32 *code)
{
    const double steps = 0x1.8p-81;
    const u64 kept = ~((1ull << 45) - 1), half = (1ull << 44) - 1;
    u64 near = (x + half + (x >> 45 & 1)) & kept;

    if (magnitude(x) < reach<u64>::BF16_LEAST)
        near = bits_of(add(add(number_of(x), steps), -steps));
    *code = bits_of(__double2float_rn(number_of(near))) >> 16;
    return near;
}

DEVICE float half_way(float)
{
    return 0x1.8p23f;
}

DEVICE double half_way(double)
{
    return 0x1.8p52;
}

template <class B> DEVICE B to_q8(B x, B scale, u32 *code)
{
    using real = decltype(number_of(x));
    const real levels = (real)GPU_LEVELS, inverse = (real)1 / levels, half = half_way(levels);
    const real ratio = number_of(x) / number_of(scale);
    const real c = add(add(multiply(ratio, levels), half), -half);

    *code = (u32)((int)add(c, levels) + 1);
    return bits_of(multiply(multiply(c, inverse), number_of(scale)));
}

template <class B> DEVICE void write_bytes(unsigned char *to, B x)
{
    UNROLL
    for (u32 i = 0; i < sizeof(B); i++)
        to[i] = (unsigned char)(x >> 8 * i);
}

/* Rounds value j of a bucket, writes its code, and stores the difference in error. */
template <class B>
DEVICE void round_value(unsigned char *codes, u32 j, u32 form, bool bf16, B scale, B *val, B *error)
{
    const B x = val[j];
    B near = x, lost = 0;
    u32 code;

    if (form == GPU_ZEROS) {
        near = 0;
    } else if (form == GPU_AS_IT_IS) {
        write_bytes(codes + j * sizeof(B), x);
    } else {
        near = bf16 ? to_bf16(x, &code) : to_q8(x, scale, &code);
        lost = sum_of(x, negative(near));
        if (!bf16) {
            codes[sizeof(B) + j] = (unsigned char)code;
        } else {
            codes[2 * j] = (unsigned char)code;
            codes[2 * j + 1] = (unsigned char)(code >> 8);
        }
    }
    val[j] = near;
    if (error)
        error[j] = lost;
}

/* Finds the largest magnitudes and the offsets of the buckets. */
template <class B>
DEVICE void look_at_buckets(buckets *s, const B *val, u32 nnz, u32 bucket, bool bf16)
{
    const u32 lane = threadIdx.x % WARP;

    for (u32 b = threadIdx.x / WARP; b * bucket < nnz; b += WARPS) {
        const u32 n = nnz - b * bucket < bucket ? nnz - b * bucket : bucket;
        B most = 0;
        for (u32 j = lane; j < n; j += WARP) {
            const B m = magnitude(val[b * bucket + j]);
            most = m > most ? m : most;
        }
        most = warp_max(most);
        if (lane == 0) {
            s->largest[b] = most;
            s->offset[b] = bucket_bytes<B>(form_of(most, bf16), bf16, n);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 at = VALUES_HEAD, b = 0;
        for (; b * bucket < nnz; b++) {
            const u32 bytes = s->offset[b];
            s->offset[b] = at;
            at += bytes;
        }
        s->offset[b] = at;
    }
    __syncthreads();
}

/* Rounds all values, for a block. `to` is aligned to 8 bytes. Returns the bytes, a multiple of
 * 8. */
template <class B>
static __device__ u32 round_values(buckets *s, unsigned char *to, B *val, B *error, u32 nnz,
                                   u32 bucket, bool bf16)
{
    const u32 lane = threadIdx.x % WARP, count = (nnz + bucket - 1) / bucket;

    look_at_buckets(s, val, nnz, bucket, bf16);
    for (u32 b = threadIdx.x / WARP; b < count; b += WARPS) {
        const u32 first = b * bucket, n = nnz - first < bucket ? nnz - first : bucket;
        const B largest = (B)s->largest[b];
        const u32 form = form_of(largest, bf16);
        unsigned char *at = to + s->offset[b];
        if (lane == 0) {
            at[0] = (unsigned char)form;
            if (form == GPU_CODED && !bf16)
                write_bytes(at + 1, largest);
        }
        for (u32 j = lane; j < n; j += WARP)
            round_value(at + 1, j, form, bf16, largest, val + first, error ? error + first : error);
    }
    const u32 end = s->offset[count], bytes = (end + 7) / 8 * 8;
    if (threadIdx.x == 0) {
        ((u32 *)to)[0] = bucket;
        ((u32 *)to)[1] = end - VALUES_HEAD;
    }
    if (threadIdx.x < bytes - end)
        to[end + threadIdx.x] = 0;
    return bytes;
}
