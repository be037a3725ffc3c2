/* Steps the messages: in each step a rank sends to one rank, receives from it, or both. */
#include "core/trial/rabenseifner.h"

void ss_rabenseifner_start(struct ss_rabenseifner *d, struct ss_transport *t, uint64_t n,
                           size_t esize)
{
    *d = (struct ss_rabenseifner){
        .t = t, .n = n, .esize = esize, .fold = ss_fold_of(t->rank, t->size)};
}

/* Returns the first element of block b; there are as many blocks as ranks that exchange. */
static uint64_t block(const struct ss_rabenseifner *d, int b)
{
    return d->n * (uint64_t)b / (uint64_t)d->fold.pof2;
}

/* Returns the bytes of the 2^level blocks that a position belongs to. */
static size_t bytes_of(const struct ss_rabenseifner *d, int position, int level)
{
    int first = position >> level << level;

    return (size_t)(block(d, first + (1 << level)) - block(d, first)) * d->esize;
}

/* The exchange of a step: the peer, -1: none; bytes to send and to receive, 0: none. */
struct pair_exchange {
    int peer;
    size_t out, in;
};

static struct pair_exchange fold_pair(const struct ss_rabenseifner *d, bool result)
{
    bool away = d->fold.position < 0;
    size_t all = (size_t)d->n * d->esize;

    return (struct pair_exchange){
        .peer = d->fold.partner, .out = away != result ? all : 0, .in = away == result ? all : 0};
}

static struct pair_exchange pair_of(const struct ss_rabenseifner *d)
{
    int rounds = ss_fold_rounds(&d->fold), round = d->step - 1;
    int position = d->fold.position;

    if (d->step == 0 || d->step == 2 * rounds + 1)
        return fold_pair(d, d->step > 0);
    if (position < 0)
        return (struct pair_exchange){.peer = -1};
    if (round < rounds) { /* halving: the peer's half goes out, the own one comes in */
        int level = rounds - 1 - round, other = position ^ 1 << level;
        return (struct pair_exchange){.peer = ss_fold_peer(&d->fold, level),
                                      .out = bytes_of(d, other, level),
                                      .in = bytes_of(d, position, level)};
    }
    int level = round - rounds, other = position ^ 1 << level;
    return (struct pair_exchange){.peer = ss_fold_peer(&d->fold, level),
                                  .out = bytes_of(d, position, level),
                                  .in = bytes_of(d, other, level)};
}

enum { PIECE = 1 << 18 }; /* bytes */

static size_t piece_of(size_t left)
{
    return left < PIECE ? left : PIECE;
}

static struct ss_tag tag_of(const struct ss_rabenseifner *d)
{
    return (struct ss_tag){.call = 1, .phase = SS_PHASE_REDUCE, .round = (unsigned)d->step};
}

/* Posts the receive of the next piece, if one is left. */
static int receive(struct ss_rabenseifner *d, int peer)
{
    d->received = (struct ss_request){0};
    if (d->coming == 0)
        return SS_OK;
    return d->t->ops->recv(d->t, peer, tag_of(d), NULL, piece_of(d->coming), &d->received);
}

/* Posts the messages of a step; sends are done at once. */
static int post(struct ss_rabenseifner *d, struct pair_exchange m)
{
    int status = SS_OK;

    d->posted = true;
    d->coming = m.peer >= 0 ? m.in : 0;
    if (m.peer >= 0)
        for (size_t left = m.out; status == SS_OK && left > 0; left -= piece_of(left))
            status = d->t->ops->send(d->t, m.peer, tag_of(d), NULL, piece_of(left), &d->sent);
    return status == SS_OK ? receive(d, m.peer) : status;
}

int ss_rabenseifner_step(struct ss_rabenseifner *d)
{
    int last = 2 * ss_fold_rounds(&d->fold) + 1;
    int status = d->t->ops->poll(d->t);

    while (status == SS_OK && d->step <= last) {
        struct pair_exchange m = pair_of(d);
        if (!d->posted)
            status = post(d, m);
        if (status != SS_OK)
            return status;
        if (d->received.active)
            return SS_PENDING;
        if (d->received.status != SS_OK)
            return SS_ERR_TRANSPORT;
        d->coming -= d->received.bytes;
        if (d->coming > 0) {
            status = receive(d, m.peer);
            if (status == SS_OK)
                status = d->t->ops->poll(d->t);
            continue;
        }
        d->posted = false;
        d->step++;
    }
    return status;
}
