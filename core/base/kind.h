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

/* Bytes sent by a rank: all, and those of them to ranks of the same host. */
struct ss_sent {
    uint64_t all, inside;
};

/* A rank's position among the ranks of a collective. */
struct ss_sender {
    int size, hosts, local; /* ranks, hosts, ranks of its host */
    /* of `slices` equal slices of the data that its host exchanges with other hosts, it exchanges
     * `own` */
    int own, slices;
    bool root, near_root; /* root of a reduce; a rank of the root's host */
};

/* Returns the bytes that a rank sends if the MPI library moves `bytes` bytes (all parts together)
 * at the bandwidth limit of Chan et al. 2007: all parts but one, twice for an allreduce and once
 * for an allgather or a reduce_scatter. A reduce is a reduce_scatter, after which each rank sends
 * its part to the root. The parts are those of the ranks of a host, then those of the hosts: each
 * host sends to other hosts what a single rank on it would send. */
struct ss_sent ss_kind_dense_bytes(enum ss_kind kind, const struct ss_sender *rank, uint64_t bytes);

#endif
