/* Lists the algorithms of each collective. */
#include "core/coll/rows.h"

#define ROW(id, name) [id] = &ss_row_##name,

static const struct ss_row *const rows[SS_KINDS][SS_ALGORITHMS] = {
    [SS_KIND_ALLREDUCE] = {SS_ALGORITHM_LIST(ROW)[SS_DENSE] = &ss_row_dense},
    [SS_KIND_ALLGATHER] = {[SS_ALLGATHER] = &ss_row_slices, [SS_DENSE] = &ss_row_dense},
    [SS_KIND_REDUCE_SCATTER] =
        {[SS_SPLIT_ALLGATHER] = &ss_row_reduce_scatter, [SS_DENSE] = &ss_row_dense},
    [SS_KIND_REDUCE] = {[SS_SPLIT_ALLGATHER] = &ss_row_reduce, [SS_DENSE] = &ss_row_dense},
};

bool ss_keeps_global(enum ss_algorithm algorithm)
{
    const struct ss_row *row = rows[SS_KIND_ALLREDUCE][algorithm];

    return row && row->global;
}

const struct ss_row *const *ss_rows(enum ss_kind kind)
{
    return rows[kind];
}
