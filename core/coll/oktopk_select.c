/* Finds the global set of oktopk (Ok-Topk, PPoPP'22, Algorithm 1, lines 9 to 12): the reduced
 * entries at or above a threshold that all ranks know, about k in number. */
#include <string.h>

#include "core/coll/oktopk_impl.h"

enum { SEARCH, COUNT, SHARES };

static struct ss_threshold *global_of(const struct ss_coll *c)
{
    return &c->agreed->global;
}

/* ---- the reduced part ---- */

/* Returns the entries that the stream of an earlier call had room for; a part that was full is
 * likely to be full again. */
static uint64_t room_kept(const struct ss_coll *c)
{
    size_t idx = c->x.work->idx[0].size / sizeof(uint32_t),
           val = c->x.work->val[0].size / c->x.esize;
    size_t entries = idx < val ? idx : val;

    return entries > 0 ? entries - 1 : 0; /* one entry more than asked for is reserved */
}

/* Starts extracting the part's entries. Some parts hold more entries than the mean. The first
 * attempt therefore has room for a usual part, or the earlier call's, and the second attempt for
 * all. */
static void start_compact(struct ss_coll *c, uint64_t room)
{
    uint64_t lo = ss_coll_part(c, c->x.t->rank), hi = ss_coll_part(c, c->x.t->rank + 1);
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    uint64_t most = c->voted.nnz_sum < hi - lo ? c->voted.nnz_sum : hi - lo;

    if (c->x.failed == 0 &&
        ss_stream_reserve(&c->x, &s->reduced, 0, room < most ? room : most) != SS_OK)
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
    ss_compact_start(c, &s->compact, &s->reduced);
}

void ss_oktopk_compact_start(struct ss_coll *c)
{
    uint64_t room = 2 * c->voted.nnz_max, kept = room_kept(c);

    ss_oktopk_of(c)->compacted = false;
    start_compact(c, room > kept ? room : kept);
}

int ss_oktopk_compact_step(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);

    for (;;) {
        if (!ss_compact_step(c, &s->compact, &s->reduced))
            return SS_PENDING;
        if (s->compact.seen.stored == s->compact.seen.nnz || c->x.failed < 0)
            return SS_OK;
        if (s->compacted) { /* more than the vote announced */
            ss_fail(&c->x, SS_ERR_MESSAGE, c->x.t->rank, SS_PHASE_REDUCE);
            s->reduced.nnz = 0;
            return SS_OK;
        }
        s->compacted = true;
        start_compact(c, s->compact.seen.nnz);
    }
}

/* ---- the global threshold (Algorithm 1, lines 9 to 12) ---- */

static const ss_magnitude DIGIT = 255;

static void start_digit(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    const struct ss_radix *x = &s->radix;
    size_t words = x->last ? 1 : DIGIT + 1;

    if (c->x.failed == 0)
        memset(s->words, 0, words * sizeof *s->words);
    for (size_t i = 0; c->x.failed == 0 && i < s->reduced.nnz; i++) {
        ss_magnitude m = ss_magnitude_at(c->x.type, s->reduced.val, i);
        if (x->last) { /* the least magnitude, as the largest complement */
            if (m >= x->prefix << x->shift && s->words[0] < ~m)
                s->words[0] = ~m;
        } else if (x->shift + 8 == 8 * c->x.esize || m >> (x->shift + 8) == x->prefix) {
            s->words[m >> x->shift & DIGIT]++;
        }
    }
    ss_word_exchange_start(&c->x, &s->exchange, s->words, x->last ? 0 : words, x->last, 0);
}

static void start_search(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);

    s->selecting = SEARCH;
    s->exact = true;
    s->radix = (struct ss_radix){.shift = 8 * (unsigned)c->x.esize - 8};
    start_digit(c);
}

static void found(struct ss_coll *c, ss_magnitude magnitude)
{
    struct ss_threshold *t = global_of(c);

    ss_threshold_found(t, (size_t)c->voted.k_max, magnitude);
    t->exact_calls++;
}

/* Takes the counts of all ranks. Returns false if the threshold is found. If there are fewer than k
 * entries in all, the threshold is SS_LEAST_MAGNITUDE. */
static bool next_digit(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    struct ss_radix *x = &s->radix;
    uint64_t k = c->voted.k_max;
    size_t digit = DIGIT;

    if (x->last) {
        found(c, ~s->words[0]);
        return false;
    }
    while (x->above + s->words[digit] < k) {
        x->above += s->words[digit];
        if (digit-- == 0) {
            found(c, SS_LEAST_MAGNITUDE);
            return false;
        }
    }
    x->prefix = x->prefix << 8 | digit;
    if (x->shift == 0) {
        found(c, x->prefix);
        return false;
    }
    if (x->above + s->words[digit] == k)
        x->last = true;
    else
        x->shift -= 8;
    start_digit(c);
    return true;
}

/* ---- who has how many ---- */

/* Thresholds tried around the one kept from an earlier call, 128 to the octave, so that it follows
 * the sums of this call. One word exchange, which is needed anyway, counts the entries for all of
 * them, and the threshold whose count is closest to k is taken. The largest number of entries of
 * one rank is agreed on for every fourth threshold only. */
enum { RUNGS = 64, RUNGS_PER_SHARE = 4 };

/* Returns the number of thresholds tried: 1 if the threshold is exact, or if all entries reach
 * it. */
static size_t rungs(const struct ss_coll *c)
{
    return ss_oktopk_of(c)->exact || global_of(c)->magnitude == SS_LEAST_MAGNITUDE ? 1 : RUNGS;
}

static unsigned rung_shift(const struct ss_coll *c)
{
    return ss_mantissa_bits(c->x.type) - 7;
}

/* Returns threshold `rung`; the kept one is in the middle. The value is less than
 * SS_LEAST_MAGNITUDE if all entries reach it. Magnitudes have at most 63 bits. */
static int64_t rung_at(const struct ss_coll *c, size_t rung)
{
    return (int64_t)global_of(c)->magnitude +
           ((int64_t)rung - (int64_t)rungs(c) / 2) * ((int64_t)1 << rung_shift(c));
}

static ss_magnitude magnitude_at(int64_t magnitude)
{
    return magnitude > SS_LEAST_MAGNITUDE ? (ss_magnitude)magnitude : SS_LEAST_MAGNITUDE;
}

static uint64_t off_by(uint64_t count, uint64_t k)
{
    return count > k ? count - k : k - count;
}

/* Counts the entries between each threshold and the next one, behind the last one all. */
static void count_rungs(const struct ss_coll *c, uint64_t *counts)
{
    const struct ss_stream *r = &ss_oktopk_of(c)->reduced;
    const int64_t low = rung_at(c, 0), highest = (int64_t)rungs(c) - 1;
    const unsigned shift = rung_shift(c);

    for (size_t i = 0; i < r->nnz; i++) {
        int64_t over = (int64_t)ss_magnitude_at(c->x.type, r->val, i) - low;
        if (over >= 0)
            counts[over >> shift < highest ? over >> shift : highest]++;
    }
}

/* Turns counts of entries between thresholds into counts of those at or above each. */
static void accumulate(uint64_t *counts, size_t number)
{
    for (size_t rung = number - 1; rung > 0; rung--)
        counts[rung - 1] += counts[rung];
}

/* The sums are counts between thresholds, which are small and thus short. */
static void start_count(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    const size_t sums = rungs(c), maxima = (sums + RUNGS_PER_SHARE - 1) / RUNGS_PER_SHARE;
    uint64_t reached[RUNGS] = {0};

    s->selecting = COUNT;
    if (c->x.failed == 0) {
        count_rungs(c, reached);
        memcpy(s->words, reached, sums * sizeof *s->words);
        accumulate(reached, sums);
        for (size_t i = 0; i < maxima; i++)
            s->words[sums + i] = reached[i * RUNGS_PER_SHARE];
    }
    ss_word_exchange_start(&c->x, &s->exchange, s->words, sums, maxima, 0);
}

/* Chooses the threshold by the counts of all ranks: the one whose count is nearest to k, among
 * equals the kept one. If that count is off by more than k/8, too many entries lie close together.
 * The choice is then the highest threshold that enough entries reach, and `cut` is set: of the
 * entries below the next threshold, only as many as k leaves room for are taken. With an exact
 * threshold these are ties. Sets *largest to the largest share of a rank at the threshold or a
 * little below. */
static void choose_rung(struct ss_coll *c, uint64_t *largest)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    struct ss_threshold *t = global_of(c);
    const uint64_t k = t->k;
    const size_t count = rungs(c);
    size_t best = count / 2, enough = count;

    accumulate(s->words, count);
    s->total = s->words[best];
    for (size_t rung = 0; rung < count; rung++) {
        uint64_t n = s->words[rung];
        if (off_by(n, k) < off_by(s->total, k)) {
            best = rung;
            s->total = n;
        }
        if (n >= k)
            enough = rung;
    }
    s->cut = enough < count && (enough + 1 < count || s->exact) && off_by(s->total, k) > k / 8;
    if (s->cut)
        best = enough;
    s->total = s->words[best];
    *largest = s->words[count + best / RUNGS_PER_SHARE];
    if (count == 1) {
        s->above = t->magnitude + 1;
        return;
    }
    s->above = magnitude_at(rung_at(c, best + 1));
    t->magnitude = magnitude_at(rung_at(c, best));
}

/* Starts the word exchange on the ranks' shares. words[p] counts the entries of rank p at or above
 * s->above, words[size + p] its entries that may be cut. */
static void start_shares(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    ss_magnitude threshold = global_of(c)->magnitude;
    int rank = c->x.t->rank, size = c->x.t->size;

    s->selecting = SHARES;
    if (c->x.failed == 0)
        memset(s->words, 0, 2 * (size_t)size * sizeof *s->words);
    for (size_t i = 0; c->x.failed == 0 && i < s->reduced.nnz; i++) {
        ss_magnitude m = ss_magnitude_at(c->x.type, s->reduced.val, i);
        s->words[m >= s->above ? rank : size + rank] += m >= threshold;
    }
    ss_word_exchange_start(&c->x, &s->exchange, s->words, 2 * (size_t)size, 0, 0);
}

/* Keeps, of the entries that may be cut, those with the lowest indices. Sets words[p] to the
 * entries of rank p in the set. */
static void cut_last(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    int size = c->x.t->size;
    uint64_t k = c->voted.k_max, above = 0, room = UINT64_MAX;

    for (int p = 0; p < size; p++)
        above += s->words[p];
    if (s->cut)
        room = k > above ? k - above : 0;
    s->total = above;
    for (int p = 0; p < size; p++) {
        uint64_t last = s->words[size + p] < room ? s->words[size + p] : room;
        room -= last;
        s->words[p] += last;
        s->total += last;
        if (p == c->x.t->rank)
            s->spared = last;
    }
}

static void clear_entries(struct ss_coll *c, const uint32_t *idx, size_t count)
{
    if (count > 0)
        c->x.backend->ops->clear_at(c->x.backend, c->x.type, c->out, 0, idx, count);
}

/* Clears the reduced entries that are not in the global set from the result. */
static void select_global(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    struct ss_stream *r = &s->reduced;
    ss_magnitude threshold = global_of(c)->magnitude;
    uint32_t gone[1024];
    uint64_t last = 0;
    size_t kept = 0, cleared = 0;

    for (size_t i = 0; i < r->nnz; i++) {
        ss_magnitude m = ss_magnitude_at(c->x.type, r->val, i);
        if (m < threshold || (m < s->above && last++ >= s->spared)) {
            gone[cleared++] = r->idx[i];
            if (cleared == sizeof gone / sizeof gone[0]) {
                clear_entries(c, gone, cleared);
                cleared = 0;
            }
            continue;
        }
        r->idx[kept] = r->idx[i];
        memcpy(ss_at(r->val, kept, c->x.esize), ss_at(r->val, i, c->x.esize), c->x.esize);
        kept++;
    }
    clear_entries(c, gone, cleared);
    r->nnz = kept;
    s->share = *r;
}

/* ---- one word exchange to the next ---- */

void ss_oktopk_select_start(struct ss_coll *c)
{
    struct ss_threshold *t = global_of(c);
    bool due = ss_threshold_due(t, (size_t)c->voted.k_max);

    t->calls++;
    if (due)
        start_search(c);
    else
        start_count(c);
}

/* Goes on after the count. Returns true if another word exchange follows. */
static bool leave_count(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    struct ss_threshold *t = global_of(c);
    uint64_t largest;

    s->spared = UINT64_MAX;
    choose_rung(c, &largest);
    enum ss_fit fit = ss_threshold_judge(t, (size_t)s->total);
    if (fit == SS_FIT_MANY && !s->cut) {
        start_search(c);
        return true;
    }
    s->all = t->magnitude == SS_LEAST_MAGNITUDE && !s->cut;
    if (fit == SS_FIT_FEW && !s->all)
        ss_threshold_reevaluate(t);
    if (s->cut || ss_oktopk_uneven(c, largest)) {
        start_shares(c);
        return true;
    }
    s->uneven = false;
    select_global(c);
    return false;
}

static void leave_shares(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    uint64_t largest = 0;

    cut_last(c);
    select_global(c);
    for (int p = 0; p < c->x.t->size; p++)
        if (largest < s->words[p])
            largest = s->words[p];
    s->uneven = ss_oktopk_uneven(c, largest);
}

bool ss_oktopk_select_next(struct ss_coll *c)
{
    switch (ss_oktopk_of(c)->selecting) {
    case SEARCH:
        if (!next_digit(c))
            start_count(c);
        return true;
    case COUNT:
        return leave_count(c);
    default:
        leave_shares(c);
        return false;
    }
}
