/* Parts of the index space that oktopk's ranks reduce, with about equal numbers of selected
 * entries (Ok-Topk, PPoPP'22, section 3.1.1), and the state of a tensor that all ranks share. */
#ifndef CORE_TENSOR_PART_BOUNDS_H
#define CORE_TENSOR_PART_BOUNDS_H

#include "core/base/mem.h"
#include "core/select/threshold.h"

/* Agreed per-tensor state: equal on all ranks, which the vote confirms by ss_agreed_hash before it
 * is used. */
struct ss_agreed {
    struct ss_buf bounds;       /* uint32_t[P + 1], ascending, bounds[0] = 0, bounds[P] = n; part
                                   p is [bounds[p], bounds[p + 1]) */
    uint64_t calls;             /* oktopk calls of the tensor since registration */
    uint64_t partition_call;    /* `calls` when the bounds were found, 0 = there are none yet */
    struct ss_threshold global; /* of the reduced entries */
};

/* Returns a hash of all state that decisions depend on; never 0. */
uint64_t ss_agreed_hash(const struct ss_agreed *agreed, int size);

/* Resets the state; called when the vote has found that it differs between ranks. */
void ss_agreed_forget(struct ss_agreed *agreed);

/* The bin of one boundary: [lo, hi) holds `inside` of the merged entries, and `before` of them lie
 * below it. */
struct ss_cut {
    uint32_t lo, hi;
    uint64_t before, inside;
};

/* The search for the quantiles of P ranks' entries. A round cuts the index space into 16 P bins;
 * each rank counts its entries in them, and the counts are added over the ranks. The next round
 * cuts only the bins in which a boundary falls. The search ends when each such bin holds at most an
 * eighth of a mean part, or one element. A round divides a bin by at least 16, so that at most 8
 * rounds are needed. */
struct ss_cuts {
    int size;           /* ranks */
    uint64_t n;         /* elements */
    uint64_t total;     /* merged entries; before the first round, the most there can be */
    bool counted;       /* a round has counted `total` */
    struct ss_cut *cut; /* cut[j], 1 <= j < size, is boundary j; size + 1 of them, borrowed */
    bool packed;        /* total < 2^32: two counts to a word */
    size_t bins;        /* of the current round */
};

/* Returns the most words that the counts of one round take. */
size_t ss_cuts_words(int size);

/* `most` is 0 only if there are no entries. */
void ss_cuts_start(struct ss_cuts *cuts, int size, uint64_t n, uint64_t most, struct ss_cut *cut);
/* Writes this rank's counts for the next round and returns their number of words; 0 if no further
 * round is needed. Its entries are idx[0..nnz), ascending. Add the words over the ranks. */
size_t ss_cuts_count(struct ss_cuts *cuts, const uint32_t *idx, size_t nnz, uint64_t *words);
/* Narrows the bins by the counts that were added over the ranks. */
void ss_cuts_narrow(struct ss_cuts *cuts, const uint64_t *words);
/* Writes bounds[0..size]. Without entries the parts have equal width. */
void ss_cuts_bounds(const struct ss_cuts *cuts, uint32_t *bounds);

#endif
