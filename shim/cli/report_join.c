#include "shim/cli/report_join.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/tensor_record.h"

/* What there is to know of a list of records. */
struct list {
    const void *(*first)(const struct cli_report *report);
    const void *(*next)(const void *record);
    bool (*same)(const void *a, const void *b, bool loose);
};

static const void *first_lane(const struct cli_report *report)
{
    return report->stats.lanes;
}

static const void *next_lane(const void *lane)
{
    return ((const struct ss_lane_record *)lane)->next;
}

static bool same_lane(const void *a, const void *b, bool loose)
{
    const struct ss_lane_record *p = a, *q = b;

    return p->count == q->count && p->type == q->type && p->op == q->op && p->kind == q->kind &&
           (loose || p->size == q->size) && strcmp(p->comm, q->comm) == 0;
}

static const void *first_tensor(const struct cli_report *report)
{
    return report->stats.tensors;
}

static const void *next_tensor(const void *tensor)
{
    return ((const struct ss_tensor_record *)tensor)->next;
}

static bool same_tensor(const void *a, const void *b, bool loose)
{
    const struct ss_tensor_record *p = a, *q = b;

    return p->count == q->count && p->type == q->type && p->ordinal == q->ordinal &&
           strcmp(p->comm, q->comm) == 0 &&
           (loose || (p->size == q->size && strcmp(p->site, q->site) == 0 &&
                      strcmp(p->symbol, q->symbol) == 0));
}

/* The row of a record, from `from` on and then from the beginning: reports mostly agree in their
 * order. A new one where there is none; SIZE_MAX where memory is short. */
static size_t row_of(struct cli_join *join, const struct list *list, size_t report,
                     const void *record, size_t from)
{
    for (size_t i = 0; i < join->rows; i++) {
        size_t row = (from + i) % join->rows;

        if (cli_joined(join, row, report) == NULL &&
            list->same(cli_joined_any(join, row), record, join->loose))
            return row;
    }
    if (join->rows == join->room) {
        size_t room = 2 * join->room + 16;
        const void **larger = realloc(join->cell, room * join->reports * sizeof *larger);

        if (larger == NULL)
            return SIZE_MAX;
        memset(larger + join->room * join->reports, 0,
               (room - join->room) * join->reports * sizeof *larger);
        join->cell = larger;
        join->room = room;
    }
    return join->rows++;
}

static bool join_all(struct cli_join *join, const struct cli_job *job, bool loose,
                     const struct list *list)
{
    *join = (struct cli_join){.reports = job->n, .loose = loose};
    for (size_t r = 0; r < job->n; r++) {
        size_t row = 0;

        for (const void *at = list->first(job->file[r].report); at != NULL; at = list->next(at)) {
            row = row_of(join, list, r, at, row);
            if (row == SIZE_MAX)
                return false;
            join->cell[row * join->reports + r] = at;
            row++;
        }
    }
    return true;
}

bool cli_join_lanes(struct cli_join *join, const struct cli_job *job, bool loose)
{
    return join_all(join, job, loose, &(struct list){first_lane, next_lane, same_lane});
}

bool cli_join_tensors(struct cli_join *join, const struct cli_job *job, bool loose)
{
    return join_all(join, job, loose, &(struct list){first_tensor, next_tensor, same_tensor});
}

void cli_join_free(struct cli_join *join)
{
    free(join->cell);
    join->cell = NULL;
    join->rows = join->room = 0;
}

const void *cli_joined_any(const struct cli_join *join, size_t row)
{
    const void *found = NULL;

    for (size_t r = 0; r < join->reports && found == NULL; r++)
        found = cli_joined(join, row, r);
    return found;
}

static int by_value(const void *a, const void *b)
{
    const struct cli_value *p = a, *q = b;

    return p->value != q->value ? (p->value > q->value) - (p->value < q->value)
                                : (p->rank > q->rank) - (p->rank < q->rank);
}

struct cli_spread cli_spread_of(struct cli_value *values, size_t n)
{
    struct cli_spread s = {0, NAN, NAN, NAN, NAN, -1, -1};
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i].value)) {
            sum += values[i].value;
            values[s.n++] = values[i];
        }
    if (s.n == 0)
        return s;
    qsort(values, s.n, sizeof *values, by_value);
    s.least = values[0].value;
    s.median = (values[(s.n - 1) / 2].value + values[s.n / 2].value) / 2;
    s.most = values[s.n - 1].value;
    s.sum = sum;
    s.rank_least = values[0].rank;
    s.rank_most = values[s.n - 1].rank;
    return s;
}

double cli_lane_density(const struct ss_lane_record *lane)
{
    return ss_ratio(lane->density_sum, (double)lane->scans);
}

double cli_lane_seconds(const struct ss_lane_record *lane)
{
    const struct ss_times *t = &lane->times;

    return t->scan + t->vote + t->exchange + t->merge + t->coding + t->native;
}

double cli_tensor_density(const struct ss_tensor_record *tensor)
{
    return ss_ratio(tensor->density_sum, (double)tensor->topk_calls);
}

double cli_tensor_ratio(const struct ss_tensor_record *tensor)
{
    return ss_ratio(tensor->residual_norm, tensor->input_norm);
}
