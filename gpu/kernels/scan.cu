/* Finds the entries that are not zero, in ascending order, in one read (MODE=exact). */
#include "gpu/kernels/lookback.h"
#include "gpu/kernels/results.h"
#include "gpu/kernels/tile.h"

template <class B> struct scan_shared {
    tile_positions at;
    alignas(16) B val[tile_of<B>::SIZE]; /* elements, until their positions are known */
};

/* Scans. mask: bits of an element that are compared with zero; without the sign for floats. `total`
 * tells of -0.0, Inf and NaN, which has a meaning for floats only. logical: values become 1. */
template <class B>
static __device__ void scan(const B *src, u32 n, u32 skew, u32 base, B mask, u32 logical, u32 *idx,
                            B *val, u32 capacity, gpu_scanned *total, u64 *tiles)
{
    typedef tile_of<B> tile_type;
    constexpr u32 LANES = tile_type::LANES, VECTORS = tile_type::VECTORS;
    SHARED(scan_shared<B>, s);
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 tile = take_tile(&s.at, &total->ticket);
    const tile_type t(tile, n, skew, 1);
    B in[VECTORS][LANES], most = 0;
    u32 chosen = 0; /* a bit for each element */
    bool negative_zero = false;

    t.load(src, in);
    UNROLL
    for (u32 k = 0; k < VECTORS; k++) {
        UNROLL
        for (u32 c = 0; c < LANES; c++) {
            const B m = magnitude(in[k][c]);
            chosen |= (u32)((in[k][c] & mask) != 0) << (k * LANES + c);
            most = m > most ? m : most;
            negative_zero |= in[k][c] == negative((B)0);
        }
        store_parked(s.val + t.slot(k), in[k]);
    }
    const u32 rank = rank_in_rows(&s.at, VECTORS, tile_type::count_rows(chosen));
    __syncthreads();
    if (warp == 0)
        publish_rows(&s.at, VECTORS * WARPS, tiles, tile);
    if (warp_any(negative_zero) && lane == 0)
        atomicOr(&total->negative_zero, 1u);
    if (warp_any(!is_finite(most)) && lane == 0)
        atomicOr(&total->not_finite, 1u);
    if (warp == 0) {
        const u64 up_to = settle(&s.at, tiles, tile);
        if (lane == 0 && tile == gridDim.x - 1)
            total->nnz = up_to;
    }
    __syncthreads();
    UNROLL
    for (u32 k = 0; k < VECTORS; k++) {
        if (tile_type::of_row(chosen, k) == 0)
            continue;
        u64 to = s.at.first + s.at.row[k * WARPS + warp] + (rank >> 8 * k & 0xff);
        UNROLL
        for (u32 c = 0; c < LANES; c++) {
            if (!(chosen >> (k * LANES + c) & 1))
                continue;
            if (to < capacity) {
                idx[to] = base + t.element(k, c);
                val[to] = logical ? 1 : s.val[t.slot(k) + c];
            } else if (to == capacity) {
                total->stop = t.element(k, c);
            }
            to++;
        }
    }
}

/* Blocks of a multiprocessor: most devices have room for six, those of 7.5 for four. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
#define SCAN_BLOCKS 4
#else
#define SCAN_BLOCKS 6
#endif

#define SCAN(name, B)                                                                              \
    KERNEL(name, SCAN_BLOCKS)                                                                      \
    (const B *src, u32 n, u32 skew, u32 base, B mask, u32 logical, u32 *idx, B *val, u32 capacity, \
     gpu_scanned *total, u64 *tiles)                                                               \
    {                                                                                              \
        scan(src, n, skew, base, mask, logical, idx, val, capacity, total, tiles);                 \
    }                                                                                              \
    KERNEL_END(name)

SCAN(ss_scan_b32, u32)
SCAN(ss_scan_b64, u64)
