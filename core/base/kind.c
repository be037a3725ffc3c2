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

/* Returns the bytes of all of `parts` parts but one. */
static uint64_t but_one(uint64_t bytes, int parts)
{
    return bytes / (uint64_t)parts * (uint64_t)(parts - 1);
}

struct ss_sent ss_kind_dense_bytes(enum ss_kind kind, const struct ss_sender *r, uint64_t bytes)
{
    const uint64_t phases = kind == SS_KIND_ALLREDUCE ? 2 : 1;
    const uint64_t inside = phases * but_one(bytes, r->local);
    const uint64_t between =
        phases * but_one(bytes, r->hosts) * (uint64_t)r->own / (uint64_t)r->slices;
    const uint64_t to_root = kind == SS_KIND_REDUCE && !r->root ? bytes / (uint64_t)r->size : 0;

    return (struct ss_sent){.all = inside + between + to_root,
                            .inside = inside + (r->near_root ? to_root : 0)};
}
