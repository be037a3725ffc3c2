/* The members of a report, by tables of names and of the fields that they fill. */
#include "shim/cli/report_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/tensor_record.h"
#include "shim/cli/json_read.h"

/* What a member of an object is read into, at an offset from the object's struct. */
enum kind { K_U64, K_ATOMIC, K_SIZE, K_INT, K_I64, K_F64, K_BOOL, K_TEXT };

struct field {
    const char *key;
    enum kind kind;
    size_t offset;
};

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define STATS(key, kind, member)                                                                   \
    {                                                                                              \
        key, kind, offsetof(struct ss_stats, member)                                               \
    }
#define LANE(key, kind, member)                                                                    \
    {                                                                                              \
        key, kind, offsetof(struct ss_lane_record, member)                                         \
    }
#define TENSOR(key, kind, member)                                                                  \
    {                                                                                              \
        key, kind, offsetof(struct ss_tensor_record, member)                                       \
    }
#define JOB(key, kind, member)                                                                     \
    {                                                                                              \
        key, kind, offsetof(struct ss_report_job, member)                                          \
    }

static const struct field job_fields[] = {
    JOB("program", K_TEXT, program),
    JOB("hostname", K_TEXT, hostname),
    JOB("rank", K_INT, rank),
    JOB("ranks", K_INT, ranks),
    JOB("version", K_TEXT, version),
    JOB("mpi_library", K_TEXT, mpi_library),
    JOB("start_unix", K_I64, start_unix),
    JOB("observe", K_BOOL, observe),
    JOB("complete", K_BOOL, complete),
};

/* Members of "calls", "bytes" and "times"; their keys differ. Sums over lanes are made anew when
 * printing. */
static const struct field stats_fields[] = {
    STATS("seen", K_ATOMIC, seen),
    STATS("sparse", K_ATOMIC, sparse),
    STATS("nonblocking", K_ATOMIC, nonblocking),
    STATS("not_timed", K_ATOMIC, not_timed),
    STATS("errors", K_ATOMIC, errors),
    STATS("tensors_unlisted", K_U64, tensors_unlisted),
    STATS("bytes_outside", K_ATOMIC, small_bytes),
    STATS("bytes_largest", K_U64, largest_bytes),
    STATS("bytes_largest_total", K_U64, largest_total),
    STATS("bytes_reduced_total", K_U64, reduced_total),
    STATS("bytes_memory_peak", K_SIZE, memory_peak),
    STATS("seconds_elapsed", K_F64, end), /* start stays 0 */
    STATS("timed", K_BOOL, timed),
    STATS("seconds_allreduce", K_F64, allreduce_seconds),
};

static const struct field lane_fields[] = {
    LANE("ranks", K_INT, size),
    LANE("count", K_U64, count),
    LANE("calls", K_U64, calls),
    LANE("density_max", K_F64, density_max),
    LANE("bytes_dense", K_U64, bytes_dense),
    LANE("bytes_sent", K_U64, bytes_sent),
    LANE("seconds_scan", K_F64, times.scan),
    LANE("seconds_vote", K_F64, times.vote),
    LANE("seconds_exchange", K_F64, times.exchange),
    LANE("seconds_merge", K_F64, times.merge),
    LANE("seconds_coding", K_F64, times.coding),
    LANE("seconds_native", K_F64, times.native),
    LANE("scans", K_U64, scans),
    LANE("density_sum", K_F64, density_sum),
    LANE("fillin_calls", K_U64, fillin_calls),
    LANE("fillin_sum", K_F64, fillin_sum),
    LANE("topk_samples", K_U64, topk_samples),
    LANE("topk_density_sum", K_F64, topk_density_sum),
    LANE("topk_kept_sum", K_F64, topk_kept_sum),
};

static const struct field tensor_fields[] = {
    TENSOR("ranks", K_INT, size),
    TENSOR("count", K_U64, count),
    TENSOR("calls", K_U64, calls),
    TENSOR("topk_calls", K_U64, topk_calls),
    TENSOR("asked_sum", K_F64, asked_sum),
    TENSOR("density_sum", K_F64, density_sum),
    TENSOR("off_sum", K_F64, off_sum),
    TENSOR("global_calls", K_U64, global_calls),
    TENSOR("global_off_sum", K_F64, global_off_sum),
    TENSOR("residual_norm", K_F64, residual_norm),
    TENSOR("input_norm", K_F64, input_norm),
};

/* The report being read and the growing ends of its lists. */
struct reading {
    struct cli_report *report;
    struct ss_lane_record **tail;
    struct ss_report_option *options;
    const char **notes;
    bool schema_seen;
};

static bool read_size(struct cli_json *json, size_t *size)
{
    uint64_t value;

    if (!cli_json_u64(json, &value))
        return false;
    if (value > SIZE_MAX)
        return cli_json_fail(json, "number too large for this machine");
    *size = (size_t)value;
    return true;
}

static bool read_field(struct cli_json *json, enum kind kind, void *to)
{
    uint64_t value;

    switch (kind) {
    case K_U64:
        return cli_json_u64(json, to);
    case K_ATOMIC:
        if (!cli_json_u64(json, &value))
            return false;
        atomic_store((atomic_uint_fast64_t *)to, value);
        return true;
    case K_SIZE:
        return read_size(json, to);
    case K_INT:
        return cli_json_int(json, to);
    case K_I64:
        return cli_json_i64(json, to);
    case K_F64:
        return cli_json_f64(json, to);
    case K_BOOL:
        return cli_json_bool(json, to);
    case K_TEXT:
        return cli_json_text(json, to);
    }
    return false;
}

/* Reads the member if it is one of the fields, else passes it over. */
static bool read_member(struct cli_json *json, const char *key, const struct field *fields,
                        size_t n, void *object)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, fields[i].key) == 0)
            return read_field(json, fields[i].kind, (char *)object + fields[i].offset);
    return cli_json_skip(json);
}

static bool job_member(struct cli_json *json, const char *key, void *ctx)
{
    return read_member(json, key, job_fields, LENGTH(job_fields), ctx);
}

static bool stats_member(struct cli_json *json, const char *key, void *ctx)
{
    return read_member(json, key, stats_fields, LENGTH(stats_fields), ctx);
}

static const char *type_name(int i)
{
    return ss_type_name((enum ss_type)i);
}

static const char *op_name(int i)
{
    return ss_op_name((enum ss_op)i);
}

static const char *kind_name(int i)
{
    return ss_kind_name((enum ss_kind)i);
}

static const char *reason_key(int i)
{
    return ss_reason_key((enum ss_reason)i);
}

static const char *algorithm_name(int i)
{
    return ss_algorithm_name((enum ss_algorithm)i);
}

static int index_of(const char *text, const char *(*name)(int), int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(text, name(i)) == 0)
            return i;
    return -1;
}

/* The index of a name among n; -1 after saying that it is unknown. */
static int read_name(struct cli_json *json, const char *(*name)(int), int n)
{
    const char *text;
    int i = -1;

    if (cli_json_text(json, &text)) {
        i = text ? index_of(text, name, n) : -1;
        if (i < 0)
            cli_json_fail(json, "unknown name in this schema");
    }
    return i;
}

static bool sparse_member(struct cli_json *json, const char *key, void *ctx)
{
    struct ss_lane_record *lane = ctx;
    int i = index_of(key, algorithm_name, SS_ALGORITHMS);

    return i < 0 ? cli_json_skip(json) : cli_json_u64(json, &lane->sparse[i]);
}

static bool passed_member(struct cli_json *json, const char *key, void *ctx)
{
    struct ss_lane_record *lane = ctx;
    int i = index_of(key, reason_key, SS_REASONS);

    return i < 0 ? cli_json_skip(json) : cli_json_u64(json, &lane->passed[i]);
}

static bool sum_member(struct cli_json *json, const char *key, void *ctx)
{
    double *sums = ctx;
    int i = index_of(key, algorithm_name, SS_ALGORITHMS);

    return i < 0 ? cli_json_skip(json) : cli_json_f64(json, &sums[i]);
}

/* A text that a record holds itself; null reads as "". */
static bool read_into(struct cli_json *json, char *to, size_t size, const char *too_long)
{
    const char *text;

    if (!cli_json_text(json, &text))
        return false;
    if (text && strlen(text) >= size)
        return cli_json_fail(json, too_long);
    snprintf(to, size, "%s", text ? text : "");
    return true;
}

static bool read_communicator(struct cli_json *json, char to[64])
{
    return read_into(json, to, 64, "name of a communicator too long");
}

static bool lane_member(struct cli_json *json, const char *key, void *ctx)
{
    struct ss_lane_record *lane = ctx;
    int i;

    if (strcmp(key, "communicator") == 0)
        return read_communicator(json, lane->comm);
    if (strcmp(key, "type") == 0) {
        i = read_name(json, type_name, SS_TYPES);
        lane->type = i < 0 ? SS_F32 : (enum ss_type)i;
        return i >= 0;
    }
    if (strcmp(key, "op") == 0) {
        i = read_name(json, op_name, SS_OPS);
        lane->op = i < 0 ? SS_SUM : (enum ss_op)i;
        return i >= 0;
    }
    if (strcmp(key, "kind") == 0) {
        i = read_name(json, kind_name, SS_KINDS);
        lane->kind = i < 0 ? SS_KIND_ALLREDUCE : (enum ss_kind)i;
        return i >= 0;
    }
    if (strcmp(key, "sparse") == 0)
        return cli_json_object(json, sparse_member, lane);
    if (strcmp(key, "passed") == 0)
        return cli_json_object(json, passed_member, lane);
    if (strcmp(key, "predicted_seconds_sum") == 0)
        return cli_json_object(json, sum_member, lane->predicted_seconds);
    if (strcmp(key, "predicted_bytes_sum") == 0)
        return cli_json_object(json, sum_member, lane->predicted_bytes);
    if (strcmp(key, "topk_seconds_sum") == 0)
        return cli_json_object(json, sum_member, lane->topk_seconds);
    if (strcmp(key, "topk_bytes_sum") == 0)
        return cli_json_object(json, sum_member, lane->topk_bytes);
    return read_member(json, key, lane_fields, LENGTH(lane_fields), lane);
}

static bool lane_element(struct cli_json *json, void *ctx)
{
    struct reading *reading = ctx;
    struct ss_lane_record *lane = calloc(1, sizeof *lane);

    if (!lane)
        return cli_json_fail(json, "out of memory");
    *reading->tail = lane;
    reading->tail = &lane->next;
    reading->report->stats.lane_count++;
    return cli_json_object(json, lane_member, lane);
}

static const char *state_name(int i)
{
    return ss_tensor_state_name((enum ss_tensor_state)i);
}

static const char *tensor_reason_key(int i)
{
    return ss_tensor_reason_key((enum ss_tensor_reason)i);
}

static bool read_ordinal(struct cli_json *json, uint32_t *ordinal)
{
    int64_t value;

    if (!cli_json_i64(json, &value))
        return false;
    if (value < -1 || value >= (int64_t)SS_ORDINAL_LOST)
        return cli_json_fail(json, "no ordinal");
    *ordinal = value < 0 ? SS_ORDINAL_LOST : (uint32_t)value;
    return true;
}

/* null: registered. */
static bool read_tensor_reason(struct cli_json *json, enum ss_tensor_reason *reason)
{
    const char *text;
    int i = SS_TENSOR_NONE;

    if (!cli_json_text(json, &text))
        return false;
    if (text && (i = index_of(text, tensor_reason_key, SS_TENSOR_REASONS)) < 0)
        return cli_json_fail(json, "unknown name in this schema");
    *reason = (enum ss_tensor_reason)i;
    return true;
}

static bool tensor_member(struct cli_json *json, const char *key, void *ctx)
{
    struct ss_tensor_record *t = ctx;
    int i;

    if (strcmp(key, "communicator") == 0)
        return read_communicator(json, t->comm);
    if (strcmp(key, "site") == 0)
        return read_into(json, t->site, sizeof t->site, "call site too long");
    if (strcmp(key, "symbol") == 0)
        return read_into(json, t->symbol, sizeof t->symbol, "name of a function too long");
    if (strcmp(key, "rule") == 0)
        return read_into(json, t->rule, sizeof t->rule, "rule too long");
    if (strcmp(key, "ordinal") == 0)
        return read_ordinal(json, &t->ordinal);
    if (strcmp(key, "reason") == 0)
        return read_tensor_reason(json, &t->reason);
    if (strcmp(key, "type") == 0) {
        i = read_name(json, type_name, SS_TYPES);
        t->type = i < 0 ? SS_F32 : (enum ss_type)i;
        return i >= 0;
    }
    if (strcmp(key, "state") == 0) {
        i = read_name(json, state_name, SS_TENSOR_EXACT + 1);
        t->state = i < 0 ? SS_TENSOR_EXACT : (enum ss_tensor_state)i;
        return i >= 0;
    }
    return read_member(json, key, tensor_fields, LENGTH(tensor_fields), t);
}

static bool tensor_element(struct cli_json *json, void *ctx)
{
    struct reading *reading = ctx;
    struct ss_tensor_record *t = ss_stats_tensor(&reading->report->stats, NULL);

    if (!t)
        return cli_json_fail(json, "out of memory, or more than 4,000 tensors");
    return cli_json_object(json, tensor_member, t);
}

struct reason_calls {
    int reason;
    uint64_t calls;
};

static bool reason_member(struct cli_json *json, const char *key, void *ctx)
{
    struct reason_calls *row = ctx;
    const char *text;

    if (strcmp(key, "calls") == 0)
        return cli_json_u64(json, &row->calls);
    if (strcmp(key, "reason") != 0)
        return cli_json_skip(json);
    if (!cli_json_text(json, &text))
        return false;
    row->reason = text ? index_of(text, reason_key, SS_REASONS) : -1;
    return true;
}

static bool reason_element(struct cli_json *json, void *ctx)
{
    struct reading *reading = ctx;
    struct reason_calls row = {-1, 0};

    if (!cli_json_object(json, reason_member, &row))
        return false;
    if (row.reason >= 0)
        atomic_store(&reading->report->stats.passed[row.reason], row.calls);
    return true;
}

/* A row of "small": what it holds by itself, and of which class. */
struct small_row {
    uint64_t min_count;
    struct ss_small own;
};

static bool small_member(struct cli_json *json, const char *key, void *ctx)
{
    static const struct field fields[] = {
        {"min_count", K_U64, offsetof(struct small_row, min_count)},
        {"calls", K_U64, offsetof(struct small_row, own.calls)},
        {"bytes", K_U64, offsetof(struct small_row, own.bytes)},
        {"seconds", K_F64, offsetof(struct small_row, own.seconds)},
    };

    return read_member(json, key, fields, LENGTH(fields), ctx);
}

static bool small_element(struct cli_json *json, void *ctx)
{
    struct reading *reading = ctx;
    struct small_row row = {0};
    unsigned class = 0;

    if (!cli_json_object(json, small_member, &row))
        return false;
    while (row.min_count >>= 1)
        class ++;
    reading->report->stats.small[class] = row.own;
    return true;
}

/* Room for one more in an array of n, which is kept a power of two in length. NULL when memory is
 * short. */
static void *grown(void *array, size_t n, size_t size)
{
    if (n > 0 && (n & (n - 1)) != 0)
        return array;
    return realloc(array, (n > 0 ? 2 * n : 1) * size);
}

static bool option_member(struct cli_json *json, const char *key, void *ctx)
{
    struct ss_report_option *option = ctx;

    if (strcmp(key, "name") == 0)
        return cli_json_text(json, &option->name);
    if (strcmp(key, "value") == 0)
        return cli_json_text(json, &option->value);
    return cli_json_skip(json);
}

static bool option_element(struct cli_json *json, void *ctx)
{
    struct reading *reading = ctx;
    struct ss_report_job *job = &reading->report->job;
    void *options = grown(reading->options, job->option_count, sizeof *reading->options);

    if (!options)
        return cli_json_fail(json, "out of memory");
    job->options = reading->options = options;
    reading->options[job->option_count] = (struct ss_report_option){NULL, NULL};
    return cli_json_object(json, option_member, &reading->options[job->option_count++]);
}

static bool note_member(struct cli_json *json, const char *key, void *ctx)
{
    return strcmp(key, "note") == 0 ? cli_json_text(json, ctx) : cli_json_skip(json);
}

static bool note_element(struct cli_json *json, void *ctx)
{
    struct reading *reading = ctx;
    struct ss_report_job *job = &reading->report->job;
    void *notes = grown(reading->notes, job->note_count, sizeof *reading->notes);

    if (!notes)
        return cli_json_fail(json, "out of memory");
    reading->notes = notes;
    job->notes = notes;
    reading->notes[job->note_count] = NULL;
    return cli_json_object(json, note_member, &reading->notes[job->note_count++]);
}

static bool read_schema(struct cli_json *json, struct reading *reading)
{
    int schema;

    if (!cli_json_int(json, &schema))
        return false;
    if (schema != SS_REPORT_SCHEMA)
        return cli_json_fail(json, "report of another schema than 1, which this program reads");
    reading->schema_seen = true;
    return true;
}

static bool report_member(struct cli_json *json, const char *key, void *ctx)
{
    struct reading *reading = ctx;
    struct cli_report *report = reading->report;

    if (strcmp(key, "schema") == 0)
        return read_schema(json, reading);
    if (strcmp(key, "job") == 0)
        return cli_json_object(json, job_member, &report->job);
    if (strcmp(key, "calls") == 0 || strcmp(key, "bytes") == 0 || strcmp(key, "times") == 0)
        return cli_json_object(json, stats_member, &report->stats);
    if (strcmp(key, "passed") == 0)
        return cli_json_array(json, reason_element, reading);
    if (strcmp(key, "lanes") == 0)
        return cli_json_array(json, lane_element, reading);
    if (strcmp(key, "small") == 0)
        return cli_json_array(json, small_element, reading);
    if (strcmp(key, "tensors") == 0)
        return cli_json_array(json, tensor_element, reading);
    if (strcmp(key, "options") == 0)
        return cli_json_array(json, option_element, reading);
    if (strcmp(key, "notes") == 0)
        return cli_json_array(json, note_element, reading);
    return cli_json_skip(json);
}

int cli_report_read(struct cli_report *report, const char *text, size_t len, char *error,
                    size_t error_size)
{
    struct reading reading = {.report = report, .tail = &report->stats.lanes};
    struct cli_json json;
    bool read;

    memset(report, 0, sizeof *report);
    ss_stats_init(&report->stats, 0);
    report->job.rank = -1;
    report->job.complete = true; /* reports that do not say were written at the end */
    report->storage = malloc(len + 1);
    cli_json_begin(&json, text, len, report->storage, error, error_size);
    read = report->storage ? cli_json_object(&json, report_member, &reading) && cli_json_end(&json)
                           : cli_json_fail(&json, "out of memory");
    if (read && !reading.schema_seen)
        read = cli_json_fail(&json, "no \"schema\": this is no report of sparseshim");
    if (!read) {
        cli_report_free(report);
        return -1;
    }
    return 0;
}

void cli_report_free(struct cli_report *report)
{
    ss_stats_free(&report->stats);
    free((void *)report->job.options);
    free((void *)report->job.notes);
    free(report->storage);
    report->job = (struct ss_report_job){0};
    report->storage = NULL;
}
