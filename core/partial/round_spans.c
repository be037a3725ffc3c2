/* Traces the rounds of partial calls, which go on without a call of this rank. */
#include "core/coll/algorithms.h"
#include "core/partial/rounds_impl.h"

void ss_round_spans_asked(struct ss_rounds *r, bool by_call)
{
    struct ss_exchange *x = &r->c.x;

    if (x->spans.trace || (!by_call && !ss_start_exchange_seen(&r->start)))
        return;
    ss_trace_open(x, *r->s.trace, "partial round");
    ss_trace_begin(x, SS_SPAN_START, NULL, -1);
}

void ss_round_spans_stepped(struct ss_rounds *r, bool moved)
{
    struct ss_coll *c = &r->c;
    struct ss_spans *s = &c->x.spans;
    bool clears = r->stage == SS_ROUND_ALGORITHM && c->x.failed == 0 && c->fill.left > 0;
    enum ss_span lull = clears ? SS_SPAN_CLEAR : SS_SPAN_WAIT;
    enum ss_phase phase;

    if (moved && s->lull)
        ss_spans_wake(s, ss_now(&c->x));
    if (moved || !ss_rounds_under_way(r) || ss_spans_lulled(s, lull))
        return;
    int peer = ss_rounds_waits_for(r, &phase);
    ss_spans_lull(s, lull, clears ? NULL : ss_phase_name(phase), clears ? -1 : peer, ss_now(&c->x));
}

static enum ss_algorithm algorithm(const struct ss_rounds *r)
{
    return r->s.algorithm == &ss_algorithm_recursive_doubling ? SS_RECURSIVE_DOUBLING
                                                              : SS_ALLGATHER;
}

static void end_with_words(struct ss_rounds *r)
{
    const struct ss_exchange *x = &r->c.x;
    const struct ss_trace_call what = {
        .comm = r->s.name,
        .ranks = r->t->size,
        .number = x->number,
        .count = x->n,
        .type = ss_type_name(x->type),
        .algorithm = ss_algorithm_name(algorithm(r)),
        .why = x->failed < 0 ? ss_status_text(x->failed) : NULL,
        .bytes = x->bytes_sent,
        .inside = x->bytes_inside,
        .density = r->member ? (double)r->c.own.nnz / (double)x->n : -1,
    };

    ss_spans_close(&r->c.x.spans, &what, ss_now(x));
}

void ss_round_spans_over(struct ss_rounds *r, bool happened)
{
    struct ss_exchange *x = &r->c.x;

    if (x->spans.trace && happened)
        end_with_words(r);
    else if (x->spans.trace)
        ss_spans_close(&x->spans, NULL, ss_now(x));
}
