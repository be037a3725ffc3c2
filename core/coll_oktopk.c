#include <string.h>

#include "core/call_impl.h"

int ss_oktopk_step(struct ss_call *c)
{
    if (c->claims.mark)
        memset(c->claims.mark, 1, c->own.nnz);
    return ss_split_allgather_step(c);
}
