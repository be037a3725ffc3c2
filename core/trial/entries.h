/* The inputs of a trial: entries drawn in order of their indices, so that no dense vector is
 * needed. Everything is a function of seed, call and rank.
 *
 * Each rank has k = density * n entries, at least one. A share `overlap` of them is at indices that
 * all ranks have in common, the others at indices of its own, drawn evenly from all subsets. If two
 * indices coincide, the rank has one entry less. Values are whole numbers from 1 to SS_ENTRY_MOST,
 * so that sums over SS_TRIAL_RANKS ranks have the same bits in any order.
 *
 * Each rank has about k entries in the skewed supports of enum ss_support, too.
 */
#ifndef CORE_TRIAL_ENTRIES_H
#define CORE_TRIAL_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SS_TRIAL_RANKS = 4096, SS_ENTRY_MOST = 4096 };

enum ss_support {
    SS_SUPPORT_UNIFORM,
    /* frequencies of words: element i is an entry with probability m / (m + i) on each rank */
    SS_SUPPORT_ZIPF,
    SS_SUPPORT_OWN,       /* a block of its own for each rank, one behind the other */
    SS_SUPPORT_SCATTERED, /* each element is an entry of one of 1 / density ranks */
    SS_SUPPORT_CLUSTERED, /* SS_RUNS runs of consecutive elements in the first quarter */
    SS_SUPPORTS
};
enum { SS_RUNS = 4 };
/* Returns the name of a support: "uniform", "zipf", ... */
const char *ss_support_name(enum ss_support support);

struct ss_entries {
    uint64_t n; /* elements, up to 2^32 */
    double density, overlap;
    uint64_t seed;
    enum ss_support support; /* `overlap` counts for SS_SUPPORT_UNIFORM alone */
};

/* Returns k: the nearest whole number to density * n, 1 to n. */
uint64_t ss_entries_each(const struct ss_entries *e);
/* Returns the expected number of non-zero elements in the sum over `ranks` ranks. */
double ss_entries_union(const struct ss_entries *e, int ranks);

/* An ascending random subset. Each index is drawn independently, a few more than wanted in all, and
 * the wanted ones are picked among them (selection sampling; Knuth, TAOCP 2, section 3.4.2,
 * algorithm S). */
struct ss_draw {
    uint64_t n, key;
    double log_absent;      /* logarithm of the share of indices that are not drawn */
    uint64_t draws, at;     /* number of draws; beginning of the next draw */
    uint64_t drawn, wanted; /* number of indices still to come */
    uint64_t index;         /* next index that is picked; n: none */
};

struct ss_entries_cursor {
    uint64_t key;
    struct ss_draw common, own; /* of SS_SUPPORT_UNIFORM */
    /* of the other supports */
    enum ss_support support;
    uint64_t n, at; /* elements; next element */
    uint64_t lo[SS_RUNS], length;
    uint64_t all, ranks, rank; /* SCATTERED: key of all ranks, and who has the element */
    double m;                  /* ZIPF */
};

void ss_entries_start(struct ss_entries_cursor *c, const struct ss_entries *e, uint64_t call,
                      int rank);
/* Sets *idx and *val to the next entry. Returns false if none is left. */
bool ss_entries_next(struct ss_entries_cursor *c, uint32_t *idx, float *val);

/* Sums up a vector for comparisons: vectors with the same non-zero elements have the same digest.
 */
struct ss_digest {
    uint64_t sum; /* of the hashes of index and bits */
    uint64_t nnz;
};
void ss_digest_add(struct ss_digest *d, uint64_t idx, float val);

#endif
