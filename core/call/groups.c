/* The groups of a communicator: their storage, and facts about calls for core/call/in_flight.c. */
#include <stdlib.h>

#include "core/call/group_impl.h"

struct ss_group *ss_group_new(struct ss_grouping *gs)
{
    struct ss_group *g = gs->groups;
    size_t room = ss_group_vote_room(gs->comm->t->size, SS_MERGED);

    while (g && g->state != SS_GROUP_FREE)
        g = g->next;
    if (g)
        return g;
    if (!(g = calloc(1, sizeof *g)))
        return NULL;
    if (ss_buf_reserve(&g->messages, gs->comm->mem, room) != SS_OK) {
        free(g);
        return NULL;
    }
    g->next = gs->groups;
    gs->groups = g;
    return g;
}

struct ss_grouping *ss_grouping_create(struct ss_comm *comm)
{
    struct ss_grouping *gs = calloc(1, sizeof *gs);

    if (!gs)
        return NULL;
    gs->comm = comm;
    if (!(gs->plan = ss_group_plan_create(comm)) || !ss_group_new(gs)) {
        ss_grouping_free(gs);
        return NULL;
    }
    return gs;
}

void ss_grouping_free(struct ss_grouping *gs)
{
    struct ss_group *g = gs ? gs->groups : NULL, *next;

    for (; g; g = next) {
        next = g->next;
        ss_buf_free(&g->messages);
        ss_work_free(&g->work);
        free(g);
    }
    if (gs)
        ss_group_plan_free(gs->plan);
    free(gs);
}

void ss_grouping_drop_idle(struct ss_grouping *gs)
{
    for (struct ss_group *g = gs ? gs->groups : NULL; g; g = g->next)
        if (g->state == SS_GROUP_FREE)
            ss_work_free(&g->work);
}

void ss_grouping_forget(struct ss_grouping *gs)
{
    for (struct ss_group *g = gs ? gs->groups : NULL; g; g = g->next)
        if (g->state != SS_GROUP_FREE)
            g->state = SS_GROUP_FAILED;
}

/* Lets a call leave its group. A failed group keeps its storage, since messages may still be on
 * their way into it. */
void ss_group_leave(struct ss_group_member *member)
{
    struct ss_group *g = member->group;

    member->group = NULL;
    if (--g->calls == 0 && g->state != SS_GROUP_FAILED)
        g->state = SS_GROUP_FREE;
}

bool ss_group_may_merge(const struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;

    return f->comm->grouping && f->nonblocking && f->c.kind == SS_KIND_ALLREDUCE &&
           f->c.op == SS_SUM && (x->type == SS_F32 || x->type == SS_F64) && f->key.window == 0 &&
           f->lane->number < SS_LANES && x->n < SS_WINDOW;
}

void ss_call_wait_for_none(struct ss_call *call)
{
    call->member.waits_for_none = true;
    if (call->member.group)
        call->member.group->waits_for_none = true;
}

void ss_comm_wait_for_none(struct ss_comm *comm)
{
    for (struct ss_call *o = comm->grouping ? comm->open : NULL; o; o = o->flight.next_open)
        if (o->member.merges)
            ss_call_wait_for_none(o);
}
