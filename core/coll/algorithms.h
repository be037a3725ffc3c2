/* The algorithms: a definition each, written beside its step. */
#ifndef CORE_COLL_ALGORITHMS_H
#define CORE_COLL_ALGORITHMS_H

#include "core/base/kind.h"
#include "core/plan/plan.h"

#define SS_ALGORITHM_DECLARATION(id, name) extern const struct ss_algorithm_def ss_algorithm_##name;
SS_ALGORITHM_LIST(SS_ALGORITHM_DECLARATION)
#undef SS_ALGORITHM_DECLARATION
extern const struct ss_algorithm_def ss_algorithm_dense;
/* Each of the other kinds has one sparse algorithm. */
extern const struct ss_algorithm_def ss_algorithm_slices, ss_algorithm_reduce_scatter,
    ss_algorithm_reduce;

/* Returns the definitions of the algorithms for a kind, by algorithm; NULL for algorithms that do
 * not serve it. */
const struct ss_algorithm_def *const *ss_algorithms(enum ss_kind kind);

/* Returns the algorithm that two_level runs between hosts. */
enum ss_algorithm ss_two_level_between(const struct ss_shape *shape,
                                       const struct ss_history *history);

/* Returns true if two_level can run the algorithm between hosts. Exact algorithms of
 * one level can. Algorithms that keep the largest entries can if each rank owns at most one slice
 * of the sum of its host. */
bool ss_two_level_takes(const struct ss_shape *shape, enum ss_algorithm algorithm);

/* Returns the slices of n elements that a rank exchanges with other hosts in two_level, and sets
 * *slices to those that its host exchanges. */
int ss_two_level_slices(const struct ss_layout *layout, int rank, uint64_t n, int *slices);

/* Returns true if the algorithm sends every element in few bits. */
static inline bool ss_sends_whole(enum ss_algorithm algorithm)
{
    return (SS_WHOLE_ALGORITHMS >> algorithm & 1u) != 0;
}

/* Returns true if the algorithm delivers the largest entries of all ranks only. */
bool ss_keeps_global(enum ss_algorithm algorithm);

#endif
