/* The threshold of top-k. Radix select finds it exactly; later calls reuse it under two controls
 * (Ok-Topk, PPoPP'22, section 3.1.3). A third control lets it follow the batch, whose gradient may
 * be half or twice the last one's throughout: a sample of the elements shows by how much. g, r, a,
 * NULL and n are those of core/compute/select.h. */
#ifndef CORE_SELECT_THRESHOLD_H
#define CORE_SELECT_THRESHOLD_H

#include "core/compute/select.h"

/* Position of the k-th largest entry. */
struct ss_exact {
    ss_magnitude threshold; /* |a| of the k-th largest */
    size_t above;           /* entries with a larger |a|, fewer than k */
    size_t count;           /* entries at or above it: k, or more if there are ties */
    bool all_zero;          /* no finite a but zeros: threshold is SS_LEAST_MAGNITUDE, count 0 */
};

/* Finds the largest threshold that at least k finite |a| reach, by radix select in passes that only
 * read. If there are fewer than k non-zeros, the threshold is SS_LEAST_MAGNITUDE, which takes them
 * all. If k = 0, it is ss_magnitude_none. On constant input all entries are ties and `count` is n;
 * the capacity of the select that follows then cuts at the lowest indices. */
void ss_exact_threshold(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                        const void *r, size_t n, size_t k, struct ss_exact *out);

/* Threshold of a tensor (or of a window of it) between calls. Zero-initialise, then set
 * `period`. */
struct ss_threshold {
    size_t period;          /* calls between two exact searches, 1 or more */
    uint64_t calls;         /* selections since registration */
    uint64_t exact_calls;   /* selections that found the threshold anew */
    ss_magnitude magnitude; /* 0: none yet */
    size_t k;               /* k that it was found for */
    /* entries of the sample that reached it then; 0: the threshold does not follow the batch */
    size_t sampled;
    size_t claimed;  /* entries that reached it in the last pass */
    bool reevaluate; /* the vote asked for a new search; reset by the next selection */
};

enum ss_fit {
    SS_FIT_GOOD,
    SS_FIT_MANY, /* count > 4k/3: select again, now */
    SS_FIT_FEW   /* count < k/2: search again at the next call, if the vote agrees */
};

/* Returns the most entries that a selection of k claims, floor(4k/3). idx and val must hold
 * them. */
size_t ss_claim_limit(size_t k);

/* Returns true if the next selection must find its threshold first: the period is over, the vote
 * asked, k has changed, or there is none yet. A selection consists of due, found or not, and judge;
 * struct ss_selecting combines them. oktopk's global threshold uses these functions alone, and
 * moves by counts of its own. */
bool ss_threshold_due(const struct ss_threshold *t, size_t k);
void ss_threshold_found(struct ss_threshold *t, size_t k, ss_magnitude magnitude);
enum ss_fit ss_threshold_judge(const struct ss_threshold *t, size_t count);

/* Makes the next selection find its threshold anew. All ranks call this for the tensor of the
 * vote. */
void ss_threshold_reevaluate(struct ss_threshold *t);

/* Multiplies the threshold after the unit of the elements has changed. */
void ss_threshold_scale(struct ss_threshold *t, enum ss_type type, double factor);

/* A selection as a coroutine that leaves the passes to its caller. `ask` names the next pass, and
 * the function named there takes the answer. Passes read g + r; once `alone` is set they read the
 * residual alone, which then holds a everywhere. t->magnitude is the threshold to count and to
 * claim by. The sample has SS_FOLLOW_PIECE elements of each `step`. */
enum ss_ask {
    SS_ASK_NOTHING,      /* the selection is over */
    SS_ASK_FIND,         /* find the k-th largest: ss_selecting_found */
    SS_ASK_FIND_SAMPLED, /* find the `rank`-th largest of the sample: ss_selecting_found */
    /* count entries of the sample that reach the threshold: ss_selecting_counted */
    SS_ASK_COUNT,
    SS_ASK_CLAIM,   /* claim at most ss_claim_limit(k) entries: ss_selecting_claimed */
    SS_ASK_PUT_BACK /* add the claims to the residual again: ss_selecting_put_back */
};

enum { SS_FOLLOW_PIECE = 64 };

struct ss_selecting {
    struct ss_threshold *t;
    size_t k;
    enum ss_ask ask;
    size_t rank, step;
    bool residual, alone; /* there is a residual; it holds a */
    bool due, again;      /* the threshold was found before the pass; this pass is the second */
    /* the last pass met about k entries; a part of the sample is counted first */
    bool close, glances;
    bool few; /* at the end: the vote should ask for a new threshold */
    struct ss_selection first;
};

void ss_selecting_start(struct ss_selecting *s, struct ss_threshold *t, size_t k, bool residual);
void ss_selecting_found(struct ss_selecting *s, const struct ss_exact *found);
void ss_selecting_counted(struct ss_selecting *s, size_t count);
void ss_selecting_claimed(struct ss_selecting *s, struct ss_selection *out); /* completes `out` */
void ss_selecting_put_back(struct ss_selecting *s);

/* Selects about k entries, 1 <= k <= n; idx and val hold ss_claim_limit(k). Returns true if the
 * vote should ask for a new threshold: fewer than k/2 entries were found, and a lower threshold
 * could find more.
 *
 * - If a search is due, the pass claims with the exact threshold. Otherwise it claims with the kept
 *   one, moved if the number of sampled entries that reach it has clearly changed since it was
 *   found. The sample has about 512 / k of all elements, at most a quarter. There is no sample if
 *   it would hold fewer than 64 of the k entries. A fifth of the sample is counted first, which
 *   settles most calls.
 * - A pass that meets more than 4k/3 entries adds its claims to the residual again, which then
 *   holds a everywhere. A second pass claims from the residual alone with the exact threshold, so
 *   that claimed + residual = a holds to the last bit. The same happens if fewer than k/2 entries
 *   are found while the gradient is all zeros and the residual is not.
 * - If a value is not finite there is no second pass, since the call will be undone.
 *
 * Counts of `out` come from the last pass, the sums and zero_input from the first.
 */
bool ss_threshold_select(struct ss_threshold *t, const struct ss_selectors *selectors,
                         enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                         size_t k, uint32_t *idx, void *val, struct ss_selection *out);

/* Returns k for n elements at `density` (0 < density <= 1): the nearest integer, 1..n; 0 if n = 0.
 * In the first `warmup` steps the density falls exponentially, density^((step + 1) / (warmup + 1)),
 * step counted from 0 (WARMUP_STEPS; Lin et al., Deep Gradient Compression, 2018, section 3.3).
 * Without libm, so that all hosts get the same bits. */
size_t ss_warmup_k(size_t n, double density, uint64_t step, uint64_t warmup);

#endif
