/* Implements samples: makes room and asks the backend for the runs. */
#include "core/stream/sample.h"

int ss_sample_reserve(struct ss_exchange *x, struct ss_sample *s, size_t runs, size_t elements)
{
    int status = ss_buf_reserve(&s->runs, x->mem, runs * sizeof(struct ss_run));

    return status == SS_OK ? ss_buf_reserve(&s->values, x->mem, elements * x->esize) : status;
}

void ss_sample_take(struct ss_exchange *x, struct ss_sample *s, const void *v, size_t count)
{
    x->ticket =
        x->backend->ops->runs(x->backend, x->type, v, ss_sample_list(s), count, s->values.data);
}
