#include "shim/cli/try_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/tensor_record.h"

const char *trial_name(enum trial_form form)
{
    static const char *const names[TRIAL_FORMS] = {
        [TRIAL_OFF] = "off",
        [TRIAL_OBSERVE] = "observe",
        [TRIAL_EXACT] = "exact",
        [TRIAL_TOPK] = "topk",
    };

    return names[form];
}

/* ---- samples ---- */

static struct trial_rank *rank_of(struct trial *t, int rank)
{
    for (size_t i = 0; i < t->ranks; i++)
        if (t->rank[i].rank == rank)
            return &t->rank[i];
    struct trial_rank *list = realloc(t->rank, (t->ranks + 1) * sizeof *list);
    if (list == NULL)
        return NULL;
    t->rank = list;
    list[t->ranks] = (struct trial_rank){.rank = rank};
    return &list[t->ranks++];
}

/* Where small calls pass unseen, as all do with the library off, they send what a dense allreduce
 * sends. */
static struct trial_sample sample_of(const struct cli_report *report)
{
    const struct ss_stats *s = &report->stats;
    int ranks = report->job.ranks; /* 0: not known */
    double outside = ranks > 0 ? (double)ss_kind_dense_bytes(SS_KIND_ALLREDUCE, ranks, false,
                                                             atomic_load(&s->small_bytes))
                               : (double)NAN;
    struct trial_sample sample = {.calls = atomic_load(&s->seen),
                                  .seconds = s->end - s->start,
                                  .inside = atomic_load(&s->not_timed) > 0 ? (double)NAN
                                                                           : s->allreduce_seconds,
                                  .sent = outside,
                                  .dense = outside};

    for (const struct ss_lane_record *l = s->lanes; l; l = l->next) {
        sample.sent += (double)l->bytes_sent;
        sample.dense += (double)l->bytes_dense;
    }
    return sample;
}

static bool add(struct trial_rank *rank, const struct trial_sample *sample)
{
    if (rank->samples > 0 && rank->sample[rank->samples - 1].calls >= sample->calls)
        return true;
    struct trial_sample *list = realloc(rank->sample, (rank->samples + 1) * sizeof *list);
    if (list == NULL)
        return false;
    rank->sample = list;
    list[rank->samples++] = *sample;
    return true;
}

static void seen(void *ctx, const struct cli_report *report)
{
    struct trial *t = ctx;
    struct trial_sample sample = sample_of(report);
    struct trial_rank *rank = rank_of(t, report->job.rank);

    if (rank == NULL || !add(rank, &sample))
        t->memory_short = true;
}

bool trial_read(struct trial *t)
{
    t->seen.seen = seen;
    t->seen.ctx = t;
    return cli_job_reports_read(&t->seen) && !t->memory_short;
}

uint64_t trial_calls(const struct trial *t)
{
    uint64_t least = UINT64_MAX;

    if (!cli_job_reports_all(&t->seen))
        return 0;
    for (size_t i = 0; i < t->ranks; i++) {
        const struct trial_rank *r = &t->rank[i];
        uint64_t calls = r->samples > 0 ? r->sample[r->samples - 1].calls : 0;
        least = calls < least ? calls : least;
    }
    return t->ranks > 0 ? least : 0;
}

/* ---- what they show ---- */

static double bytes_of(const struct ss_tensor_record *t, uint64_t calls)
{
    return (double)calls * (double)t->count * (double)ss_type_size(t->type);
}

/* A loop has a whole number of calls in each step; what comes before and behind it makes less than
 * a tenth. */
static double whole(double calls)
{
    double near = floor(calls + 0.5);

    return near >= 1 && fabs(calls - near) < 0.1 * calls ? near : calls;
}

double trial_calls_per_step(const struct trial *t)
{
    const struct ss_tensor_record *most = NULL;

    if (t->seen.reports == 0)
        return 1;
    const struct ss_stats *s = &t->seen.report[0].stats;
    for (const struct ss_tensor_record *r = s->tensors; r; r = r->next)
        if (most == NULL || bytes_of(r, r->calls) > bytes_of(most, most->calls))
            most = r;
    if (most == NULL || most->calls == 0)
        return 1;
    double calls = (double)atomic_load(&s->seen) / (double)most->calls;
    return calls > 1 ? whole(calls) : 1;
}

/* Where counting begins: at the first report by which a tenth of the calls were made, else at the
 * first of all; at nothing where there is but one. */
static struct trial_sample begin_of(const struct trial_rank *r)
{
    static const struct trial_sample nothing = {.calls = 0};
    uint64_t all = r->sample[r->samples - 1].calls;

    if (r->samples < 2)
        return nothing;
    for (size_t i = 0; i + 1 < r->samples; i++)
        if (r->sample[i].calls >= all / 10)
            return r->sample[i];
    return r->sample[0];
}

struct trial_rates trial_rates(const struct trial *t)
{
    struct trial_rates sum = {0, 0, 0, 0};
    double ranks = 0;

    for (size_t i = 0; i < t->ranks; i++) {
        const struct trial_rank *r = &t->rank[i];
        if (r->samples == 0)
            continue;
        const struct trial_sample *end = &r->sample[r->samples - 1];
        struct trial_sample begin = begin_of(r);
        double calls = (double)(end->calls - begin.calls);
        sum.seconds += (end->seconds - begin.seconds) / calls;
        sum.inside += (end->inside - begin.inside) / calls;
        sum.sent += (end->sent - begin.sent) / calls;
        sum.dense += (end->dense - begin.dense) / calls;
        ranks++;
    }
    if (ranks == 0)
        ranks = (double)NAN;
    return (struct trial_rates){sum.seconds / ranks, sum.inside / ranks, sum.sent / ranks,
                                sum.dense / ranks};
}

struct trial_lossy trial_lossy(const struct trial *t)
{
    struct trial_lossy lossy = {.tensors = 0};
    double bytes = 0;

    if (t->seen.reports == 0)
        return lossy;
    const struct ss_stats *s = &t->seen.report[0].stats;
    for (const struct ss_tensor_record *r = s->tensors; r; r = r->next) {
        lossy.all++;
        lossy.tensors += r->topk_calls > 0;
        bytes += bytes_of(r, r->topk_calls);
    }
    lossy.share = s->reduced_total > 0 ? bytes / (double)s->reduced_total : 0;
    return lossy;
}

void trial_free(struct trial *t)
{
    for (size_t i = 0; i < t->ranks; i++)
        free(t->rank[i].sample);
    free(t->rank);
    t->rank = NULL;
    t->ranks = 0;
    cli_job_reports_forget(&t->seen);
}
