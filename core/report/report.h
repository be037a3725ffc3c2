/* The report of a process at the end of its job: a summary of few lines for people, and JSON, from
 * which `sparseshim report` makes everything else. */
#ifndef CORE_REPORT_REPORT_H
#define CORE_REPORT_REPORT_H

#include <math.h>

#include "core/report/json.h"
#include "core/report/stats.h"
#include "core/tensor/tensor.h"

/* NaN where there is nothing to divide by. */
static inline double ss_ratio(double part, double whole)
{
    return whole > 0 && isfinite(whole) ? part / whole : NAN;
}

/* Version of the JSON form, its "schema". Raised when a key changes its meaning or goes; new keys
 * do not raise it. */
enum { SS_REPORT_SCHEMA = 2 };

struct ss_report_option {
    const char *name; /* without the prefix: "MODE" */
    const char *value;
};

/* What the report says besides the counters. All texts are borrowed; NULL: unknown. */
struct ss_report_job {
    const char *program; /* name of the application */
    const char *hostname;
    const char *version;     /* of this library */
    const char *mpi_library; /* what MPI_Get_library_version says */
    int rank;                /* in the world, or -1 where unknown */
    int ranks;               /* size of the world, or 0 where unknown */
    int64_t start_unix;      /* seconds since 1970, UTC */
    bool observe;            /* MODE=observe: predictions and advice */
    bool complete;           /* the job has ended; else the report is what was known so far */
    const char *kept;        /* path of the JSON that has been written, NULL: none */
    const struct ss_report_option *options; /* those that differ from their default */
    size_t option_count;
    const char *const *notes; /* sentences of ss_report_why */
    size_t note_count;
};

/* Each takes stats->lock for the whole time and sorts the lanes by the bytes a dense collective
 * would have sent, largest first. stats->end must be set. Returns 0 or the first error of write. */
int ss_report_write_json(struct ss_stats *stats, const struct ss_report_job *job,
                         ss_json_write *write, void *ctx);
int ss_report_write_text(struct ss_stats *stats, const struct ss_report_job *job,
                         ss_json_write *write, void *ctx);

/* The summary. A line without a key is in the text alone, one with the label "" has none. */
enum { SS_SUMMARY_LINES = 15, SS_SUMMARY_TEXT = 400 };
struct ss_summary {
    size_t n;
    struct ss_summary_line {
        const char *key, *label;
        char text[SS_SUMMARY_TEXT];
    } line[SS_SUMMARY_LINES];
};
/* The caller holds stats->lock and has sorted the lanes. */
void ss_summary_make(struct ss_summary *summary, struct ss_stats *stats,
                     const struct ss_report_job *job);

/* Sums over lanes and reasons. The caller holds stats->lock, or nobody else has stats. */
struct ss_report_totals {
    uint64_t bytes_dense, bytes_sent, passed;
    struct ss_times times;
};
void ss_report_add_up(struct ss_stats *stats, struct ss_report_totals *totals);

/* "2026-11-20 19:12:03 UTC", or "" for a year out of reach. */
void ss_report_date(int64_t unix_seconds, char *buffer, size_t size);

/* Share of the job's time spent in the calls that are looked at, small ones included, f; NaN where
 * they were not timed, or some of them end in waits that are not: nonblocking calls that are the
 * MPI library's. 1 / (1 - f) caps what can be gained (Amdahl). */
double ss_report_share(const struct ss_stats *stats);

/* What the process knows of itself when no call could be served. */
struct ss_report_scene {
    uint64_t min_count;   /* elements, MIN_COUNT */
    size_t memory;        /* bytes, MAX_MEMORY; 0: no limit */
    int ranks;            /* size of the world, or 0 where unknown */
    bool python;          /* a Python interpreter is in the process */
    const char *policy;   /* FILE[:LINE] of a policy that cannot be understood, else NULL */
    const char *programs; /* PROGRAMS, where it leaves this one out; else NULL */
    const char *before;   /* the object whose MPI_Allreduce comes before ours; NULL = none */
};

/* Writes up to `most` sentences and returns how many: why no call was eligible, if none was, why
 * nonblocking calls passed through, and what MAX_MEMORY would do. Takes stats->lock. */
enum { SS_REPORT_SENTENCES = 9 };
typedef char ss_report_sentence[320];
size_t ss_report_why(struct ss_stats *stats, const struct ss_report_scene *scene,
                     ss_report_sentence *sentences, size_t most);

/* Names in JSON: short, and stable within a schema. */
const char *ss_tensor_reason_key(enum ss_tensor_reason reason);
const char *ss_tensor_state_name(enum ss_tensor_state state);

/* Calls of the lane that the MPI library did. */
uint64_t ss_lane_passed(const struct ss_lane_record *lane);

/* What mode observe recommends for a lane. Times are seconds per call, NaN where unknown. */
struct ss_report_advice {
    enum ss_algorithm best; /* sparse algorithm of the least predicted time; SS_AUTO where nothing
                               was predicted */
    double predicted;       /* its time */
    double native;          /* measured time of the MPI library */
    double dense;           /* predicted for it */
    bool misfit;            /* these two differ by more than 2 times: no advice */
    bool gain;              /* predicted is at most 0.9 times native */
    bool force;             /* the plan would choose dense: ALGORITHM must name it */
    /* MODE=topk, which is lossy, alike. */
    enum ss_algorithm topk;
    double topk_predicted;
    double topk_bytes; /* sent by this rank, its prediction */
    bool topk_gain;
};
struct ss_report_advice ss_report_advise(const struct ss_lane_record *lane);

#endif
