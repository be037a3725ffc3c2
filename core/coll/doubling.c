/* Recursive doubling for any number of ranks, whatever is exchanged. */
#include "core/coll/coll.h"

enum { FOLD, FOLD_IN, ROUND, EXCHANGE, FOLD_OUT, FINISH };

void ss_doubling_start(struct ss_coll *c, struct ss_doubling *d,
                       const struct ss_doubling_parts *parts)
{
    *d = (struct ss_doubling){.fold = ss_fold_of(c->x.t->rank, c->x.t->size), .parts = parts};
}

static void fold_in(struct ss_coll *c, struct ss_doubling *d)
{
    int partner = d->fold.partner;

    d->out.done = true;
    if (partner >= 0 && d->fold.position < 0)
        d->parts->send(c, SS_PHASE_FOLD_IN, 0, partner, true);
    else if (partner >= 0)
        ss_in_start(&c->x, &d->in, SS_PHASE_FOLD_IN, 0, partner, 1, d->parts->take);
}

static void start_round(struct ss_coll *c, struct ss_doubling *d)
{
    unsigned round = (unsigned)d->round;
    int peer = ss_fold_peer(&d->fold, d->round);

    d->parts->send(c, SS_PHASE_REDUCE, round, peer, d->round == 0 && d->fold.partner < 0);
    ss_in_start(&c->x, &d->in, SS_PHASE_REDUCE, round, peer, 1, d->parts->take);
}

static void fold_out(struct ss_coll *c, struct ss_doubling *d)
{
    int partner = d->fold.partner;

    d->out.done = true;
    d->in = (struct ss_in){0};
    if (partner >= 0 && d->fold.position >= 0) {
        d->parts->send(c, SS_PHASE_FOLD_OUT, 0, partner, false);
    } else if (partner >= 0) {
        d->parts->forget(c);
        ss_in_start(&c->x, &d->in, SS_PHASE_FOLD_OUT, 0, partner, 1, d->parts->result);
    }
}

static int exchange(struct ss_coll *c, struct ss_doubling *d)
{
    int received = ss_in_step(&c->x, &d->in);
    int sent = ss_out_step(&c->x, &d->out);

    return sent == SS_PENDING || received == SS_PENDING ? SS_PENDING : SS_OK;
}

int ss_doubling_step(struct ss_coll *c, struct ss_doubling *d)
{
    for (;;) {
        switch (d->step) {
        case FOLD:
            fold_in(c, d);
            d->step = FOLD_IN;
            break;
        case FOLD_IN:
            if (exchange(c, d) == SS_PENDING)
                return SS_PENDING;
            d->parts->merge(c);
            d->step = d->fold.position < 0 ? FOLD_OUT : ROUND;
            break;
        case ROUND:
            if (ss_sends_reap(&c->x) == SS_PENDING) /* their messages lie in the arena */
                return SS_PENDING;
            if (d->round == ss_fold_rounds(&d->fold)) {
                d->step = FOLD_OUT;
                break;
            }
            start_round(c, d);
            d->step = EXCHANGE;
            break;
        case EXCHANGE:
            if (exchange(c, d) == SS_PENDING)
                return SS_PENDING;
            d->parts->merge(c);
            d->round++;
            d->step = ROUND;
            break;
        case FOLD_OUT:
            fold_out(c, d);
            d->step = FINISH;
            break;
        default:
            if (exchange(c, d) == SS_PENDING)
                return SS_PENDING;
            d->parts->finish(c);
            return SS_OK;
        }
    }
}
