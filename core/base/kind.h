/* The collectives that are served. */
#ifndef CORE_BASE_KIND_H
#define CORE_BASE_KIND_H

#include "core/base/types.h"

/* The order is that of the report. Reductions are those of enum ss_op; an allgather moves bits. */
enum ss_kind {
    SS_KIND_ALLREDUCE,
    SS_KIND_ALLGATHER,      /* a slice of each rank, dense, on all ranks */
    SS_KIND_REDUCE_SCATTER, /* of the sum, its own part on each rank */
    SS_KIND_REDUCE,         /* the sum on one rank */
    SS_KINDS
};

const char *ss_kind_name(enum ss_kind kind);

/* What the report calls the sparse way of a collective that has but one; SS_AUTO for the allreduce.
 */
enum ss_algorithm ss_kind_algorithm(enum ss_kind kind);

/* Bytes a rank sends where the MPI library moves `bytes` bytes, all parts together, at the limit of
 * the link: all but one part twice for an allreduce and once for its halves, allgather and
 * reduce_scatter (Chan et al. 2007). Reduce: reduce_scatter, then each rank's part to the root. */
uint64_t ss_kind_dense_bytes(enum ss_kind kind, int size, bool root, uint64_t bytes);

#endif
