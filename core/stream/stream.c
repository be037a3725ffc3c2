/* Implements slices, appending and room of streams. */
#include "core/stream/stream.h"

#include <string.h>

#include "core/compute/kernels.h"

struct ss_stream ss_stream_slice(const struct ss_stream *s, size_t esize, uint64_t lo, uint64_t hi)
{
    size_t a = ss_lower_bound(s->idx, s->nnz, (uint32_t)lo);
    size_t b = a + ss_lower_bound(s->idx + a, s->nnz - a, (uint32_t)hi);

    return (struct ss_stream){.idx = s->idx + a, .val = ss_at(s->val, a, esize), .nnz = b - a};
}

static bool element_is_zero(const unsigned char *element, size_t esize)
{
    uint64_t bits = 0;

    memcpy(&bits, element, esize);
    return bits == 0;
}

static uint32_t chunk_entries(const struct ss_exchange *x, const struct ss_chunk *chunk)
{
    uint32_t entries = chunk->nnz;

    if (chunk->rep == SS_REP_DENSE)
        for (uint32_t i = 0; i < chunk->nnz; i++)
            entries -= element_is_zero(ss_at_const(chunk->val, i, x->esize), x->esize);
    return entries;
}

void ss_stream_append(struct ss_exchange *x, int src, struct ss_stream *s,
                      const struct ss_chunk *chunk)
{
    if (chunk_entries(x, chunk) > s->capacity - s->nnz) {
        ss_fail(x, SS_ERR_MESSAGE, src, SS_PHASE_REDUCE);
        return;
    }
    if (chunk->rep != SS_REP_DENSE) {
        memcpy(s->idx + s->nnz, chunk->idx, chunk->nnz * sizeof *s->idx);
        memcpy(ss_at(s->val, s->nnz, x->esize), chunk->val, chunk->nnz * x->esize);
        s->nnz += chunk->nnz;
        return;
    }
    for (uint32_t i = 0; i < chunk->nnz; i++) {
        const unsigned char *element = ss_at_const(chunk->val, i, x->esize);
        if (element_is_zero(element, x->esize))
            continue;
        s->idx[s->nnz] = chunk->first + i;
        memcpy(ss_at(s->val, s->nnz, x->esize), element, x->esize);
        s->nnz++;
    }
}

int ss_stream_reserve(struct ss_exchange *x, struct ss_stream *s, int which, uint64_t entries)
{
    struct ss_work *work = x->work;
    size_t capacity = (size_t)entries + 1;

    *s = (struct ss_stream){0};
    if (ss_buf_reserve_voted(&work->idx[which], x->mem, capacity * sizeof(uint32_t)) != SS_OK ||
        ss_buf_reserve_voted(&work->val[which], x->mem, capacity * x->esize) != SS_OK)
        return SS_ERR_MEMORY;
    s->idx = work->idx[which].data;
    s->val = work->val[which].data;
    s->capacity = capacity;
    return SS_OK;
}

int ss_stream_reserve_own(struct ss_exchange *x, struct ss_stream *own, size_t entries, size_t keep)
{
    struct ss_work *w = x->work;

    if (ss_buf_grow(&w->own_idx, x->mem, entries * sizeof(uint32_t), keep * sizeof(uint32_t)) !=
            SS_OK ||
        ss_buf_grow(&w->own_val, x->mem, entries * x->esize, keep * x->esize) != SS_OK)
        return SS_ERR_MEMORY;
    own->idx = w->own_idx.data;
    own->val = w->own_val.data;
    own->capacity = entries;
    own->in_backend = false;
    return SS_OK;
}
