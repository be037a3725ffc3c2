/* Radix select in passes that narrow a range of magnitudes, with a sample to begin from; and the
 * threshold that is kept between calls. */
#include "core/select/threshold.h"
#include "core/compute/vector.h"

#include <string.h>

enum { BINS = 2048, LAST = BINS - 1, CHUNK = 4096, PIECE = 64, SAMPLED = 1 << 18 };

/* The sample that a kept threshold follows: pieces of PIECE elements, so many that about FOLLOWED
 * of the k entries are in it, and at most a share of FOLLOW_SHARE of all elements. With fewer than
 * FOLLOW_LEAST of them the sample says less than the threshold kept. */
enum { FOLLOWED = 512, FOLLOW_SHARE = 4, FOLLOW_LEAST = 64 };

/* What is searched, and what is known: the k-th largest of those in [low, high] is wanted, and
 * `above` entries are larger than high. */
struct search {
    const struct ss_selectors *selectors;
    enum ss_type type;
    const char *g, *r;
    size_t n, piece, step; /* `piece` elements from each `step` of n */
    size_t k, above;
    ss_magnitude low, high;
};

static size_t gather(const struct search *s, size_t at, ss_magnitude low, ss_magnitude *out,
                     size_t capacity)
{
    size_t bytes = at * ss_type_size(s->type), n = s->n - at < s->piece ? s->n - at : s->piece;
    return s->selectors->gather(s->type, s->g ? s->g + bytes : NULL, s->r ? s->r + bytes : NULL, n,
                                low, s->high, out, capacity);
}

/* One pass: narrows [low, high] to the bin of the k-th largest. The bins divide [low, finest]
 * evenly, the last one takes all that is above. As soon as k entries in some bin or a higher one
 * have been seen, lower ones no longer matter: the lower end rises while the pass goes on, and most
 * entries fail one comparison. Returns the entries of the bin. When there are fewer than k, the
 * range becomes what is below low and 0 is returned. */
static size_t narrow(struct search *s, ss_magnitude finest)
{
    uint32_t counts[BINS] = {0};
    ss_magnitude list[CHUNK];
    const ss_magnitude origin = s->low;
    ss_magnitude low = origin;
    size_t bin = 0, reached = 0; /* entries of this bin or a higher one */
    unsigned shift = 0;
    while ((finest - origin) >> shift > LAST)
        shift++;
    for (size_t at = 0; at < s->n; at += s->step) {
        size_t found = gather(s, at, low, list, CHUNK);
        for (size_t j = 0; j < found; j++) {
            ss_magnitude to = (list[j] - origin) >> shift;
            counts[to < LAST ? to : LAST]++;
        }
        reached += found;
        while (reached >= s->k && reached - counts[bin] >= s->k)
            reached -= counts[bin++];
        low = origin + ((ss_magnitude)bin << shift);
    }
    if (reached < s->k) {
        s->k -= reached;
        s->above += reached;
        s->high = origin - 1;
        s->low = SS_LEAST_MAGNITUDE;
        return 0;
    }
    ss_magnitude end = low + (((ss_magnitude)1 << shift) - 1);
    s->k -= reached - counts[bin];
    s->above += reached - counts[bin];
    s->low = low;
    if (bin < LAST && end < s->high)
        s->high = end;
    return counts[bin];
}

/* The few entries of the range left, as a list. */
static void finish(const struct search *s, struct ss_exact *out)
{
    ss_magnitude list[CHUNK] = {0};
    size_t found = 0;
    for (size_t at = 0; at < s->n; at += s->step)
        found += gather(s, at, s->low, list + found, CHUNK - found);
    *out = (struct ss_exact){.threshold = ss_kth_largest(list, found, s->k), .above = s->above};
    for (size_t j = 0; j < found; j++) {
        out->above += list[j] > out->threshold;
        out->count += list[j] == out->threshold;
    }
    out->count += out->above;
}

/* The result where fewer than k entries are not zero. */
static void take_all(const struct search *s, struct ss_exact *out)
{
    struct search least = *s;
    size_t equal = 0;
    least.high = SS_LEAST_MAGNITUDE;
    for (size_t at = 0; at < s->n; at += s->step)
        equal += gather(&least, at, SS_LEAST_MAGNITUDE, NULL, 0);
    *out = (struct ss_exact){.threshold = SS_LEAST_MAGNITUDE,
                             .above = s->above - equal,
                             .count = s->above,
                             .all_zero = s->above == 0};
}

static void narrow_to_one(struct search *s, ss_magnitude finest, struct ss_exact *out)
{
    for (;; finest = s->high) {
        const bool least = s->low == SS_LEAST_MAGNITUDE;
        const size_t entries = narrow(s, finest);
        if (entries == 0 && least) {
            take_all(s, out);
            return;
        }
        if (entries > 0 && s->low == s->high) {
            *out = (struct ss_exact){
                .threshold = s->low, .above = s->above, .count = s->above + entries};
            return;
        }
        if (entries > 0 && entries <= CHUNK) {
            finish(s, out);
            return;
        }
    }
}

/* Four standard deviations of the number of sampled entries above a threshold, and some. */
static size_t margin_of(size_t k)
{
    size_t root = 1;
    while (root * root < k)
        root++;
    return 4 * root + 16;
}

/* A sample tells where the threshold is likely to be, so that one pass leaves few entries. Where it
 * errs, the search goes on in the range that pass leaves. Returns the finest of that pass. */
static ss_magnitude aim(struct search *s)
{
    struct search sample = *s;
    struct ss_exact low, high = {.threshold = s->high};
    const size_t k = s->k / (CHUNK / PIECE), margin = margin_of(k);
    sample.piece = PIECE;
    sample.k = k + margin;
    narrow_to_one(&sample, sample.high, &low);
    if (k > margin) {
        sample = *s;
        sample.piece = PIECE;
        sample.k = k - margin;
        narrow_to_one(&sample, sample.high, &high);
    }
    s->low = low.threshold;
    return high.threshold;
}

static struct search search_all(const struct ss_selectors *selectors, enum ss_type type,
                                const void *g, const void *r, size_t n, size_t k)
{
    return (struct search){.selectors = selectors,
                           .type = type,
                           .g = g,
                           .r = r,
                           .n = n,
                           .piece = CHUNK,
                           .step = CHUNK,
                           .k = k,
                           .low = SS_LEAST_MAGNITUDE,
                           .high = ss_magnitude_none(type) - 1};
}

void ss_exact_threshold(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                        const void *r, size_t n, size_t k, struct ss_exact *out)
{
    struct search s = search_all(selectors, type, g, r, n, k);
    if (k == 0) {
        *out = (struct ss_exact){.threshold = s.high + 1};
        return;
    }
    ss_magnitude finest = s.high;
    if (n >= SAMPLED)
        finest = aim(&s);
    narrow_to_one(&s, finest, out);
}

size_t ss_claim_limit(size_t k)
{
    return k + k / 3;
}

bool ss_threshold_due(const struct ss_threshold *t, size_t k)
{
    return t->magnitude == 0 || t->reevaluate || t->k != k || t->calls % t->period == 0;
}

void ss_threshold_found(struct ss_threshold *t, size_t k, ss_magnitude magnitude)
{
    t->magnitude = magnitude;
    t->sampled = 0;
    t->k = k;
    t->reevaluate = false;
}

void ss_threshold_reevaluate(struct ss_threshold *t)
{
    t->reevaluate = true;
}

void ss_threshold_scale(struct ss_threshold *t, enum ss_type type, double factor)
{
    if (t->magnitude == 0)
        return;
    t->magnitude = ss_magnitude_of(type, ss_magnitude_value(type, t->magnitude) * factor);
    if (t->magnitude < SS_LEAST_MAGNITUDE)
        t->magnitude = SS_LEAST_MAGNITUDE;
}

enum ss_fit ss_threshold_judge(const struct ss_threshold *t, size_t count)
{
    if (count > ss_claim_limit(t->k))
        return SS_FIT_MANY;
    return count < t->k - t->k / 2 ? SS_FIT_FEW : SS_FIT_GOOD;
}

/* A selection under way. */
struct selection {
    const struct ss_selectors *selectors;
    enum ss_type type;
    const void *g;
    void *r;
    size_t n, k;
    uint32_t base;
    uint32_t *idx;
    void *val;
};

/* The steps are odd, lest the sample see few columns of a matrix. */
static struct search sample_of(const struct selection *s)
{
    struct search x = search_all(s->selectors, s->type, s->g, s->r, s->n, s->k);
    size_t step = s->k / (FOLLOWED / PIECE);
    x.piece = PIECE;
    x.step = (step > PIECE * FOLLOW_SHARE ? step : PIECE * FOLLOW_SHARE) | 1;
    return x;
}

/* What of the sample reaches the threshold. */
static size_t count_sampled(const struct ss_threshold *t, const struct selection *s)
{
    struct search x = sample_of(s);
    size_t count = 0;
    for (size_t at = 0; at < x.n; at += x.step)
        count += gather(&x, at, t->magnitude, NULL, 0);
    return count;
}

static void find(struct ss_threshold *t, const struct selection *s)
{
    struct ss_exact exact;
    ss_exact_threshold(s->selectors, s->type, s->g, s->r, s->n, s->k, &exact);
    ss_threshold_found(t, s->k, exact.threshold);
    t->exact_calls++;
    /* Where ties pass the capacity, the sample would count those that are cut, too: then it is not
     * used. */
    if (t->period > 1 && exact.count <= ss_claim_limit(s->k) && !exact.all_zero)
        t->sampled = count_sampled(t, s);
}

/* The gradient of one call may be half or twice that of another throughout. So where the sample's
 * count differs by more than its standard deviation from what it was when the threshold was found,
 * the threshold moves to the next value that makes it the same. */
static void follow(struct ss_threshold *t, const struct selection *s)
{
    const ss_magnitude octave = (ss_magnitude)1 << ss_mantissa_bits(s->type);
    struct search x = sample_of(s);
    struct ss_exact found;
    ss_magnitude finest = x.high;
    size_t count, apart;

    if (t->sampled < FOLLOW_LEAST)
        return;
    count = count_sampled(t, s);
    apart = count > t->sampled ? count - t->sampled : t->sampled - count;
    if (apart * apart <= t->sampled)
        return;
    x.k = t->sampled + (count > t->sampled);
    if (t->magnitude > octave)
        x.low = t->magnitude - octave;
    if (finest - octave > t->magnitude)
        finest = t->magnitude + octave;
    narrow_to_one(&x, finest, &found);
    t->magnitude = found.threshold + (found.above == t->sampled);
}

static void pass(const struct ss_threshold *t, const struct selection *s, struct ss_selection *out)
{
    s->selectors->select(s->type, s->g, s->r, s->n, s->base, t->magnitude, s->idx, s->val,
                         ss_claim_limit(s->k), out);
}

/* With its claims back the residual holds a = g + r, so the gradient has done its part. */
static void repeat(struct ss_threshold *t, const struct selection *s, struct ss_selection *out)
{
    struct selection again = *s;
    struct ss_selection first = *out;
    if (s->r) {
        ss_vector_add_at(s->type, s->r, s->base, s->idx, s->val, first.claimed);
        again.g = NULL;
    }
    find(t, &again);
    pass(t, &again, out);
    out->zero_input = first.zero_input;
    out->input_square = first.input_square;
    out->sum_square = first.sum_square;
}

bool ss_threshold_select(struct ss_threshold *t, const struct ss_selectors *selectors,
                         enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                         size_t k, uint32_t *idx, void *val, struct ss_selection *out)
{
    const struct selection s = {selectors, type, g, r, n, k, base, idx, val};
    bool exact = ss_threshold_due(t, k);
    if (exact)
        find(t, &s);
    else
        follow(t, &s);
    t->calls++;
    pass(t, &s, out);
    if (out->not_finite > 0)
        return false;

    enum ss_fit fit = ss_threshold_judge(t, out->claimed + out->over);
    bool drain = fit == SS_FIT_FEW && out->zero_input && out->largest > 0;
    if (!exact && (fit == SS_FIT_MANY || drain)) {
        repeat(t, &s, out);
        fit = ss_threshold_judge(t, out->claimed + out->over);
    }
    return fit == SS_FIT_FEW && t->magnitude > SS_LEAST_MAGNITUDE;
}

/* x^n by squaring. */
static double power(double x, uint64_t n)
{
    double result = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
}

size_t ss_warmup_k(size_t n, double density, uint64_t step, uint64_t warmup)
{
    if (step < warmup) {
        double low = density, high = 1; /* the root lies between; halving ends at neighbours */
        for (int i = 0; i < 64; i++) {
            double middle = low + (high - low) / 2;
            if (power(middle, warmup + 1) < density)
                low = middle;
            else
                high = middle;
        }
        density = power(high, step + 1);
    }
    double k = density * (double)n + 0.5;
    if (k >= (double)n)
        return n;
    return k < 1 ? 1 : (size_t)k;
}
