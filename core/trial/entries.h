/* The inputs of a trial: entries that are drawn in order of their indices, so that no dense vector
 * is needed. Everything is a function of seed, call and rank.
 *
 * k = density * n entries of each rank, at least one: `overlap` of them at places that all ranks
 * have in common, the rest at places of its own, drawn evenly from all subsets (where the two meet,
 * the rank has one entry less). Values are whole numbers from 1 to SS_ENTRY_MOST, so that sums over
 * SS_TRIAL_RANKS ranks are the same bits in any order. */
#ifndef CORE_TRIAL_ENTRIES_H
#define CORE_TRIAL_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SS_TRIAL_RANKS = 4096, SS_ENTRY_MOST = 4096 };

struct ss_entries {
    uint64_t n; /* elements, up to 2^32 */
    double density, overlap;
    uint64_t seed;
};

/* The nearest whole number to density * n, 1 to n. */
uint64_t ss_entries_each(const struct ss_entries *e);
/* Elements that are expected not to be zero in the sum over so many ranks. */
double ss_entries_union(const struct ss_entries *e, int ranks);

/* An ascending subset: every place is drawn alone, a few more than are wanted in all, and of these
 * the wanted ones are picked (selection sampling; Knuth, TAOCP 2, section 3.4.2, algorithm S). */
struct ss_places {
    uint64_t n, key;
    double log_absent;      /* of the share of all places that are not drawn */
    uint64_t draws, at;     /* so far; where the next one begins */
    uint64_t drawn, wanted; /* still to come */
    uint64_t place;         /* the next one that is picked; n: there is none */
};

struct ss_entries_cursor {
    uint64_t key;
    struct ss_places common, own;
};

void ss_entries_start(struct ss_entries_cursor *c, const struct ss_entries *e, uint64_t call,
                      int rank);
/* The next entry; false when there is none left. */
bool ss_entries_next(struct ss_entries_cursor *c, uint32_t *idx, float *val);

#endif
