#include "core/backend/pieces.h"

#include <string.h>

static size_t length(const struct ss_pieces *p, size_t number)
{
    const size_t from = number * p->piece;

    return p->bytes - from < p->piece ? p->bytes - from : p->piece;
}

static size_t count(const struct ss_pieces *p)
{
    return (p->bytes + p->piece - 1) / p->piece;
}

static size_t depth(const struct ss_pieces *p)
{
    return p->send ? SS_PIECES_APART : SS_PIECES_IN_PLACE;
}

static struct ss_staged *room_out(const struct ss_pieces *p, size_t number)
{
    return (struct ss_staged *)(uintptr_t)&p->out[number % depth(p)];
}

/* Returns the room to which a piece is copied from the backend. */
static struct ss_staged *room_in(const struct ss_pieces *p, size_t number)
{
    return p->send ? (struct ss_staged *)(uintptr_t)&p->in[number % depth(p)] : room_out(p, number);
}

static void fetch(struct ss_pieces *p, size_t number)
{
    const char *from = p->send ? p->send : p->recv;
    struct ss_staged *s;

    if (p->status < 0 || number >= count(p))
        return;
    s = room_in(p, number);
    s->memory = (char *)(uintptr_t)from + number * p->piece;
    s->bytes = length(p, number);
    ss_staged_fetch(s);
}

static bool make_room(struct ss_pieces *p, struct ss_backend *backend)
{
    for (size_t i = 0; i < depth(p) && i < count(p); i++)
        if (!ss_staged_make(&p->out[i], backend, p->recv, length(p, 0)) ||
            (p->send && !ss_staged_make(&p->in[i], backend, p->send, length(p, 0))))
            return false;
    return true;
}

int ss_pieces_open(struct ss_pieces *p, struct ss_backend *backend, const void *send, void *recv,
                   size_t bytes, size_t piece, int status)
{
    *p = (struct ss_pieces){
        .send = send, .recv = recv, .bytes = bytes, .piece = piece, .status = status};
    if (!make_room(p, backend)) {
        ss_pieces_close(p);
        return SS_ERR_MEMORY;
    }
    fetch(p, 0);
    fetch(p, 1);
    return SS_OK;
}

static bool is_busy(struct ss_pieces *p, const struct ss_staged *s)
{
    const int status = ss_staged_poll(s);

    if (status < 0)
        p->status = status;
    return status == SS_PENDING;
}

bool ss_pieces_comes(struct ss_pieces *p, size_t number)
{
    return p->status == SS_OK &&
           (is_busy(p, room_in(p, number)) || is_busy(p, room_out(p, number)));
}

const void *ss_pieces_in(const struct ss_pieces *p, size_t number)
{
    char *host = p->send ? room_in(p, number)->host : NULL;

    if (host && p->status < 0)
        memset(host, 0, length(p, number));
    return host;
}

void *ss_pieces_out(const struct ss_pieces *p, size_t number)
{
    char *host = room_out(p, number)->host;

    if (p->status < 0)
        memset(host, 0, length(p, number));
    return host;
}

bool ss_pieces_has(struct ss_pieces *p, size_t number)
{
    return p->status == SS_OK && number + 2 < count(p) && is_busy(p, room_in(p, number + 2));
}

void ss_pieces_take_back(struct ss_pieces *p, size_t number)
{
    struct ss_staged *s = room_out(p, number);

    if (p->status < 0)
        return;
    s->memory = p->recv + number * p->piece;
    s->bytes = length(p, number);
    ss_staged_store(s, 0, s->bytes);
    fetch(p, number + 2);
}

bool ss_pieces_go(struct ss_pieces *p)
{
    bool busy = false;

    for (size_t i = 0; i < SS_PIECES_IN_PLACE; i++)
        busy = is_busy(p, &p->out[i]) || busy;
    for (size_t i = 0; i < SS_PIECES_APART; i++)
        busy = is_busy(p, &p->in[i]) || busy;
    return busy;
}

void ss_pieces_close(struct ss_pieces *p)
{
    for (size_t i = 0; i < SS_PIECES_IN_PLACE; i++)
        ss_staged_free(&p->out[i]);
    for (size_t i = 0; i < SS_PIECES_APART; i++)
        ss_staged_free(&p->in[i]);
}
