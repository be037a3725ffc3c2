/* The numbers behind the summary, each with its legend: JSON alone has them. */
#include <time.h>

#include "core/report/report_impl.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

void ss_report_add_up(struct ss_stats *stats, struct ss_report_totals *totals)
{
    *totals = (struct ss_report_totals){0};
    for (const struct ss_lane_record *r = stats->lanes; r; r = r->next) {
        totals->bytes_dense += r->bytes_dense;
        totals->bytes_sent += r->bytes_sent;
        ss_times_add(&totals->times, &r->times);
    }
    for (int i = 0; i < SS_REASONS; i++)
        totals->passed += atomic_load(&stats->passed[i]);
}

void ss_report_date(int64_t unix_seconds, char *buffer, size_t size)
{
    time_t at = (time_t)unix_seconds;
    struct tm parts;

    buffer[0] = '\0';
    if (gmtime_r(&at, &parts) && parts.tm_year > -1900 && parts.tm_year < 8100)
        strftime(buffer, size, "%Y-%m-%d %H:%M:%S UTC", &parts); /* digits in any locale */
}

#define KEY(key, legend)                                                                           \
    {                                                                                              \
        key, NULL, 0, 0, legend                                                                    \
    }

static const struct ss_emit_column job_keys[] = {
    KEY("program", "name of the program"),
    KEY("hostname", "host of this rank"),
    KEY("rank", "rank in the world, -1 where it is not known"),
    KEY("ranks", "ranks of the world, 0 where they are not known"),
    KEY("version", "of libsparseshim"),
    KEY("mpi_library", "what MPI_Get_library_version says"),
    KEY("start", "date and time of the first call that was looked at, UTC"),
    KEY("start_unix", "the same in seconds since 1970"),
    KEY("observe", "MODE is observe: nothing was changed, and what could be gained is predicted"),
    KEY("complete", "the job has ended; false: the report is what was known until then"),
};
const struct ss_emit_group ss_report_job_group = {"job", "The job", job_keys, LENGTH(job_keys)};

static void write_job(struct ss_emit *e, const struct ss_report_job *job)
{
    char date[64];

    ss_report_date(job->start_unix, date, sizeof date);
    const struct ss_emit_value values[LENGTH(job_keys)] = {
        ss_v_text(job->program),  ss_v_text(job->hostname),      ss_v_integer(job->rank),
        ss_v_integer(job->ranks), ss_v_text(job->version),       ss_v_text(job->mpi_library),
        ss_v_text(date),          ss_v_integer(job->start_unix), ss_v_bool(job->observe),
        ss_v_bool(job->complete),
    };
    ss_emit_group(e, &ss_report_job_group, values);
}

static const struct ss_emit_column calls_keys[] = {
    KEY("seen", "calls of the collectives that are looked at, eligible or not"),
    KEY("eligible", "calls that could be served by their count, type, operator, buffers and "
                    "communicator"),
    KEY("sparse", "calls made sparse"),
    KEY("passed", "calls handed to the MPI library; the reasons are in \"passed\""),
    KEY("nonblocking", "nonblocking calls taken over"),
    KEY("not_timed", "nonblocking calls handed on, which end in waits that are not "
                     "timed"),
    KEY("errors", "calls that returned an error of libsparseshim"),
    KEY("tensors_unlisted", "tensors that found no room in the report"),
};
const struct ss_emit_group ss_report_calls_group = {"calls", "Calls", calls_keys,
                                                    LENGTH(calls_keys)};

static void write_calls(struct ss_emit *e, struct ss_stats *stats, const struct ss_report_totals *t)
{
    const struct ss_emit_value values[LENGTH(calls_keys)] = {
        ss_v_count(atomic_load(&stats->seen)),        ss_v_count(ss_stats_eligible(stats)),
        ss_v_count(atomic_load(&stats->sparse)),      ss_v_count(t->passed),
        ss_v_count(atomic_load(&stats->nonblocking)), ss_v_count(atomic_load(&stats->not_timed)),
        ss_v_count(atomic_load(&stats->errors)),      ss_v_count(stats->tensors_unlisted),
    };
    ss_emit_group(e, &ss_report_calls_group, values);
}

static const struct ss_emit_column bytes_keys[] = {
    KEY("bytes_dense", "bytes that a dense collective would have sent from this rank, over all "
                       "eligible calls"),
    KEY("bytes_sent", "bytes sent by this rank in these calls, votes included"),
    KEY("ratio", "bytes_dense / bytes_sent"),
    KEY("bytes_calibration", "bytes sent by this rank, not for a call but to measure the network"),
    KEY("bytes_outside", "bytes in the buffers of calls that are in none of the lanes"),
    KEY("bytes_largest", "bytes in the largest buffer reduced"),
    KEY("bytes_largest_total", "bytes reduced in buffers of that size, over all calls"),
    KEY("bytes_reduced_total", "bytes reduced in all eligible calls"),
    KEY("share_largest", "bytes_largest_total / bytes_reduced_total"),
    KEY("bytes_memory_peak", "most memory that libsparseshim had for residuals and work space"),
};
const struct ss_emit_group ss_report_bytes_group = {"bytes", "Bytes", bytes_keys,
                                                    LENGTH(bytes_keys)};

static void write_bytes(struct ss_emit *e, struct ss_stats *stats, const struct ss_report_totals *t)
{
    const struct ss_emit_value values[LENGTH(bytes_keys)] = {
        ss_v_bytes(t->bytes_dense),
        ss_v_bytes(t->bytes_sent),
        ss_v_factor(ss_ratio((double)t->bytes_dense, (double)t->bytes_sent)),
        ss_v_bytes(atomic_load(&stats->calibration_bytes)),
        ss_v_bytes(atomic_load(&stats->small_bytes)),
        ss_v_bytes(stats->largest_bytes),
        ss_v_bytes(stats->largest_total),
        ss_v_bytes(stats->reduced_total),
        ss_v_share(ss_ratio((double)stats->largest_total, (double)stats->reduced_total)),
        ss_v_bytes(stats->memory_peak),
    };
    ss_emit_group(e, &ss_report_bytes_group, values);
}

static const struct ss_emit_column times_keys[] = {
    KEY("seconds_elapsed", "seconds from the first call that was looked at to the report"),
    KEY("timed", "all calls were timed: REPORT is on, or MODE is observe"),
    KEY("seconds_allreduce", "seconds in all calls that are looked at, small ones included"),
    KEY("share_allreduce", "f, seconds_allreduce / seconds_elapsed; null where some calls end in "
                           "waits that are not timed"),
    KEY("amdahl_cap", "1 / (1 - f), how many times faster the job would be without these calls"),
    KEY("seconds_scan", "seconds looking for the entries to send, in all lanes"),
    KEY("seconds_vote", "seconds agreeing on the call, the wait for the last rank included"),
    KEY("seconds_exchange", "seconds sending and receiving, waits included"),
    KEY("seconds_merge", "seconds adding up what was received"),
    KEY("seconds_coding", "seconds encoding and decoding"),
    KEY("seconds_native", "seconds in the MPI library's own collectives, of eligible calls"),
};
const struct ss_emit_group ss_report_times_group = {"times", "Times", times_keys,
                                                    LENGTH(times_keys)};

static void write_times(struct ss_emit *e, struct ss_stats *stats, const struct ss_report_totals *t)
{
    double f = ss_report_share(stats);
    const struct ss_emit_value values[LENGTH(times_keys)] = {
        ss_v_seconds(stats->end - stats->start),
        ss_v_bool(stats->timed),
        ss_v_seconds(stats->allreduce_seconds),
        ss_v_share(f),
        ss_v_factor(ss_ratio(1, 1 - f)),
        ss_v_seconds(t->times.scan),
        ss_v_seconds(t->times.vote),
        ss_v_seconds(t->times.exchange),
        ss_v_seconds(t->times.merge),
        ss_v_seconds(t->times.coding),
        ss_v_seconds(t->times.native),
    };
    ss_emit_group(e, &ss_report_times_group, values);
}

static const struct ss_emit_column merged_keys[] = {
    KEY("merge", "MERGE is on"),
    KEY("joint_votes", "votes of neighbouring nonblocking calls at once, MERGE"),
    KEY("joint_calls", "calls that they agreed on"),
    KEY("joint_exchanges", "exchanges of several calls at once"),
    KEY("joint_sent", "calls in them"),
    KEY("joint_held", "joint votes that waited in vain for a further call"),
    KEY("planned_groups", "MERGE: groups of a step by the last plan, 0 = none"),
    KEY("planned_calls", "calls of a step that it is for"),
    KEY("planned_step_seconds", "predicted time from the first of them to the end of the step"),
    KEY("planned_hidden_seconds", "of that, communication behind computation"),
    KEY("planned_exposed_seconds", "and communication after it"),
    KEY("measured_steps", "steps measured since that plan holds"),
    KEY("measured_period_seconds", "mean time from the first call of a step to that of the next"),
    KEY("measured_step_seconds", "from it to the end of the last call: what is predicted above"),
    KEY("measured_backward_seconds", "of that, the program's own between its calls"),
    KEY("measured_selection_seconds", "and selection"),
    KEY("measured_hidden_seconds", "communication of a step, votes included, behind computation"),
    KEY("measured_exposed_seconds", "and time in waits and tests for such calls"),
};
const struct ss_emit_group ss_report_merged_group = {"merged", "Calls that went together",
                                                     merged_keys, LENGTH(merged_keys)};

/* Only where it was asked for. */
static void write_merged(struct ss_emit *e, const struct ss_merged_record *r)
{
    const struct ss_measured_step *m = &r->measured;
    bool plan = r->groups > 0, measured = m->steps > 0;

    if (!r->on)
        return;
    const struct ss_emit_value values[LENGTH(merged_keys)] = {
        ss_v_bool(r->on),
        ss_v_count(r->votes),
        ss_v_count(r->calls),
        ss_v_count(r->exchanges),
        ss_v_count(r->merged),
        ss_v_count(r->held),
        ss_v_count(r->groups),
        ss_v_count(r->planned),
        ss_v_seconds(plan ? r->step : NAN),
        ss_v_seconds(plan ? r->hidden : NAN),
        ss_v_seconds(plan ? r->exposed : NAN),
        ss_v_count(m->steps),
        ss_v_seconds(measured ? m->period : NAN),
        ss_v_seconds(measured ? m->step : NAN),
        ss_v_seconds(measured ? m->backward : NAN),
        ss_v_seconds(measured ? m->selection : NAN),
        ss_v_seconds(measured ? m->hidden : NAN),
        ss_v_seconds(measured ? m->exposed : NAN),
    };
    ss_emit_group(e, &ss_report_merged_group, values);
}

static const struct ss_emit_column blocking_keys[] = {
    KEY("step_calls", "blocking calls of a step, one after another, that MERGE could take"),
    KEY("step_seconds", "mean time from the first of them to the end of the last"),
    KEY("predicted_seconds", "the same, as the planner of MERGE=auto has it"),
    KEY("merged_groups", "groups that it would have, were they nonblocking"),
    KEY("merged_seconds", "predicted time to the end of the last of these"),
};
const struct ss_emit_group ss_report_blocking_group = {
    "blocking", "Blocking calls that could go together", blocking_keys, LENGTH(blocking_keys)};

static void write_blocking(struct ss_emit *e, const struct ss_blocking_record *r)
{
    if (r->calls == 0)
        return;
    const struct ss_emit_value values[LENGTH(blocking_keys)] = {
        ss_v_count(r->calls),  ss_v_seconds(r->measured), ss_v_seconds(r->now),
        ss_v_count(r->groups), ss_v_seconds(r->then),
    };
    ss_emit_group(e, &ss_report_blocking_group, values);
}

void ss_report_numbers(struct ss_emit *emit, struct ss_stats *stats,
                       const struct ss_report_job *job, const struct ss_report_totals *totals)
{
    write_job(emit, job);
    write_calls(emit, stats, totals);
    write_bytes(emit, stats, totals);
    write_times(emit, stats, totals);
    ss_report_rounds_numbers(emit, &stats->rounds);
    write_merged(emit, &stats->merged);
    write_blocking(emit, &stats->blocking);
}
