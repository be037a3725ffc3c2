/* Entries of a stream: sets, clears or adds them in a dense vector, and picks elements out of one.
 * The indices of a launch are unique. If `refused` is not null and its word not 0, does nothing. */
#include "gpu/kernels/operator.h"

DEVICE bool is_refused(const u32 *refused)
{
    return refused && *refused != 0;
}

template <class B>
static __device__ void scatter(B *dst, u32 base, const u32 *idx, const B *val, u32 nnz,
                               const u32 *refused)
{
    if (is_refused(refused))
        return;
    for (u32 j = first_element(); j < nnz; j += all_threads())
        dst[idx[j] - base] = val[j];
}

#define SCATTER(name, B)                                                                           \
    KERNEL(name, 4)(B * dst, u32 base, const u32 *idx, const B *val, u32 nnz, const u32 *refused)  \
    {                                                                                              \
        scatter(dst, base, idx, val, nnz, refused);                                                \
    }                                                                                              \
    KERNEL_END(name)

SCATTER(ss_scatter_b32, u32)
SCATTER(ss_scatter_b64, u64)

template <class B> static __device__ void clear_at(B *dst, u32 base, const u32 *idx, u32 nnz)
{
    for (u32 j = first_element(); j < nnz; j += all_threads())
        dst[idx[j] - base] = 0;
}

#define CLEAR_AT(name, B)                                                                          \
    KERNEL(name, 4)(B * dst, u32 base, const u32 *idx, u32 nnz)                                    \
    {                                                                                              \
        clear_at(dst, base, idx, nnz);                                                             \
    }                                                                                              \
    KERNEL_END(name)

CLEAR_AT(ss_clear_at_b32, u32)
CLEAR_AT(ss_clear_at_b64, u64)

template <u32 OP, class B>
DEVICE void accumulate_by(B *dst, u32 base, const u32 *idx, const B *val, u32 nnz)
{
    for (u32 j = first_element(); j < nnz; j += all_threads()) {
        B *to = dst + (idx[j] - base);
        *to = combined<OP>(*to, val[j]);
    }
}

#define ACCUMULATE(name, B)                                                                        \
    KERNEL(name, 4)                                                                                \
    (u32 op, B * dst, u32 base, const u32 *idx, const B *val, u32 nnz, const u32 *refused)         \
    {                                                                                              \
        if (is_refused(refused))                                                                   \
            return;                                                                                \
        BY_OPERATOR(op, accumulate_by, (dst, base, idx, val, nnz));                                \
    }                                                                                              \
    KERNEL_END(name)

ACCUMULATE(ss_accumulate_u32, u32)
ACCUMULATE(ss_accumulate_u64, u64)

/* dst[idx[j] - base] = f(dst[idx[j] - base], val[j]) for floats. */
#define SUM_AT(name, B, f)                                                                         \
    KERNEL(name, 4)(B * r, u32 base, const u32 *idx, const B *val, u32 count, const u32 *refused)  \
    {                                                                                              \
        if (is_refused(refused))                                                                   \
            return;                                                                                \
        for (u32 j = first_element(); j < count; j += all_threads())                               \
            r[idx[j] - base] = f(r[idx[j] - base], val[j]);                                        \
    }                                                                                              \
    KERNEL_END(name)

SUM_AT(ss_accumulate_f32, u32, sum_of)
SUM_AT(ss_accumulate_f64, u64, sum_of)
SUM_AT(ss_add_at_f32, u32, sum_saturating)
SUM_AT(ss_add_at_f64, u64, sum_saturating)

/* Sets a bit for each index among the `bits` elements from `first` on. The indices ascend; the
 * words are zero before. */
KERNEL(ss_bitmap, 4)(const u32 *idx, u32 nnz, u32 first, u32 bits, u32 *words)
{
    for (u32 j = first_element(); j < nnz; j += all_threads()) {
        const u32 at = idx[j] - first; /* an index before `first` becomes very large */
        if (at < bits)
            atomicOr(words + at / 32, 1u << at % 32);
    }
}
KERNEL_END(ss_bitmap)

template <class B> static __device__ void pick(const B *v, const u32 *indices, u32 count, B *to)
{
    for (u32 j = first_element(); j < count; j += all_threads())
        to[j] = v[indices[j]];
}

#define PICK(name, B)                                                                              \
    KERNEL(name, 4)(const B *v, const u32 *indices, u32 count, B *to)                              \
    {                                                                                              \
        pick(v, indices, count, to);                                                               \
    }                                                                                              \
    KERNEL_END(name)

PICK(ss_pick_b32, u32)
PICK(ss_pick_b64, u64)
