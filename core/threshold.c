#include "core/threshold.h"

#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, CHUNK = 4096 };

/* The magnitudes in question, and which of them. */
struct search {
    const struct ss_selectors *selectors;
    enum ss_type type;
    const char *g, *r;
    size_t n;
    ss_magnitude low, high; /* the k-th largest lies between */
    size_t k;               /* it is the k-th largest of those */
};

static void swap(ss_magnitude *a, ss_magnitude *b)
{
    ss_magnitude t = *a;
    *a = *b;
    *b = t;
}

/* Quickselect in descending order; the pivot is a median of three. */
ss_magnitude ss_kth_largest(ss_magnitude *m, size_t count, size_t k)
{
    size_t left = 0, right = count - 1;
    const size_t target = k - 1;
    while (left < right) {
        size_t middle = left + (right - left) / 2;
        if (m[middle] > m[left])
            swap(&m[middle], &m[left]);
        if (m[right] > m[left])
            swap(&m[right], &m[left]);
        if (m[right] > m[middle])
            swap(&m[right], &m[middle]);
        const ss_magnitude pivot = m[middle];
        size_t i = left, j = right;
        for (;;) {
            while (m[i] > pivot)
                i++;
            while (m[j] < pivot)
                j--;
            if (i >= j)
                break;
            swap(&m[i++], &m[j--]);
        }
        size_t end = m[j] < pivot ? j - 1 : j; /* [left, end] >= pivot >= the rest */
        if (target <= end)
            right = end;
        else
            left = end + 1;
    }
    return m[target];
}

static size_t gather(const struct search *s, size_t from, size_t n, ss_magnitude low,
                     ss_magnitude *out, size_t capacity)
{
    size_t bytes = from * ss_type_size(s->type);
    return s->selectors->gather(s->type, s->g ? s->g + bytes : NULL, s->r ? s->r + bytes : NULL, n,
                                low, s->high, out, capacity);
}

/* One pass: narrows [low, high] to the digit (magnitude >> shift) of the k-th largest. As soon as k
 * entries with some digit or a larger one have been seen, smaller ones no longer matter: the lower
 * end rises while the pass goes on, and most entries fail one comparison. Returns the entries of
 * that digit; or, when the range holds fewer than k, all of them with the range unchanged. */
static size_t narrow(struct search *s, unsigned shift, size_t *above)
{
    uint32_t counts[DIGITS] = {0};
    ss_magnitude list[CHUNK];
    const ss_magnitude origin = s->low >> shift << shift;
    size_t digit = 0, reached = 0; /* entries with this digit or a larger one */
    ss_magnitude low = s->low;
    for (size_t at = 0; at < s->n; at += CHUNK) {
        size_t found = gather(s, at, s->n - at < CHUNK ? s->n - at : CHUNK, low, list, CHUNK);
        for (size_t j = 0; j < found; j++)
            counts[(list[j] - origin) >> shift]++;
        reached += found;
        while (reached >= s->k && reached - counts[digit] >= s->k)
            reached -= counts[digit++];
        if (digit > 0)
            low = origin + ((ss_magnitude)digit << shift);
    }
    if (reached < s->k)
        return reached;
    size_t here = counts[digit];
    *above += reached - here;
    s->k -= reached - here;
    s->low = low;
    s->high = origin + ((ss_magnitude)(digit + 1) << shift) - 1;
    return here;
}

/* What there is when k entries are not. */
static void take_all(const struct search *s, size_t nonzero, struct ss_exact *out)
{
    struct search least = *s;
    least.high = SS_LEAST_MAGNITUDE;
    *out = (struct ss_exact){
        .threshold = SS_LEAST_MAGNITUDE,
        .above = nonzero - gather(&least, 0, s->n, SS_LEAST_MAGNITUDE, NULL, 0),
        .count = nonzero,
        .all_zero = nonzero == 0,
    };
}

/* The few entries of the range left, as a list. */
static void finish(const struct search *s, struct ss_exact *out)
{
    ss_magnitude list[CHUNK];
    size_t found = gather(s, 0, s->n, s->low, list, CHUNK);
    out->threshold = ss_kth_largest(list, found, s->k);
    size_t above = 0, equal = 0;
    for (size_t j = 0; j < found; j++) {
        above += list[j] > out->threshold;
        equal += list[j] == out->threshold;
    }
    out->above += above;
    out->count = out->above + equal;
}

void ss_exact_threshold(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                        const void *r, size_t n, size_t k, struct ss_exact *out)
{
    const ss_magnitude none = ss_magnitude_none(type);
    struct search s = {selectors, type, g, r, n, SS_LEAST_MAGNITUDE, none - 1, k};
    unsigned shift = type == SS_F32 ? 31 : 63;
    *out = (struct ss_exact){.threshold = none};
    if (k == 0)
        return;
    while (shift > 0) {
        shift = shift > DIGIT_BITS ? shift - DIGIT_BITS : 0;
        size_t found = narrow(&s, shift, &out->above);
        if (found < s.k) {
            take_all(&s, found, out);
            return;
        }
        if (shift > 0 && found <= CHUNK) {
            finish(&s, out);
            return;
        }
        out->count = out->above + found;
    }
    out->threshold = s.low;
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
    t->k = k;
    t->reevaluate = false;
}

void ss_threshold_reevaluate(struct ss_threshold *t)
{
    t->reevaluate = true;
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

static void find(struct ss_threshold *t, const struct selection *s)
{
    struct ss_exact exact;
    ss_exact_threshold(s->selectors, s->type, s->g, s->r, s->n, s->k, &exact);
    ss_threshold_found(t, s->k, exact.threshold);
    t->exact_calls++;
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
        ss_residual_add(s->type, s->r, s->base, s->idx, s->val, first.claimed);
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
