/* Sample reports, and a page to print them on. */
#ifndef TESTS_UNIT_REPORT_SAMPLE_H
#define TESTS_UNIT_REPORT_SAMPLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/report.h"
#include "core/report/tensor_record.h"

/* A growing text; the sink of all reports here. */
struct page {
    char *text;
    size_t len, size;
};

static inline int append(void *ctx, const char *text, size_t len)
{
    struct page *page = ctx;

    if (page->len + len + 1 > page->size) {
        page->size = 2 * (page->len + len + 1);
        page->text = realloc(page->text, page->size);
        assert_non_null(page->text);
    }
    memcpy(page->text + page->len, text, len);
    page->len += len;
    page->text[page->len] = '\0';
    return 0;
}

static inline struct page as_text(struct ss_stats *stats, const struct ss_report_job *job)
{
    struct page page = {NULL, 0, 0};

    assert_int_equal(ss_report_write_text(stats, job, append, &page), 0);
    assert_non_null(page.text);
    return page;
}

static inline struct page as_json(struct ss_stats *stats, const struct ss_report_job *job)
{
    struct page page = {NULL, 0, 0};

    assert_int_equal(ss_report_write_json(stats, job, append, &page), 0);
    assert_non_null(page.text);
    return page;
}

static inline void assert_contains(const struct page *page, const char *line)
{
    if (!strstr(page->text, line))
        fail_msg("\"%s\" is not in\n%s", line, page->text);
}

static inline void assert_lacks(const struct page *page, const char *line)
{
    if (strstr(page->text, line))
        fail_msg("\"%s\" is in\n%s", line, page->text);
}

static const struct ss_report_option sample_options[] = {{"MODE", "exact"}, {"MIN_COUNT", "65536"}};

static const char *const sample_notes[] = {
    "nonblocking calls were passed through: no MPI_THREAD_MULTIPLE"};

static inline struct ss_report_job sample_job(void)
{
    return (struct ss_report_job){
        .program = "langid",
        .hostname = "node1",
        .version = "0.1.0",
        .mpi_library = "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n",
        .rank = 0,
        .ranks = 4,
        .start_unix = 1795201923,
        .complete = true,
        .options = sample_options,
        .option_count = 2,
        .notes = sample_notes,
        .note_count = 1,
    };
}

/* 1,010 calls: a sparse lane of 1,000, a dense one of 6, and 4 small ones. */
static inline void fill_sample(struct ss_stats *stats)
{
    struct ss_lane_record *small, *large;

    ss_stats_init(stats, 100);
    stats->end = 160;
    stats->timed = true;
    stats->allreduce_seconds = 15;
    atomic_store(&stats->seen, 1010);
    atomic_store(&stats->sparse, 999);
    atomic_store(&stats->passed[SS_WHY_SMALL], 4);
    atomic_store(&stats->passed[SS_WHY_FIRST], 2);
    atomic_store(&stats->passed[SS_WHY_DENSE], 5);
    atomic_store(&stats->small_bytes, 4096);
    atomic_store(&stats->calibration_bytes, 4129536);
    stats->memory_peak = 12345678;
    for (int i = 0; i < 1000; i++)
        ss_stats_reduced(stats, 4 << 22);
    for (int i = 0; i < 6; i++)
        ss_stats_reduced(stats, 8 << 16);

    large = ss_stats_lane(stats, SS_KIND_ALLREDUCE, "MPI_COMM_WORLD", 4, 1 << 22, SS_F32, SS_SUM);
    large->calls = 1000;
    large->sparse[SS_SPLIT_ALLGATHER] = 990;
    large->sparse[SS_RING] = 9;
    large->passed[SS_WHY_FIRST] = 1;
    large->scans = 999;
    large->density_sum = 999 * 0.0078;
    large->planned = 999;
    large->density_max = 0.0125;
    large->fillin_calls = 999;
    large->fillin_sum = 999 * 0.0305;
    large->bytes_dense = 25165824000;
    large->bytes_sent = 251658240;
    large->times = (struct ss_times){1.5, 0.25, 7.5, 1.25, 0.0042, 0.12};

    small = ss_stats_lane(stats, SS_KIND_ALLREDUCE, "rows", 2, 1 << 16, SS_F64, SS_SUM);
    small->calls = 6;
    small->passed[SS_WHY_FIRST] = 1;
    small->passed[SS_WHY_DENSE] = 5;
    small->scans = 5;
    small->density_sum = 5 * 0.83;
    small->planned = 5;
    small->density_max = 0.84;
    small->bytes_dense = small->bytes_sent = 3145728;
    small->times = (struct ss_times){0.0001, 0.0002, 0, 0, 0, 0.006};
}

/* As before, but nothing was changed and all was predicted. */
static inline void fill_observed(struct ss_stats *stats)
{
    struct ss_lane_record *lane;

    fill_sample(stats);
    atomic_store(&stats->sparse, 0);
    for (int i = 0; i < SS_REASONS; i++)
        atomic_store(&stats->passed[i], i == SS_WHY_OBSERVE ? 1006 : i == SS_WHY_SMALL ? 4 : 0);
    for (lane = stats->lanes; lane; lane = lane->next) {
        bool dense = lane->count == 1 << 16;

        memset(lane->sparse, 0, sizeof lane->sparse);
        memset(lane->passed, 0, sizeof lane->passed);
        lane->passed[SS_WHY_OBSERVE] = lane->calls;
        lane->fillin_calls = 0;
        lane->bytes_sent = lane->bytes_dense + 1000;
        lane->times = (struct ss_times){.scan = 1, .vote = 0.5};
        lane->times.native = (double)lane->calls * (dense ? 0.001 : 0.120);
        lane->planned = lane->scans / 2;
        for (int a = SS_RECURSIVE_DOUBLING; a < SS_ALGORITHMS; a++) {
            const int figure = a == SS_DENSE ? 9 : a; /* whatever the number of algorithms */
            lane->predicted_seconds[a] = (double)lane->planned * (dense ? 0.002 : 0.012) * figure;
            lane->predicted_bytes[a] = (double)lane->planned * 250000 * figure;
        }
    }
}

static inline struct ss_tensor_record *add_tensor(struct ss_stats *stats,
                                                  const struct ss_tensor_record *like)
{
    struct ss_tensor_record *r = ss_stats_tensor(stats, NULL);

    assert_non_null(r);
    struct ss_tensor_record *next = r->next;
    *r = *like;
    r->next = next;
    return r;
}

/* 300 calls; the threshold of the last is not known. */
static inline struct ss_series *sample_series(void)
{
    struct ss_series series = {.n = 0};

    for (int i = 1; i <= 300; i++) {
        if (!ss_series_due(&series))
            ss_series_skip(&series);
        else
            ss_series_add(&series,
                          &(struct ss_series_point){i, 0.01, i == 297 ? (double)NAN : 1.0 / i,
                                                    i / 3.0, 5e-7 * i});
    }
    struct ss_series *copy = ss_series_copy(&series);
    assert_non_null(copy);
    return copy;
}

/* Four: sent sparse, without a rule, without a period, without memory. */
static inline void add_tensors(struct ss_stats *stats)
{
    add_tensor(stats, &(struct ss_tensor_record){.comm = "MPI_COMM_WORLD",
                                                 .size = 4,
                                                 .site = "train+0x12f3",
                                                 .symbol = "reduce_layer",
                                                 .ordinal = 3,
                                                 .type = SS_F32,
                                                 .count = 1 << 22,
                                                 .state = SS_TENSOR_REGISTERED,
                                                 .calls = 1000,
                                                 .topk_calls = 990,
                                                 .asked_sum = 9.9,
                                                 .density_sum = 10.4,
                                                 .residual_norm = 12.5,
                                                 .input_norm = 5,
                                                 .off_sum = 1.5,
                                                 .series = sample_series(),
                                                 .guard_looks = 3,
                                                 .guard_cosine = 0.9,
                                                 .guard_ratio = 4,
                                                 .global_calls = 4,
                                                 .global_off_sum = 0.25});
    add_tensor(stats, &(struct ss_tensor_record){.comm = "MPI_COMM_WORLD",
                                                 .size = 4,
                                                 .site = "train+0x1400",
                                                 .symbol = "average_weights",
                                                 .type = SS_F64,
                                                 .count = 7850,
                                                 .state = SS_TENSOR_EXACT,
                                                 .reason = SS_TENSOR_NO_RULE,
                                                 .decided_at = 18,
                                                 .rule = "count=7850,site=train+0x1400",
                                                 .calls = 40});
    add_tensor(stats, &(struct ss_tensor_record){.size = 2,
                                                 .type = SS_F32,
                                                 .count = 100,
                                                 .state = SS_TENSOR_CANDIDATE,
                                                 .reason = SS_TENSOR_NO_STEP,
                                                 .calls = 1});
    add_tensor(stats, &(struct ss_tensor_record){.comm = "rows",
                                                 .size = 2,
                                                 .site = "libtorch.so+0x1",
                                                 .type = SS_F32,
                                                 .count = 100,
                                                 .state = SS_TENSOR_EXACT,
                                                 .reason = SS_TENSOR_MEMORY,
                                                 .calls = 2});
}

/* Sets a locale with another decimal point than ours, of one byte or several; false where none is
 * installed. */
static inline bool set_comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF",
                                        "ps_AF.UTF-8", "de_DE",       "fr_FR"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (setlocale(LC_ALL, names[i]) && strcmp(localeconv()->decimal_point, ".") != 0)
            return true;
    setlocale(LC_ALL, "C");
    return false;
}

#endif
