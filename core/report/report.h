/* The report of a process at the end of its job: a summary of a few lines for people, and JSON,
 * which `sparseshim report` reads. */
#ifndef CORE_REPORT_REPORT_H
#define CORE_REPORT_REPORT_H

#include <math.h>

#include "core/report/json.h"
#include "core/report/stats.h"
#include "core/tensor/tensor.h"

/* Returns part / whole, or NaN if that is undefined. */
static inline double ss_ratio(double part, double whole)
{
    return whole > 0 && isfinite(whole) ? part / whole : NAN;
}

/* Version of the JSON form, its "schema". Raised when a key changes its meaning or goes; new keys
 * do not raise it. */
enum { SS_REPORT_SCHEMA = 3 };

struct ss_report_option {
    const char *name; /* without the prefix: "MODE" */
    const char *value;
};

/* Facts of the job in the report, besides the counters. All texts are borrowed; NULL: unknown. */
struct ss_report_job {
    const char *program; /* name of the application */
    const char *hostname;
    const char *version;     /* of this library */
    const char *mpi_library; /* text of MPI_Get_library_version */
    int rank;                /* rank in the world, or -1 if unknown */
    int ranks;               /* size of the world, or 0 if unknown */
    int64_t start_unix;      /* seconds since 1970, UTC */
    uint64_t number;         /* equal on all ranks of this job, 0: they have not agreed on one */
    bool observe;            /* MODE=observe: predictions and advice */
    bool exact;              /* MODE=exact, and the cost model chooses the algorithm */
    uint64_t min_count;      /* elements, MIN_COUNT */
    bool complete;           /* the job has ended; else the report is an interim one */
    const char *kept;        /* path of the JSON file, NULL: none was written */
    const struct ss_report_option *options; /* options that differ from their defaults */
    size_t option_count;
    const char *const *notes; /* sentences of ss_report_why */
    size_t note_count;
};

/* Write the report. Take stats->lock for the whole time and sort the lanes by the bytes that a
 * dense collective would have sent, largest first. The caller has set stats->end. Return 0 or the
 * first error of write. */
int ss_report_write_json(struct ss_stats *stats, const struct ss_report_job *job,
                         ss_json_write *write, void *ctx);
int ss_report_write_text(struct ss_stats *stats, const struct ss_report_job *job,
                         ss_json_write *write, void *ctx);

/* The summary. A line without a key is only in the text; a line with the label "" has no label. */
enum { SS_SUMMARY_LINES = 15, SS_SUMMARY_TEXT = 400 };
struct ss_summary {
    size_t n;
    struct ss_summary_line {
        const char *key, *label;
        char text[SS_SUMMARY_TEXT];
    } line[SS_SUMMARY_LINES];
};
/* Makes the summary. The caller holds stats->lock and has sorted the lanes. */
void ss_summary_make(struct ss_summary *summary, struct ss_stats *stats,
                     const struct ss_report_job *job);

/* Sums over lanes and reasons. The caller of ss_report_add_up holds stats->lock or is the only one
 * with stats. */
struct ss_report_totals {
    uint64_t bytes_dense, bytes_sent, dense_inside, sent_inside, passed;
    struct ss_times times;
};
void ss_report_add_up(struct ss_stats *stats, struct ss_report_totals *totals);

/* Bytes sent, and bytes that dense collectives would have sent. With several hosts and several
 * ranks on one (`apart`), both are bytes to other hosts: these are slow, and dense collectives sum
 * inside each host first. */
struct ss_compared {
    double sent, dense;
    bool apart;
    bool one_host; /* all ranks are on one host */
};
struct ss_compared ss_report_compared(uint64_t dense, uint64_t dense_inside, uint64_t sent,
                                      uint64_t sent_inside);

/* Writes a date as "2026-11-20 19:12:03 UTC", or "" for a year that does not fit. */
void ss_report_date(int64_t unix_seconds, char *buffer, size_t size);

/* Returns the share f of the job's time in the calls that the library wraps, small ones included. 1
 * / (1 - f) is the most that the job can gain (Amdahl). Returns NaN if the calls were not timed, if
 * some nonblocking calls are the MPI library's, whose waits are not timed, or if calls of several
 * threads at once add up to more than the job. */
double ss_report_share(const struct ss_stats *stats);

/* Facts of a process in which no call could be served. */
struct ss_report_scene {
    uint64_t min_count;   /* elements, MIN_COUNT */
    size_t memory;        /* bytes, MAX_MEMORY; 0: no limit */
    int ranks;            /* size of the world, or 0 if unknown */
    bool python;          /* a Python interpreter is in the process */
    const char *policy;   /* FILE[:LINE] of a policy that cannot be understood, else NULL */
    const char *programs; /* PROGRAMS if it leaves this program out, else NULL */
    const char *before;   /* object whose MPI_Allreduce comes before this library's; NULL: none */
};

/* Writes up to `most` sentences and returns their number. The sentences tell why no call was
 * eligible, why nonblocking calls passed through, and the effect that MAX_MEMORY would have. Takes
 * stats->lock. */
enum { SS_REPORT_SENTENCES = 9 };
typedef char ss_report_sentence[320];
size_t ss_report_why(struct ss_stats *stats, const struct ss_report_scene *scene,
                     ss_report_sentence *sentences, size_t most);

/* Returns the number of the lane's calls that the MPI library ran. */
uint64_t ss_lane_passed(const struct ss_lane_record *lane);

/* Advice of mode observe for a lane. Times are seconds per call, NaN if unknown. */
struct ss_report_advice {
    /* sparse algorithm with the least predicted time; SS_AUTO: nothing was predicted */
    enum ss_algorithm best;
    double predicted; /* predicted time of `best` */
    double native;    /* measured time of the MPI library */
    double dense;     /* predicted time of the MPI library */
    /* `native` and `dense` differ by more than a factor of 2. The MPI library took longer than the
     * network needs if ranks wait for each other, which they do in any mode. */
    bool misfit;
    double against; /* seconds that a mode can save from: the less of both then, else native */
    bool gain;      /* predicted is at most 0.9 times the less of both */
    bool unclear;   /* no mode gains, but one would against the greater of both; no misfit */
    /* Advice for MODE=topk and MODE=quant, which are lossy. */
    enum ss_algorithm topk;
    double topk_predicted;
    double topk_bytes;  /* predicted bytes sent by this rank */
    double topk_inside; /* those of them to ranks of the same host, NaN: none */
    bool topk_gain;
    double quant_predicted, quant_bytes, quant_inside;
    bool quant_gain;
};
struct ss_report_advice ss_report_advise(const struct ss_lane_record *lane);

#endif
