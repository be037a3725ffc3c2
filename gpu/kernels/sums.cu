/* Sums and counts of a dense vector: sums of squares, elements that are not finite, any bit, the
 * largest element, the sketch of GUARD. Sums of squares are the same in every run, since each tile
 * has one, and they add up in a fixed order. The sketch consists of integers, so that its order
 * does not matter. */
#include "gpu/kernels/results.h"
#include "gpu/kernels/tile.h"

/* Calls f for each element of this block's tile, and for zeros past the ends. */
template <class B, class F> DEVICE void each(const B *v, u32 n, u32 skew, F f)
{
    typedef tile_of<B> tile_type;
    B x[tile_type::VECTORS][tile_type::LANES];

    tile_type(blockIdx.x, n, skew, 1).load(v, x);
    UNROLL
    for (u32 k = 0; k < tile_type::VECTORS; k++) {
        UNROLL
        for (u32 c = 0; c < tile_type::LANES; c++)
            f(x[k][c]);
    }
}

/* A kernel that sums up or searches a vector. */
#define ASK(name, B, answer, ask)                                                                  \
    KERNEL(name, 4)(const B *v, u32 n, u32 skew, answer *to)                                       \
    {                                                                                              \
        ask(v, n, skew, to);                                                                       \
    }                                                                                              \
    KERNEL_END(name)

typedef double warp_parts[WARPS];

/* Returns the sum over a block, in a fixed order, to the first thread. parts: a number for each
 * warp. */
DEVICE double block_sum(double x, double *parts)
{
    double sum = 0;

    x = warp_sum(x);
    if (threadIdx.x % WARP == 0)
        parts[threadIdx.x / WARP] = x;
    __syncthreads();
    for (u32 w = 0; w < WARPS; w++)
        sum += parts[w];
    __syncthreads();
    return sum;
}

template <class B> static __device__ void square(const B *v, u32 n, u32 skew, double *squares)
{
    SHARED(warp_parts, parts);
    double sum = 0;

    each(v, n, skew, [&sum](B x) {
        const double y = number_of(x);
        sum = __fma_rn(y, y, sum);
    });
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        squares[blockIdx.x] = sum;
}

ASK(ss_square_f32, u32, double, square)
ASK(ss_square_f64, u64, double, square)

/* Numbers of each sum that a block of ss_sum adds up. */
enum { SUM_SHARE = 4 * THREADS };

DEVICE double sum_range(const double *from, u32 ways, u32 begin, u32 end, double *parts)
{
    double sum = 0;

    for (u32 i = begin + threadIdx.x; i < end; i += THREADS)
        sum += load_foreign(from + (u64)i * ways);
    return block_sum(sum, parts);
}

/* Sets to[w] to the sum of from[w], from[w + ways], ..., `count` numbers each. Each block adds up
 * SUM_SHARE numbers. shares: one for each block and each of the ways. */
KERNEL(ss_sum, 4)(const double *from, u32 ways, u32 count, double *shares, u32 *done, double *to)
{
    SHARED(warp_parts, parts);
    SHARED(u32, seen);
    const u32 begin = blockIdx.x * SUM_SHARE, left = count - begin;

    for (u32 w = 0; w < ways; w++) {
        const double sum =
            sum_range(from + w, ways, begin, left < SUM_SHARE ? count : begin + SUM_SHARE, parts);
        if (threadIdx.x == 0)
            shares[blockIdx.x * ways + w] = sum;
    }
    if (!last_block(done, &seen))
        return;
    for (u32 w = 0; w < ways; w++) {
        const double sum = sum_range(shares + w, ways, 0, gridDim.x, parts);
        if (threadIdx.x == 0)
            to[w] = sum;
    }
}
KERNEL_END(ss_sum)

/* Counts elements of g + r that are not finite. g or r may be null. */
template <class B>
static __device__ void not_finite(const B *g, const B *r, u32 n, u32 skew, u32 aligned, u64 *count)
{
    typedef tile_of<B> tile_type;
    const tile_type t(blockIdx.x, n, skew, aligned);
    B a[tile_type::VECTORS][tile_type::LANES], b[tile_type::VECTORS][tile_type::LANES];
    u32 found = 0;

    if (g)
        t.load(g, a);
    if (r)
        t.load(r, b);
    UNROLL
    for (u32 k = 0; k < tile_type::VECTORS; k++) {
        UNROLL
        for (u32 c = 0; c < tile_type::LANES; c++)
            found += !is_finite(g && r ? sum_of(a[k][c], b[k][c]) : g ? a[k][c] : b[k][c]);
    }
    if (warp_any(found != 0)) {
        found = warp_sum(found);
        if (threadIdx.x % WARP == 0)
            atomicAdd(count, (u64)found);
    }
}

#define NOT_FINITE(name, B)                                                                        \
    KERNEL(name, 4)(const B *g, const B *r, u32 n, u32 skew, u32 aligned, u64 *count)              \
    {                                                                                              \
        not_finite(g, r, n, skew, aligned, count);                                                 \
    }                                                                                              \
    KERNEL_END(name)

NOT_FINITE(ss_not_finite_f32, u32)
NOT_FINITE(ss_not_finite_f64, u64)

/* Sets *any to 1 if a bit is set. */
template <class B> static __device__ void any_bit(const B *v, u32 n, u32 skew, u32 *any)
{
    B bits = 0;

    each(v, n, skew, [&bits](B x) { bits |= x; });
    if (warp_any(bits != 0) && threadIdx.x % WARP == 0)
        atomicOr(any, 1u);
}

ASK(ss_any_bit_b32, u32, u32, any_bit)
ASK(ss_any_bit_b64, u64, u32, any_bit)

/* Finds the magnitude of the largest finite element. */
template <class B> static __device__ void find_largest(const B *v, u32 n, u32 skew, u64 *largest)
{
    B most = 0;

    each(v, n, skew,
         [&most](B x) { most = is_finite(x) && magnitude(x) > most ? magnitude(x) : most; });
    most = warp_max(most);
    if (most != 0 && threadIdx.x % WARP == 0)
        atomicMax(largest, (u64)most);
}

ASK(ss_largest_f32, u32, u64, find_largest)
ASK(ss_largest_f64, u64, u64, find_largest)

/* ---- sketch ---- */

enum { SKETCH_BUCKETS = 2048 };

typedef u64 sketch_buckets[SKETCH_BUCKETS];

DEVICE double power_of_two(int e)
{
    return number_of((u64)(e + 1023) << 52);
}

/* Sketches as core/backend/host.c does, in units of 2^-shift. If n numbers are below 2^(62 - bits
 * of n) in these units, no bucket overflows. */
template <class B> static __device__ void sketch(const B *v, u32 n, int shift, u64 *buckets)
{
    SHARED(sketch_buckets, s);
    const double half = power_of_two(shift / 2), remaining = power_of_two(shift - shift / 2);

    for (u32 i = threadIdx.x; i < SKETCH_BUCKETS; i += THREADS)
        s[i] = 0;
    __syncthreads();
    for (u32 i = first_element(); i < n; i += all_threads()) {
        const B x = v[i];
        if (magnitude(x) == 0 || !is_finite(x))
            continue;
        u64 h = ((u64)i + 1) * 0x9e3779b97f4a7c15ull;
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
        const long long units = __double2ll_rn((double)number_of(x) * half * remaining);
        atomicAdd(&s[h >> 53], (u64)(h & (1u << 20) ? units : -units));
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < SKETCH_BUCKETS; i += THREADS)
        if (s[i] != 0)
            atomicAdd(buckets + i, s[i]);
}

#define SKETCH(name, B)                                                                            \
    KERNEL(name, 4)(const B *v, u32 n, int shift, u64 *buckets)                                    \
    {                                                                                              \
        sketch(v, n, shift, buckets);                                                              \
    }                                                                                              \
    KERNEL_END(name)

SKETCH(ss_sketch_f32, u32)
SKETCH(ss_sketch_f64, u64)
