/* Received entries: one block decodes a message, each thread a run of Rice-coded gaps
 * (core/wire/rice.h). The first index of a run is known once all runs are read. Also widens rounded
 * values. */
#include "gpu/kernels/block.h"
#include "gpu/kernels/codes.h"

static_assert((int)THREADS >= (int)GPU_RUNS, "a run for each thread of the block");
#define NO_GAP (~0ull)

/* Returns 64 bits from a bit on. The 16 bytes behind the last code must be readable. */
DEVICE u64 bits_at(const u32 *words, u32 at)
{
    const u32 *w = words + at / 32, shift = at % 32;
    const u64 bits = w[0] | (u64)w[1] << 32;

    return shift ? bits >> shift | (u64)w[2] << (64 - shift) : bits;
}

/* Returns the number coded at *at, and moves *at on. Returns NO_GAP for an escape of a number that
 * has a plain code. */
DEVICE u64 take_gap(const u32 *words, u32 *at, u32 k)
{
    const u64 bits = bits_at(words, *at);
    const int end = __ffs((int)~(u32)bits); /* end of the ones */

    if (end == 0) {
        const u64 x = bits >> GPU_ESCAPE;
        *at += 2 * GPU_ESCAPE;
        return x >> k >= GPU_ESCAPE ? x : NO_GAP;
    }
    *at += (u32)end + k;
    return (u64)(end - 1) << k | (bits >> end & (((u64)1 << k) - 1));
}

struct unpacking {
    sums bits, gaps;
    u64 before[THREADS]; /* sum of the gaps of all runs before */
    u32 refused;
};

/* Decodes a run into indices that count from the run's begin. Adds the run's length to *sum.
 * Returns false if the code does not end at `end`. */
DEVICE bool take_run(const u32 *words, u32 begin, u32 end, u32 k, u32 from, u32 to, u32 *idx,
                     u64 *sum)
{
    u32 at = begin;

    for (u32 j = from; j < to; j++) {
        const u64 gap = take_gap(words, &at, k);
        if (gap == NO_GAP || at > end)
            return false;
        *sum += gap + 1;
        idx[j] = (u32)*sum;
    }
    return at == end;
}

/* Unpacks indices. runs_at: offset in `words` of the u16 lengths of runs, in bits; a multiple of 4.
 * code_at: offset of the codes. If the code does not lead from first to last as the encoder writes
 * it, sets *refused and *told to 1, and idx is not to be used. told: may be memory of the host. */
KERNEL(ss_unpack, 1)
(const u32 *words, u32 runs_at, u32 code_at, u32 k, u32 first, u32 last, u32 nnz, u32 *idx,
 u32 *refused, u32 *told)
{
    SHARED(unpacking, s);
    const u32 t = threadIdx.x, runs = (nnz - 1 + GPU_RUN - 1) / GPU_RUN, from = 1 + t * GPU_RUN;
    const u32 bits = t < runs ? words[runs_at / 4 + t / 2] >> t % 2 * 16 & 0xffffu : 0;
    u64 sum = 0;

    if (t == 0)
        s.refused = 0;
    const u32 begin = 8 * code_at + (u32)sum_before(&s.bits, bits);
    if (t < runs && !take_run(words, begin, begin + bits, k, from,
                              from + GPU_RUN < nnz ? from + GPU_RUN : nnz, idx, &sum))
        atomicOr(&s.refused, 1u);
    s.before[t] = sum_before(&s.gaps, sum);
    __syncthreads();
    const bool good = s.refused == 0 && s.gaps.all == last - first;
    if (t == 0) {
        idx[0] = first;
        *refused = !good;
        if (!good)
            *told = 1;
    }
    for (u32 j = 1 + t; good && j < nnz; j += THREADS)
        idx[j] += first + (u32)s.before[(j - 1) / GPU_RUN];
}
KERNEL_END(ss_unpack)

/* ---- rounded values (core/wire/values.h) ---- */

enum { LEVELS = GPU_LEVELS, ZERO = LEVELS + 1 }; /* codes of q8; 0 is no code */

template <class B> DEVICE B number_at(const unsigned char *p)
{
    B x = 0;

    UNROLL
    for (u32 i = 0; i < sizeof(B); i++)
        x |= (B)p[i] << 8 * i;
    return x;
}

template <class B> DEVICE B widened(u32 upper_half)
{
    const float x = number_of(upper_half << 16);

    if (sizeof(B) == sizeof(u32))
        return (B)bits_of(x);
    return (B)bits_of((double)x);
}

template <class B> DEVICE B level(B scale, u32 code)
{
    using real = decltype(number_of(scale));
    const real inverse = (real)1 / (real)LEVELS, c = (real)((int)code - ZERO);

    return bits_of(multiply(multiply(c, inverse), number_of(scale)));
}

/* Decodes value i of a bucket. Returns false if there is no such code. */
template <class B> DEVICE bool take_value(const unsigned char *bucket, u32 i, bool bf16, B *to)
{
    const unsigned char *codes = bucket + 1;

    if (bucket[0] == GPU_ZEROS) {
        *to = 0;
        return true;
    }
    if (bucket[0] == GPU_AS_IT_IS) {
        *to = number_at<B>(codes + i * sizeof(B));
        return true;
    }
    if (bf16) {
        const u32 code = codes[2 * i] | (u32)codes[2 * i + 1] << 8;
        *to = widened<B>(code);
        return (code & 0x7f80u) != 0x7f80u;
    }
    *to = level(number_at<B>(codes), codes[sizeof(B) + i]);
    return codes[sizeof(B) + i] != 0;
}

/* Widens the values of buckets of `bucket` values each. offsets: offset in `from` of each bucket.
 * If a code is malformed, sets *refused and *told to 1; else leaves both as they are. */
#define WIDEN(name, B)                                                                             \
    KERNEL(name, 4)                                                                                \
    (const unsigned char *from, const u32 *offsets, u32 bucket, u32 bf16, u32 nnz, B *to,          \
     u32 *refused, u32 *told)                                                                      \
    {                                                                                              \
        for (u32 j = first_element(); j < nnz; j += all_threads())                                 \
            if (!take_value(from + offsets[j / bucket], j % bucket, bf16 != 0, to + j)) {          \
                store_same(refused, 1);                                                            \
                store_same(told, 1);                                                               \
            }                                                                                      \
    }                                                                                              \
    KERNEL_END(name)

WIDEN(ss_widen_b32, u32)
WIDEN(ss_widen_b64, u64)
