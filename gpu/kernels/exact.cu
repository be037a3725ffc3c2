/* Finds the exact k-th largest |a| by radix; a = g + r, or one of both. Each pass finds some bits
 * of the magnitude, the highest first, by a histogram of the elements that agree so far.
 *
 * The way with about one reading: find a lower bound from a sample, claim the elements that reach
 * it, find the k-th of the claims, put the surplus back.
 */
#include "gpu/kernels/lookback.h"
#include "gpu/kernels/selection_stats.h"
#include "gpu/kernels/tile.h"

enum { BINS = 2048, BINS_EACH = BINS / THREADS };

struct histogram {
    u32 bin[BINS];
    u32 warps[WARPS];
    u32 seen, chosen;
};

template <class B> DEVICE B sum_at(const B *g, const B *r, u32 i)
{
    return g && r ? sum_of(g[i], r[i]) : g ? g[i] : r[i];
}

template <class B> DEVICE void count_one(histogram &h, B sum, B low, u32 shift, u32 width)
{
    const B m = magnitude(sum);

    if (is_finite(sum) && m != 0 && m >> shift >> width == low >> shift >> width)
        atomicAdd(&h.bin[(u32)(m >> shift) & ((1u << width) - 1)], 1u);
}

/* Adds up the bins of a block, from the highest down to this thread's. Thread 0 has the highest
 * bins. */
DEVICE u32 block_scan(u32 x, u32 *warps)
{
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 up_to = warp_scan(x, lane);

    if (lane == WARP - 1)
        warps[warp] = up_to;
    __syncthreads();
    for (u32 w = 0; w < warp; w++)
        up_to += warps[w];
    __syncthreads();
    return up_to;
}

/* Finds the bin with the wanted element, and empties the bins for the next pass. If fewer elements
 * than wanted are not zero, takes all of them: the lowest bits are then those of 1. By the last
 * block. */
DEVICE void find_bin(histogram &h, u32 *bins, u64 k, u32 shift, u32 last, gpu_search *s)
{
    const u32 top = BINS - 1 - threadIdx.x * BINS_EACH;
    const bool few_before = s->few;
    const u64 wanted = k > 0 ? k : s->wanted;
    u32 own[BINS_EACH], sum = 0;

    for (u32 j = 0; j < BINS_EACH; j++) {
        own[j] = load_foreign(bins + top - j);
        bins[top - j] = 0;
        sum += own[j];
    }
    const u32 up_to = block_scan(sum, h.warps);
    if (threadIdx.x == THREADS - 1)
        h.chosen = few_before || up_to < wanted; /* over all bins */
    __syncthreads();
    const bool few = h.chosen;
    u32 above = up_to - sum;
    for (u32 j = 0; j < BINS_EACH; above += own[j++]) {
        const u32 bin = top - j;
        if (few ? bin != (last ? 1u : 0u) : above >= wanted || above + own[j] < wanted)
            continue;
        s->low |= (u64)bin << shift;
        s->above += above;
        s->count = s->above + own[j];
        s->wanted = few ? wanted : wanted - above;
        s->few = few;
    }
    if (threadIdx.x == 0)
        s->done = 0;
}

/* Adds the block's counts to `bins`. For all threads of the grid. */
DEVICE void finish_pass(histogram &h, u32 *bins, u64 k, u32 shift, u32 last, gpu_search *s)
{
    __syncthreads();
    for (u32 i = threadIdx.x; i < BINS; i += THREADS)
        if (h.bin[i] != 0)
            atomicAdd(bins + i, h.bin[i]);
    if (last_block(&s->done, &h.seen))
        find_bin(h, bins, k, shift, last, s);
}

DEVICE void clear_bins(histogram &h)
{
    for (u32 i = threadIdx.x; i < BINS; i += THREADS)
        h.bin[i] = 0;
    __syncthreads();
}

/* Finds the bits from `shift` to `shift + width`, in one pass over all elements.
 *   counted: number of elements, in device memory, at most n; or null
 *   k:       k in the first pass, then 0
 *   last:    this is the last pass */
template <class B>
static __device__ void search(const B *g, const B *r, u32 n, u32 skew, u32 aligned,
                              const u64 *counted, u64 k, u32 shift, u32 width, u32 last,
                              gpu_search *s, u32 *bins)
{
    typedef tile_of<B> tile_type;
    constexpr u32 LANES = tile_type::LANES, VECTORS = tile_type::VECTORS;
    SHARED(histogram, h);
    const B low = (B)s->low;

    clear_bins(h);
    if (counted && *counted < n)
        n = (u32)*counted;
    for (u32 tile = blockIdx.x; tile * tile_type::SIZE < n + skew; tile += gridDim.x) {
        const tile_type t(tile, n, skew, aligned);
        B a[VECTORS][LANES] = {}, b[VECTORS][LANES] = {};
        if (g)
            t.load(g, a);
        if (r)
            t.load(r, b);
        UNROLL
        for (u32 k = 0; k < VECTORS; k++) {
            UNROLL
            for (u32 c = 0; c < LANES; c++)
                count_one(h,
                          g && r ? sum_of(a[k][c], b[k][c])
                          : g    ? a[k][c]
                                 : b[k][c],
                          low, shift, width);
        }
    }
    finish_pass(h, bins, k, shift, last, s);
}

#define SEARCH(name, B)                                                                            \
    KERNEL(name, 4)                                                                                \
    (const B *g, const B *r, u32 n, u32 skew, u32 aligned, const u64 *counted, u64 k, u32 shift,   \
     u32 width, u32 last, gpu_search *s, u32 *bins)                                                \
    {                                                                                              \
        search(g, r, n, skew, aligned, counted, k, shift, width, last, s, bins);                   \
    }                                                                                              \
    KERNEL_END(name)

SEARCH(ss_search_f32, u32)
SEARCH(ss_search_f64, u64)

/* ---- a sample: PIECE elements from each `step` ---- */

enum { PIECE = 64 };

/* Calls f for each element of the sample, a warp for each piece. */
template <class B, class F> DEVICE void each_sampled(const B *g, const B *r, u32 n, u32 step, F f)
{
    const u32 lane = threadIdx.x % WARP, warps = all_threads() / WARP;

    for (u64 at = (u64)(first_element() / WARP) * step; at < n; at += (u64)warps * step)
        for (u32 i = lane; i < PIECE; i += WARP)
            if (at + i < n)
                f(sum_at(g, r, (u32)at + i));
}

template <class B>
static __device__ void search_sample(const B *g, const B *r, u32 n, u32 step, u64 k, u32 shift,
                                     u32 width, u32 last, gpu_search *s, u32 *bins)
{
    SHARED(histogram, h);
    const B low = (B)s->low;

    clear_bins(h);
    each_sampled(g, r, n, step, [&](B sum) { count_one(h, sum, low, shift, width); });
    finish_pass(h, bins, k, shift, last, s);
}

#define SEARCH_SAMPLE(name, B)                                                                     \
    KERNEL(name, 4)                                                                                \
    (const B *g, const B *r, u32 n, u32 step, u64 k, u32 shift, u32 width, u32 last,               \
     gpu_search *s, u32 *bins)                                                                     \
    {                                                                                              \
        search_sample(g, r, n, step, k, shift, width, last, s, bins);                              \
    }                                                                                              \
    KERNEL_END(name)

SEARCH_SAMPLE(ss_search_sample_f32, u32)
SEARCH_SAMPLE(ss_search_sample_f64, u64)

/* Counts the elements of a sample that reach a threshold. */
template <class B>
static __device__ void reach_sample(const B *g, const B *r, u32 n, u32 step, u64 threshold,
                                    u64 *count)
{
    u32 found = 0;

    each_sampled(g, r, n, step,
                 [&](B sum) { found += is_finite(sum) && magnitude(sum) >= threshold; });
    found = warp_sum(found);
    if (found != 0 && threadIdx.x % WARP == 0)
        atomicAdd(count, (u64)found);
}

#define REACH_SAMPLE(name, B)                                                                      \
    KERNEL(name, 4)                                                                                \
    (const B *g, const B *r, u32 n, u32 step, u64 threshold, u64 *count)                           \
    {                                                                                              \
        reach_sample(g, r, n, step, threshold, count);                                             \
    }                                                                                              \
    KERNEL_END(name)

REACH_SAMPLE(ss_reach_sample_f32, u32)
REACH_SAMPLE(ss_reach_sample_f64, u64)

/* ---- claims made with a bound from below ---- */

enum { KEEP_ROWS = 4, KEEP_TILE = KEEP_ROWS * THREADS };

/* Cuts a list of at most `room` claims. Claims at or above `found` stay in order, at most
 * `capacity` of them; the others go back to r, which may be null. If the list lacks wanted entries,
 * because of the room or of too high a bound, all of it goes back. */
template <class B>
static __device__ void keep(const u32 *idx, const B *val, u32 room, u64 wanted,
                            const gpu_claimed *claimed, const gpu_search *bound,
                            const gpu_search *found, u32 base, B *r, u32 *to_idx, B *to_val,
                            u32 capacity, gpu_kept *kept, u64 *tiles)
{
    SHARED(tile_positions, s);
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u64 reached = claimed->reached;
    const u32 count = reached < room ? (u32)reached : room;
    const bool missed = reached > room || (reached < wanted && bound->low > 1);
    const u64 threshold = found->low;
    const u32 tile = take_tile(&s, &kept->ticket), first = tile * KEEP_TILE + threadIdx.x;
    B sum[KEEP_ROWS];
    u32 rank[KEEP_ROWS];

    if (tile == 0 && threadIdx.x == 0)
        kept->missed = missed;
    if (tile * KEEP_TILE >= count)
        return;
    for (u32 k = 0; k < KEEP_ROWS; k++)
        sum[k] = first + k * THREADS < count ? val[first + k * THREADS] : 0;
    for (u32 k = 0; k < KEEP_ROWS; k++) {
        const bool stays = !missed && sum[k] != 0 && magnitude(sum[k]) >= threshold;
        const u32 who = __ballot_sync(ALL, stays);
        rank[k] = stays ? (u32)__popc(who & lanes_below(lane)) : ~0u;
        if (lane == 0)
            s.row[k * WARPS + warp] = (u32)__popc(who);
    }
    __syncthreads();
    if (warp == 0) {
        publish_rows(&s, KEEP_ROWS * WARPS, tiles, tile);
        const u64 up_to = settle(&s, tiles, tile);
        if (lane == 0 && (tile + 1) * KEEP_TILE >= count)
            kept->kept = up_to;
    }
    __syncthreads();
    for (u32 k = 0; k < KEEP_ROWS; k++) {
        const u32 j = first + k * THREADS;
        const u64 to = rank[k] == ~0u ? capacity : s.first + s.row[k * WARPS + warp] + rank[k];
        if (j >= count)
            continue;
        if (to < capacity) {
            to_idx[to] = idx[j];
            to_val[to] = sum[k];
        } else if (r) {
            r[idx[j] - base] = sum[k];
        }
    }
}

#define KEEP(name, B)                                                                              \
    KERNEL(name, 4)                                                                                \
    (const u32 *idx, const B *val, u32 room, u64 wanted, const gpu_claimed *claimed,               \
     const gpu_search *bound, const gpu_search *found, u32 base, B *r, u32 *to_idx, B *to_val,     \
     u32 capacity, gpu_kept *kept, u64 *tiles)                                                     \
    {                                                                                              \
        keep(idx, val, room, wanted, claimed, bound, found, base, r, to_idx, to_val, capacity,     \
             kept, tiles);                                                                         \
    }                                                                                              \
    KERNEL_END(name)

KEEP(ss_keep_f32, u32)
KEEP(ss_keep_f64, u64)
