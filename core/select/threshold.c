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
    const struct ss_select_part *parts; /* parts of the concatenation */
    size_t count;                       /* number of parts */
    size_t part, begin;                 /* part used last, and its first element */
    bool residual_alone;                /* the residual holds a */
    size_t n, piece, step;              /* `piece` elements of each `step` are read */
    size_t k, above;
    ss_magnitude low, high;
};

/* Returns the part that has the element. */
static const struct ss_select_part *part_of(struct search *s, size_t at)
{
    if (at < s->begin)
        s->part = s->begin = 0;
    while (s->part + 1 < s->count && at - s->begin >= s->parts[s->part].n)
        s->begin += s->parts[s->part++].n;
    return &s->parts[s->part];
}

static const void *at_of(enum ss_type type, const void *v, size_t i)
{
    return v ? (const char *)v + i * ss_type_size(type) : NULL;
}

static size_t gather(struct search *s, size_t at, ss_magnitude low, ss_magnitude *out,
                     size_t capacity)
{
    size_t end = s->n - at < s->piece ? s->n : at + s->piece, found = 0, n;

    for (; at < end; at += n) {
        const struct ss_select_part *p = part_of(s, at);
        const size_t inside = at - s->begin, left = p->n - inside;
        n = left < end - at ? left : end - at;
        found += s->selectors->gather(
            s->type, s->residual_alone ? NULL : at_of(s->type, p->g, inside),
            at_of(s->type, p->r, inside), n, low, s->high, out ? out + found : NULL,
            out && found < capacity ? capacity - found : 0);
    }
    return found;
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
                                const struct ss_select_part *parts, size_t count, size_t n,
                                size_t k)
{
    return (struct search){.selectors = selectors,
                           .type = type,
                           .parts = parts,
                           .count = count,
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
    /* r is only read */
    const struct ss_select_part all = {.g = g, .r = (void *)(uintptr_t)r, .n = n};
    struct search s = search_all(selectors, type, &all, 1, n, k);
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
    struct ss_select_part *parts;
    size_t count, n, k;
};

static struct search search_for(const struct ss_selecting *control, const struct selection *s,
                                size_t k)
{
    struct search x = search_all(s->selectors, s->type, s->parts, s->count, s->n, k);
    x.residual_alone = control->alone;
    return x;
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
    const struct ss_select_part *p = &s->parts[s->part];
    const size_t size = ss_type_size(s->type);

    if (at < s->begin || at - s->begin + s->piece > p->n)
        return;
    for (size_t i = (at - s->begin) * size, end = i + s->piece * size; i < end; i += LINE) {
        if (p->g && !s->residual_alone)
            __builtin_prefetch((const char *)p->g + i, 0, 2);
        if (p->r)
            __builtin_prefetch((const char *)p->r + i, 0, 2);
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

/* Adds the counts of a part to those of all parts. */
static void add_seen(struct ss_selection *all, const struct ss_selection *seen)
{
    all->claimed += seen->claimed;
    all->over += seen->over;
    all->not_finite += seen->not_finite;
    all->largest = seen->largest > all->largest ? seen->largest : all->largest;
    all->zero_input = all->zero_input && seen->zero_input;
}

/* Claims from each part. Sums and zero_input of a part are those of its first pass. */
static void claim(struct ss_selecting *control, const struct selection *s)
{
    struct ss_selection all = {.zero_input = true}, first;
    size_t left = ss_claim_limit(s->k);

    for (size_t i = 0; i < s->count; i++) {
        struct ss_select_part *p = &s->parts[i];
        first = p->seen;
        s->selectors->select(s->type, control->alone ? NULL : p->g, p->r, p->n, p->base,
                             control->t->magnitude, p->idx, p->val,
                             left < p->capacity ? left : p->capacity, &p->seen);
        left -= p->seen.claimed;
        add_seen(&all, &p->seen);
        if (!control->again)
            continue;
        p->seen.zero_input = first.zero_input;
        p->seen.input_square = first.input_square;
        p->seen.sum_square = first.sum_square;
    }
    ss_selecting_claimed(control, &all);
}

static void put_back(struct ss_selecting *control, const struct selection *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct ss_select_part *p = &s->parts[i];
        ss_vector_add_at(s->type, p->r, p->base, p->idx, p->val, p->seen.claimed);
    }
    ss_selecting_put_back(control);
}

bool ss_threshold_select_parts(struct ss_threshold *t, const struct ss_selectors *selectors,
                               enum ss_type type, struct ss_select_part *parts, size_t count,
                               size_t k)
{
    struct selection s = {selectors, type, parts, count, 0, k};
    struct ss_selecting control;

    for (size_t i = 0; i < count; i++)
        s.n += parts[i].n;
    ss_selecting_start(&control, t, k, parts[0].r != NULL);
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
    return control.few;
}

bool ss_threshold_select(struct ss_threshold *t, const struct ss_selectors *selectors,
                         enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                         size_t k, uint32_t *idx, void *val, struct ss_selection *out)
{
    struct ss_select_part all = {.g = g,
                                 .r = r,
                                 .n = n,
                                 .base = base,
                                 .idx = idx,
                                 .val = val,
                                 .capacity = ss_claim_limit(k)};
    bool few = ss_threshold_select_parts(t, selectors, type, &all, 1, k);

    *out = all.seen;
    return few;
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
