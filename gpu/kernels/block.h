/* Sums over the threads of a block. */
#pragma once

#include "gpu/kernels/subset.h"

/* In shared memory. */
struct sums {
    u64 warp[WARPS];
    u64 all;
};

/* The sum of what the threads before this one have; of all in s->all, until the next one begins. */
DEVICE u64 sum_before(sums *s, u64 mine)
{
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u64 up_to = warp_scan(mine, lane);
    u64 sum = up_to - mine;

    if (lane == WARP - 1)
        s->warp[warp] = up_to;
    __syncthreads();
    for (u32 w = 0; w < warp; w++)
        sum += s->warp[w];
    if (threadIdx.x == THREADS - 1)
        s->all = sum + mine;
    __syncthreads();
    return sum;
}

DEVICE u64 sum_of_all(sums *s, u64 mine)
{
    (void)sum_before(s, mine);
    return s->all;
}
