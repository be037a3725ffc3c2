/* What all ranks have found of identity, and from which call on it holds. */
#include <stdlib.h>
#include <string.h>

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

static size_t most_changes(const struct ss_tensors *ts)
{
    return SS_TENSOR_CHANGES * (size_t)ts->overlap;
}

static void make_change(struct ss_tensors *ts, enum ss_tensor_change_kind kind, uint32_t what)
{
    if (kind == SS_CHANGE_UNMARK)
        ss_steps_unmark(&ts->steps, what);
    else if (kind == SS_CHANGE_TOO_SHORT)
        ss_steps_too_short(&ts->steps, what);
    else if (what < ts->lane_count)
        ss_tensors_join_now(ts, what);
}

static void change_later(struct ss_tensors *ts, const struct ss_tensor_change *change)
{
    struct ss_tensor_change *free_one = NULL;

    for (size_t i = 0; i < most_changes(ts); i++)
        if (ts->changes[i].from == 0)
            free_one = &ts->changes[i];
    if (free_one) {
        *free_one = *change;
        ts->changing++;
    }
}

void ss_tensors_change_due(struct ss_tensors *ts, bool overlaps)
{
    for (size_t i = 0; i < most_changes(ts) && ts->changing > 0; i++) {
        struct ss_tensor_change *c = &ts->changes[i];
        if (c->from == 0 || (overlaps && c->from > ts->calls))
            continue;
        make_change(ts, c->kind, c->what);
        c->from = 0;
        ts->changing--;
    }
}

static void change(struct ss_tensors *ts, const struct ss_tensor_change *change)
{
    pthread_mutex_lock(&ts->lock);
    if (change->from > 0)
        change_later(ts, change);
    else
        make_change(ts, change->kind, change->what);
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
    for (size_t i = 0; i < most_changes(ts) && ts->changing > 0; i++) {
        struct ss_tensor_change *c = &ts->changes[i];
        if (c->from > 0 && c->kind == SS_CHANGE_JOIN && c->what == lane) {
            c->from = 0;
            ts->changing--;
        }
    }
}
