/* Recursive doubling for any number of ranks and any data. */
#include "core/coll/coll.h"

enum { START, FOLD_IN, ROUND, EXCHANGE, FOLD_OUT, FINISH };

static void start(struct ss_coll *c, struct ss_doubling *d, const struct ss_doubling_parts *parts)
{
    d->fold = ss_fold_of(c->x.t->rank, c->x.t->size);
    if (parts->start(c) != SS_OK)
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
}

static void fold_in(struct ss_coll *c, struct ss_doubling *d, const struct ss_doubling_parts *parts)
{
    int partner = d->fold.partner;

    d->out.done = true;
    if (partner >= 0 && d->fold.position < 0)
        parts->send(c, SS_PHASE_FOLD_IN, 0, partner, true);
    else if (partner >= 0)
        ss_in_start(&c->x, &d->in, SS_PHASE_FOLD_IN, 0, partner, 1, parts->take);
}

static void start_round(struct ss_coll *c, struct ss_doubling *d,
                        const struct ss_doubling_parts *parts)
{
    unsigned round = (unsigned)d->round;
    int peer = ss_fold_peer(&d->fold, d->round);

    parts->send(c, SS_PHASE_REDUCE, round, peer, d->round == 0 && d->fold.partner < 0);
    ss_in_start(&c->x, &d->in, SS_PHASE_REDUCE, round, peer, 1, parts->take);
}

static void fold_out(struct ss_coll *c, struct ss_doubling *d,
                     const struct ss_doubling_parts *parts)
{
    int partner = d->fold.partner;

    d->out.done = true;
    d->in = (struct ss_in){0};
    if (partner >= 0 && d->fold.position >= 0) {
        parts->send(c, SS_PHASE_FOLD_OUT, 0, partner, false);
    } else if (partner >= 0) {
        parts->forget(c);
        ss_in_start(&c->x, &d->in, SS_PHASE_FOLD_OUT, 0, partner, 1, parts->result);
    }
}

static int exchange(struct ss_coll *c, struct ss_doubling *d)
{
    if (!ss_out_ahead(&c->x, &d->out)) /* received data is added to the data being sent */
        return SS_PENDING;
    int received = ss_in_step(&c->x, &d->in);
    int sent = ss_out_step(&c->x, &d->out);

    return sent == SS_PENDING || received == SS_PENDING ? SS_PENDING : SS_OK;
}

int ss_doubling_step(struct ss_coll *c, struct ss_doubling *d,
                     const struct ss_doubling_parts *parts)
{
    for (;;) {
        switch (d->step) {
        case START:
            start(c, d, parts);
            fold_in(c, d, parts);
            d->step = FOLD_IN;
            break;
        case FOLD_IN:
            if (exchange(c, d) == SS_PENDING)
                return SS_PENDING;
            parts->merge(c);
            d->step = d->fold.position < 0 ? FOLD_OUT : ROUND;
            break;
        case ROUND:
            if (ss_sends_reap(&c->x) == SS_PENDING) /* messages in flight lie in the arena */
                return SS_PENDING;
            if (d->round == ss_fold_rounds(&d->fold)) {
                d->step = FOLD_OUT;
                break;
            }
            start_round(c, d, parts);
            d->step = EXCHANGE;
            break;
        case EXCHANGE:
            if (exchange(c, d) == SS_PENDING)
                return SS_PENDING;
            parts->merge(c);
            d->round++;
            d->step = ROUND;
            break;
        case FOLD_OUT:
            fold_out(c, d, parts);
            d->step = FINISH;
            break;
        default:
            if (exchange(c, d) == SS_PENDING)
                return SS_PENDING;
            parts->finish(c);
            return SS_OK;
        }
    }
}
