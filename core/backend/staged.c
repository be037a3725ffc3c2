#include "core/backend/staged.h"

bool ss_staged_make(struct ss_staged *s, struct ss_backend *backend, const void *memory,
                    size_t bytes)
{
    void *host = backend->ops->stage(backend, bytes);

    if (host)
        *s = (struct ss_staged){backend, (char *)(uintptr_t)memory, bytes, host, 0};
    return host != NULL;
}

void ss_staged_fetch(struct ss_staged *s)
{
    s->ticket = s->backend->ops->fetch(s->backend, s->memory, s->bytes, s->host);
}

void ss_staged_store(struct ss_staged *s, size_t from, size_t bytes)
{
    s->ticket = s->backend->ops->store(s->backend, s->memory + from, s->host + from, bytes);
}

int ss_staged_poll(const struct ss_staged *s)
{
    return s->backend && s->ticket != 0 ? s->backend->ops->poll(s->backend, s->ticket) : SS_OK;
}

void ss_staged_free(struct ss_staged *s)
{
    if (s->backend)
        s->backend->ops->unstage(s->backend, s->host);
    s->backend = NULL;
}
