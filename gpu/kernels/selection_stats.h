/* Statistics that a pass over gradient and residual collects, and its arithmetic. */
#pragma once

#include "gpu/kernels/results.h"
#include "gpu/kernels/subset.h"

/* The value `a` of an element: the sum, or one of the two. */
enum source { BOTH, INPUT, RESIDUAL };

template <class B> struct selection_stats_shared {
    double squares[2][WARPS];
    B largest[WARPS];
    u32 any[WARPS];
};

/* Statistics of the elements of a thread. */
template <class B> struct selection_stats {
    double input_square, sum_square;
    B largest, any;
    u32 not_finite, overflowed; /* the latter a bit for each */
};

/* Element `at` of at most 32 that a thread has: the sum and what stays behind, in place of g and r.
 * Returns true if it is claimed. */
template <class B>
DEVICE bool look_at(source from, B &in, B &left, B threshold, u32 at, selection_stats<B> *s)
{
    const B g = from == RESIDUAL ? 0 : in, r = left;
    const B sum = from == BOTH ? sum_of(g, r) : from == INPUT ? g : r;
    const bool finite = is_finite(sum);
    const B fg = finite ? g : 0, fs = finite ? sum : 0, m = magnitude(fs);
    const bool taken = finite && m >= threshold;
    const double gd = number_of(fg), ad = number_of(fs);

    s->not_finite += !finite;
    if (from == BOTH)
        s->overflowed |= (u32)(!finite && is_finite(g)) << at;
    s->largest = m > s->largest ? m : s->largest;
    if (from != RESIDUAL) {
        s->any |= magnitude(fg);
        s->input_square = __fma_rn(gd, gd, s->input_square);
    }
    s->sum_square = __fma_rn(ad, ad, s->sum_square);
    in = sum;
    left = !finite ? r : taken ? 0 : sum;
    return taken;
}

/* By all threads. */
template <class B>
DEVICE void add_up_stats(selection_stats_shared<B> &s, const selection_stats<B> &mine,
                         gpu_claimed *total)
{
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const double input_square = warp_sum(mine.input_square), sum_square = warp_sum(mine.sum_square);
    const B largest = warp_max(mine.largest);
    const bool any = warp_any(mine.any != 0);

    if (lane == 0) {
        s.squares[0][warp] = input_square;
        s.squares[1][warp] = sum_square;
        s.largest[warp] = largest;
        s.any[warp] = any;
    }
    if (warp_any(mine.not_finite != 0)) {
        const u32 bad = warp_sum(mine.not_finite), over = warp_sum((u32)__popc(mine.overflowed));
        if (lane == 0) {
            atomicAdd(&total->not_finite, (u64)bad);
            atomicAdd(&total->overflowed, (u64)over);
        }
    }
}

/* By one thread, behind a barrier. */
template <class B>
DEVICE void store_tile_stats(const selection_stats_shared<B> &s, gpu_claimed *total,
                             double *squares, u32 tile)
{
    double input_square = 0, sum_square = 0;
    B largest = 0;
    u32 any = 0;

    for (u32 w = 0; w < WARPS; w++) {
        input_square += s.squares[0][w];
        sum_square += s.squares[1][w];
        largest = s.largest[w] > largest ? s.largest[w] : largest;
        any |= s.any[w];
    }
    squares[2 * (u64)tile] = input_square;
    squares[2 * (u64)tile + 1] = sum_square;
    atomicMax(&total->largest, (u64)largest);
    if (any)
        atomicOr(&total->any_input, 1u);
}

/* The residual of element i is left alone since its sum overflowed: for the way back. */
DEVICE void note_overflow(u32 *overflows, u32 i)
{
    atomicOr(overflows + i / 32, 1u << i % 32);
}
