/* Lists the algorithms of each collective. */
#include "core/coll/algorithms.h"

#define ENTRY(id, name) [id] = &ss_algorithm_##name,

static const struct ss_algorithm_def *const algorithms[SS_KINDS][SS_ALGORITHMS] = {
    [SS_KIND_ALLREDUCE] = {SS_ALGORITHM_LIST(ENTRY)[SS_DENSE] = &ss_algorithm_dense},
    [SS_KIND_ALLGATHER] = {[SS_ALLGATHER] = &ss_algorithm_slices, [SS_DENSE] = &ss_algorithm_dense},
    [SS_KIND_REDUCE_SCATTER] =
        {[SS_SPLIT_ALLGATHER] = &ss_algorithm_reduce_scatter, [SS_DENSE] = &ss_algorithm_dense},
    [SS_KIND_REDUCE] =
        {[SS_SPLIT_ALLGATHER] = &ss_algorithm_reduce, [SS_DENSE] = &ss_algorithm_dense},
};

bool ss_keeps_global(enum ss_algorithm algorithm)
{
    const struct ss_algorithm_def *def = algorithms[SS_KIND_ALLREDUCE][algorithm];

    return def && def->global;
}

const struct ss_algorithm_def *const *ss_algorithms(enum ss_kind kind)
{
    return algorithms[kind];
}
