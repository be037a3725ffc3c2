/* Measured times of planned steps. What a call does beside the program from the vote on is its
 * communication; of that what the program waits for is exposed. */
#include "core/call/group_times.h"

#include <stdlib.h>
#include <string.h>

void ss_group_times_start(struct ss_group_times *t, struct ss_stats *stats, double now)
{
    t->begun = t->ended = now;
    t->sum = (struct ss_measured_step){.steps = 0};
    t->communication = t->of_step = 0;
    t->since = now;
    t->waited = atomic_load(&stats->waited_ns);
}

void ss_group_times_stop(struct ss_group_times *t)
{
    t->begun = 0;
}

static double per_step(const struct ss_group_times *t, double seconds)
{
    return seconds / (double)t->sum.steps;
}

static void publish(const struct ss_group_times *t, struct ss_stats *stats)
{
    double waited = 1e-9 * (double)(atomic_load(&stats->waited_ns) - t->waited);
    double hidden = t->communication - waited;
    const struct ss_measured_step mean = {
        .steps = t->sum.steps,
        .period = per_step(t, t->sum.period),
        .step = per_step(t, t->sum.step),
        .backward = per_step(t, t->sum.backward),
        .selection = per_step(t, t->sum.selection),
        .hidden = hidden > 0 ? per_step(t, hidden) : 0,
        .exposed = per_step(t, waited),
    };

    pthread_mutex_lock(&stats->lock);
    stats->merged.measured = mean;
    pthread_mutex_unlock(&stats->lock);
}

static void book_communication(struct ss_group_times *t, double now)
{
    if (t->under_way > 0)
        t->of_step += now - t->since;
    t->since = now;
}

static void end_step(struct ss_group_times *t, struct ss_stats *stats, double now)
{
    book_communication(t, now);
    t->periods[t->sum.steps++ % SS_PERIODS_KEPT] = now - t->begun;
    t->sum.period += now - t->begun;
    t->sum.step += t->ended - t->begun;
    t->communication += t->of_step;
    t->of_step = 0;
    t->begun = t->ended = now;
    publish(t, stats);
}

void ss_group_times_next(struct ss_group_times *t, struct ss_stats *stats, double now, double gap,
                         double selected, bool first_of_step)
{
    if (t->begun == 0)
        return;
    t->sum.selection += selected;
    if (first_of_step)
        end_step(t, stats, now);
    else
        t->sum.backward += gap;
}

static int in_order(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

double ss_group_times_period(const struct ss_group_times *t)
{
    const size_t kept = t->sum.steps < SS_PERIODS_KEPT ? t->sum.steps : SS_PERIODS_KEPT;
    double sorted[SS_PERIODS_KEPT];

    if (kept == 0)
        return 0;
    memcpy(sorted, t->periods, sizeof sorted);
    qsort(sorted, kept, sizeof *sorted, in_order);
    return sorted[kept / 2];
}

void ss_group_times_cast(struct ss_group_times *t, double now)
{
    book_communication(t, now);
    t->under_way++;
}

void ss_group_times_over(struct ss_group_times *t, double now)
{
    book_communication(t, now);
    t->under_way--;
    t->ended = now;
}
