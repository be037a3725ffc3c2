/* The members of a report, by tables of names and of the fields that they fill. */
#include "shim/cli/report_read.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/tensor_record.h"
#include "shim/cli/series_read.h"

/* What a member of an object is read into. */
enum kind {
    COUNT,    /* uint64_t */
    ATOMIC,   /* atomic_uint_fast64_t */
    SIZE,     /* size_t */
    INT,      /* int */
    RANK,     /* int: a rank of the world, or how many; -1 where unknown */
    UNSIGNED, /* unsigned */
    I64,      /* int64_t */
    ORDINAL,  /* uint32_t; -1 is SS_ORDINAL_LOST */
    F64,      /* double; null is NaN */
    BOOL,     /* bool */
    TEXT,     /* const char * into the parsed file; null is NULL */
    CHARS,    /* char array; null is "" */
    NAME,     /* enum, by its name */
    NAME_OR0, /* the same; null is 0 */
    WORDS,    /* enum, by a sentence that another version may say otherwise; else 0 */
    SERIES,   /* struct ss_series *, owned */
    STRETCH,  /* struct ss_rounds_record, its stretches */
    COUNTS,   /* array of uint64_t: an object that names its elements */
    SUMS      /* array of double, likewise */
};

struct names {
    const char *(*name)(int i);
    int n;
};

struct field {
    const char *key;
    enum kind kind;
    size_t offset, size; /* in the struct */
    const struct names *names;
};

#define NAMES(list, function, type, count)                                                         \
    static const char *name_of_##list(int i)                                                       \
    {                                                                                              \
        return function((enum type)i);                                                             \
    }                                                                                              \
    static const struct names list = {name_of_##list, count}

NAMES(types, ss_type_name, ss_type, SS_TYPES);
NAMES(ops, ss_op_name, ss_op, SS_OPS);
NAMES(kinds, ss_kind_name, ss_kind, SS_KINDS);
NAMES(reasons, ss_reason_key, ss_reason, SS_REASONS);
NAMES(algorithms, ss_algorithm_name, ss_algorithm, SS_ALGORITHMS);
static const struct names rounds = {ss_staleness_key, SS_STALENESS_SEEN};
NAMES(states, ss_tensor_state_name, ss_tensor_state, SS_TENSOR_EXACT + 1);
NAMES(tensor_reasons, ss_tensor_reason_key, ss_tensor_reason, SS_TENSOR_REASONS);
NAMES(likenesses, ss_likeness_text, ss_likeness, SS_LIKE_MEAN + 1);

#define LENGTH(array)    (sizeof(array) / sizeof *(array))
#define IN(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)

static const struct field job_fields[] = {
    {"program", TEXT, IN(ss_report_job, program), NULL},
    {"hostname", TEXT, IN(ss_report_job, hostname), NULL},
    {"rank", RANK, IN(ss_report_job, rank), NULL},
    {"ranks", RANK, IN(ss_report_job, ranks), NULL},
    {"version", TEXT, IN(ss_report_job, version), NULL},
    {"mpi_library", TEXT, IN(ss_report_job, mpi_library), NULL},
    {"start_unix", I64, IN(ss_report_job, start_unix), NULL},
    {"observe", BOOL, IN(ss_report_job, observe), NULL},
    {"complete", BOOL, IN(ss_report_job, complete), NULL},
};

/* Of "calls", "bytes" and "times"; their keys differ. Sums over lanes are made anew when printing.
 */
static const struct field stats_fields[] = {
    {"seen", ATOMIC, IN(ss_stats, seen), NULL},
    {"sparse", ATOMIC, IN(ss_stats, sparse), NULL},
    {"nonblocking", ATOMIC, IN(ss_stats, nonblocking), NULL},
    {"not_timed", ATOMIC, IN(ss_stats, not_timed), NULL},
    {"errors", ATOMIC, IN(ss_stats, errors), NULL},
    {"tensors_unlisted", COUNT, IN(ss_stats, tensors_unlisted), NULL},
    {"rounds", COUNT, IN(ss_stats, rounds.sum.rounds), NULL},
    {"rounds_steps", COUNT, IN(ss_stats, rounds.sum.steps), NULL},
    {"rounds_in", COUNT, IN(ss_stats, rounds.sum.in), NULL},
    {"rounds_left", COUNT, IN(ss_stats, rounds.sum.left), NULL},
    {"rounds_late", COUNT, IN(ss_stats, rounds.sum.late), NULL},
    {"rounds_stale", COUNTS, IN(ss_stats, rounds.sum.stale), &rounds},
    {"rounds_queued_most", COUNT, IN(ss_stats, rounds.queued_most), NULL},
    {"rounds_solo", BOOL, IN(ss_stats, rounds.solo), NULL},
    {"rounds_stretches", STRETCH, IN(ss_stats, rounds), NULL},
    {"seconds_waited", F64, IN(ss_stats, rounds.sum.waited), NULL},
    {"seconds_behind", F64, IN(ss_stats, rounds.sum.behind), NULL},
    {"seconds_thread", F64, IN(ss_stats, rounds.thread), NULL},
    {"seconds_thread_lived", F64, IN(ss_stats, rounds.thread_lived), NULL},
#include "shim/cli/merged_fields.inc"
    {"bytes_calibration", ATOMIC, IN(ss_stats, calibration_bytes), NULL},
    {"bytes_outside", ATOMIC, IN(ss_stats, small_bytes), NULL},
    {"bytes_largest", COUNT, IN(ss_stats, largest_bytes), NULL},
    {"bytes_largest_total", COUNT, IN(ss_stats, largest_total), NULL},
    {"bytes_reduced_total", COUNT, IN(ss_stats, reduced_total), NULL},
    {"bytes_memory_peak", SIZE, IN(ss_stats, memory_peak), NULL},
    {"seconds_elapsed", F64, IN(ss_stats, end), NULL}, /* start stays 0 */
    {"timed", BOOL, IN(ss_stats, timed), NULL},
    {"seconds_allreduce", F64, IN(ss_stats, allreduce_seconds), NULL},
};

static const struct field lane_fields[] = {
    {"communicator", CHARS, IN(ss_lane_record, comm), NULL},
    {"ranks", INT, IN(ss_lane_record, size), NULL},
    {"count", COUNT, IN(ss_lane_record, count), NULL},
    {"type", NAME, IN(ss_lane_record, type), &types},
    {"op", NAME, IN(ss_lane_record, op), &ops},
    {"kind", NAME, IN(ss_lane_record, kind), &kinds},
    {"calls", COUNT, IN(ss_lane_record, calls), NULL},
    {"sparse", COUNTS, IN(ss_lane_record, sparse), &algorithms},
    {"passed", COUNTS, IN(ss_lane_record, passed), &reasons},
    {"density_max", F64, IN(ss_lane_record, density_max), NULL},
    {"bytes_dense", COUNT, IN(ss_lane_record, bytes_dense), NULL},
    {"bytes_sent", COUNT, IN(ss_lane_record, bytes_sent), NULL},
    {"seconds_scan", F64, IN(ss_lane_record, times.scan), NULL},
    {"seconds_vote", F64, IN(ss_lane_record, times.vote), NULL},
    {"seconds_exchange", F64, IN(ss_lane_record, times.exchange), NULL},
    {"seconds_merge", F64, IN(ss_lane_record, times.merge), NULL},
    {"seconds_coding", F64, IN(ss_lane_record, times.coding), NULL},
    {"seconds_native", F64, IN(ss_lane_record, times.native), NULL},
    {"scans", COUNT, IN(ss_lane_record, scans), NULL},
    {"density_sum", F64, IN(ss_lane_record, density_sum), NULL},
    {"fillin_calls", COUNT, IN(ss_lane_record, fillin_calls), NULL},
    {"fillin_sum", F64, IN(ss_lane_record, fillin_sum), NULL},
    {"planned", COUNT, IN(ss_lane_record, planned), NULL},
    {"predicted_seconds_sum", SUMS, IN(ss_lane_record, predicted_seconds), &algorithms},
    {"predicted_bytes_sum", SUMS, IN(ss_lane_record, predicted_bytes), &algorithms},
    {"topk_samples", COUNT, IN(ss_lane_record, topk_samples), NULL},
    {"topk_density_sum", F64, IN(ss_lane_record, topk_density_sum), NULL},
    {"topk_kept_sum", F64, IN(ss_lane_record, topk_kept_sum), NULL},
    {"topk_seconds_sum", SUMS, IN(ss_lane_record, topk_seconds), &algorithms},
    {"topk_bytes_sum", SUMS, IN(ss_lane_record, topk_bytes), &algorithms},
};

static const struct field tensor_fields[] = {
    {"communicator", CHARS, IN(ss_tensor_record, comm), NULL},
    {"ranks", INT, IN(ss_tensor_record, size), NULL},
    {"site", CHARS, IN(ss_tensor_record, site), NULL},
    {"symbol", CHARS, IN(ss_tensor_record, symbol), NULL},
    {"ordinal", ORDINAL, IN(ss_tensor_record, ordinal), NULL},
    {"type", NAME, IN(ss_tensor_record, type), &types},
    {"count", COUNT, IN(ss_tensor_record, count), NULL},
    {"state", NAME, IN(ss_tensor_record, state), &states},
    {"reason", NAME_OR0, IN(ss_tensor_record, reason), &tensor_reasons},
    {"rule", CHARS, IN(ss_tensor_record, rule), NULL},
    {"calls", COUNT, IN(ss_tensor_record, calls), NULL},
    {"topk_calls", COUNT, IN(ss_tensor_record, topk_calls), NULL},
    {"asked_sum", F64, IN(ss_tensor_record, asked_sum), NULL},
    {"density_sum", F64, IN(ss_tensor_record, density_sum), NULL},
    {"off_sum", F64, IN(ss_tensor_record, off_sum), NULL},
    {"global_calls", COUNT, IN(ss_tensor_record, global_calls), NULL},
    {"global_off_sum", F64, IN(ss_tensor_record, global_off_sum), NULL},
    {"residual_norm", F64, IN(ss_tensor_record, residual_norm), NULL},
    {"late", COUNT, IN(ss_tensor_record, late), NULL},
    {"input_norm", F64, IN(ss_tensor_record, input_norm), NULL},
    {"series", SERIES, IN(ss_tensor_record, series), NULL},
    {"watched", UNSIGNED, IN(ss_tensor_record, watched), NULL},
    {"alike", F64, IN(ss_tensor_record, alike), NULL},
    {"again", F64, IN(ss_tensor_record, again), NULL},
    {"along", F64, IN(ss_tensor_record, along), NULL},
    {"balance", F64, IN(ss_tensor_record, balance), NULL},
    {"parts", F64, IN(ss_tensor_record, parts), NULL},
    {"drift", F64, IN(ss_tensor_record, drift), NULL},
    {"same", F64, IN(ss_tensor_record, same), NULL},
    {"overlap", F64, IN(ss_tensor_record, overlap), NULL},
    {"stay", F64, IN(ss_tensor_record, stay), NULL},
    {"first", F64, IN(ss_tensor_record, first), NULL},
    {"third", F64, IN(ss_tensor_record, third), NULL},
    {"common", F64, IN(ss_tensor_record, common), NULL},
    {"lasting", F64, IN(ss_tensor_record, lasting), NULL},
    {"decided", NAME_OR0, IN(ss_tensor_record, decided), &tensor_reasons},
    {"decided_at", COUNT, IN(ss_tensor_record, decided_at), NULL},
    {"moved", F64, IN(ss_tensor_record, moved), NULL},
    {"guard_looks", COUNT, IN(ss_tensor_record, guard_looks), NULL},
    {"guard_cosine", F64, IN(ss_tensor_record, guard_cosine), NULL},
    {"guard_ratio", F64, IN(ss_tensor_record, guard_ratio), NULL},
    {"guard_doubt", WORDS, IN(ss_tensor_record, guard_doubt), &likenesses},
};

static const struct field synchronous_fields[] = {
    {"calls", COUNT, IN(ss_synchronous, calls), NULL},
    {"kind", NAME, IN(ss_synchronous, kind), &kinds},
    {"count", COUNT, IN(ss_synchronous, count), NULL},
    {"site", CHARS, IN(ss_synchronous, site), NULL},
    {"symbol", CHARS, IN(ss_synchronous, symbol), NULL},
};

static const struct field option_fields[] = {
    {"name", TEXT, IN(ss_report_option, name), NULL},
    {"value", TEXT, IN(ss_report_option, value), NULL},
};

static const struct field note_fields[] = {{"note", TEXT, 0, sizeof(const char *), NULL}};

/* A row of "passed" or of "small": in the report its place in an array says the first of it. */
struct row {
    const char *reason;
    uint64_t min_count;
    struct ss_small own;
};

static const struct field passed_fields[] = {
    {"reason", TEXT, IN(row, reason), NULL},
    {"calls", COUNT, IN(row, own.calls), NULL},
};

static const struct field small_fields[] = {
    {"min_count", COUNT, IN(row, min_count), NULL},
    {"calls", COUNT, IN(row, own.calls), NULL},
    {"bytes", COUNT, IN(row, own.bytes), NULL},
    {"seconds", F64, IN(row, own.seconds), NULL},
};

struct reading {
    struct cli_report *report;
    struct ss_lane_record **tail; /* of the list of lanes */
    struct ss_report_option *options;
    const char **notes;
    struct row row;
    size_t rows; /* of the list being read */
    char *error;
    size_t error_size;
};

/* ---- one value: what is wrong with it, or NULL ---- */

static const char *read_whole(const json_t *value, enum kind kind, void *to)
{
    static const struct {
        int64_t least, most;
    } range[] = {
        [COUNT] = {0, INT64_MAX},
        [ATOMIC] = {0, INT64_MAX},
        [SIZE] = {0, PTRDIFF_MAX},
        [INT] = {INT_MIN, INT_MAX},
        [RANK] = {-1, 1 << 30}, /* sums with them stay in an int */
        [UNSIGNED] = {0, UINT_MAX},
        [I64] = {INT64_MIN, INT64_MAX},
        [ORDINAL] = {-1, (int64_t)SS_ORDINAL_LOST - 1},
    };
    int64_t n = json_integer_value(value);

    if (!json_is_integer(value) || (n < 0 && range[kind].least == 0))
        return "whole number expected";
    if (n < range[kind].least || n > range[kind].most)
        return "number out of range";
    if (kind == ATOMIC)
        atomic_store((atomic_uint_fast64_t *)to, (uint64_t)n);
    else if (kind == SIZE)
        *(size_t *)to = (size_t)n;
    else if (kind == INT || kind == RANK)
        *(int *)to = (int)n;
    else if (kind == UNSIGNED)
        *(unsigned *)to = (unsigned)n;
    else if (kind == ORDINAL)
        *(uint32_t *)to = n < 0 ? SS_ORDINAL_LOST : (uint32_t)n;
    else
        memcpy(to, &n, sizeof n); /* a count or a signed number, of the same size */
    return NULL;
}

static const char *read_f64(const json_t *value, double *to)
{
    if (!json_is_number(value) && !json_is_null(value))
        return "number expected";
    *to = json_is_null(value) ? NAN : json_number_value(value);
    return NULL;
}

static const char *read_text(const json_t *value, const char **to)
{
    if (!json_is_string(value) && !json_is_null(value))
        return "text expected";
    *to = json_string_value(value);
    return NULL;
}

static const char *read_chars(const json_t *value, char *to, size_t size)
{
    const char *text;
    const char *wrong = read_text(value, &text);

    if (wrong == NULL && (size_t)snprintf(to, size, "%s", text != NULL ? text : "") >= size)
        wrong = "text too long";
    return wrong;
}

static int index_of(const struct names *names, const char *text)
{
    for (int i = 0; text != NULL && i < names->n; i++)
        if (strcmp(text, names->name(i)) == 0)
            return i;
    return -1;
}

static const char *read_name(const json_t *value, const struct names *names, bool null_is_0,
                             void *to)
{
    int i = null_is_0 && json_is_null(value) ? 0 : index_of(names, json_string_value(value));

    if (i < 0)
        return "unknown name in this schema";
    memcpy(to, &i, sizeof i);
    return NULL;
}
_Static_assert(sizeof(int) == sizeof(enum ss_type) && sizeof(int) == sizeof(enum ss_tensor_reason),
               "read_name writes an enum");

static const char *read_value(const json_t *value, const struct field *field, void *to);

/* Names of a later version are passed over. */
static const char *read_elements(const json_t *value, const struct field *array, void *to)
{
    const struct field element = {.kind = array->kind == COUNTS ? COUNT : F64};
    size_t size = array->size / (size_t)array->names->n;
    const char *wrong = json_is_object(value) ? NULL : "object expected";

    for (int i = 0; i < array->names->n && wrong == NULL; i++) {
        const json_t *named = json_object_get(value, array->names->name(i));
        if (named != NULL)
            wrong = read_value(named, &element, (char *)to + (size_t)i * size);
    }
    return wrong;
}

static const char *read_value(const json_t *value, const struct field *field, void *to)
{
    switch (field->kind) {
    case F64:
        return read_f64(value, to);
    case BOOL:
        *(bool *)to = json_is_true(value);
        return json_is_boolean(value) ? NULL : "true or false expected";
    case TEXT:
        return read_text(value, to);
    case CHARS:
        return read_chars(value, to, field->size);
    case NAME:
    case NAME_OR0:
        return read_name(value, field->names, field->kind == NAME_OR0, to);
    case WORDS:
        read_name(value, field->names, true, to);
        return NULL;
    case SERIES:
        return cli_series_read(value, to);
    case STRETCH:
        return cli_stretches_read(value, to);
    case COUNTS:
    case SUMS:
        return read_elements(value, field, to);
    default:
        return read_whole(value, field->kind, to);
    }
}

/* ---- a row of a list: where it is read to, and what becomes of it ---- */

static void *new_lane(struct reading *reading)
{
    struct ss_lane_record *lane = calloc(1, sizeof *lane);

    if (lane != NULL) {
        *reading->tail = lane;
        reading->tail = &lane->next;
        reading->report->stats.lane_count++;
    }
    return lane;
}

static void *new_tensor(struct reading *reading)
{
    return ss_stats_tensor(&reading->report->stats, NULL);
}

static void *new_synchronous(struct reading *reading)
{
    struct ss_rounds_record *r = &reading->report->stats.rounds;

    return r->synchronous_sites < SS_SYNCHRONOUS ? &r->synchronous[r->synchronous_sites++] : NULL;
}

static void *new_option(struct reading *reading)
{
    struct ss_report_job *job = &reading->report->job;

    if (reading->options == NULL)
        job->options = reading->options = calloc(reading->rows, sizeof *reading->options);
    return reading->options != NULL ? &reading->options[job->option_count++] : NULL;
}

static void *new_note(struct reading *reading)
{
    struct ss_report_job *job = &reading->report->job;

    if (reading->notes == NULL)
        job->notes = reading->notes = calloc(reading->rows, sizeof *reading->notes);
    return reading->notes != NULL ? &reading->notes[job->note_count++] : NULL;
}

static void *new_row(struct reading *reading)
{
    reading->row = (struct row){.reason = NULL};
    return &reading->row;
}

/* Reasons of a later version are passed over. */
static void keep_passed(struct reading *reading)
{
    int reason = index_of(&reasons, reading->row.reason);

    if (reason >= 0)
        atomic_store(&reading->report->stats.passed[reason], reading->row.own.calls);
}

static void keep_small(struct reading *reading)
{
    unsigned class = 0;

    while (reading->row.min_count >>= 1)
        class ++;
    reading->report->stats.small[class] = reading->row.own;
}

/* ---- the whole ---- */

/* An object is read into a part of struct cli_report; a list has `row`. */
struct section {
    const char *key;
    const struct field *fields;
    size_t n_fields, offset;
    void *(*row)(struct reading *reading);
    void (*keep)(struct reading *reading);
};

#define FIELDS(fields) fields, LENGTH(fields)

static const struct section sections[] = {
    {"job", FIELDS(job_fields), offsetof(struct cli_report, job), NULL, NULL},
    {"calls", FIELDS(stats_fields), offsetof(struct cli_report, stats), NULL, NULL},
    {"bytes", FIELDS(stats_fields), offsetof(struct cli_report, stats), NULL, NULL},
    {"times", FIELDS(stats_fields), offsetof(struct cli_report, stats), NULL, NULL},
    {"rounds", FIELDS(stats_fields), offsetof(struct cli_report, stats), NULL, NULL},
    {"merged", FIELDS(stats_fields), offsetof(struct cli_report, stats), NULL, NULL},
    {"passed", FIELDS(passed_fields), 0, new_row, keep_passed},
    {"lanes", FIELDS(lane_fields), 0, new_lane, NULL},
    {"small", FIELDS(small_fields), 0, new_row, keep_small},
    {"synchronous", FIELDS(synchronous_fields), 0, new_synchronous, NULL},
    {"tensors", FIELDS(tensor_fields), 0, new_tensor, NULL},
    {"options", FIELDS(option_fields), 0, new_option, NULL},
    {"notes", FIELDS(note_fields), 0, new_note, NULL},
};

static bool fail(struct reading *reading, const char *place, const char *member, const char *what)
{
    snprintf(reading->error, reading->error_size, "%s%s%s: %s", place, *member ? "." : "", member,
             what);
    return false;
}

static bool read_object(struct reading *reading, const struct section *section, const char *place,
                        const json_t *object, void *to)
{
    if (!json_is_object(object))
        return fail(reading, place, "", "object expected");
    for (size_t i = 0; i < section->n_fields; i++) {
        const struct field *field = &section->fields[i];
        const json_t *value = json_object_get(object, field->key);
        const char *wrong =
            value != NULL ? read_value(value, field, (char *)to + field->offset) : NULL;

        if (wrong != NULL)
            return fail(reading, place, field->key, wrong);
    }
    return true;
}

static bool read_list(struct reading *reading, const struct section *section, const json_t *list)
{
    char place[40];

    if (!json_is_array(list))
        return fail(reading, section->key, "", "array expected");
    reading->rows = json_array_size(list);
    for (size_t i = 0; i < reading->rows; i++) {
        void *to = section->row(reading);

        snprintf(place, sizeof place, "%s[%zu]", section->key, i);
        if (to == NULL)
            return fail(reading, place, "", "out of memory, or too many of them");
        if (!read_object(reading, section, place, json_array_get(list, i), to))
            return false;
        if (section->keep != NULL)
            section->keep(reading);
    }
    return true;
}

static bool read_section(struct reading *reading, const struct section *section,
                         const json_t *value)
{
    if (value == NULL)
        return true;
    if (section->row != NULL)
        return read_list(reading, section, value);
    return read_object(reading, section, section->key, value,
                       (char *)reading->report + section->offset);
}

static bool check_schema(struct reading *reading, const json_t *root)
{
    const json_t *schema = json_object_get(root, "schema");

    if (json_object_get(root, "merged_schema") != NULL ||
        json_object_get(root, "compared_schema") != NULL)
        return fail(reading, "no \"schema\"", "",
                    "this is what sparseshim report made of several reports, which is not read "
                    "again");
    if (schema == NULL)
        return fail(reading, "no \"schema\"", "", "this is no report of sparseshim");
    if (json_integer_value(schema) > SS_REPORT_SCHEMA)
        return fail(reading, "schema", "",
                    "report of another schema, of a newer sparseshim, than 1, which this program "
                    "reads");
    if (json_integer_value(schema) != SS_REPORT_SCHEMA)
        return fail(reading, "schema", "",
                    "report of another schema than 1, which this program reads");
    return true;
}

static bool read_report(struct reading *reading, const json_t *root)
{
    bool good = check_schema(reading, root);

    for (size_t i = 0; i < LENGTH(sections) && good; i++)
        good = read_section(reading, &sections[i], json_object_get(root, sections[i].key));
    return good;
}

/* The text may quote the file, of which nothing is to steer a terminal. */
static void tell_position(struct reading *reading, json_error_t *at)
{
    for (char *p = at->text; *p != '\0'; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    snprintf(reading->error, reading->error_size, "line %d, column %d: %s", at->line, at->column,
             at->text[0] != '\0' ? at->text : "out of memory");
}

int cli_report_read(struct cli_report *report, const char *text, size_t len, char *error,
                    size_t error_size)
{
    struct reading reading = {
        .report = report, .tail = &report->stats.lanes, .error = error, .error_size = error_size};
    json_error_t at;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);

    memset(report, 0, sizeof *report);
    ss_stats_init(&report->stats, 0);
    report->job.rank = -1;
    report->job.complete = true; /* reports that do not say were written at the end */
    report->storage = root;
    if (root == NULL)
        tell_position(&reading, &at);
    else if (read_report(&reading, root))
        return 0;
    cli_report_free(report);
    return -1;
}

void cli_report_free(struct cli_report *report)
{
    ss_stats_free(&report->stats);
    free((void *)report->job.options);
    free((void *)report->job.notes);
    json_decref(report->storage);
    report->job = (struct ss_report_job){0};
    report->storage = NULL;
}
