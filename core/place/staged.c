#include "core/place/staged.h"

bool ss_staged_make(struct ss_staged *s, struct ss_place *place, const void *memory, size_t bytes)
{
    void *host = place->ops->stage(place, bytes);

    if (host)
        *s = (struct ss_staged){place, (char *)(uintptr_t)memory, bytes, host, 0};
    return host != NULL;
}

void ss_staged_fetch(struct ss_staged *s)
{
    s->ticket = s->place->ops->fetch(s->place, s->memory, s->bytes, s->host);
}

void ss_staged_store(struct ss_staged *s, size_t from, size_t bytes)
{
    s->ticket = s->place->ops->store(s->place, s->memory + from, s->host + from, bytes);
}

int ss_staged_poll(const struct ss_staged *s)
{
    return s->place && s->ticket != 0 ? s->place->ops->poll(s->place, s->ticket) : SS_OK;
}

void ss_staged_free(struct ss_staged *s)
{
    if (s->place)
        s->place->ops->unstage(s->place, s->host);
    s->place = NULL;
}
