/* The threshold of top-k: found exactly by radix select, then reused under two controls (Ok-Topk,
 * PPoPP'22, section 3.1.3), and a third one: it moves with the batch, whose
 * gradient may be half or twice the last one's throughout, by what a sample of the elements says.
 * g, r, a, NULL and n are those of core/compute/select.h.
 */
#ifndef CORE_SELECT_THRESHOLD_H
#define CORE_SELECT_THRESHOLD_H

#include "core/compute/select.h"

/* Where the k-th largest is. */
struct ss_exact {
    ss_magnitude threshold; /* |a| of the k-th largest */
    size_t above;           /* entries with a larger |a|: less than k */
    size_t count;           /* entries at or above it: k or more, more only by ties */
    bool all_zero;          /* no finite a but zeros: threshold is SS_LEAST_MAGNITUDE, count 0 */
};

/* The threshold with the fewest entries at or above it that are still at least k, by radix select
 * over the finite |a| in passes that only read. With fewer than k non-zeros it is
 * SS_LEAST_MAGNITUDE, which takes them all; with k = 0, ss_magnitude_none. On constant input all
 * are ties and `count` is n: the capacity of the select that follows cuts at the lowest indices. */
void ss_exact_threshold(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                        const void *r, size_t n, size_t k, struct ss_exact *out);

/* Threshold of one tensor (or one window of it) between calls. Zero-initialise, set period. */
struct ss_threshold {
    size_t period;          /* THRESHOLD_PERIOD: calls of the tensor, 1 or more */
    uint64_t calls;         /* selections since registration */
    uint64_t exact_calls;   /* of them, those that found the threshold anew */
    ss_magnitude magnitude; /* 0: none yet */
    size_t k;               /* what it was found for */
    size_t sampled;         /* entries of a sample that reached it then; 0: it is not to follow */
    size_t claimed;         /* entries that reached it in the last pass */
    bool reevaluate;        /* the vote asked for it: cleared by the next selection */
};

enum ss_fit {
    SS_FIT_GOOD,
    SS_FIT_MANY, /* count > 4k/3: select again, now */
    SS_FIT_FEW   /* count < k/2: evaluate again at the next call, if the vote agrees */
};

/* Entries a selection of k claims at most, what idx and val must hold: floor(4k/3). */
size_t ss_claim_limit(size_t k);

/* The next selection must find its threshold first: the period is over, the vote asked, k has
 * changed, or there is none yet. The pieces below make one selection: due, then found or not, then
 * judge; struct ss_selecting puts them together. oktopk's global threshold uses them alone, and
 * moves by counts of its own. */
bool ss_threshold_due(const struct ss_threshold *t, size_t k);
void ss_threshold_found(struct ss_threshold *t, size_t k, ss_magnitude magnitude);
enum ss_fit ss_threshold_judge(const struct ss_threshold *t, size_t count);

/* The vote asked for re-evaluation: all ranks call this for the tensor of the vote. */
void ss_threshold_reevaluate(struct ss_threshold *t);

/* The unit of the elements has changed: the threshold is multiplied. */
void ss_threshold_scale(struct ss_threshold *t, enum ss_type type, double factor);

/* One selection in steps, whoever makes the passes: `ask` is what it needs to know or to have done
 * next, and the function named there takes the answer. What is asked for is of g + r or, once
 * `alone` is set, of the residual alone, which then holds a everywhere. t->magnitude is the
 * threshold to count and to claim by; the sample has SS_FOLLOW_PIECE elements of each `step`. */
enum ss_ask {
    SS_ASK_NOTHING,      /* it is over */
    SS_ASK_FIND,         /* the k-th largest: ss_selecting_found */
    SS_ASK_FIND_SAMPLED, /* the `rank`-th largest of the sample: ss_selecting_found */
    SS_ASK_COUNT,        /* what of the sample reaches the threshold: ss_selecting_counted */
    SS_ASK_CLAIM,        /* ss_claim_limit(k) entries at most: ss_selecting_claimed */
    SS_ASK_PUT_BACK      /* these claims, into the residual: ss_selecting_put_back */
};

enum { SS_FOLLOW_PIECE = 64 };

struct ss_selecting {
    struct ss_threshold *t;
    size_t k;
    enum ss_ask ask;
    size_t rank, step;
    bool residual, alone; /* there is one; it holds a */
    bool due, again;      /* the threshold was found before the pass; this pass is the second */
    bool close, glances;  /* the last pass met about k; a part of the sample is counted first */
    bool few;             /* in the end: ask the vote for a new threshold */
    struct ss_selection first;
};

void ss_selecting_start(struct ss_selecting *s, struct ss_threshold *t, size_t k, bool residual);
void ss_selecting_found(struct ss_selecting *s, const struct ss_exact *found);
void ss_selecting_counted(struct ss_selecting *s, size_t count);
void ss_selecting_claimed(struct ss_selecting *s, struct ss_selection *out); /* completes `out` */
void ss_selecting_put_back(struct ss_selecting *s);

/* One selection of about k entries, 1 <= k <= n: a pass with the threshold kept, moved where
 * clearly more or less of a sample reaches it than did when it was found (a sample of about 512 / k
 * of all elements, at most a quarter; none where it would hold fewer than 64 of the k; a fifth of
 * it first, which settles most calls); or, when due, with the exact one. A pass that meets more
 * than 4k/3 entries puts its claims back (the residual then holds a everywhere) and is repeated
 * over the residual alone with the exact threshold, the conservation of claimed + residual = a
 * holding to the last bit. So is one that finds fewer than k/2 while the gradient is all zeros and
 * the residual is not. Nothing is repeated when something was not finite: the call is to be undone.
 * Counts of `out` are those of the last pass; the sums and zero_input those of the first. Returns
 * whether to ask the vote for re-evaluation (fewer than k/2, where a lower threshold could find
 * more). idx and val hold ss_claim_limit(k) entries. */
bool ss_threshold_select(struct ss_threshold *t, const struct ss_selectors *selectors,
                         enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                         size_t k, uint32_t *idx, void *val, struct ss_selection *out);

/* The same over the concatenation of `count` parts of n >= 1 elements each, 1 or more: one
 * threshold for all (Shi et al., INFOCOM 2020, section IV: merged sparsification). Claims of a part
 * are its own, up to its capacity, and ss_claim_limit(k) in all; parts with a residual have all
 * one. `seen` is as `out` above, of the part. */
struct ss_select_part {
    const void *g;
    void *r;
    size_t n;
    uint32_t base; /* of the indices */
    uint32_t *idx;
    void *val;
    size_t capacity; /* entries that idx and val hold */
    struct ss_selection seen;
};
bool ss_threshold_select_parts(struct ss_threshold *t, const struct ss_selectors *selectors,
                               enum ss_type type, struct ss_select_part *parts, size_t count,
                               size_t k);

/* k of n elements at `density` (0 < density <= 1): the nearest integer, 1..n. In the first `warmup`
 * steps the density comes down exponentially, density^((step + 1) / (warmup + 1)), step counted
 * from 0 (WARMUP_STEPS; Lin et al., Deep Gradient Compression, 2018, section 3.3). The same bits on
 * every host: no libm. n = 0 gives 0. */
size_t ss_warmup_k(size_t n, double density, uint64_t step, uint64_t warmup);

#endif
