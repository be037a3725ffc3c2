/* The counters of a process that the report prints. Calls fill them, from several threads. */
#ifndef CORE_REPORT_STATS_H
#define CORE_REPORT_STATS_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/kind.h"
#include "core/base/round_sums.h"
#include "core/base/times.h"

/* The reasons why a call went to the MPI library. The report prints ss_reason_name. */
enum ss_reason {
    SS_WHY_SMALL,        /* count below MIN_COUNT */
    SS_WHY_TYPE,         /* datatype or operator is not one of ours */
    SS_WHY_COMMUNICATOR, /* one rank, intercommunicator, or no private communicator to be had */
    SS_WHY_BUFFER,       /* NULL, aliased or misplaced IN_PLACE buffer, or unequal parts */
    SS_WHY_FIRST,        /* first eligible call on its communicator */
    SS_WHY_SETTINGS,     /* options differ between ranks */
    SS_WHY_OFF,          /* a rank switched the library off by MPI_Pcontrol */
    SS_WHY_ENVIRONMENT,  /* a sum of floats, and a rank has traps or a rounding mode */
    SS_WHY_CANNOT,       /* a rank was out of memory (as in SS_WHY_LIMIT), or its device failed */
    SS_WHY_LIMIT,        /* MAX_MEMORY too small, as this rank knows */
    SS_WHY_NOT_FINITE,   /* an input holds Inf or NaN */
    SS_WHY_UNREGISTERED, /* top-k on some ranks only */
    SS_WHY_OBSERVE,      /* MODE=observe */
    SS_WHY_LEARN,        /* MODE=learn */
    SS_WHY_DENSE,        /* the plan (or ALGORITHM=dense) says dense */
    SS_WHY_BACKED_OFF,   /* dense was faster on the lane, so the vote was skipped */
    SS_WHY_NONBLOCKING,  /* nonblocking calls are not taken over */
    SS_WHY_BEFORE_BLOCKING, /* nonblocking, and no eligible blocking call on the communicator before
                             */
    SS_WHY_CALLBACKS, /* nonblocking, and a rank has callbacks that must not run in our threads */
    SS_REASONS
};
const char *ss_reason_name(enum ss_reason reason);
const char *ss_reason_key(enum ss_reason reason); /* in JSON */

/* A lane of a communicator (kind, count, type class, operator). Lanes that differ only in the root
 * of a reduce share a record. */
struct ss_lane_record {
    struct ss_lane_record *next;
    char comm[64]; /* MPI name of the communicator, or "" */
    int size;      /* ranks */
    uint64_t count;
    enum ss_type type;
    enum ss_op op; /* means nothing in an allgather */
    enum ss_kind kind;

    uint64_t calls;                 /* all eligible calls on the lane */
    uint64_t sparse[SS_ALGORITHMS]; /* calls by algorithm that ran */
    uint64_t passed[SS_REASONS];    /* calls handed to the MPI library */
    uint64_t scans;                 /* calls that were scanned; density_sum is over these */
    double density_sum;             /* of this rank's input, nnz / count */
    double density_max;             /* largest over calls of the largest over ranks */
    uint64_t fillin_calls;          /* calls whose result density is known */
    double fillin_sum;              /* density of the result */
    uint64_t planned;               /* calls with a plan; fewer than scans where calls skip it */
    double predicted_seconds[SS_ALGORITHMS]; /* summed over the planned calls */
    double predicted_bytes[SS_ALGORITHMS];   /* sent by this rank, likewise */
    double predicted_inside[SS_ALGORITHMS];  /* those of them to ranks of its host */
    /* Mode observe: predictions for MODE=topk, summed over the calls that were sampled. */
    uint64_t topk_samples;
    double topk_density_sum; /* share of the elements that would be sent */
    double topk_kept_sum;    /* share of the input's squared norm in them */
    double topk_seconds[SS_ALGORITHMS];
    double topk_bytes[SS_ALGORITHMS];
    double topk_inside[SS_ALGORITHMS]; /* those of topk_bytes to ranks of the same host */
    /* Likewise for MODE=quant, by its one algorithm; 0 where it would not run. */
    double quant_seconds, quant_bytes, quant_inside;
    uint64_t bytes_dense; /* sent by this rank without the library, all calls
                             (ss_kind_dense_bytes) */
    uint64_t bytes_sent;  /* sent by this rank, votes included; native calls count as dense */
    uint64_t dense_inside, sent_inside; /* those of them to ranks of the same host */
    struct ss_times times;
};

struct ss_tensor_record; /* core/report/tensor_record.h */

/* Calls that would be served if MIN_COUNT were lower. */
enum { SS_SMALL_CLASSES = 64 };
struct ss_small {
    uint64_t calls;
    uint64_t bytes; /* in their buffers */
    double seconds;
};

enum { SS_STRETCHES = 128, SS_SYNCHRONOUS = 32 };

/* Calls of one site that wait for all ranks. */
struct ss_synchronous {
    char site[128], symbol[64]; /* "" = unknown */
    enum ss_kind kind;
    uint64_t count; /* elements of the last one */
    uint64_t calls;
};

/* Rounds of partial calls on this rank, over all communicators. */
struct ss_rounds_record {
    struct ss_rounds_sums sum;
    uint64_t queued_most;
    bool solo;           /* QUORUM=solo */
    double thread;       /* processor time of the library's thread, seconds */
    double thread_lived; /* life of that thread, seconds */

    /* The course over time: when all stretches are full, each two become one. */
    struct ss_rounds_sums stretch[SS_STRETCHES];
    size_t stretches;
    uint64_t stretch_rounds; /* of a full one */

    /* Calls on communicators with rounds that wait for all ranks, if calls are timed. The last
     * entry has no site and counts all calls that found no room. */
    struct ss_synchronous synchronous[SS_SYNCHRONOUS];
    size_t synchronous_sites;
};

/* Merged calls of this rank, over all communicators; `groups` to `alone` are of the last plan. */
struct ss_merged_record {
    bool on;                    /* MERGE */
    uint64_t votes, calls;      /* group votes, and calls that they agreed on */
    uint64_t exchanges, merged; /* exchanges of several calls, and calls in them */
    uint64_t in_vain;           /* votes cast because no further call came for a while */
    uint64_t groups, planned;   /* groups that are planned, 0: none; for so many calls of a step */
    double predicted;           /* seconds from the first call of such a step to its end */
    double together, alone; /* measured seconds from step to step on the slowest rank: in groups,
                               and with each call alone; 0: not measured */
};

/* The whole process. Zero-initialise and call ss_stats_init. */
struct ss_stats {
    pthread_mutex_t lock;
    double start;                            /* seconds, steady clock, first intercepted call */
    double end;                              /* set before printing */
    atomic_uint_fast64_t seen;               /* intercepted calls */
    atomic_uint_fast64_t allreduces;         /* of them, where calls are timed */
    atomic_uint_fast64_t passed[SS_REASONS]; /* handed on, by reason */
    atomic_uint_fast64_t sparse;             /* calls made sparse */
    atomic_uint_fast64_t nonblocking;        /* nonblocking calls taken over, */
    atomic_uint_fast64_t not_timed;   /* and handed on: they end in waits that are not timed */
    atomic_uint_fast64_t errors;      /* calls that returned an error of ours */
    atomic_uint_fast64_t small_bytes; /* bytes in buffers of calls that passed with no lane */
    atomic_uint_fast64_t calibration_bytes; /* sent by this rank to measure the network */
    double allreduce_seconds;               /* inside allreduce, all timed calls */
    bool timed;             /* allreduce_seconds covers every call (report or observe is on) */
    uint64_t largest_bytes; /* size of the largest buffer reduced, and all calls' sizes summed: */
    uint64_t largest_total; /* bytes reduced in buffers of that size */
    uint64_t reduced_total; /* bytes reduced in all calls */
    uint64_t
        small_largest; /* most elements of a call that was only too small, where calls are timed */
    uint64_t small_calls;                    /* calls of that size */
    struct ss_small small[SS_SMALL_CLASSES]; /* such calls by the power of two in their count */
    size_t memory_peak;                      /* bytes, own memory that grows with N, k or P */
    size_t memory_need;           /* bytes, MAX_MEMORY for calls passed by SS_WHY_LIMIT */
    struct ss_lane_record *lanes; /* newest first */
    size_t lane_count;
    struct ss_tensor_record *tensors; /* MODE=topk; in the order of booking */
    struct ss_tensor_record *last_tensor;
    size_t tensor_count;
    uint64_t tensors_unlisted;      /* that found no room */
    struct ss_rounds_record rounds; /* QUORUM */
    struct ss_merged_record merged; /* MERGE */
    atomic_bool warned_position;    /* that the position of calls in their step is not known */
};

const char *ss_staleness_key(int rounds); /* in JSON: "0" to "15" */

/* Add rounds since the last call, and synchronous calls. The caller holds the lock. */
void ss_rounds_stretch(struct ss_rounds_record *rounds, const struct ss_rounds_sums *more);
void ss_rounds_synchronous(struct ss_rounds_record *rounds, const struct ss_synchronous *call);

void ss_stats_init(struct ss_stats *stats, double now);
void ss_stats_free(struct ss_stats *stats);

/* Returns the record of a lane, made when new. After 1,000 lanes all further lanes share the record
 * with count 0. NULL only if memory is short. */
struct ss_lane_record *ss_stats_lane(struct ss_stats *stats, enum ss_kind kind, const char *comm,
                                     int size, uint64_t count, enum ss_type type, enum ss_op op);

/* Appends a copy of the record, which then owns its series. If `record` is NULL, appends an empty
 * record, which the caller fills before the next report is written. Returns NULL after 4,000
 * records or if memory is short: the tensor then counts as unlisted, and the series stays the
 * caller's. */
struct ss_tensor_record *ss_stats_tensor(struct ss_stats *stats,
                                         const struct ss_tensor_record *record);

/* Removes the records of an owner, which may then be booked anew. */
void ss_stats_forget_tensors(struct ss_stats *stats, const void *owner);

/* Returns the eligible calls so far: all calls seen, less those passed on for their count, type,
 * buffer or communicator, or as nonblocking calls that are not taken over. */
uint64_t ss_stats_eligible(struct ss_stats *stats);

/* Returns whether an eligible call after a first exchange has ended. */
bool ss_stats_decided(struct ss_stats *stats);

/* Adds a call of `count` > 0 elements that would be served if MIN_COUNT were lower, with the bytes
 * of its buffer and the seconds that it took. */
void ss_stats_small(struct ss_stats *stats, uint64_t count, uint64_t bytes, double seconds);

/* Adds one eligible call's buffer to the sums behind "share of bytes in the largest tensor". */
void ss_stats_reduced(struct ss_stats *stats, uint64_t bytes);

#endif
