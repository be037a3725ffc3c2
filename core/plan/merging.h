/* Which calls of a step go together: selected and exchanged as one, or by groups of neighbours in
 * order of arrival (merged gradient sparsification, Shi et al., "Communication-Efficient
 * Distributed Deep Learning with Merged Gradient Sparsification on GPUs", INFOCOM 2020: OMGS-SGD).
 * Pure: plans of equal input are equal, on every rank. The paper numbers layers against their
 * arrival, its L is our first call; its tau_b of the first call is the step's begin, so that the
 * forward pass lies before the first arrival. */
#ifndef CORE_PLAN_MERGING_H
#define CORE_PLAN_MERGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is refused: more calls in a step, more exchanges at once. */
#define SS_MERGING_CALLS  4096
#define SS_MERGING_FLIGHT 64

/* Ways to group the calls up to one of them that are kept at most. */
#define SS_MERGING_FRONT 64

struct ss_merging_call {
    uint64_t elements; /* to select from: the paper's d */
    uint64_t entries;  /* that a rank selects and sends, at most as many: rho d */
    double arrival;    /* seconds from the step's begin, less the selections before it; never before
                          the call that precedes */
};

/* Seconds that selecting in a group and exchanging what was selected take. The paper has
 * select_sort alone (eq. 10, gamma rho d log d), which makes a group dearer than its parts. */
struct ss_merging_costs {
    double select_call;    /* per call */
    double select_group;   /* per group */
    double select_element; /* per element */
    double select_sort;    /* per n log2 n of a group of n elements */
    double exchange;       /* per exchange: alpha of eq. 11 */
    double entry;          /* per entry that a rank sends: beta of eq. 11 times its bytes */
    unsigned flight;       /* exchanges at once; 1: one after the other, as in eq. 8 */
};

/* Exchange and entry of an allgather by recursive doubling, as the paper's (eq. 11 and its source,
 * Thakur et al. 2005): log2 P messages, rounded up, and P - 1 ranks' entries. alpha is in seconds
 * per message, beta in seconds per byte. */
void ss_merging_allgather(struct ss_merging_costs *costs, int size, double alpha, double beta,
                          double bytes_per_entry);

struct ss_merging_step {
    const struct ss_merging_call *calls;
    uint32_t count;
    struct ss_merging_costs costs;
};

/* What a grouping is predicted to take, in seconds. */
struct ss_merging_times {
    double end;           /* of the step: eq. 17 */
    double computation;   /* end of computation and selection */
    double communication; /* in which at least one exchange runs */
    double exposed;       /* of that, after the computation: eq. 9 */
    double hidden;        /* the rest */
};

enum ss_merging_policy {
    SS_MERGING_OPTIMAL,    /* the earliest end of all groupings */
    SS_MERGING_ALGORITHM1, /* the paper's */
    SS_MERGING_SINGLE,     /* one group: the paper's TopK-SGD */
    SS_MERGING_THRESHOLD,  /* groups grow until they have so many elements: MGS-SGD */
    SS_MERGING_CALLWISE,   /* each call alone: LAGS-SGD */
    SS_MERGING_POLICIES
};

struct ss_merging_plan {
    uint32_t *ends; /* the caller's, room for one per call: one past the last call of each group */
    uint32_t groups;
    struct ss_merging_times times;
    /* SS_MERGING_OPTIMAL: no grouping ends before `bound`; `exact`: but for rounding, this one ends
     * there. Always so with one exchange at a time and select_group and select_sort zero. Else not
     * where more ways to a call are each better than the others in something than are kept, which
     * are SS_MERGING_FRONT, fewer in steps of many calls. 0 and false with other policies. */
    double bound;
    bool exact;
};

/* What is wrong with an input; the plan is left alone. */
enum ss_merging_status {
    SS_MERGING_OK,
    SS_MERGING_TOO_MANY_CALLS, /* above SS_MERGING_CALLS */
    SS_MERGING_BAD_ARRIVAL,    /* negative, not finite, or before the call that precedes */
    SS_MERGING_BAD_ENTRIES,    /* more than elements */
    SS_MERGING_BAD_COST,       /* negative or not finite, or of so many elements */
    SS_MERGING_BAD_FLIGHT,     /* 0 or above SS_MERGING_FLIGHT */
    SS_MERGING_BAD_GROUPS      /* ends that do not rise to the number of calls */
};
const char *ss_merging_status_text(enum ss_merging_status status);

/* Bytes of work space for so many calls, 2.4 kB each; aligned as for a double. */
size_t ss_merging_work_size(uint32_t calls);

/* Fills plan (all but the pointer); threshold in elements, for SS_MERGING_THRESHOLD. A step of no
 * calls has no groups and ends at 0. */
enum ss_merging_status ss_merging_make(const struct ss_merging_step *step,
                                       enum ss_merging_policy policy, uint64_t threshold,
                                       void *work, struct ss_merging_plan *plan);

/* The times of a given grouping: eq. 5 to 9, and with several exchanges at once what they become
 * (merging.c). */
enum ss_merging_status ss_merging_evaluate(const struct ss_merging_step *step, const uint32_t *ends,
                                           uint32_t groups, struct ss_merging_times *times);

#endif
