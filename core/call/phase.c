/* The phase of a call, and the rank that it waits for. */
#include "core/call/call_impl.h"

bool ss_stage_waits_on_this_rank(enum ss_stage stage)
{
    return stage == SS_STAGE_COUNT || stage == SS_STAGE_LEAVE || stage == SS_STAGE_GIVEN_UP;
}

bool ss_call_backend_works(const struct ss_exchange *x)
{
    return x->ticket != 0 && x->backend->ops->poll(x->backend, x->ticket) == SS_PENDING;
}

enum ss_phase ss_call_phase(const struct ss_call *call, int *peer)
{
    const struct ss_exchange *x = &call->f.c.x;
    int nobody;

    if (!peer)
        peer = &nobody;
    *peer = -1;
    if (call->stage == SS_STAGE_LOOK || call->stage == SS_STAGE_WAIT) {
        *peer = x->t->rank;
        return SS_PHASE_VOTE;
    }
    if (call->stage == SS_STAGE_DRIVEN && call->driver->waiting_for)
        return call->driver->waiting_for(call, peer);
    return ss_exchange_waiting(x, peer);
}

void ss_call_trace_wait(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_spans *s = &c->x.spans;
    bool clears = ss_call_is_driven_by(call, &ss_algorithm_driver) && c->x.failed == 0 &&
                  c->fill.left > 0 && !c->shared;
    enum ss_span lull = clears ? SS_SPAN_CLEAR : SS_SPAN_WAIT;
    int peer;

    if (c->x.moved && s->lull)
        ss_spans_wake(s, ss_now(&c->x));
    if (c->x.moved || ss_spans_lulled(s, lull))
        return;
    enum ss_phase phase = ss_call_phase(call, &peer);
    ss_spans_lull(s, lull, clears ? NULL : ss_phase_name(phase), clears ? -1 : peer, ss_now(&c->x));
}
