/* Ordered compaction in one pass: tiles of a vector take their positions one behind the other by
 * decoupled look-back (Merrill and Garland 2016). A tile is a block's, and numbered by a ticket, so
 * that each before it is done or running. */
#pragma once

#include "gpu/kernels/subset.h"

/* Nanoseconds between two looks at a tile that is not ready. */
#ifndef LOOK_BACK_DELAY
#define LOOK_BACK_DELAY 40
#endif

/* State of a tile, one word: what its own entries are, then what all are up to it. */
#define TILE_OWN   (1ull << 62)
#define TILE_UP_TO (2ull << 62)
#define TILE_COUNT (TILE_OWN - 1)

/* The positions of the entries of a tile, in shared memory. A tile has at most as many rows as a
 * warp has threads; one warp counts each row. */
struct tile_positions {
    u32 tile, seen;
    u32 row[WARP]; /* entries of a row, then those of the rows before it */
    u32 own;
    u64 first; /* entries of all tiles before */
};

DEVICE u32 take_tile(tile_positions *s, u32 *ticket)
{
    if (threadIdx.x == 0)
        s->tile = atomicAdd(ticket, 1u);
    __syncthreads();
    return s->tile;
}

/* Counts up to four rows of a tile. Byte k of `counts` is the number of this thread's entries in
 * row k; byte k of the result is the number of entries before them in the warp. A warp has at most
 * 255 entries in a row. */
DEVICE u32 rank_in_rows(tile_positions *s, u32 rows, u32 counts)
{
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 up_to = warp_scan(counts, lane);

    if (lane == WARP - 1)
        for (u32 k = 0; k < rows; k++)
            s->row[k * WARPS + warp] = up_to >> 8 * k & 0xff;
    return up_to - counts;
}

/* By the first warp, once all rows are counted. */
DEVICE void publish_rows(tile_positions *s, u32 rows, u64 *tiles, u32 tile)
{
    const u32 lane = threadIdx.x % WARP;
    const u32 mine = lane < rows ? s->row[lane] : 0, up_to = warp_scan(mine, lane);
    const u32 own = __shfl_sync(ALL, up_to, WARP - 1);

    s->row[lane] = up_to - mine;
    if (lane == 0) {
        s->own = own;
        store_relaxed(tiles + tile, (tile == 0 ? TILE_UP_TO : TILE_OWN) | own);
    }
    __syncwarp();
}

/* By a warp: the entries of all tiles before this one. */
static __device__ u64 look_back(const u64 *tiles, u32 tile)
{
    const u32 lane = threadIdx.x % WARP;
    u64 sum = 0;

    for (long long at = (long long)tile - 1; at >= 0; at -= WARP) {
        const long long mine = at - (long long)lane;
        u64 state = mine >= 0 ? load_relaxed(tiles + mine) : TILE_UP_TO;
        while (warp_any((state & ~TILE_COUNT) == 0)) {
            if (LOOK_BACK_DELAY)
                __nanosleep(LOOK_BACK_DELAY);
            state = mine >= 0 ? load_relaxed(tiles + mine) : TILE_UP_TO;
        }
        const u32 known = __ballot_sync(ALL, (state & TILE_UP_TO) != 0);
        const int nearest = known ? __ffs((int)known) - 1 : (int)WARP;
        sum += warp_sum((int)lane <= nearest ? state & TILE_COUNT : 0ull);
        if (known)
            break;
    }
    return sum;
}

/* Called by the first warp: waits for the tiles before this one, publishes the number of entries up
 * to the end of this tile, and returns it. Threads of the block read `first` after the next
 * barrier.
 */
DEVICE u64 settle(tile_positions *s, u64 *tiles, u32 tile)
{
    const u64 first = tile > 0 ? look_back(tiles, tile) : 0, up_to = first + s->own;

    if (threadIdx.x == 0) {
        s->first = first;
        if (tile > 0)
            store_relaxed(tiles + tile, TILE_UP_TO | up_to);
    }
    return up_to;
}
