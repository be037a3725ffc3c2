/* Names and costs of the collectives. */
#include "core/base/kind.h"

const char *ss_kind_name(enum ss_kind kind)
{
    static const char *const names[SS_KINDS] = {"allreduce", "allgather", "reduce_scatter",
                                                "reduce"};
    return names[kind];
}

enum ss_algorithm ss_kind_algorithm(enum ss_kind kind)
{
    static const enum ss_algorithm algorithms[SS_KINDS] = {
        [SS_KIND_ALLREDUCE] = SS_AUTO,
        [SS_KIND_ALLGATHER] = SS_ALLGATHER,
        [SS_KIND_REDUCE_SCATTER] = SS_SPLIT_ALLGATHER,
        [SS_KIND_REDUCE] = SS_SPLIT_ALLGATHER,
    };
    return algorithms[kind];
}

uint64_t ss_kind_dense_bytes(enum ss_kind kind, int size, bool root, uint64_t bytes)
{
    uint64_t part = bytes / (uint64_t)size, once = part * (uint64_t)(size - 1);

    switch (kind) {
    case SS_KIND_ALLREDUCE:
        return 2 * once;
    case SS_KIND_REDUCE:
        return once + (root ? 0 : part);
    default:
        return once;
    }
}
