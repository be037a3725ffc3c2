/* Top-k with error feedback in one pass, and its undo. a = g + r. Entries with |a| at or above a
 * threshold are claimed in ascending order of their indices; the other entries are written back to
 * r. The pass reads g and r once and writes r once. */
#include "gpu/kernels/lookback.h"
#include "gpu/kernels/selection_stats.h"
#include "gpu/kernels/tile.h"

template <class B> struct claim_shared {
    tile_positions at;
    selection_stats_shared<B> seen;
    alignas(16) B sum[tile_of<B>::SIZE]; /* a, until the entry's position is known */
};

template <class B> DEVICE void note_overflows(const tile_of<B> &t, u32 which, u32 *overflows)
{
    for (; which != 0; which &= which - 1) {
        const u32 at = (u32)__ffs((int)which) - 1;
        note_overflow(overflows, t.element(at / tile_of<B>::LANES, at % tile_of<B>::LANES));
    }
}

/* Writes the claims to their positions, which are known now. claimed: a bit for each claim. rank: a
 * byte for each row, the number of claims before this thread's. */
template <source FROM, class B>
DEVICE void write_claims(const claim_shared<B> &s, const tile_of<B> &t, u32 claimed, u32 rank,
                         u32 base, B *r, u32 *idx, B *val, u32 capacity)
{
    const u32 warp = threadIdx.x / WARP;

    for (u32 left = claimed; left != 0; left &= left - 1) {
        const u32 at = (u32)__ffs((int)left) - 1, k = at / tile_of<B>::LANES,
                  c = at % tile_of<B>::LANES;
        const u32 before = tile_of<B>::of_row(claimed, k) & ((1u << c) - 1);
        const u64 to = s.at.first +
                       (s.at.row[k * WARPS + warp] + (rank >> 8 * k & 0xff) + (u32)__popc(before));
        const B sum = s.sum[t.slot(k) + c];
        if (to < capacity) {
            idx[to] = base + t.element(k, c);
            val[to] = sum;
        } else if (FROM != INPUT) {
            r[t.element(k, c)] = sum; /* without room the entry stays */
        }
    }
}

/* Claims. found: the threshold in device memory, or null. overflows: a bit for each element, zero
 * before, or null. */
template <source FROM, class B>
static __device__ void claim(const B *g, B *r, u32 n, u32 skew, u32 aligned, u32 base,
                             u64 threshold, const u64 *found, u32 *idx, B *val, u32 capacity,
                             gpu_claimed *total, u64 *tiles, double *squares, u32 *overflows)
{
    typedef tile_of<B> tile_type;
    constexpr u32 LANES = tile_type::LANES, VECTORS = tile_type::VECTORS;
    SHARED(claim_shared<B>, s);
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 tile = take_tile(&s.at, &total->ticket);
    const tile_type t(tile, n, skew, aligned);
    B in[VECTORS][LANES], left[VECTORS][LANES];

    if (FROM != RESIDUAL)
        t.load(g, in);
    if (FROM != INPUT)
        t.load(r, left);
    if (found)
        threshold = *found > 0 ? *found : 1;

    selection_stats<B> mine = {};
    u32 claimed = 0;
    UNROLL
    for (u32 k = 0; k < VECTORS; k++) {
        u32 row = 0;
        UNROLL
        for (u32 c = 0; c < LANES; c++)
            row |= (u32)look_at(FROM, in[k][c], left[k][c], (B)threshold, k * LANES + c, &mine)
                   << c;
        claimed |= row << k * LANES;
        store_parked(s.sum + t.slot(k), in[k]);
        if (FROM == BOTH || (FROM == RESIDUAL && row != 0))
            t.store(r, k, left[k]);
    }
    const u32 rank = rank_in_rows(&s.at, VECTORS, tile_type::count_rows(claimed));
    __syncthreads();
    if (warp == 0)
        publish_rows(&s.at, VECTORS * WARPS, tiles, tile);
    add_up_stats(s.seen, mine, total);
    if (mine.overflowed != 0 && overflows)
        note_overflows(t, mine.overflowed, overflows);
    if (warp == 0) {
        const u64 up_to = settle(&s.at, tiles, tile);
        if (lane == 0 && tile == gridDim.x - 1)
            total->reached = up_to;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        store_tile_stats(s.seen, total, squares, tile);
    write_claims<FROM>(s, t, claimed, rank, base, r, idx, val, capacity);
}

#define CLAIM(name, FROM, B, blocks)                                                               \
    KERNEL(name, blocks)                                                                           \
    (const B *g, B *r, u32 n, u32 skew, u32 aligned, u32 base, u64 threshold, const u64 *found,    \
     u32 *idx, B *val, u32 capacity, gpu_claimed *total, u64 *tiles, double *squares,              \
     u32 *overflows)                                                                               \
    {                                                                                              \
        claim<FROM, B>(g, r, n, skew, aligned, base, threshold, found, idx, val, capacity, total,  \
                       tiles, squares, overflows);                                                 \
    }                                                                                              \
    KERNEL_END(name)

CLAIM(ss_claim_f32, BOTH, u32, 4)
CLAIM(ss_claim_f64, BOTH, u64, 4)
CLAIM(ss_claim_input_f32, INPUT, u32, 3)
CLAIM(ss_claim_input_f64, INPUT, u64, 3)
CLAIM(ss_claim_residual_f32, RESIDUAL, u32, 4)
CLAIM(ss_claim_residual_f64, RESIDUAL, u64, 4)

/* Undoes the remainder of a claim, after its claims were added again: r -= g in the elements to
 * which the claim has added g. Elements that overflowed, by their bits, were left alone. gpu_undo
 * clears the bits later. */
template <class B> static __device__ void subtract(B *r, const B *g, u32 n, u32 *overflows)
{
    for (u32 i = first_element(); i < n; i += all_threads()) {
        const B in = g[i];
        const u32 bit = 1u << i % 32;
        const bool overflowed = overflows && (load_foreign(overflows + i / 32) & bit);
        if (is_finite(in) && !overflowed)
            r[i] = sum_saturating(r[i], negative(in));
    }
}

#define SUBTRACT(name, B)                                                                          \
    KERNEL(name, 4)(B * r, const B *g, u32 n, u32 *overflows)                                      \
    {                                                                                              \
        subtract(r, g, n, overflows);                                                              \
    }                                                                                              \
    KERNEL_END(name)

SUBTRACT(ss_subtract_f32, u32)
SUBTRACT(ss_subtract_f64, u64)
