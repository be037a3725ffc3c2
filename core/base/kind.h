/* The collectives that are served. */
#ifndef CORE_BASE_KIND_H
#define CORE_BASE_KIND_H

#include "core/base/types.h"

/* The kinds, in the order of the report. Reductions take the operators of enum ss_op; an allgather
 * moves bits. */
enum ss_kind {
    SS_KIND_ALLREDUCE,
    SS_KIND_ALLGATHER,      /* a dense slice of each rank, on all ranks */
    SS_KIND_REDUCE_SCATTER, /* each rank's own part of the sum */
    SS_KIND_REDUCE,         /* the sum on one rank */
    SS_KINDS
};

const char *ss_kind_name(enum ss_kind kind);

/* Returns the algorithm that the report names for the sparse form of a kind; SS_AUTO for the
 * allreduce, which has several. */
enum ss_algorithm ss_kind_algorithm(enum ss_kind kind);

/* Returns the bytes that a rank sends if the MPI library moves `bytes` bytes (all parts together)
 * at the bandwidth limit of Chan et al. 2007: all parts but one, twice for an allreduce and once
 * for an allgather or a reduce_scatter. A reduce is a reduce_scatter, after which each rank sends
 * its part to the root. */
uint64_t ss_kind_dense_bytes(enum ss_kind kind, int size, bool root, uint64_t bytes);

#endif
