/* What all ranks have found of identity, and from which call on it holds. */
#include <stdlib.h>

#include "core/tensor/tensor_impl.h"

void ss_tensors_join_now(struct ss_tensors *ts, uint32_t number)
{
    struct ss_tensor_lane *lane = &ts->lanes[number];

    if (!lane->joined)
        ss_steps_join(&ts->steps, number);
    lane->joined = true;
    free(lane->sites);
    lane->sites = NULL;
    lane->site_count = lane->site_room = 0;
}

static void make_change(struct ss_tensors *ts, const struct ss_tensor_change *c)
{
    if (c->kind == SS_CHANGE_UNMARK)
        ss_steps_unmark(&ts->steps, c->what, c->from == 0, (uint32_t)ts->calls);
    else if (c->kind == SS_CHANGE_TOO_SHORT)
        ss_steps_too_short(&ts->steps, c->what);
    else if (c->what < ts->lane_count)
        ss_tensors_join_now(ts, c->what);
}

/* Each counts, and in its own call: votes may end in another order on another rank, and there after
 * an equal change of an earlier call has been made. */
static void change_later(struct ss_tensors *ts, const struct ss_tensor_change *change)
{
    for (unsigned i = 0; i < ts->changing; i++) {
        const struct ss_tensor_change *c = &ts->changes[i];
        if (c->kind == change->kind && c->what == change->what && c->from == change->from)
            return;
    }
    if (ts->changing < SS_TENSOR_CHANGES)
        ts->changes[ts->changing++] = *change;
}

static void drop(struct ss_tensors *ts, unsigned i)
{
    ts->changes[i] = ts->changes[--ts->changing];
}

static void make_due(struct ss_tensors *ts, enum ss_tensor_change_kind kind, bool overlaps)
{
    for (unsigned i = ts->changing; i-- > 0;) {
        struct ss_tensor_change c = ts->changes[i];
        if (c.kind != kind || (overlaps && c.from > ts->calls))
            continue;
        drop(ts, i);
        make_change(ts, &c);
    }
}

/* By kinds: they stand in another order on another rank. */
void ss_tensors_change_due(struct ss_tensors *ts, bool overlaps)
{
    for (int kind = SS_CHANGE_JOIN; kind <= SS_CHANGE_TOO_SHORT && ts->changing > 0; kind++)
        make_due(ts, (enum ss_tensor_change_kind)kind, overlaps);
}

static void change(struct ss_tensors *ts, const struct ss_tensor_change *change)
{
    pthread_mutex_lock(&ts->lock);
    if (change->from > 0)
        change_later(ts, change);
    else
        make_change(ts, change);
    pthread_mutex_unlock(&ts->lock);
}

void ss_tensors_join(struct ss_tensors *ts, uint32_t lane, uint64_t from)
{
    change(ts, &(struct ss_tensor_change){from, SS_CHANGE_JOIN, lane});
}

void ss_tensors_unmark(struct ss_tensors *ts, unsigned marks, uint64_t from)
{
    change(ts, &(struct ss_tensor_change){from, SS_CHANGE_UNMARK, marks});
}

void ss_tensors_too_short(struct ss_tensors *ts, uint32_t period, uint64_t from)
{
    change(ts, &(struct ss_tensor_change){from, SS_CHANGE_TOO_SHORT, period});
}

void ss_tensors_forget_joins(struct ss_tensors *ts, uint32_t lane)
{
    for (unsigned i = ts->changing; i-- > 0;)
        if (ts->changes[i].kind == SS_CHANGE_JOIN && ts->changes[i].what == lane)
            drop(ts, i);
}
