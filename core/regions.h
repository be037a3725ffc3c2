/* Regions of the index space that oktopk's ranks reduce, with about equal numbers of selected
 * entries (Ok-Topk, PPoPP'22, section 3.1.1), and the state of a tensor that all ranks share. */
#ifndef CORE_REGIONS_H
#define CORE_REGIONS_H

#include "core/mem.h"
#include "core/threshold.h"

/* How the boundaries are found. Quantiles of the merged histogram; averages of each rank's own
 * quantiles, as in the paper (section 3.1.1), which fail when the ranks' distributions differ;
 * equal: N/P elements each. */
enum ss_partition { SS_PARTITION_QUANTILE, SS_PARTITION_AVERAGE, SS_PARTITION_EQUAL };

/* Agreed per-tensor state: equal on all ranks, which the vote confirms by ss_agreed_hash before it
 * is used (design section 5). */
struct ss_agreed {
    struct ss_buf bounds;    /* uint32_t[P + 1], ascending, bounds[0] = 0, bounds[P] = n; region p
                                is [bounds[p], bounds[p + 1]). data NULL = none yet */
    uint64_t calls;          /* oktopk calls of the tensor since registration */
    uint64_t partition_call; /* `calls` when the bounds were found */
    struct ss_threshold global; /* of the reduced entries */
};

/* Of everything in it that a decision depends on; never 0. */
uint64_t ss_agreed_hash(const struct ss_agreed *agreed, int size);

#endif
