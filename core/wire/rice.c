/* Implements the choice of a code, its writer, and a reader that decodes several gaps at once. */
#include "core/wire/rice.h"
#include "core/wire/rice_search.h"

#include <string.h>

/* Up to this parameter a code has at most 56 bits, so that one refill of the bit buffer
 * suffices. */
enum { SS_RICE_SHORT = 23 };

/* Lengths of the codes of all gaps under four neighbouring parameters. */
struct lengths {
    uint64_t bits[4];
};

static unsigned code_length(uint32_t x, unsigned k)
{
    uint32_t ones = x >> k;
    return ones < SS_RICE_ESCAPE ? ones + 1 + k : 2 * SS_RICE_ESCAPE;
}

/* Four gaps at once. */
typedef uint32_t quad __attribute__((vector_size(16)));

static inline quad code_lengths(quad x, unsigned k)
{
    quad ones = x >> k, fits = (quad)((ones >> 5) == 0);
    return (fits & (ones + (k + 1))) | (~fits & 2 * SS_RICE_ESCAPE);
}

static inline uint64_t sum_of(quad x)
{
    return (uint64_t)x[0] + x[1] + x[2] + x[3];
}

/* Returns the bits of the gaps of idx under k, k+1, k+2, k+3, in one pass. */
static struct lengths gap_lengths(const uint32_t *idx, uint32_t nnz, unsigned k)
{
    const uint32_t part = 1u << 16; /* at most 64 bits each, so that 2^16 of them fit 32 bits */
    struct lengths total = {{0, 0, 0, 0}};
    uint32_t i = 1;
    while (i + 4 <= nnz) {
        quad sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
        uint32_t end = nnz - i > part ? i + part : nnz;
        for (; i + 4 <= end; i += 4) {
            quad before, x;
            memcpy(&before, idx + i - 1, sizeof before);
            memcpy(&x, idx + i, sizeof x);
            x = x - before - 1;
            sum0 += code_lengths(x, k);
            sum1 += code_lengths(x, k + 1);
            sum2 += code_lengths(x, k + 2);
            sum3 += code_lengths(x, k + 3);
        }
        total.bits[0] += sum_of(sum0);
        total.bits[1] += sum_of(sum1);
        total.bits[2] += sum_of(sum2);
        total.bits[3] += sum_of(sum3);
    }
    for (; i < nnz; i++)
        for (unsigned c = 0; c < 4; c++)
            total.bits[c] += code_length(idx[i] - idx[i - 1] - 1, k + c);
    return total;
}

/* Returns floor(log2(x)), 0 for 0. */
static unsigned log2_floor(uint64_t x)
{
    return x ? 63 - (unsigned)__builtin_clzll(x) : 0;
}

/* Searches from the parameter of the mean gap, which is right for uniform sets, downhill; for
 * clustered sets the best is far. The result is at most 33 bits per gap:
 *
 * - At the start k, the gaps >> k are below 2 in the mean, and an escape costs at most twice its
 *   ones: k + 5 bits.
 * - From k = 28 on there are so few gaps below 2^32 that k + 1 or k + 2, tried in the same pass,
 *   needs less than 2 ones for each.
 */
static uint64_t plan_present(const uint32_t *idx, uint32_t nnz, unsigned *parameter)
{
    struct ss_rice_search search;
    uint64_t gaps = nnz - 1;

    *parameter = 0;
    if (gaps == 0)
        return 0;
    ss_rice_search_start(&search, log2_floor((idx[nnz - 1] - idx[0]) / gaps), SS_RICE_MAX);
    do {
        struct lengths lengths = gap_lengths(idx, nnz, search.low);
        for (unsigned c = 0; c < 4; c++)
            ss_rice_search_counted(&search, c, lengths.bits[c]);
    } while (ss_rice_search_on(&search));
    *parameter = search.parameter;
    return search.best;
}

/* Returns the length of the run of consecutive indices that starts at idx[i]. */
static uint32_t run_length(const uint32_t *idx, uint32_t nnz, uint32_t i)
{
    uint32_t j = i + 1;
    while (j < nnz && idx[j] == idx[j - 1] + 1)
        j++;
    return j - i;
}

/* Returns the bits of the absent code. Run lengths are geometric in a uniform set, so that the
 * parameter of their mean is as good as the best. */
static uint64_t plan_absent(const uint32_t *idx, uint32_t nnz, unsigned *parameter)
{
    uint64_t runs = (uint64_t)idx[nnz - 1] - idx[0] + 2 - nnz;
    unsigned middle = log2_floor(nnz / runs), low = middle > 0 ? middle - 1 : 0;
    uint64_t bits[3] = {0, 0, 0};
    for (uint32_t i = 0; i < nnz;) {
        uint32_t length = run_length(idx, nnz, i);
        i += length;
        uint32_t empty = i < nnz ? idx[i] - idx[i - 1] - 2 : 0;
        for (unsigned c = 0; c < 3; c++)
            bits[c] += code_length(length, low + c) + (uint64_t)empty * (low + c + 1);
    }
    unsigned best = 0;
    for (unsigned c = 1; c < 3; c++)
        if (bits[c] < bits[best])
            best = c;
    *parameter = low + best;
    return bits[best];
}

struct ss_rice ss_rice_plan(const uint32_t *idx, uint32_t nnz)
{
    struct ss_rice plan = {0, false, 0};
    uint64_t bits = plan_present(idx, nnz, &plan.parameter);
    uint64_t span = (uint64_t)idx[nnz - 1] - idx[0] + 1;
    if (4 * (span - nnz) < 3 * (uint64_t)nnz && nnz > 1) { /* otherwise gaps are cheaper */
        unsigned parameter;
        uint64_t absent = plan_absent(idx, nnz, &parameter);
        if (absent < bits)
            plan = (struct ss_rice){parameter, true, 0};
        bits = absent < bits ? absent : bits;
    }
    plan.bytes = (bits + 7) / 8;
    return plan;
}

/* A bit writer. `bits` holds the bits that do not fill a byte yet; each put stores 8 bytes and
 * advances `at` by the full ones. */
struct writer {
    uint8_t *at;
    uint64_t bits;
    unsigned fill; /* number of bits in `bits`, < 8 between puts */
};

static inline void put(struct writer *w, uint64_t bits, unsigned count)
{
    w->bits |= bits << w->fill; /* count <= 56 */
    w->fill += count;
    memcpy(w->at, &w->bits, sizeof w->bits);
    w->at += w->fill >> 3;
    w->bits >>= w->fill & ~7u;
    w->fill &= 7;
}

static inline void put_code(struct writer *w, uint32_t x, unsigned k)
{
    uint64_t ones = x >> k, low = x & ((1u << k) - 1);
    if (ones >= SS_RICE_ESCAPE) {
        put(w, 0xffffffffu, 32);
        put(w, x, 32);
    } else if (k <= SS_RICE_SHORT) {
        put(w, (low << (ones + 1)) | (((uint64_t)1 << ones) - 1), (unsigned)ones + 1 + k);
    } else {
        put(w, ((uint64_t)1 << ones) - 1, (unsigned)ones + 1);
        put(w, low, k);
    }
}

/* Writes two codes in one put if they fit. A code of at most 33 + k bits beside another of at least
 * k + 1 bits is no escape. */
static inline void put_two(struct writer *w, uint32_t x, uint32_t y, unsigned k)
{
    const uint64_t ones = x >> k, more = y >> k, low = (1u << k) - 1;
    const uint64_t length = ones + 1 + k, both = length + more + 1 + k;

    if (both > (33 + 2 * k < 56 ? 33 + 2 * k : 56)) {
        put_code(w, x, k);
        put_code(w, y, k);
        return;
    }
    const uint64_t first = ((x & low) << (ones + 1)) | (((uint64_t)1 << ones) - 1);
    const uint64_t second = ((y & low) << (more + 1)) | (((uint64_t)1 << more) - 1);
    put(w, first | second << length, (unsigned)both);
}

/* Writes a code and returns the writer, which still holds the last bits. */
static inline struct writer put_present(unsigned k, const uint32_t *idx, uint32_t nnz,
                                        uint8_t *code, uint8_t *runs)
{
    struct writer w = {code, 0, 0};
    const uint32_t each = ss_rice_runs(false, nnz) > 0 ? SS_RICE_RUN : nnz;
    uint64_t before = 0;

    for (uint32_t i = 1; i < nnz;) {
        const uint32_t end = nnz - i > each ? i + each : nnz;
        if (k <= SS_RICE_SHORT)
            for (; i + 1 < end; i += 2)
                put_two(&w, idx[i] - idx[i - 1] - 1, idx[i + 1] - idx[i] - 1, k);
        for (; i < end; i++)
            put_code(&w, idx[i] - idx[i - 1] - 1, k);
        if (each == nnz)
            break;
        const uint64_t here = 8 * (uint64_t)(w.at - code) + w.fill;
        const uint16_t bits = (uint16_t)(here - before); /* at most 64 bits for each gap */
        memcpy(runs, &bits, sizeof bits);
        runs += sizeof bits;
        before = here;
    }
    return w;
}

static inline struct writer put_absent(unsigned k, const uint32_t *idx, uint32_t nnz, uint8_t *code)
{
    struct writer w = {code, 0, 0};

    for (uint32_t i = 0; i < nnz;) {
        uint32_t length = run_length(idx, nnz, i);
        put_code(&w, length, k);
        i += length;
        for (uint32_t empty = i < nnz ? idx[i] - idx[i - 1] - 2 : 0; empty > 0; empty--)
            put(&w, 0, k + 1);
    }
    return w;
}

void ss_rice_encode(const struct ss_rice *plan, const uint32_t *idx, uint32_t nnz, uint8_t *code,
                    uint8_t *runs)
{
    struct writer w = plan->absent ? put_absent(plan->parameter, idx, nnz, code)
                                   : put_present(plan->parameter, idx, nnz, code, runs);

    if (w.fill > 0)
        *w.at = (uint8_t)w.bits;
}

/* A bit reader, lowest bit first. After a refill at least 56 bits are valid; past the end they are
 * zeros. The bits above `have` are the code's own or zero, so that refill may or them in again. */
struct reader {
    const uint8_t *code;
    size_t bytes, next; /* `next` may pass `bytes`; ends_properly detects it */
    uint64_t bits;
    unsigned have;
};

static inline void refill(struct reader *r)
{
    if (r->next + 8 <= r->bytes) {
        uint64_t more;
        memcpy(&more, r->code + r->next, sizeof more);
        r->bits |= more << r->have;
        r->next += (63 - r->have) >> 3;
        r->have |= 56;
        return;
    }
    for (; r->have < 56; r->have += 8, r->next++)
        if (r->next < r->bytes)
            r->bits |= (uint64_t)r->code[r->next] << r->have;
}

static inline void skip(struct reader *r, unsigned count)
{
    r->bits >>= count;
    r->have -= count;
}

/* Returns a number, or UINT64_MAX for an escape that the encoder would not have written. */
static inline uint64_t get_code(struct reader *r, unsigned k)
{
    refill(r);
    unsigned ones = (unsigned)__builtin_ctzll(~r->bits | (uint64_t)1 << 63);
    if (ones >= SS_RICE_ESCAPE) {
        skip(r, SS_RICE_ESCAPE);
        refill(r);
        uint64_t x = r->bits & 0xffffffffu;
        skip(r, 32);
        return x >> k >= SS_RICE_ESCAPE ? x : UINT64_MAX;
    }
    skip(r, ones + 1);
    if (k > SS_RICE_SHORT)
        refill(r);
    uint64_t x = (uint64_t)ones << k | (r->bits & (((uint64_t)1 << k) - 1));
    skip(r, k);
    return x;
}

static uint64_t bits_used(const struct reader *r)
{
    return 8 * (uint64_t)r->next - r->have;
}

/* Returns true if the code ends within its last byte and is padded with zeros. */
static bool ends_after(const uint8_t *code, size_t bytes, uint64_t used)
{
    uint64_t all = 8 * (uint64_t)bytes;

    if (used > all || all - used >= 8)
        return false;
    return all == used || code[bytes - 1] >> (8 - (all - used)) == 0;
}

static bool ends_properly(const struct reader *r)
{
    return ends_after(r->code, r->bytes, bits_used(r));
}

bool ss_rice_fits(const struct ss_rice *plan, const uint8_t *code, const uint8_t *runs,
                  uint32_t nnz)
{
    uint64_t bits = 0;

    for (uint32_t run = 0; run < ss_rice_runs(false, nnz); run++)
        bits += ss_rice_run_bits(runs, run);
    return ends_after(code, plan->bytes, bits);
}

/* Reads `count` gaps from one refill, without a branch per gap. If they do not fit 56 bits or
 * contain an escape, returns false with nothing changed but idx. */
static inline bool get_group(struct reader *r, unsigned k, unsigned count, uint64_t *at,
                             uint32_t *idx)
{
    uint64_t turning = ~r->bits | (uint64_t)1 << 63; /* rotated below, so that it never becomes 0 */
    uint64_t mask = ((uint64_t)1 << k) - 1, here = *at;
    unsigned used = 0, most = 0;
    for (unsigned j = 0; j < count; j++) {
        unsigned ones = (unsigned)__builtin_ctzll(turning), length = ones + 1 + k;
        here += ((uint64_t)ones << k) + (~turning >> ones >> 1 & mask) + 1;
        idx[j] = (uint32_t)here;
        most |= ones;
        used += length;
        turning = turning >> (length & 63) | turning << (-length & 63);
    }
    if (used > 56 || most >= SS_RICE_ESCAPE)
        return false;
    *at = here;
    skip(r, used);
    return true;
}

/* Reads gaps in groups until a group could pass the end. Returns the position of the next entry. */
static inline uint32_t decode_groups(struct reader *r, unsigned k, unsigned count, uint64_t *at,
                                     uint32_t i, uint32_t nnz, uint32_t *idx)
{
    while (nnz - i >= count && r->next + 8 <= r->bytes) {
        refill(r);
        if (get_group(r, k, count, at, idx + i)) {
            i += count;
            continue;
        }
        struct reader before = *r;
        uint64_t gap = get_code(r, k);
        if (gap == UINT64_MAX) {
            *r = before; /* the caller reads the code again and rejects it */
            break;
        }
        *at += gap + 1;
        idx[i++] = (uint32_t)*at;
    }
    return i;
}

/* Reads the gaps of entries i..end. */
static bool decode_gaps(struct reader *r, unsigned k, uint64_t *at, uint32_t i, uint32_t end,
                        uint32_t *idx)
{
    if (k <= 3)
        i = decode_groups(r, k, 6, at, i, end, idx);
    else if (k <= 8)
        i = decode_groups(r, k, 4, at, i, end, idx);
    else if (k <= 12)
        i = decode_groups(r, k, 3, at, i, end, idx);
    else if (k <= 16)
        i = decode_groups(r, k, 2, at, i, end, idx);
    for (; i < end; i++) {
        uint64_t gap = get_code(r, k);
        if (gap == UINT64_MAX)
            return false;
        *at += gap + 1; /* at most 2^15 steps of 2^36: no overflow */
        idx[i] = (uint32_t)*at;
    }
    return true;
}

static int decode_present(struct reader *r, unsigned k, const uint8_t *runs, uint64_t at,
                          uint32_t nnz, uint32_t n, uint32_t *idx)
{
    const uint32_t each = ss_rice_runs(false, nnz) > 0 ? SS_RICE_RUN : nnz;
    uint64_t told = 0;

    idx[0] = (uint32_t)at;
    for (uint32_t i = 1, run = 0; i < nnz; run++) {
        const uint32_t end = nnz - i > each ? i + each : nnz;
        if (!decode_gaps(r, k, &at, i, end, idx))
            return SS_ERR_MESSAGE;
        if (each < nnz && bits_used(r) != (told += ss_rice_run_bits(runs, run)))
            return SS_ERR_MESSAGE;
        i = end;
    }
    return at < n && ends_properly(r) ? SS_OK : SS_ERR_MESSAGE;
}

static int decode_absent(struct reader *r, unsigned k, uint64_t at, uint32_t nnz, uint32_t n,
                         uint32_t *idx)
{
    for (uint32_t i = 0; i < nnz; at++) {
        uint64_t length = get_code(r, k);
        if (length > nnz - i || at + length > n)
            return SS_ERR_MESSAGE;
        bool overrun = r->next > r->bytes + 8;  /* the zeros past the end would continue up to n */
        if (overrun || (i == 0 && length == 0)) /* the first index is present */
            return SS_ERR_MESSAGE;
        for (uint64_t end = at + length; at < end; at++)
            idx[i++] = (uint32_t)at;
    }
    return ends_properly(r) ? SS_OK : SS_ERR_MESSAGE;
}

int ss_rice_decode(const struct ss_rice *plan, const uint8_t *code, const uint8_t *runs,
                   uint32_t first, uint32_t nnz, uint32_t n, uint32_t *idx)
{
    struct reader r = {code, plan->bytes, 0, 0, 0};
    if (first >= n)
        return SS_ERR_MESSAGE;
    if (plan->absent)
        return decode_absent(&r, plan->parameter, first, nnz, n, idx);
    return decode_present(&r, plan->parameter, runs, first, nnz, n, idx);
}

/* Returns the bits per entry of geometric numbers, a share p of which is 0. x >> k is geometric
 * again, with (1-p)^(2^k) for 1-p. The bits are convex in k: the first increase ends the search. */
static double geometric_bits(double p)
{
    double tail = 1 - p, best = 33;
    for (unsigned k = 0; k <= SS_RICE_MAX && tail < 1; k++, tail *= tail) {
        double bits = k + 1 / (1 - tail);
        if (bits > best && best < 33)
            break;
        best = bits < best ? bits : best;
    }
    return best;
}

double ss_rice_bits_per_entry(double d)
{
    double present = geometric_bits(d), absent = d < 1 ? geometric_bits(1 - d) * (1 - d) / d : 0;
    return absent < present ? absent : present;
}
