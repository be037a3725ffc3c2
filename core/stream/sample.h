/* A sample of a dense vector, copied to the host. */
#ifndef CORE_STREAM_SAMPLE_H
#define CORE_STREAM_SAMPLE_H

#include "core/stream/exchange.h"

/* Makes room for `runs` runs with `elements` elements in all. Returns SS_OK or SS_ERR_MEMORY. */
int ss_sample_reserve(struct ss_exchange *x, struct ss_sample *s, size_t runs, size_t elements);
/* Starts reading the first `count` runs from v, under x->ticket. */
void ss_sample_take(struct ss_exchange *x, struct ss_sample *s, const void *v, size_t count);

static inline struct ss_run *ss_sample_list(const struct ss_sample *s)
{
    return s->runs.data;
}

#endif
