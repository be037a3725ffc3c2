/* Calls the next function in all forms. */
#include "shim/mpi/real.h"
#include "shim/mpi/state.h"

static const struct shim_next *next_of(const struct shim_call *c)
{
    return c->pmpi ? &shim.pmpi : &shim.next;
}

static int allgather(const struct shim_call *c)
{
    if (c->large)
        return next_of(c)->allgather_c(c->send, c->send_count, c->send_type, c->recv, c->count,
                                       c->type, c->comm);
    return next_of(c)->allgather(c->send, (int)c->send_count, c->send_type, c->recv, (int)c->count,
                                 c->type, c->comm);
}

static int allgatherv(const struct shim_call *c)
{
    if (c->large)
        return next_of(c)->allgatherv_c(c->send, c->send_count, c->send_type, c->recv, c->counts,
                                        c->displs, c->type, c->comm);
    return next_of(c)->allgatherv(c->send, (int)c->send_count, c->send_type, c->recv, c->counts,
                                  c->displs, c->type, c->comm);
}

static int reduce_scatter(const struct shim_call *c)
{
    if (c->large)
        return next_of(c)->reduce_scatter_c(c->send, c->recv, c->count, c->type, c->op, c->comm);
    return next_of(c)->reduce_scatter(c->send, c->recv, (int)c->count, c->type, c->op, c->comm);
}

static int reduce_scatterv(const struct shim_call *c)
{
    if (c->large)
        return next_of(c)->reduce_scatterv_c(c->send, c->recv, c->counts, c->type, c->op, c->comm);
    return next_of(c)->reduce_scatterv(c->send, c->recv, c->counts, c->type, c->op, c->comm);
}

static int reduce(const struct shim_call *c)
{
    if (c->large)
        return next_of(c)->reduce_c(c->send, c->recv, c->count, c->type, c->op, c->root, c->comm);
    return next_of(c)->reduce(c->send, c->recv, (int)c->count, c->type, c->op, c->root, c->comm);
}

int shim_pass(const struct shim_call *c)
{
    switch (c->kind) {
    case SS_KIND_ALLGATHER:
        return c->listed ? allgatherv(c) : allgather(c);
    case SS_KIND_REDUCE_SCATTER:
        return c->listed ? reduce_scatterv(c) : reduce_scatter(c);
    case SS_KIND_REDUCE:
        return reduce(c);
    default:
        break;
    }
    if (c->large)
        return next_of(c)->allreduce_c(c->send, c->recv, c->count, c->type, c->op, c->comm);
    return next_of(c)->allreduce(c->send, c->recv, (int)c->count, c->type, c->op, c->comm);
}

static int iallgather(const struct shim_call *c, void *request)
{
    if (c->large)
        return next_of(c)->iallgather_c(c->send, c->send_count, c->send_type, c->recv, c->count,
                                        c->type, c->comm, request);
    return next_of(c)->iallgather(c->send, (int)c->send_count, c->send_type, c->recv, (int)c->count,
                                  c->type, c->comm, request);
}

static int iallgatherv(const struct shim_call *c, void *request)
{
    if (c->large)
        return next_of(c)->iallgatherv_c(c->send, c->send_count, c->send_type, c->recv, c->counts,
                                         c->displs, c->type, c->comm, request);
    return next_of(c)->iallgatherv(c->send, (int)c->send_count, c->send_type, c->recv, c->counts,
                                   c->displs, c->type, c->comm, request);
}

static int ireduction(const struct shim_call *c, shim_iallreduce_fn *next,
                      shim_iallreduce_c_fn *next_c, void *request)
{
    if (c->large)
        return next_c(c->send, c->recv, c->count, c->type, c->op, c->comm, request);
    return next(c->send, c->recv, (int)c->count, c->type, c->op, c->comm, request);
}

static int ireduce(const struct shim_call *c, void *request)
{
    if (c->large)
        return next_of(c)->ireduce_c(c->send, c->recv, c->count, c->type, c->op, c->root, c->comm,
                                     request);
    return next_of(c)->ireduce(c->send, c->recv, (int)c->count, c->type, c->op, c->root, c->comm,
                               request);
}

static int ireduce_scatter(const struct shim_call *c, void *request)
{
    if (c->large)
        return next_of(c)->ireduce_scatter_c(c->send, c->recv, c->counts, c->type, c->op, c->comm,
                                             request);
    return next_of(c)->ireduce_scatter(c->send, c->recv, c->counts, c->type, c->op, c->comm,
                                       request);
}

/* Handles reduce_scatter and reduce only with an operator of the program; otherwise no nonblocking
 * form is wrapped. */
int shim_ipass(const struct shim_call *c, void *request)
{
    switch (c->user) {
    case SHIM_USER_IREDUCE:
        return ireduce(c, request);
    case SHIM_USER_ISCAN:
        return ireduction(c, next_of(c)->iscan, next_of(c)->iscan_c, request);
    case SHIM_USER_IEXSCAN:
        return ireduction(c, next_of(c)->iexscan, next_of(c)->iexscan_c, request);
    case SHIM_USER_IREDUCE_BLOCK:
        return ireduction(c, next_of(c)->ireduce_block, next_of(c)->ireduce_block_c, request);
    case SHIM_USER_IREDUCE_SCATTER:
        return ireduce_scatter(c, request);
    default:
        break;
    }
    if (c->kind == SS_KIND_ALLGATHER)
        return c->listed ? iallgatherv(c, request) : iallgather(c, request);
    if (c->large)
        return next_of(c)->iallreduce_c(c->send, c->recv, c->count, c->type, c->op, c->comm,
                                        request);
    return next_of(c)->iallreduce(c->send, c->recv, (int)c->count, c->type, c->op, c->comm,
                                  request);
}
