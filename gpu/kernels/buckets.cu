/* Claims the k largest of each bucket of consecutive elements (core/compute/select.h). Among equal
 * elements the lowest indices are claimed; a bucket with an element that is not finite has no
 * claim. g or r may be null. Look-back puts the claims of buckets one behind the other. */
#include "gpu/kernels/lookback.h"
#include "gpu/kernels/selection_stats.h"

DEVICE source source_of(const void *g, const void *r)
{
    return g && r ? BOTH : g ? INPUT : RESIDUAL;
}

/* ---- a warp for a bucket of at most 512 ---- */

enum { EACH = 16 }; /* elements of a thread */

template <class B> struct bucket_shared {
    tile_positions at;
    selection_stats_shared<B> seen;
};

/* Counts the elements of a warp that reach `least`. */
template <class B> DEVICE u32 count_reached(const B (&a)[EACH], B least)
{
    u32 count = 0;

    UNROLL
    for (u32 j = 0; j < EACH; j++)
        count += magnitude(a[j]) >= least;
    return warp_count(count);
}

/* Finds, bit by bit from the largest magnitude's highest, the largest magnitude that at least k
 * elements reach, or one that exactly k reach. Returns 1 if fewer than k are not zero. */
template <class B> DEVICE B kth_of_warp(const B (&a)[EACH], B largest, u32 k)
{
    B kth = 0;

    for (int bit = 63 - __clzll((long long)largest); bit >= 0; bit--) {
        const B next = kth | (B)1 << bit;
        const u32 reached = count_reached(a, next);
        if (reached >= k)
            kth = next;
        if (reached == k)
            break;
    }
    return kth > 0 ? kth : 1;
}

template <class B>
static __device__ void select_buckets(const B *g, B *r, u32 n, u32 base, u32 k, u32 bucket,
                                      u32 *idx, B *val, gpu_claimed *total, u64 *tiles,
                                      double *squares, u32 *overflows)
{
    SHARED(bucket_shared<B>, s);
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 tile = take_tile(&s.at, &total->ticket);
    const source from = source_of(g, r);
    const u64 begin = ((u64)tile * WARPS + warp) * bucket;
    const u32 length = begin >= n ? 0 : n - begin < bucket ? n - (u32)begin : bucket;
    const u32 first = (u32)begin + lane;
    selection_stats<B> mine = {};
    B a[EACH], left[EACH];

    UNROLL
    for (u32 j = 0; j < EACH; j++)
        a[j] = g && lane + j * WARP < length ? g[first + j * WARP] : 0;
    UNROLL
    for (u32 j = 0; j < EACH; j++)
        left[j] = r && lane + j * WARP < length ? r[first + j * WARP] : 0;
    UNROLL
    for (u32 j = 0; j < EACH; j++)
        look_at(from, a[j], left[j], number<B>::INFINITE, j, &mine);

    const bool fit = !warp_any(mine.not_finite != 0);
    const B kth = fit ? kth_of_warp(a, warp_max(mine.largest), k) : number<B>::INFINITE;
    u32 ties = fit ? k - count_reached(a, (B)(kth + 1)) : 0, claimed = 0, taken = 0;
    UNROLL
    for (u32 j = 0; j < EACH; j++) {
        const B m = magnitude(a[j]);
        const u32 equal = __ballot_sync(ALL, fit && m == kth);
        const bool tie = (equal >> lane & 1) && (u32)__popc(equal & lanes_below(lane)) < ties;
        const bool claim = tie || (fit && m > kth);
        const u32 equals = (u32)__popc(equal);
        ties -= equals < ties ? equals : ties;
        claimed += (u32)__popc(__ballot_sync(ALL, claim));
        taken |= (u32)claim << j;
        if (r && lane + j * WARP < length)
            r[first + j * WARP] = claim ? 0 : left[j];
    }
    if (lane == 0)
        s.at.row[warp] = claimed;
    __syncthreads();
    if (warp == 0)
        publish_rows(&s.at, WARPS, tiles, tile);
    add_up_stats(s.seen, mine, total);
    for (; mine.overflowed != 0 && overflows; mine.overflowed &= mine.overflowed - 1)
        note_overflow(overflows, first + ((u32)__ffs((int)mine.overflowed) - 1) * WARP);
    if (warp == 0) {
        const u64 up_to = settle(&s.at, tiles, tile);
        if (lane == 0 && tile == gridDim.x - 1)
            total->reached = up_to;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        store_tile_stats(s.seen, total, squares, tile);
    u64 to = s.at.first + s.at.row[warp];
    UNROLL
    for (u32 j = 0; j < EACH; j++) {
        const bool claim = taken >> j & 1;
        const u32 who = __ballot_sync(ALL, claim);
        const u64 at = to + (u32)__popc(who & lanes_below(lane));
        if (claim) {
            idx[at] = base + first + j * WARP;
            val[at] = a[j];
        }
        to += (u32)__popc(who);
    }
}

#define BUCKETS(name, B, what, blocks)                                                             \
    KERNEL(name, blocks)                                                                           \
    (const B *g, B *r, u32 n, u32 base, u32 k, u32 bucket, u32 *idx, B *val, gpu_claimed *total,   \
     u64 *tiles, double *squares, u32 *overflows)                                                  \
    {                                                                                              \
        what(g, r, n, base, k, bucket, idx, val, total, tiles, squares, overflows);                \
    }                                                                                              \
    KERNEL_END(name)

BUCKETS(ss_buckets_f32, u32, select_buckets, 3)
BUCKETS(ss_buckets_f64, u64, select_buckets, 2)

/* ---- a block for a longer bucket, which is read several times ---- */

enum { DIGIT = 8, DIGITS = 1 << DIGIT }; /* one for each thread */

template <class B> struct wide_shared {
    tile_positions at;
    selection_stats_shared<B> seen;
    u32 digit[DIGITS];
    u32 chosen, above, equal, bad;
    u32 row[2][WARPS]; /* counts of larger elements and of ties in each warp */
};

/* Returns the count of the digits from the highest down to this thread's. */
template <class B> DEVICE u32 scan_digits(wide_shared<B> &s)
{
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 up_to = warp_scan(s.digit[DIGITS - 1 - threadIdx.x], lane);

    if (lane == WARP - 1)
        s.row[0][warp] = up_to;
    __syncthreads();
    for (u32 w = 0; w < warp; w++)
        up_to += s.row[0][w];
    return up_to;
}

/* Returns the k-th largest magnitude of a bucket, or 1 if fewer than k are not zero. Sets the
 * numbers of larger and of equal elements. For all threads. */
template <class B>
DEVICE B kth_of_block(wide_shared<B> &s, const B *a, u32 length, u32 k, u32 *above, u32 *equal)
{
    B kth = 0;
    bool few = false;
    u32 larger = 0;

    for (int shift = 8 * (int)sizeof(B) - DIGIT; shift >= 0; shift -= DIGIT) {
        s.digit[threadIdx.x] = 0;
        if (threadIdx.x == 0)
            s.chosen = DIGITS;
        __syncthreads();
        for (u32 i = threadIdx.x; i < length; i += THREADS) {
            const B m = magnitude(a[i]);
            if (m != 0 && m >> shift >> DIGIT == kth >> shift >> DIGIT)
                atomicAdd(&s.digit[(u32)(m >> shift) % DIGITS], 1u);
        }
        __syncthreads();
        const u32 digit = DIGITS - 1 - threadIdx.x;
        const u32 up_to = scan_digits(s), own = s.digit[digit], wanted = k - larger;
        if (few ? digit == (shift == 0) : up_to >= wanted && up_to - own < wanted) {
            s.chosen = digit;
            s.above = up_to - own;
            s.equal = own;
        }
        __syncthreads();
        if (s.chosen == DIGITS) { /* fewer than k elements: takes all that are not zero */
            few = true;
            if (digit == (shift == 0)) {
                s.above = up_to - own;
                s.equal = own;
            }
            __syncthreads();
        }
        kth |= few ? (B)(shift == 0) : (B)s.chosen << shift;
        larger += s.above;
        *equal = s.equal;
        __syncthreads();
    }
    *above = larger;
    return kth;
}

/* Claims the elements of a bucket in order, one row of the block after the other. */
template <class B>
DEVICE void claim_bucket(wide_shared<B> &s, const B *a, B *r, u32 begin, u32 length, B kth,
                         u32 ties, u32 base, u32 *idx, B *val)
{
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 larger = 0, equals = 0;

    for (u32 row = 0; row < length; row += THREADS) {
        const u32 i = row + threadIdx.x;
        const B sum = i < length ? a[i] : 0, m = magnitude(sum);
        const u32 over = __ballot_sync(ALL, m > kth), equal = __ballot_sync(ALL, m == kth);
        if (lane == 0) {
            s.row[0][warp] = (u32)__popc(over);
            s.row[1][warp] = (u32)__popc(equal);
        }
        __syncthreads();
        u32 over_before = larger + (u32)__popc(over & lanes_below(lane));
        u32 equal_before = equals + (u32)__popc(equal & lanes_below(lane));
        for (u32 w = 0; w < WARPS; w++) {
            over_before += w < warp ? s.row[0][w] : 0;
            equal_before += w < warp ? s.row[1][w] : 0;
            larger += s.row[0][w];
            equals += s.row[1][w];
        }
        if (m > kth || (m == kth && equal_before < ties)) {
            const u64 to = s.at.first + over_before + (equal_before < ties ? equal_before : ties);
            idx[to] = base + begin + i;
            val[to] = sum;
            if (r)
                r[i] = 0;
        }
        __syncthreads();
    }
}

template <class B>
static __device__ void select_wide(const B *g, B *r, u32 n, u32 base, u32 k, u32 bucket, u32 *idx,
                                   B *val, gpu_claimed *total, u64 *tiles, double *squares,
                                   u32 *overflows)
{
    SHARED(wide_shared<B>, s);
    const u32 tile = take_tile(&s.at, &total->ticket), begin = tile * bucket;
    const u32 length = n - begin < bucket ? n - begin : bucket;
    const source from = source_of(g, r);
    u32 above = 0, equal = 0, ties = 0;
    selection_stats<B> mine = {};
    B kth = number<B>::INFINITE;

    if (threadIdx.x == 0)
        s.bad = 0;
    __syncthreads();
    g += g ? begin : 0;
    r += r ? begin : 0;
    for (u32 i = threadIdx.x; i < length; i += THREADS) {
        B a = g ? g[i] : 0, left = r ? r[i] : 0;
        const u32 bad = mine.not_finite;
        look_at(from, a, left, number<B>::INFINITE, 0, &mine);
        if (mine.not_finite != bad)
            atomicOr(&s.bad, 1u);
        if (mine.not_finite != bad && from == BOTH && is_finite(g[i])) {
            atomicAdd(&total->overflowed, 1ull);
            if (overflows)
                note_overflow(overflows, begin + i);
        }
        if (r)
            r[i] = left;
    }
    mine.overflowed = 0; /* counted above */
    __syncthreads();
    if (!s.bad) {
        kth = kth_of_block(s, r ? r : g, length, k, &above, &equal);
        ties = k - above < equal ? k - above : equal;
    }
    if (threadIdx.x < WARP) {
        if (threadIdx.x == 0)
            s.at.row[0] = above + ties;
        __syncwarp();
        publish_rows(&s.at, 1, tiles, tile);
    }
    add_up_stats(s.seen, mine, total);
    if (threadIdx.x < WARP) {
        const u64 up_to = settle(&s.at, tiles, tile);
        if (threadIdx.x == 0 && tile == gridDim.x - 1)
            total->reached = up_to;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        store_tile_stats(s.seen, total, squares, tile);
    if (!s.bad)
        claim_bucket(s, r ? (const B *)r : g, r, begin, length, kth, ties, base, idx, val);
}

BUCKETS(ss_wide_buckets_f32, u32, select_wide, 4)
BUCKETS(ss_wide_buckets_f64, u64, select_wide, 4)
