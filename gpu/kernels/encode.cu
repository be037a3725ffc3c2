/* Encodes entries: each block writes a message of core/wire/wire.h, with the same bytes as core.
 * Each thread encodes the gaps of one run. The first bit of its code follows from the lengths of
 * the earlier runs. A thread ors the ends of its code into their words, since other threads write
 * there, too. */
#include "gpu/kernels/block.h"
#include "gpu/kernels/codes.h"
#include "gpu/kernels/results.h"
#include "gpu/kernels/rounding.h"

#define RICE_SEARCH DEVICE
#include "core/wire/rice_search.h"

static_assert((int)THREADS >= (int)GPU_RUNS, "a run for each thread of the block");

enum { HEADER = 16, PACKED_HEAD = 5, LONG_HEAD = 12, BITMAP_HEAD = 8, DENSE_HEAD = 8 };
enum { ABSENT = 0x80, LAST = 0x80, SHORT_RANGES = 3, NONE = -1 };

/* Shared memory of a block. */
struct encoder {
    sums add;
    u32 start[THREADS]; /* start of the last range that begins in each thread's part */
    buckets values;
};

/* The entries whose gap to the entry before is this thread's. */
struct part {
    u32 from, to;

    __device__ part(u32 nnz) : from(1 + threadIdx.x * GPU_RUN), to(from + GPU_RUN)
    {
        from = from < nnz ? from : nnz;
        to = to < nnz ? to : nnz;
    }
    /* Returns the first entry of the thread. The first thread has the very first entry, too. */
    __device__ u32 first(void) const
    {
        return threadIdx.x == 0 ? 0 : from;
    }
};

/* The coding of the indices. */
struct code_plan {
    u32 rep, parameter;
    bool absent;
    u64 bytes; /* bytes of a packed code */
};

DEVICE u32 code_length(u32 x, u32 k)
{
    const u32 ones = x >> k;
    return ones < GPU_ESCAPE ? ones + 1 + k : 2 * GPU_ESCAPE;
}

DEVICE u32 log2_floor(u64 x)
{
    return x ? 63 - (u32)__clzll((long long)x) : 0;
}

/* ---- the plan of a code, as in core/wire/rice.c ---- */

/* Sums up the bits of all gaps under k, k+1, k+2 and k+3. Each sum fits 32 bits. */
DEVICE void gap_lengths(sums *add, const u32 *idx, const part &p, u32 k, u32 (&bits)[4])
{
    u32 mine[4] = {0, 0, 0, 0};

    for (u32 j = p.from; j < p.to; j++) {
        const u32 gap = idx[j] - idx[j - 1] - 1;
        UNROLL
        for (u32 c = 0; c < 4; c++)
            mine[c] += code_length(gap, k + c);
    }
    const u64 low = sum_of_all(add, mine[0] | (u64)mine[1] << 32);
    bits[0] = (u32)low, bits[1] = (u32)(low >> 32);
    const u64 high = sum_of_all(add, mine[2] | (u64)mine[3] << 32);
    bits[2] = (u32)high, bits[3] = (u32)(high >> 32);
}

DEVICE u64 plan_present(sums *add, const u32 *idx, u32 nnz, u32 *parameter)
{
    const part p(nnz);
    const u32 gaps = nnz - 1;
    ss_rice_search search;

    *parameter = 0;
    if (gaps == 0)
        return 0;
    ss_rice_search_start(&search, log2_floor((idx[nnz - 1] - idx[0]) / gaps), GPU_PARAMETER_MOST);
    do {
        u32 bits[4];
        gap_lengths(add, idx, p, search.low, bits);
        UNROLL
        for (u32 c = 0; c < 4; c++)
            ss_rice_search_counted(&search, c, bits[c]);
    } while (ss_rice_search_on(&search));
    *parameter = search.parameter;
    return search.best;
}

/* The ranges of present indices that end in a thread's part. */
struct ranges {
    u32 at, to, start;
};

/* Takes the next range. Sets the range's length and the number of absent indices behind it, less
 * one. */
DEVICE bool next_range(const u32 *idx, u32 nnz, ranges *r, u32 *length, u32 *empty)
{
    while (r->at < r->to) {
        const u32 j = r->at++;
        if (j > 0 && idx[j] != idx[j - 1] + 1)
            r->start = j;
        if (j + 1 < nnz && idx[j + 1] == idx[j] + 1)
            continue;
        *length = j - r->start + 1;
        *empty = j + 1 < nnz ? idx[j + 1] - idx[j] - 2 : 0;
        return true;
    }
    return false;
}

/* Returns this thread's ranges. The first range may have begun in another thread's part. */
DEVICE ranges ranges_of(encoder *s, const u32 *idx, u32 nnz)
{
    const part p(nnz);
    ranges r = {p.first(), p.to, 0};
    u32 last = (u32)NONE;

    for (u32 j = r.at; j < r.to; j++)
        if (j == 0 || idx[j] != idx[j - 1] + 1)
            last = j;
    s->start[threadIdx.x] = last;
    __syncthreads();
    for (u32 t = threadIdx.x; t > 0; t--)
        if (s->start[t - 1] != (u32)NONE) {
            r.start = s->start[t - 1];
            break;
        }
    return r;
}

DEVICE u64 plan_absent(encoder *s, const u32 *idx, u32 nnz, u32 *parameter)
{
    const u64 count = (u64)idx[nnz - 1] - idx[0] + 2 - nnz;
    const u32 middle = log2_floor(nnz / count), low = middle > 0 ? middle - 1 : 0;
    ranges r = ranges_of(s, idx, nnz);
    u64 mine[SHORT_RANGES] = {0, 0, 0}, best = ~0ull;
    u32 length, empty;

    while (next_range(idx, nnz, &r, &length, &empty))
        UNROLL
    for (u32 c = 0; c < SHORT_RANGES; c++)
        mine[c] += code_length(length, low + c) + (u64)empty * (low + c + 1);
    for (u32 c = 0; c < SHORT_RANGES; c++) {
        const u64 bits = sum_of_all(&s->add, mine[c]);
        if (bits < best) {
            best = bits;
            *parameter = low + c;
        }
    }
    return best;
}

DEVICE u32 runs_of(bool absent, u32 nnz)
{
    return absent || nnz < GPU_LONG ? 0 : (nnz - 1 + GPU_RUN - 1) / GPU_RUN;
}

DEVICE u32 packed_head(bool absent, u32 nnz)
{
    const u32 runs = runs_of(absent, nnz);
    return runs > 0 ? LONG_HEAD + 2 * runs : (u32)PACKED_HEAD;
}

DEVICE code_plan plan_packed(encoder *s, const u32 *idx, u32 nnz)
{
    const u64 span = (u64)idx[nnz - 1] - idx[0] + 1;
    code_plan plan = {GPU_REP_PACKED, 0, false, 0};
    u64 bits = plan_present(&s->add, idx, nnz, &plan.parameter);

    if (4 * (span - nnz) < 3 * (u64)nnz && nnz > 1) {
        u32 parameter = 0;
        const u64 absent = plan_absent(s, idx, nnz, &parameter);
        if (absent < bits) {
            plan.parameter = parameter;
            plan.absent = true;
            bits = absent;
        }
    }
    plan.bytes = (bits + 7) / 8;
    return plan;
}

/* Chooses the smallest representation, as core/wire/wire.c does. */
DEVICE code_plan choose(encoder *s, u32 coding, u32 size, bool rounded, const u32 *idx, u32 nnz)
{
    const u64 span = (u64)idx[nnz - 1] - idx[0] + 1, bitmap = BITMAP_HEAD + (span + 7) / 8,
              bound = packed_head(false, nnz) + (33 * (u64)nnz + 7) / 8;
    code_plan plan = {GPU_REP_U32, 0, false, 0};

    if (coding == GPU_CODING_U32)
        return plan;
    if (coding == GPU_CODING_BITMAP && bitmap <= bound) {
        plan.rep = GPU_REP_BITMAP;
        return plan;
    }
    plan = plan_packed(s, idx, nnz);
    if (coding != GPU_CODING_AUTO)
        return plan;
    u64 best = 4 * (u64)nnz;
    u32 rep = GPU_REP_U32;
    if (!rounded && span <= GPU_ENTRIES && DENSE_HEAD + (span - nnz) * size <= best) {
        rep = GPU_REP_DENSE;
        best = DENSE_HEAD + (span - nnz) * size;
    }
    if (bitmap < best) {
        rep = GPU_REP_BITMAP;
        best = bitmap;
    }
    if (packed_head(plan.absent, nnz) + plan.bytes >= best)
        plan.rep = rep;
    return plan;
}

/* ---- bits ---- */

/* Writes bits from some bit on. The words are zero before. */
struct bit_writer {
    u32 *at;
    u64 bits;
    u32 fill;
    bool first; /* the first word, which other threads write, too */
};

DEVICE bit_writer write_from(u32 *words, u32 bit)
{
    return {words + bit / 32, 0, bit % 32, true};
}

DEVICE void flush(bit_writer *w)
{
    if (w->first)
        atomicOr(w->at, (u32)w->bits);
    else
        *w->at = (u32)w->bits;
    w->first = false;
    w->at++;
    w->bits >>= 32;
    w->fill -= 32;
}

DEVICE void put(bit_writer *w, u32 bits, u32 count)
{
    w->bits |= (u64)bits << w->fill;
    w->fill += count;
    if (w->fill >= 32)
        flush(w);
}

DEVICE void put_zeros(bit_writer *w, u64 count)
{
    const u64 fill = w->fill + count;

    if (fill < 32) {
        w->fill = (u32)fill;
        return;
    }
    w->fill = 32;
    flush(w);
    w->at += fill / 32 - 1;
    w->fill = (u32)(fill % 32);
}

DEVICE void put_code(bit_writer *w, u32 x, u32 k)
{
    const u32 ones = x >> k;

    if (ones >= GPU_ESCAPE) {
        put(w, ~0u, 32);
        put(w, x, 32);
        return;
    }
    put(w, (1u << ones) - 1, ones + 1);
    put(w, x & ((1u << k) - 1), k);
}

DEVICE void end_bits(bit_writer *w)
{
    if (w->fill > 0)
        atomicOr(w->at, (u32)w->bits);
}

/* Writes at most 32 bits at a byte, within its word. */
DEVICE void put_at(u32 *words, u32 byte, u32 bits)
{
    atomicOr(words + byte / 4, bits << byte % 4 * 8);
}

/* ---- indices ---- */

DEVICE u32 present_bits(const u32 *idx, const part &p, u32 k)
{
    u32 bits = 0;

    for (u32 j = p.from; j < p.to; j++)
        bits += code_length(idx[j] - idx[j - 1] - 1, k);
    return bits;
}

DEVICE void write_present(encoder *s, u32 *words, u32 code, u32 runs, u32 k, const u32 *idx,
                          u32 nnz)
{
    const part p(nnz);
    const u32 bits = present_bits(idx, p, k), before = (u32)sum_before(&s->add, bits);
    bit_writer w = write_from(words, 8 * code + before);

    if (threadIdx.x < runs)
        put_at(words, code - 2 * runs + 2 * threadIdx.x, bits & 0xffffu);
    for (u32 j = p.from; j < p.to; j++)
        put_code(&w, idx[j] - idx[j - 1] - 1, k);
    end_bits(&w);
}

DEVICE void write_absent(encoder *s, u32 *words, u32 code, u32 k, const u32 *idx, u32 nnz)
{
    const ranges mine = ranges_of(s, idx, nnz);
    ranges r = mine;
    u64 bits = 0;
    u32 length, empty;

    while (next_range(idx, nnz, &r, &length, &empty))
        bits += code_length(length, k) + (u64)empty * (k + 1);
    bit_writer w = write_from(words, 8 * code + (u32)sum_before(&s->add, bits));
    r = mine;
    while (next_range(idx, nnz, &r, &length, &empty)) {
        put_code(&w, length, k);
        put_zeros(&w, (u64)empty * (k + 1));
    }
    end_bits(&w);
}

DEVICE void write_packed(encoder *s, u32 *words, u32 at, const code_plan &plan, const u32 *idx,
                         u32 nnz)
{
    const u32 runs = runs_of(plan.absent, nnz), code = at + packed_head(plan.absent, nnz);

    if (threadIdx.x == 0) {
        put_at(words, at, idx[0]);
        put_at(words, at + 4, plan.parameter | (plan.absent ? ABSENT : 0));
        if (runs > 0)
            put_at(words, at + 8, idx[nnz - 1]);
    }
    if (plan.absent)
        write_absent(s, words, code, plan.parameter, idx, nnz);
    else
        write_present(s, words, code, runs, plan.parameter, idx, nnz);
}

DEVICE u32 index_bytes(const code_plan &plan, u32 span, u32 nnz)
{
    if (plan.rep == GPU_REP_U32)
        return 4 * nnz;
    if (plan.rep == GPU_REP_BITMAP)
        return BITMAP_HEAD + (span - 1) / 8 + 1;
    return packed_head(plan.absent, nnz) + (u32)plan.bytes;
}

/* Writes the indices from byte `at` on, which begins a word. Returns the bytes. */
DEVICE u32 write_indices(encoder *s, u32 *words, u32 at, const code_plan &plan, const u32 *idx,
                         u32 nnz)
{
    const u32 span = idx[nnz - 1] - idx[0] + 1, bytes = index_bytes(plan, span, nnz),
              begin = at / 4;

    if (plan.rep == GPU_REP_U32) {
        for (u32 j = threadIdx.x; j < nnz; j += THREADS)
            words[begin + j] = idx[j];
        return bytes;
    }
    for (u32 i = threadIdx.x; i < (bytes + 3) / 4; i += THREADS)
        words[begin + i] = 0;
    __syncthreads();
    if (plan.rep == GPU_REP_PACKED) {
        write_packed(s, words, at, plan, idx, nnz);
        return bytes;
    }
    if (threadIdx.x == 0) {
        words[begin] = idx[0];
        words[begin + 1] = span;
    }
    for (u32 j = threadIdx.x; j < nnz; j += THREADS) {
        const u32 bit = idx[j] - idx[0];
        atomicOr(words + begin + BITMAP_HEAD / 4 + bit / 32, 1u << bit % 32);
    }
    return bytes;
}

/* ---- values ---- */

/* Returns true if some element is +0.0. */
template <class B> DEVICE bool any_zero(sums *add, const B *val, u32 nnz)
{
    u64 zeros = 0;

    for (u32 j = threadIdx.x; j < nnz; j += THREADS)
        zeros += val[j] == 0;
    return sum_of_all(add, zeros) > 0;
}

/* Writes the elements from the first index to the last, zero for indices without an entry. */
template <class B>
DEVICE u32 write_dense(u32 *words, const u32 *idx, const B *val, u32 nnz, u32 span)
{
    B *to = (B *)(words + (HEADER + DENSE_HEAD) / 4);

    if (threadIdx.x == 0) {
        words[HEADER / 4] = idx[0];
        words[HEADER / 4 + 1] = 0;
    }
    for (u32 j = threadIdx.x; j < span; j += THREADS)
        to[j] = 0;
    __syncthreads();
    for (u32 j = threadIdx.x; j < nnz; j += THREADS)
        to[idx[j] - idx[0]] = val[j];
    return DENSE_HEAD + span * (u32)sizeof(B);
}

template <class B> DEVICE u32 copy_values(u32 *words, const B *val, u32 nnz)
{
    B *to = (B *)(words + HEADER / 4);

    for (u32 j = threadIdx.x; j < nnz; j += THREADS)
        to[j] = val[j];
    return nnz * (u32)sizeof(B);
}

/* ---- a message ---- */

/* Bits of head: the coding of values, the representation, the end of a stream. */
enum { VALUES_AT = 20, REP_AT = 16, LAST_AT = 24 };

DEVICE void write_header(u32 *words, u32 head, u32 call, u32 nnz, u32 payload, u32 *length)
{
    if (threadIdx.x != 0)
        return;
    words[0] = head;
    words[1] = call;
    words[2] = nnz;
    words[3] = payload;
    *length = HEADER + payload;
}

template <class B>
static __device__ void encode(encoder *s, const gpu_message &m, const u32 *idx, B *val, B *error,
                              u32 head, u32 call, u32 coding, u32 bucket, u32 *words, u32 *length)
{
    const u32 nnz = m.count, how = head >> VALUES_AT & 15;
    u32 span = 0, payload = 0;
    code_plan plan = {GPU_REP_U32, 0, false, 0};

    if (nnz == 0)
        head &= ~(15u << VALUES_AT);
    head |= m.last ? (u32)LAST << LAST_AT : 0;
    if (nnz > 0) {
        span = idx[nnz - 1] - idx[0] + 1;
        plan = choose(s, coding, sizeof(B), how != GPU_SAME, idx, nnz);
        if (plan.rep == GPU_REP_DENSE && any_zero(&s->add, val, nnz))
            plan = choose(s, GPU_CODING_PACKED, sizeof(B), false, idx, nnz);
        if (plan.rep == GPU_REP_DENSE) {
            payload = write_dense(words, idx, val, nnz, span);
        } else {
            payload = how == GPU_SAME
                          ? copy_values(words, val, nnz)
                          : round_values(&s->values, (unsigned char *)(words + HEADER / 4), val,
                                         error, nnz, bucket, how == GPU_BF16);
            payload += write_indices(s, words, HEADER + payload, plan, idx, nnz);
        }
    }
    write_header(words, head | plan.rep << REP_AT, call, plan.rep == GPU_REP_DENSE ? span : nnz,
                 payload, length);
}

/* ---- sums over ranges of indices ---- */

/* Returns the number of indices below `index`. The indices ascend. */
DEVICE u32 entries_below(const u32 *idx, u32 nnz, u32 index)
{
    u32 from = 0, to = nnz;

    while (from < to) {
        const u32 middle = from + (to - from) / 2;
        if (idx[middle] < index)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

struct survey {
    sums count, unbounded;
    double warp[WARPS];
};

/* Sums up a range of entries, for a block. A square adds up in the same order in each call. */
template <class B>
static __device__ void look_at(survey *s, const B *val, u32 from, u32 to, gpu_share *share)
{
    double square = 0;
    u32 count = 0, unbounded = 0;

    for (u32 j = from + threadIdx.x; j < to; j += THREADS) {
        const double x = (double)number_of(val[j]), mine = multiply(x, x);
        if (!is_finite(bits_of(mine))) {
            unbounded++;
            continue;
        }
        square = add(square, mine);
        count += magnitude(val[j]) != 0;
    }
    square = warp_sum(square);
    if (threadIdx.x % WARP == 0)
        s->warp[threadIdx.x / WARP] = square;
    const u64 all = sum_of_all(&s->count, count), beyond = sum_of_all(&s->unbounded, unbounded);
    if (threadIdx.x != 0)
        return;
    square = 0;
    for (u32 w = 0; w < WARPS; w++)
        square = add(square, s->warp[w]);
    *share = {square, from, all, beyond};
}

/* Sums up a range of entries, for a warp. */
template <class B>
static __device__ void look_at_few(const B *val, u32 from, u32 to, gpu_share *share)
{
    const u32 lane = threadIdx.x % WARP;
    double square = 0;
    u32 count = 0, unbounded = 0;

    for (u32 j = from; j < to; j += WARP) {
        const B v = lane < to - j ? val[j + lane] : 0;
        const double x = (double)number_of(v), mine = multiply(x, x);
        const bool finite = is_finite(bits_of(mine));
        square = add(square, finite ? mine : 0);
        count += (u32)__popc(__ballot_sync(ALL, finite && magnitude(v) != 0));
        unbounded += (u32)__popc(__ballot_sync(ALL, !finite));
    }
    square = warp_sum(square);
    if (lane == 0)
        *share = {square, from, count, unbounded};
}

/* Sums up each of `ranges`: with a block each, or, if the entries are few, with a warp each. */
#define SURVEY(name, B)                                                                            \
    KERNEL(name, 2)                                                                                \
    (const u32 *idx, const B *val, u32 nnz, const u32 *cuts, u32 ranges, gpu_share *shares)        \
    {                                                                                              \
        SHARED(survey, s);                                                                         \
        const bool few = gridDim.x < ranges;                                                       \
        const u32 i = few ? blockIdx.x * WARPS + threadIdx.x / WARP : blockIdx.x;                  \
        const u32 from = i < ranges ? entries_below(idx, nnz, cuts[i]) : 0,                        \
                  to = i < ranges ? entries_below(idx, nnz, cuts[i + 1]) : 0;                      \
        if (!few)                                                                                  \
            look_at(&s, val, from, to, shares + i);                                                \
        else if (i < ranges)                                                                       \
            look_at_few(val, from, to, shares + i);                                                \
    }                                                                                              \
    KERNEL_END(name)

SURVEY(ss_survey_f32, u32)
SURVEY(ss_survey_f64, u64)

/* ---- all messages ---- */

/* Encodes the messages of `table`, a block each, at offset `at` behind `messages`, and sets their
 * lengths. If head says so, rounds the values in place, and writes the differences to `error`
 * unless it is null. head: the first word of a header without representation and end. */
#define ENCODE(name, B)                                                                            \
    KERNEL(name, 2)                                                                                \
    (const u32 *idx, B *val, B *error, const gpu_message *table, u32 head, u32 call, u32 coding,   \
     u32 bucket, u32 *messages, u32 *lengths)                                                      \
    {                                                                                              \
        SHARED(encoder, s);                                                                        \
        const gpu_message m = table[blockIdx.x];                                                   \
        encode(&s, m, idx + m.first, val + m.first, error ? error + m.first : error, head, call,   \
               coding, bucket, messages + m.at / 4, lengths + blockIdx.x);                         \
    }                                                                                              \
    KERNEL_END(name)

ENCODE(ss_encode_b32, u32)
ENCODE(ss_encode_b64, u64)
