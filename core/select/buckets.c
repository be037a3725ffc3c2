/* Selects the k largest of each bucket in one pass over memory (SparCML, section 8.3). The pass
 * adds a bucket to its residual and collects the entries that reach a guess, a little more than k
 * if the buckets before were similar. The k largest of these are found while the bucket is in the
 * cache, and leave the residual. If the guess was wrong, more passes over the bucket follow. */
#include "core/compute/pass.h"
#include "core/compute/vector.h"
#include "core/compute/width.h"
#include "core/select/threshold.h"

enum {
    ROOM = 1024, /* entries that can be collected from a bucket */
    /* if more than FEW times the aim were collected, the buckets before were not similar */
    FEW = 4
};

/* State of ss_select_buckets from bucket to bucket. */
struct buckets {
    const struct ss_selectors *selectors;
    enum ss_type type;
    size_t k;
    size_t aim; /* number of entries that a guess should collect */
    struct ss_pass pass;
    uint32_t idx[ROOM];
    uint64_t val[ROOM + SS_LANES_MOST];
};

/* A range of elements, and room for its claims. */
struct range {
    const char *g;
    char *r;
    size_t n;
    uint32_t base;
    uint32_t *idx;
    char *val;
};

/* Returns k plus two standard deviations, so that few buckets need a second pass. */
static size_t aim_of(size_t k)
{
    size_t root = 1;
    while (root * root < k)
        root++;
    return k + 2 * root + 1;
}

static ss_magnitude octave(const struct buckets *b)
{
    return (ss_magnitude)1 << ss_mantissa_bits(b->type);
}

/* Moves the guess for the next bucket, which is likely to be similar: `count` entries of this
 * bucket reached the guess. */
static void follow(struct buckets *b, size_t count)
{
    const ss_magnitude each = octave(b) / 16 / b->aim;
    ss_magnitude *guess = &b->pass.threshold;

    if (count >= b->aim)
        *guess += each * (count - b->aim);
    else if (*guess > each * (b->aim - count))
        *guess -= each * (b->aim - count);
    else
        *guess = SS_LEAST_MAGNITUDE;
}

static void guess_below(struct buckets *b, ss_magnitude kth)
{
    const ss_magnitude below = octave(b) / 8;

    if (b->aim <= ROOM)
        b->pass.threshold = kth > below ? kth - below : SS_LEAST_MAGNITUDE;
}

#define WIDTH 32
#include "core/select/claim.inc"
#define WIDTH 64
#include "core/select/claim.inc"

static void run_pass(const struct buckets *b, struct ss_pass *pass, const char *g, char *r)
{
    pass->out.claimed = 0;
    pass->out.over = 0;
    b->selectors->bucket_parts->pass(b->type, pass, g, r);
}

/* Searches the residual, which holds the sums now, with lower thresholds, after fewer than k
 * entries reached the guess. Returns the number of entries that reach *threshold. */
static size_t collect_more(const struct buckets *b, const struct range *bucket,
                           ss_magnitude *threshold)
{
    const ss_magnitude less = octave(b) / 2;
    struct ss_pass pass = b->pass;

    pass.threshold = pass.threshold > less ? pass.threshold - less : SS_LEAST_MAGNITUDE;
    run_pass(b, &pass, bucket->r ? NULL : bucket->g, bucket->r);
    if (pass.out.claimed < b->k && pass.threshold > SS_LEAST_MAGNITUDE) {
        pass.threshold = SS_LEAST_MAGNITUDE;
        run_pass(b, &pass, bucket->r ? NULL : bucket->g, bucket->r);
    }
    *threshold = pass.threshold;
    return pass.out.claimed + pass.out.over;
}

/* Returns the least number of elements that hold `ties` entries of this magnitude. */
static size_t end_of_ties(const struct buckets *b, const struct range *bucket,
                          ss_magnitude magnitude, size_t ties)
{
    size_t low = 0, high = bucket->n; /* the answer is in (low, high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        size_t found = b->selectors->gather(b->type, bucket->g, bucket->r, middle, magnitude,
                                            magnitude, NULL, 0);
        if (found >= ties)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Finds the threshold in passes over the bucket, after more entries were collected than there is
 * room for. */
static size_t search(struct buckets *b, const struct range *bucket)
{
    const size_t size = ss_type_size(b->type);
    struct range whole = *bucket;
    struct ss_exact exact;
    struct ss_selection first, others;

    if (whole.r)
        whole.g = NULL; /* since the first pass r holds the sum of both */
    ss_exact_threshold(b->selectors, b->type, whole.g, whole.r, whole.n, b->k, &exact);
    guess_below(b, exact.threshold);
    size_t n = whole.n;
    if (exact.count > b->k)
        n = end_of_ties(b, &whole, exact.threshold, b->k - exact.above);
    b->selectors->select(b->type, whole.g, whole.r, n, whole.base, exact.threshold, whole.idx,
                         whole.val, b->k, &first);
    const char *g = whole.g ? whole.g + n * size : NULL;
    char *r = whole.r ? whole.r + n * size : NULL;
    b->selectors->select(b->type, g, r, whole.n - n, whole.base + (uint32_t)n, exact.threshold + 1,
                         whole.idx + first.claimed, whole.val + first.claimed * size,
                         b->k - first.claimed, &others);
    return first.claimed + others.claimed;
}

/* Returns the k-th largest of `count` > k collected entries, which all reach `low`. The kth of the
 * table makes as many passes as a magnitude has bits if many are alike: too many for a double. */
static ss_magnitude kth_of(struct buckets *b, size_t count, ss_magnitude low, size_t *ties)
{
    ss_magnitude list[ROOM], kth;

    if (b->type == SS_F32 || count <= FEW * b->aim)
        return b->selectors->bucket_parts->kth(b->type, b->val, count, b->k, low, ties);
    for (size_t j = 0; j < count; j++)
        list[j] = ss_magnitude_at(b->type, b->val, j);
    kth = ss_kth_largest(list, count, b->k);
    *ties = b->k;
    for (size_t j = 0; j < b->k; j++) /* the larger ones are in front now */
        *ties -= list[j] > kth;
    return kth;
}

/* Returns the number of entries claimed from the bucket. */
static size_t select_bucket(struct buckets *b, const struct range *bucket)
{
    struct ss_pass *pass = &b->pass;
    const size_t not_finite = pass->out.not_finite;
    ss_magnitude least = pass->threshold;
    size_t ties = b->k;

    pass->n = pass->out.stop = bucket->n;
    pass->base = bucket->base;
    run_pass(b, pass, bucket->g, bucket->r);
    if (pass->out.not_finite > not_finite)
        return 0;
    size_t count = pass->out.claimed + pass->out.over;
    const bool guessed = count >= b->k || least == SS_LEAST_MAGNITUDE;
    if (!guessed && b->aim <= ROOM)
        count = collect_more(b, bucket, &least);
    if (count > ROOM || b->aim > ROOM)
        return search(b, bucket);
    if (guessed)
        follow(b, count);
    if (count > b->k)
        least = kth_of(b, count, least, &ties);
    if (!guessed || count > FEW * b->aim)
        guess_below(b, least);
    count = count < b->k ? count : b->k;
    if (b->type == SS_F32)
        claim_32(b, bucket, count, (ss_bits32)least, ties);
    else
        claim_64(b, bucket, count, least, ties);
    return count;
}

void ss_select_buckets(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                       void *r, size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                       void *val, struct ss_selection *out)
{
    const size_t size = ss_type_size(type);
    struct buckets b; /* large: its lists are not cleared */
    struct range part = {.g = g, .r = r, .base = base, .idx = idx, .val = val};
    size_t claimed = 0, stop = 0;

    b.selectors = selectors;
    b.type = type;
    b.k = k;
    b.aim = aim_of(k);
    b.pass = (struct ss_pass){.capacity = ROOM,
                              .threshold = ss_magnitude_none(type),
                              .leave = ss_magnitude_none(type),
                              .idx = b.idx,
                              .val = b.val};
    while (stop < n) {
        part.n = n - stop < bucket ? n - stop : bucket;
        size_t found = select_bucket(&b, &part);
        claimed += found;
        stop += b.pass.out.stop;
        if (b.pass.out.stop < part.n)
            break;
        part.g += part.g ? part.n * size : 0;
        part.r += part.r ? part.n * size : 0;
        part.base += (uint32_t)part.n;
        part.idx += found;
        part.val += found * size;
    }
    if (stop < n) { /* the pass stopped at a sum that overflows: counts the elements behind it */
        size_t at = stop - b.pass.out.stop + part.n;
        b.pass.out.not_finite +=
            ss_vector_not_finite(type, part.g + part.n * size, part.r + part.n * size, n - at);
    }
    ss_pass_end(&b.pass, out);
    out->claimed = claimed;
    out->over = 0;
    out->stop = stop;
}
