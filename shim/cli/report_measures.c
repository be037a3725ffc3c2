#include "shim/cli/report_measures.h"

#include <math.h>

#include "core/report/tensor_record.h"
#include "shim/cli/report_join.h"

static struct ss_report_totals totals(const struct cli_report *report)
{
    struct ss_report_totals t;

    ss_report_add_up((struct ss_stats *)&report->stats, &t);
    return t;
}

static double elapsed(const struct cli_report *r)
{
    return r->stats.end - r->stats.start;
}

static double allreduce(const struct cli_report *r)
{
    return r->stats.timed ? r->stats.allreduce_seconds : NAN;
}

static double share(const struct cli_report *r)
{
    return ss_report_share(&r->stats);
}

#define PHASE(phase)                                                                               \
    static double phase(const struct cli_report *r)                                                \
    {                                                                                              \
        return totals(r).times.phase;                                                              \
    }
PHASE(scan)
PHASE(vote)
PHASE(exchange)
PHASE(merge)
PHASE(coding)
PHASE(native)

static double work(const struct cli_report *r)
{
    struct ss_times t = totals(r).times;

    return t.scan + t.merge + t.coding;
}

static double waits(const struct cli_report *r)
{
    struct ss_times t = totals(r).times;

    return t.vote + t.exchange + t.native;
}

static double sent(const struct cli_report *r)
{
    return (double)totals(r).bytes_sent;
}

static double dense(const struct cli_report *r)
{
    return (double)totals(r).bytes_dense;
}

static double memory(const struct cli_report *r)
{
    return (double)r->stats.memory_peak;
}

static double sparse_calls(const struct cli_report *r)
{
    return (double)atomic_load(&r->stats.sparse);
}

static double passed_calls(const struct cli_report *r)
{
    return (double)totals(r).passed;
}

static double error_calls(const struct cli_report *r)
{
    return (double)atomic_load(&r->stats.errors);
}

/* Of the tensor that holds back most. */
static double residual(const struct cli_report *r)
{
    double most = NAN;

    for (const struct ss_tensor_record *t = r->stats.tensors; t != NULL; t = t->next)
        if (!(cli_tensor_ratio(t) <= most) && isfinite(cli_tensor_ratio(t)))
            most = cli_tensor_ratio(t);
    return most;
}

/* NaN without partial calls: most jobs have none, and no row for them. */
#define ROUNDS(name, what)                                                                         \
    static double name(const struct cli_report *r)                                                 \
    {                                                                                              \
        const struct ss_rounds_record *rounds = &r->stats.rounds;                                  \
        return rounds->sum.rounds > 0 ? (double)(what) : NAN;                                      \
    }
ROUNDS(rounds_all, rounds->sum.rounds)
ROUNDS(rounds_in, rounds->sum.in)
ROUNDS(rounds_late, rounds->sum.late)
ROUNDS(rounds_waited, rounds->sum.waited)
ROUNDS(rounds_behind, rounds->sum.behind)
ROUNDS(rounds_thread, rounds->thread / rounds->thread_lived)

const struct cli_measure cli_measures[CLI_MEASURES] = {
    [CLI_ELAPSED] = {"seconds_elapsed", "job, from its first call", SS_V_SECONDS, false, elapsed},
    [CLI_ALLREDUCE] = {"seconds_allreduce", "in allreduce", SS_V_SECONDS, false, allreduce},
    [CLI_SHARE] = {"share_allreduce", "f, its share", SS_V_SHARE, false, share},
    [CLI_SCAN] = {"seconds_scan", "scan", SS_V_SECONDS, false, scan},
    [CLI_VOTE] = {"seconds_vote", "vote", SS_V_SECONDS, false, vote},
    [CLI_EXCHANGE] = {"seconds_exchange", "exchange", SS_V_SECONDS, false, exchange},
    [CLI_MERGE] = {"seconds_merge", "merge", SS_V_SECONDS, false, merge},
    [CLI_CODING] = {"seconds_coding", "coding", SS_V_SECONDS, false, coding},
    [CLI_NATIVE] = {"seconds_native", "native", SS_V_SECONDS, false, native},
    [CLI_WORK] = {"seconds_work", "scan, merge, coding", SS_V_SECONDS, false, work},
    [CLI_WAITS] = {"seconds_waits", "vote, exchange, native", SS_V_SECONDS, false, waits},
    [CLI_DENSE] = {"bytes_dense", "dense", SS_V_MEAN, true, dense},
    [CLI_SENT] = {"bytes_sent", "sent", SS_V_MEAN, true, sent},
    [CLI_MEMORY] = {"bytes_memory_peak", "memory", SS_V_MEAN, true, memory},
    [CLI_CALLS_SPARSE] = {"calls_sparse", "calls made sparse", SS_V_COUNT, false, sparse_calls},
    [CLI_CALLS_PASSED] = {"calls_passed", "calls passed through", SS_V_COUNT, false, passed_calls},
    [CLI_CALLS_ERRORS] = {"calls_errors", "errors", SS_V_COUNT, false, error_calls},
    [CLI_RESIDUAL] = {"residual_ratio", "largest residual to input", SS_V_FACTOR, false, residual},
    [CLI_ROUNDS] = {"rounds", "partial allreduces", SS_V_COUNT, false, rounds_all},
    [CLI_ROUNDS_IN] = {"rounds_in", "rounds it was in", SS_V_COUNT, true, rounds_in},
    [CLI_ROUNDS_LATE] = {"rounds_late", "gradients late", SS_V_COUNT, true, rounds_late},
    [CLI_ROUNDS_WAITED] = {"seconds_waited", "waited in rounds", SS_V_SECONDS, false,
                           rounds_waited},
    [CLI_ROUNDS_BEHIND] = {"seconds_behind", "fell behind, not waited for", SS_V_SECONDS, true,
                           rounds_behind},
    [CLI_ROUNDS_THREAD] = {"share_thread", "thread, of a core", SS_V_SHARE, false, rounds_thread},
};

struct ss_emit_value cli_measure_value(const struct cli_measure *measure, double number)
{
    bool whole = number >= 0 && number < 1e15 && number == (double)(uint64_t)number;

    if (measure->kind != SS_V_COUNT)
        return ss_v_number(measure->kind, number);
    return whole ? ss_v_count((uint64_t)number) : ss_v_number(SS_V_FACTOR, number);
}
