/* Records which claims the global set took, and what rounding took away. */
#include <string.h>

#include "core/coll/coll.h"

void ss_claims_find_global(struct ss_coll *c, const uint32_t *idx, size_t nnz)
{
    const uint32_t *own = c->own.idx;
    size_t j, end;

    if (nnz == 0 || !c->claims.in_global)
        return;
    j = ss_lower_bound(own, c->own.nnz, idx[0]);
    end = j + ss_lower_bound(own + j, c->own.nnz - j, idx[nnz - 1] + 1);
    for (size_t i = 0; j < end; j++) {
        while (idx[i] < own[j])
            i++;
        c->claims.in_global[j] = idx[i] == own[j];
    }
}

void ss_claims_book(struct ss_coll *c, const uint32_t *idx, uint64_t first, const void *error,
                    size_t count)
{
    c->claims.idx = idx;
    c->claims.first = first;
    c->claims.error = error;
    c->claims.errors = count;
}

void ss_claims_round_own(struct ss_coll *c, struct ss_out *o)
{
    if (o->nnz == 0 || c->rounding.values == SS_VALUES_SAME)
        return;
    ss_out_round(o, &c->rounding,
                 c->claims.own_error
                     ? ss_at(c->claims.own_error, (size_t)(o->idx - c->own.idx), c->x.esize)
                     : NULL);
}

void ss_claims_round_part(struct ss_coll *c, struct ss_out *o)
{
    const struct ss_rounding *how = &c->rounding;
    struct ss_buf *error = &c->x.work->part_error;

    if (c->x.failed < 0 || o->nnz == 0 || how->values == SS_VALUES_SAME)
        return;
    if (how->stochastic) {
        ss_out_round(o, how, NULL);
        return;
    }
    if (o->in_backend) {
        error = &c->x.work->in_backend[1].error;
    } else if (ss_buf_reserve_voted(error, c->x.mem, o->nnz * c->x.esize) != SS_OK) {
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, (enum ss_phase)o->phase);
        return;
    }
    ss_out_round(o, how, error->data);
    ss_claims_book(c, o->dense ? NULL : o->idx, o->first, error->data, o->nnz);
}
