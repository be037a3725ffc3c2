/* Dense vectors: r += x, joins, shares, factors, reductions. Works tile by tile; if two or three
 * vectors have different alignments, element by element. */
#include "gpu/kernels/operator.h"
#include "gpu/kernels/tile.h"

/* dst[i] = f(dst[i], src[i]) */
template <class B, class F>
DEVICE void each_pair(B *dst, const B *src, u32 n, u32 skew, u32 aligned, F f)
{
    typedef tile_of<B> tile_type;
    const tile_type t(blockIdx.x, n, skew, aligned);
    B to[tile_type::VECTORS][tile_type::LANES], from[tile_type::VECTORS][tile_type::LANES];

    t.load(src, from);
    t.load(dst, to);
    UNROLL
    for (u32 k = 0; k < tile_type::VECTORS; k++) {
        UNROLL
        for (u32 c = 0; c < tile_type::LANES; c++)
            to[k][c] = f(to[k][c], from[k][c]);
        t.store(dst, k, to[k]);
    }
}

/* r[i] = f(r[i]) */
template <class B, class F> DEVICE void each(B *r, u32 n, u32 skew, F f)
{
    typedef tile_of<B> tile_type;
    const tile_type t(blockIdx.x, n, skew, 1);
    B x[tile_type::VECTORS][tile_type::LANES];

    t.load(r, x);
    UNROLL
    for (u32 k = 0; k < tile_type::VECTORS; k++) {
        UNROLL
        for (u32 c = 0; c < tile_type::LANES; c++)
            x[k][c] = f(x[k][c]);
        t.store(r, k, x[k]);
    }
}

#define EACH_PAIR(name, B, f)                                                                      \
    KERNEL(name, 4)(B * dst, const B *src, u32 n, u32 skew, u32 aligned)                           \
    {                                                                                              \
        each_pair(dst, src, n, skew, aligned, [](B a, B b) { return f(a, b); });                   \
    }                                                                                              \
    KERNEL_END(name)

/* Adds val if it is finite. */
template <class B> DEVICE B sum_of_finite(B r, B val)
{
    return is_finite(val) ? sum_saturating(r, val) : r;
}

EACH_PAIR(ss_add_f32, u32, sum_of_finite)
EACH_PAIR(ss_add_f64, u64, sum_of_finite)
EACH_PAIR(ss_reduce_f32, u32, sum_of)
EACH_PAIR(ss_reduce_f64, u64, sum_of)

template <u32 OP, class B> DEVICE void reduce_by(B *dst, const B *src, u32 n, u32 skew, u32 aligned)
{
    each_pair(dst, src, n, skew, aligned, [](B a, B b) { return combined<OP>(a, b); });
}

#define REDUCE(name, B)                                                                            \
    KERNEL(name, 4)(u32 op, B * dst, const B *src, u32 n, u32 skew, u32 aligned)                   \
    {                                                                                              \
        BY_OPERATOR(op, reduce_by, (dst, src, n, skew, aligned));                                  \
    }                                                                                              \
    KERNEL_END(name)

REDUCE(ss_reduce_u32, u32)
REDUCE(ss_reduce_u64, u64)

/* Joins input and residual. Never reads `out`. */
template <class B, class T>
static __device__ void join(const B *in, const B *r, B *out, u32 n, u32 skew, u32 aligned, T share)
{
    typedef tile_of<B> tile_type;
    const tile_type t(blockIdx.x, n, skew, aligned);
    B a[tile_type::VECTORS][tile_type::LANES], b[tile_type::VECTORS][tile_type::LANES];

    t.load(in, a);
    t.load(r, b);
    UNROLL
    for (u32 k = 0; k < tile_type::VECTORS; k++) {
        UNROLL
        for (u32 c = 0; c < tile_type::LANES; c++)
            a[k][c] = sum_of(a[k][c], bits_of(multiply(share, number_of(b[k][c]))));
        t.store(out, k, a[k]);
    }
}

#define JOIN(name, B, T)                                                                           \
    KERNEL(name, 4)(const B *in, const B *r, B *out, u32 n, u32 skew, u32 aligned, T share)        \
    {                                                                                              \
        join(in, r, out, n, skew, aligned, share);                                                 \
    }                                                                                              \
    KERNEL_END(name)

JOIN(ss_join_f32, u32, float)
JOIN(ss_join_f64, u64, double)

#define LEAVE(name, B, T)                                                                          \
    KERNEL(name, 4)(B * r, u32 n, u32 skew, T share)                                               \
    {                                                                                              \
        each(r, n, skew, [share](B x) {                                                            \
            return sum_of(x, negative(bits_of(multiply(share, number_of(x)))));                    \
        });                                                                                        \
    }                                                                                              \
    KERNEL_END(name)

LEAVE(ss_leave_f32, u32, float)
LEAVE(ss_leave_f64, u64, double)

/* Scales with one rounding, at most up to the largest number. */
template <class B> DEVICE double scaled(B x, double factor)
{
    const double most = number<B>::LARGEST, y = multiply((double)number_of(x), factor);
    return y > most ? most : y < -most ? -most : y;
}

KERNEL(ss_scale_f32, 4)(u32 *r, u32 n, u32 skew, double factor)
{
    each(r, n, skew, [factor](u32 x) { return bits_of(__double2float_rn(scaled(x, factor))); });
}
KERNEL_END(ss_scale_f32)

KERNEL(ss_scale_f64, 4)(u64 *r, u32 n, u32 skew, double factor)
{
    each(r, n, skew, [factor](u64 x) { return bits_of(scaled(x, factor)); });
}
KERNEL_END(ss_scale_f64)
