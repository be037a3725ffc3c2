#include <string.h>

#include "core/call_impl.h"

int ss_gtopk_step(struct ss_call *c)
{
    if (c->claims.mark)
        memset(c->claims.mark, 1, c->own.nnz);
    return ss_recursive_doubling_step(c);
}
