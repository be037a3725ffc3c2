/* Exact mode: the entries that are not zero, in ascending order. One read. */
#include "gpu/lookback.h"
#include "gpu/results.h"
#include "gpu/tile.h"

/* What a thread or a warp saw. */
enum { SAW_NEGATIVE_ZERO = 1, SAW_NOT_FINITE = 2 };

template <class B> DEVICE u32 saw(B x)
{
    return (magnitude(x) == 0 && x != 0 ? SAW_NEGATIVE_ZERO : 0) |
           (is_finite(x) ? 0 : SAW_NOT_FINITE);
}

/* Of x the bits of `mask` are compared with zero: a sign does not count where there is one. What
 * was seen of -0.0, Inf and NaN means something for floats only. `logical`: values become 1. */
template <class B>
static __device__ void scan(const B *src, u32 n, u32 skew, u32 base, B mask, u32 logical, u32 *idx,
                            B *val, u32 capacity, gpu_scanned *total, u64 *tiles)
{
    typedef tile_of<B> tile_type;
    constexpr u32 LANES = tile_type::LANES, VECTORS = tile_type::VECTORS;
    SHARED(places, s);
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 tile = take_tile(&s, &total->ticket);
    const tile_type t(tile, n, skew, 1);
    B in[VECTORS][LANES];
    u32 chosen[VECTORS], rank[VECTORS], flags = 0;

    t.load(src, in);
    UNROLL
    for (u32 k = 0; k < VECTORS; k++) {
        u32 below = 0, row = 0;
        chosen[k] = 0;
        UNROLL
        for (u32 c = 0; c < LANES; c++) {
            const bool taken = (in[k][c] & mask) != 0;
            const u32 who = __ballot_sync(ALL, taken);
            flags |= saw(in[k][c]);
            below += (u32)__popc(who & lanes_below(lane));
            row += (u32)__popc(who);
            chosen[k] |= (u32)taken << c;
        }
        rank[k] = below;
        if (lane == 0)
            s.row[k * WARPS + warp] = row;
    }
    __syncthreads();
    if (warp == 0)
        publish_rows(&s, VECTORS * WARPS, tiles, tile);
    if (warp_any(flags & SAW_NEGATIVE_ZERO) && lane == 0)
        atomicOr(&total->negative_zero, 1u);
    if (warp_any(flags & SAW_NOT_FINITE) && lane == 0)
        atomicOr(&total->not_finite, 1u);
    if (warp == 0) {
        const u64 up_to = settle(&s, tiles, tile);
        if (lane == 0 && tile == gridDim.x - 1)
            total->nnz = up_to;
    }
    __syncthreads();
    UNROLL
    for (u32 k = 0; k < VECTORS; k++) {
        u64 to = s.first + s.row[k * WARPS + warp] + rank[k];
        UNROLL
        for (u32 c = 0; c < LANES; c++) {
            if (!(chosen[k] >> c & 1))
                continue;
            if (to < capacity) {
                idx[to] = base + t.element(k, c);
                val[to] = logical ? 1 : in[k][c];
            } else if (to == capacity) {
                total->stop = t.element(k, c);
            }
            to++;
        }
    }
}

#define SCAN(name, B)                                                                              \
    KERNEL(name, 4)                                                                                \
    (const B *src, u32 n, u32 skew, u32 base, B mask, u32 logical, u32 *idx, B *val, u32 capacity, \
     gpu_scanned *total, u64 *tiles)                                                               \
    {                                                                                              \
        scan(src, n, skew, base, mask, logical, idx, val, capacity, total, tiles);                 \
    }                                                                                              \
    KERNEL_END(name)

SCAN(ss_scan_b32, u32)
SCAN(ss_scan_b64, u64)
