/* Implements radix select in passes that narrow a range of magnitudes, starting from a sample, and
 * the passes of a selection with a kept threshold. */
#include "core/select/threshold.h"
#include "core/compute/vector.h"

#include <string.h>

enum { BINS = 2048, LAST = BINS - 1, CHUNK = 4096, PIECE = 64, SAMPLED = 1 << 18 };

/* A search for the k-th largest magnitude in [low, high]; `above` entries are larger than high. */
struct search {
    const struct ss_selectors *selectors;
    enum ss_type type;
    const void *g, *r;     /* NULL: not part of the sum */
    size_t n, piece, step; /* `piece` elements of each `step` are read */
    size_t k, above;
    ss_magnitude low, high;
};

static const void *at_of(enum ss_type type, const void *v, size_t i)
{
    return v ? (const char *)v + i * ss_type_size(type) : NULL;
}

static size_t gather(struct search *s, size_t at, ss_magnitude low, ss_magnitude *out,
                     size_t capacity)
{
    size_t n = s->n - at < s->piece ? s->n - at : s->piece;

    return s->selectors->gather(s->type, at_of(s->type, s->g, at), at_of(s->type, s->r, at), n, low,
                                s->high, out, capacity);
}

/* Narrows [low, high] to the bin of the k-th largest in one pass. The bins divide [low, finest]
 * evenly; the last bin takes everything above. As soon as k entries in a bin or higher ones have
 * been seen, lower bins no longer matter: the lower end rises during the pass, and most entries
 * fail one comparison. Returns the number of entries in the bin. If there are fewer than k entries,
 * the range becomes the one below low, and 0 is returned. */
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

/* Finds the threshold from a list of the few entries left in the range. */
static void finish(struct search *s, struct ss_exact *out)
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

/* Sets the result if fewer than k entries are not zero. */
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

/* Returns a little more than four standard deviations of the number of sampled entries above a
 * threshold. */
static size_t margin_of(size_t k)
{
    size_t root = 1;
    while (root * root < k)
        root++;
    return 4 * root + 16;
}

/* Sets the range from a sample, so that one pass leaves few entries. If the sample errs, the search
 * goes on in the range that this pass leaves. Returns the `finest` of that pass. */
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

static void find_exact(struct search *s, struct ss_exact *out)
{
    ss_magnitude finest = s->high;

    if (s->n >= SAMPLED)
        finest = aim(s);
    narrow_to_one(s, finest, out);
}

void ss_exact_threshold(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                        const void *r, size_t n, size_t k, struct ss_exact *out)
{
    struct search s = search_all(selectors, type, g, r, n, k);
    if (k == 0)
        *out = (struct ss_exact){.threshold = s.high + 1};
    else
        find_exact(&s, out);
}

void ss_threshold_scale(struct ss_threshold *t, enum ss_type type, double factor)
{
    if (t->magnitude == 0)
        return;
    t->magnitude = ss_magnitude_of(type, ss_magnitude_value(type, t->magnitude) * factor);
    if (t->magnitude < SS_LEAST_MAGNITUDE)
        t->magnitude = SS_LEAST_MAGNITUDE;
}

/* A selection in progress. */
struct selection {
    const struct ss_selectors *selectors;
    enum ss_type type;
    const void *g;
    void *r;
    size_t n, k;
    uint32_t base; /* of the indices */
    uint32_t *idx;
    void *val;
    struct ss_selection seen;
};

static struct search search_for(const struct ss_selecting *control, const struct selection *s,
                                size_t k)
{
    return search_all(s->selectors, s->type, control->alone ? NULL : s->g, s->r, s->n, k);
}

static struct search sample_of(const struct ss_selecting *control, const struct selection *s)
{
    struct search x = search_for(control, s, control->rank);
    x.piece = SS_FOLLOW_PIECE;
    x.step = control->step;
    return x;
}

static void find(struct ss_selecting *control, const struct selection *s)
{
    struct search x = search_for(control, s, s->k);
    struct ss_exact exact;
    find_exact(&x, &exact);
    ss_selecting_found(control, &exact);
}

/* Searches the sample, first within an octave of the kept threshold. */
static void find_sampled(struct ss_selecting *control, const struct selection *s)
{
    const ss_magnitude octave = (ss_magnitude)1 << ss_mantissa_bits(s->type);
    const ss_magnitude kept = control->t->magnitude;
    struct search x = sample_of(control, s);
    struct ss_exact found;
    ss_magnitude finest = x.high;

    if (kept > octave)
        x.low = kept - octave;
    if (finest - octave > kept)
        finest = kept + octave;
    narrow_to_one(&x, finest, &found);
    ss_selecting_found(control, &found);
}

/* Pieces of a sample lie far apart and mostly outside of every cache: AHEAD steps are
 * prefetched. */
enum { AHEAD = 4, LINE = 64 };

static void ask_for(const struct search *s, size_t at)
{
    const size_t size = ss_type_size(s->type);

    if (at + s->piece > s->n)
        return;
    for (size_t i = at * size, end = i + s->piece * size; i < end; i += LINE) {
        if (s->g)
            __builtin_prefetch((const char *)s->g + i, 0, 2);
        if (s->r)
            __builtin_prefetch((const char *)s->r + i, 0, 2);
    }
}

static void count_sampled(struct ss_selecting *control, const struct selection *s)
{
    struct search x = sample_of(control, s);
    size_t count = 0;
    for (size_t at = 0; at < x.n; at += x.step) {
        ask_for(&x, at + AHEAD * x.step);
        count += gather(&x, at, control->t->magnitude, NULL, 0);
    }
    ss_selecting_counted(control, count);
}

static void claim(struct ss_selecting *control, struct selection *s)
{
    s->selectors->select(s->type, control->alone ? NULL : s->g, s->r, s->n, s->base,
                         control->t->magnitude, s->idx, s->val, ss_claim_limit(s->k), &s->seen);
    ss_selecting_claimed(control, &s->seen);
}

static void put_back(struct ss_selecting *control, const struct selection *s)
{
    ss_vector_add_at(s->type, s->r, s->base, s->idx, s->val, s->seen.claimed);
    ss_selecting_put_back(control);
}

bool ss_threshold_select(struct ss_threshold *t, const struct ss_selectors *selectors,
                         enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                         size_t k, uint32_t *idx, void *val, struct ss_selection *out)
{
    struct selection s = {.selectors = selectors,
                          .type = type,
                          .g = g,
                          .r = r,
                          .n = n,
                          .k = k,
                          .base = base,
                          .idx = idx,
                          .val = val};
    struct ss_selecting control;

    ss_selecting_start(&control, t, k, r != NULL);
    while (control.ask != SS_ASK_NOTHING) {
        if (control.ask == SS_ASK_FIND)
            find(&control, &s);
        else if (control.ask == SS_ASK_FIND_SAMPLED)
            find_sampled(&control, &s);
        else if (control.ask == SS_ASK_COUNT)
            count_sampled(&control, &s);
        else if (control.ask == SS_ASK_CLAIM)
            claim(&control, &s);
        else
            put_back(&control, &s);
    }
    *out = s.seen;
    return control.few;
}

size_t ss_warmup_k(size_t n, double density, uint64_t step, uint64_t warmup)
{
    if (step < warmup) {
        double low = density, high = 1; /* the root lies between; halving ends at neighbours */
        for (int i = 0; i < 64; i++) {
            double middle = low + (high - low) / 2;
            if (ss_power(middle, warmup + 1) < density)
                low = middle;
            else
                high = middle;
        }
        density = ss_power(high, step + 1);
    }
    double k = density * (double)n + 0.5;
    if (k >= (double)n)
        return n;
    return k < 1 ? 1 : (size_t)k;
}
