/* Groups of calls: membership and votes. Their storage is in core/call/groups.c, the exchange in
 * core/call/group_exchange.c. */
#include "core/call/group.h"

#include "core/call/group_impl.h"

/* ---- parts ---- */

static void next_part(struct ss_grouping *gs)
{
    gs->part++;
    gs->bytes = gs->calls = 0;
}

void ss_group_assign(struct ss_group_member *member, const struct ss_feedback *f)
{
    struct ss_group_cut cut = {0};
    const struct ss_exchange *x = &f->c.x;
    struct ss_grouping *gs = f->comm->grouping;

    if (!gs)
        return;
    member->merges = ss_group_may_merge(f);
    if (member->merges)
        cut = ss_group_plan_next(gs->plan, f);
    if (!member->merges || cut.begins)
        next_part(gs);
    if (!member->merges)
        return;
    member->part = gs->part;
    member->plans = cut.plans;
    member->position = cut.position;
    gs->bytes += x->n * x->esize;
    bool enough = cut.planned ? cut.ends : gs->bytes >= ss_group_bytes(gs->comm);
    if (enough || ++gs->calls == SS_MERGED)
        next_part(gs);
}

/* ---- membership ---- */

/* Returns true if some call of the part, from `from` back, is in no group yet. Calls in a group
 * come before the others, so that the last call of the part tells. */
static bool lacks_some(const struct ss_call *from, uint64_t part)
{
    for (const struct ss_call *o = from; o; o = o->flight.next_open)
        if (o->member.merges && o->member.part <= part)
            return o->member.part == part && !o->member.voting;
    return false;
}

static void add(struct ss_group *g, struct ss_call *call)
{
    const struct ss_exchange *x = &call->f.c.x;

    g->members[g->count] = call;
    g->ballots[g->count] = &call->f.vote.ballot;
    call->member.index = g->count++;
    g->calls++;
    g->since = ss_now(x);
    g->waits_for_none = g->waits_for_none || call->member.waits_for_none || call->flight.alone;
    call->member.group = g;
    call->member.voting = true;
}

static void open_group(struct ss_group *g, uint64_t part, const struct ss_exchange *x)
{
    g->state = SS_GROUP_OPEN;
    g->part = part;
    g->waits_for_none = false;
    g->count = g->calls = g->voted = g->decided = g->merged = 0;
    ss_group_vote_open(&g->vote, x->t, x->number, SS_MERGED, g->messages.data);
}

/* Puts a call into a group, in the order of the calls. The first call opens a group, unless a group
 * of its part is voting, to which the call may turn out to belong. */
static void enter_part(struct ss_call *call)
{
    struct ss_grouping *gs = call->f.comm->grouping;
    struct ss_group *g;

    if (lacks_some(call->flight.next_open, call->member.part))
        return;
    for (g = gs->groups; g; g = g->next) {
        if (g->part != call->member.part || g->state > SS_GROUP_VOTING || g->state == SS_GROUP_FREE)
            continue;
        if (g->state == SS_GROUP_OPEN)
            add(g, call);
        return;
    }
    if (!(g = ss_group_new(gs)))
        return;
    open_group(g, call->member.part, &call->f.c.x);
    add(g, call);
}

/* ---- the vote ---- */

static void post(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;

    if (x->spans.trace) /* a look that failed */
        ss_spans_cut(&x->spans, ss_now(x));
    ss_group_plan_selected(call->f.comm->grouping->plan, x);
    ss_ballot_fill(call);
    ss_schedule_exchange_start(&call->f.vote.exchange, x->t); /* for what follows from them */
}

static void count(const struct ss_comm *comm, const struct ss_merged_record *more)
{
    struct ss_merged_record *r = &comm->stats->merged;

    pthread_mutex_lock(&comm->stats->lock);
    r->votes += more->votes;
    r->calls += more->calls;
    r->exchanges += more->exchanges;
    r->merged += more->merged;
    r->in_vain += more->in_vain;
    pthread_mutex_unlock(&comm->stats->lock);
}

static bool is_full(const struct ss_group *g, const struct ss_comm *comm)
{
    return g->part != comm->grouping->part && !lacks_some(comm->open, g->part);
}

static bool is_due(const struct ss_group *g, const struct ss_comm *comm, double now)
{
    unsigned heard;

    if (g->waits_for_none)
        return true;
    heard = ss_group_vote_heard(&g->vote);
    if (heard > 0 && heard <= g->count)
        return true;
    bool over = now - g->since > SS_GROUP_WAIT;
    if (over)
        count(comm, &(struct ss_merged_record){.in_vain = 1});
    return over;
}

static void cast(struct ss_group *g)
{
    if ((g->count > 1 || g->members[0]->member.plans) && ss_group_reserve(g) != SS_OK)
        for (unsigned i = 0; i < g->count; i++)
            g->ballots[i]->flags |= SS_VOTE_APART;
    for (unsigned i = 0; i < g->count; i++) {
        struct ss_call *m = g->members[i];
        m->stage_begin = ss_span_begin(&m->f.c.x, SS_SPAN_VOTE);
        m->f.vote.outgoing = m->f.vote.ballot; /* for a second vote */
    }
    ss_group_vote_cast(&g->vote, g->ballots, g->count);
    g->state = SS_GROUP_VOTING;
}

/* Casts the vote if it is due, when the group's last call is stepped. x: its exchange. Other calls
 * may enter in the step in which that call enters. */
static void cast_if_due(struct ss_grouping *gs, struct ss_group *g, const struct ss_exchange *x,
                        bool enters)
{
    if ((is_full(g, gs->comm) || (!enters && is_due(g, gs->comm, ss_now(x)))) &&
        ss_in_flight_may_go(&g->members[0]->flight))
        cast(g);
}

/* Lets the calls vote again that were not agreed on. The ballots of some rank may already hold such
 * calls. */
static void let_others_go(struct ss_group *g)
{
    for (unsigned i = g->voted; i < g->count; i++) {
        struct ss_call *m = g->members[i];

        ss_span_end(&m->f.c.x, SS_SPAN_VOTE, m->stage_begin);
        m->f.vote.ballot = m->f.vote.outgoing;
        m->member.voting = false;
        ss_group_leave(&m->member);
    }
    g->count = g->voted;
}

static bool exchanges(const struct ss_group *g)
{
    return g->state == SS_GROUP_PLANNING || g->state == SS_GROUP_RUNNING ||
           g->state == SS_GROUP_DRAINING;
}

void ss_group_fail(struct ss_group *g, int status, int peer, enum ss_phase phase)
{
    if (g->state == SS_GROUP_OPEN || g->state == SS_GROUP_VOTING)
        ss_group_vote_cancel(&g->vote);
    else if (exchanges(g))
        ss_exchange_cancel(&g->c.x);
    g->state = SS_GROUP_FAILED;
    g->failed = status;
    g->failed_peer = peer;
    g->failed_phase = phase;
}

static void step_vote(struct ss_grouping *gs, struct ss_group *g, struct ss_exchange *x)
{
    int status = ss_group_vote_step(&g->vote, &x->moved);

    if (status == SS_PENDING)
        return;
    if (status != SS_OK) {
        ss_group_fail(g, status, g->vote.peer, SS_PHASE_VOTE);
        return;
    }
    g->state = SS_GROUP_VOTED;
    g->voted = g->vote.count;
    x->bytes_sent += g->vote.bytes;
    x->bytes_inside += g->vote.inside;
    let_others_go(g);
    count(gs->comm, &(struct ss_merged_record){.votes = 1, .calls = g->voted});
    for (unsigned i = 0; i < g->voted; i++)
        ss_group_plan_voted(gs->plan, g->members[i]->member.position, g->ballots[i]->nnz_max);
    if (!g->members[0]->member.plans || (g->ballots[0]->flags & SS_VOTE_APART))
        return;
    g->state = SS_GROUP_PLANNING;
    ss_group_plan_start(gs->plan, &g->members[0]->f, &g->c.x);
}

static void step_plan_exchange(struct ss_grouping *gs, struct ss_group *g, struct ss_exchange *x)
{
    struct ss_exchange *own = &g->c.x;

    own->moved = false;
    int status = ss_group_plan_step(gs->plan, own);
    x->moved = x->moved || own->moved;
    if (status == SS_PENDING)
        return;
    x->bytes_sent += own->bytes_sent;
    x->bytes_inside += own->bytes_inside;
    if (own->failed < 0)
        ss_group_fail(g, own->failed, own->failed_peer, own->failed_phase);
    else
        g->state = SS_GROUP_VOTED;
}

/* Fails a call of a failed group with the group's error. */
static int fail_with(struct ss_group_member *member, struct ss_exchange *x)
{
    const struct ss_group *g = member->group;

    ss_fail(x, g->failed, g->failed_peer, g->failed_phase);
    ss_group_leave(member);
    return x->failed;
}

static int step_group_vote(struct ss_call *call)
{
    struct ss_grouping *gs = call->f.comm->grouping;
    struct ss_exchange *x = &call->f.c.x;
    struct ss_group *g;

    bool enters = !call->member.group;
    if (enters)
        enter_part(call);
    if (!(g = call->member.group))
        return SS_PENDING;
    x->moved = x->moved || enters;
    if (g->state == SS_GROUP_OPEN && call->member.index + 1 == g->count)
        cast_if_due(gs, g, x, enters);
    if (g->state == SS_GROUP_VOTING && call->member.index == 0)
        step_vote(gs, g, x);
    if (g->state == SS_GROUP_PLANNING && call->member.index == 0)
        step_plan_exchange(gs, g, x);
    if (g->state == SS_GROUP_FAILED)
        return fail_with(&call->member, x);
    bool next =
        g->state == SS_GROUP_VOTED && call->member.group == g && g->decided == call->member.index;
    if (!next || !ss_in_flight_may_decide(&call->flight))
        return SS_PENDING;
    x->moved = true;
    ss_span_end(x, SS_SPAN_VOTE, call->stage_begin);
    return SS_OK;
}

static bool is_open(const struct ss_call *call)
{
    return !call->member.group || call->member.group->state == SS_GROUP_OPEN;
}

/* Steps the vote. A call whose group is open waits for calls of this rank, which is no wait for
 * other ranks. */
static int step_in_group(struct ss_call *call)
{
    int status = step_group_vote(call);

    if (is_open(call))
        call->wait.steps = 0;
    return status;
}

static enum ss_phase waits_for(const struct ss_call *call, int *peer)
{
    const struct ss_group *g = call->member.group;

    if (g && exchanges(g))
        return ss_exchange_waiting(&g->c.x, peer);
    *peer = g && g->state == SS_GROUP_VOTING ? g->vote.peer : call->f.c.x.t->rank;
    return SS_PHASE_VOTE;
}

/* Gives up the work in flight of the call's group, for all its calls. */
static void cancel(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;

    if (call->member.group && call->member.group->state != SS_GROUP_FAILED)
        ss_group_fail(call->member.group, x->failed, x->failed_peer, x->failed_phase);
    if (call->member.group)
        ss_group_leave(&call->member);
    ss_exchange_cancel(x);
}

/* ---- the exchange ---- */

static int step_exchange(struct ss_call *call)
{
    struct ss_group *g = call->member.group;
    struct ss_exchange *x = &call->f.c.x;

    if (g->state == SS_GROUP_FAILED)
        return fail_with(&call->member, x);
    if (exchanges(g) && call == g->first)
        ss_group_step(g, x);
    if (g->state != SS_GROUP_OVER)
        return SS_PENDING;
    ss_group_share(g, call->member.index, &call->f.c);
    call->flight.overlapped = true;
    ss_group_leave(&call->member);
    return SS_OK;
}

static const struct ss_driver exchange_driver = {
    .then = SS_THEN_DRAIN, .step = step_exchange, .waiting_for = waits_for, .cancel = cancel};

/* A single one goes by itself. */
static void release_one(struct ss_group *g)
{
    for (unsigned i = 0; i < g->voted; i++)
        if (g->members[i]) {
            struct ss_call *call = g->members[i];
            g->members[i] = NULL;
            ss_call_drive(call, &ss_algorithm_driver);
            ss_group_leave(&call->member);
        }
}

static void decided(struct ss_call *call)
{
    struct ss_group *g = call->member.group;

    g->decided++;
    if (ss_call_is_driven_by(call, &ss_algorithm_driver) && ss_group_takes(g, call))
        ss_call_drive(call, &exchange_driver);
    else
        g->members[call->member.index] = NULL;
    if (g->decided == g->voted && ss_group_start(g))
        count(call->f.comm, &(struct ss_merged_record){.exchanges = 1, .merged = g->merged});
    else if (g->decided == g->voted)
        release_one(g);
    if (!ss_call_is_driven_by(call, &exchange_driver) && call->member.group)
        ss_group_leave(&call->member);
}

const struct ss_driver ss_group_vote_driver = {.then = SS_THEN_DECIDE,
                                               .start = post,
                                               .step = step_in_group,
                                               .waiting_for = waits_for,
                                               .cancel = cancel,
                                               .decided = decided,
                                               .is_open = is_open};

bool ss_call_follows(const struct ss_call *call)
{
    const struct ss_group *g = call->member.group;

    if (ss_call_is_driven_by(call, &ss_group_vote_driver) && g)
        return call->member.index > 0 &&
               (g->state == SS_GROUP_VOTING || g->state == SS_GROUP_PLANNING ||
                (g->state == SS_GROUP_VOTED && g->decided != call->member.index));
    return ss_call_is_driven_by(call, &exchange_driver) && g && call != g->first &&
           (g->state == SS_GROUP_VOTED || g->state == SS_GROUP_RUNNING ||
            g->state == SS_GROUP_DRAINING);
}
