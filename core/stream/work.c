/* Counts and frees work space, and holds memory of backends. */
#include "core/stream/work.h"

#include <stddef.h>

#include "core/backend/backend.h"

size_t ss_work_kept(const struct ss_work *w)
{
    size_t streams = 0;

    for (int i = 0; i < SS_STREAMS; i++)
        streams += w->idx[i].size + w->val[i].size;
    return streams + w->arena.size + w->own_error.size + w->in_global.size + w->part_error.size;
}

void ss_work_drop(struct ss_work *w)
{
    for (int i = 0; i < SS_STREAMS; i++) {
        ss_buf_free(&w->idx[i]);
        ss_buf_free(&w->val[i]);
    }
    ss_buf_free(&w->arena);
    ss_buf_free(&w->own_error);
    ss_buf_free(&w->in_global);
    ss_buf_free(&w->part_error);
}

/* Number of host buffers, which precede those of backends in struct ss_work. */
enum { BUFFERS = offsetof(struct ss_work, in_backend) / sizeof(struct ss_buf) };
_Static_assert(offsetof(struct ss_work, in_backend) % sizeof(struct ss_buf) == 0,
               "nothing but buffers");

static void let_go(struct ss_stream_buffers *b)
{
    if (!b->backend)
        return;
    b->backend->ops->drop(b->backend, &b->idx);
    b->backend->ops->drop(b->backend, &b->val);
    b->backend->ops->drop(b->backend, &b->error);
    b->backend = NULL;
}

/* Makes `buf` at least `bytes` long. A buffer that grows is replaced; its contents are not
 * needed. */
static bool make(struct ss_backend *backend, struct ss_buf *buf, size_t bytes)
{
    if (buf->size >= bytes)
        return true;
    backend->ops->drop(backend, buf);
    return backend->ops->make(backend, NULL, buf, bytes + bytes / 8) == SS_OK;
}

static bool reserve(struct ss_stream_buffers *b, size_t entries, size_t esize, bool errors)
{
    return make(b->backend, &b->idx, entries * sizeof(uint32_t)) &&
           make(b->backend, &b->val, entries * esize) &&
           (!errors || make(b->backend, &b->error, entries * esize));
}

/* A backend that a call has left was freed by let_go; a new backend at its address is not
 * distinguished, since backends are few and long-lived. */
bool ss_stream_buffers_reserve(struct ss_stream_buffers *b, struct ss_backend *backend,
                               size_t entries, size_t esize, bool errors)
{
    entries++;
    if (b->backend && b->backend != backend) {
        let_go(b);
        b->refused = 0;
    }
    if (b->refused > 0 && entries >= b->refused && ++b->calls < SS_RESERVE_TRIES)
        return false;
    b->backend = backend;
    b->calls = 0;
    if (reserve(b, entries, esize, errors)) {
        b->refused = 0;
        return true;
    }
    let_go(b);
    b->refused = entries;
    return false;
}

size_t ss_work_size(const struct ss_work *w)
{
    const struct ss_buf *buf = (const struct ss_buf *)w;
    size_t bytes = 0;

    for (size_t i = 0; i < BUFFERS; i++)
        bytes += buf[i].size;
    return bytes;
}

void ss_work_free(struct ss_work *w)
{
    struct ss_buf *buf = (struct ss_buf *)w;

    for (size_t i = 0; i < BUFFERS; i++)
        ss_buf_free(&buf[i]);
    let_go(&w->in_backend[0]);
    let_go(&w->in_backend[1]);
}
