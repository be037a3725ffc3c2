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
enum { BUFFERS = offsetof(struct ss_work, held) / sizeof(struct ss_buf) };
_Static_assert(offsetof(struct ss_work, held) % sizeof(struct ss_buf) == 0, "nothing but buffers");

static void let_go(struct ss_held *h)
{
    if (!h->backend)
        return;
    h->backend->ops->drop(h->backend, &h->idx);
    h->backend->ops->drop(h->backend, &h->val);
    h->backend->ops->drop(h->backend, &h->error);
    h->backend = NULL;
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

static bool reserve(struct ss_held *held, size_t entries, size_t esize, bool errors)
{
    return make(held->backend, &held->idx, entries * sizeof(uint32_t)) &&
           make(held->backend, &held->val, entries * esize) &&
           (!errors || make(held->backend, &held->error, entries * esize));
}

/* A backend that a call has left was freed by let_go; a new backend at its address is not
 * distinguished, since backends are few and long-lived. */
bool ss_held_reserve(struct ss_held *held, struct ss_backend *backend, size_t entries, size_t esize,
                     bool errors)
{
    entries++;
    if (held->backend && held->backend != backend) {
        let_go(held);
        held->refused = 0;
    }
    if (held->refused > 0 && entries >= held->refused && ++held->calls < SS_HELD_TRIES)
        return false;
    held->backend = backend;
    held->calls = 0;
    if (reserve(held, entries, esize, errors)) {
        held->refused = 0;
        return true;
    }
    let_go(held);
    held->refused = entries;
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
    let_go(&w->held[0]);
    let_go(&w->held[1]);
}
