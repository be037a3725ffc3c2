/* The state of a communicator between its calls. core/call/communicator.c makes and frees it. */
#ifndef CORE_COMM_COMMUNICATOR_H
#define CORE_COMM_COMMUNICATOR_H

#include "core/comm/settings.h"
#include "core/plan/calibrate.h"
#include "core/plan/plan.h"
#include "core/report/stats.h"
#include "core/stream/work.h"

/* The signature of a call, equal on all ranks before the vote. */
struct ss_lane_key {
    enum ss_kind kind;
    enum ss_type type; /* SS_I32 in an allgather; op and root are constant where unused */
    enum ss_op op;
    int root;
    uint64_t n; /* elements; bytes in an allgather */
    unsigned window;
};

/* A sparse result of this rank. */
struct ss_lane_result {
    uint64_t index; /* number of the call's start, 0: none */
    uint64_t nnz;   /* entries of the result */
    uint64_t sum;   /* entries of all inputs together */
};

/* A lane of this communicator (core/README.md, Lanes). Only voted values change it, except where a
 * field says otherwise. */
struct ss_lane {
    struct ss_lane_key key;
    uint32_t number; /* index among SS_LANES; given to another lane when this one is forgotten */
    struct ss_history history;
    struct ss_lane_record *record;
    bool has_residual;                           /* a rank has a residual on it, by the last vote */
    bool was_dense;                              /* this rank's last input was dense; not voted */
    bool settled;                                /* the last plan was no trial */
    uint32_t begun;                              /* calls so far */
    uint32_t planned_call;                       /* voted call that history.last was planned for */
    uint32_t skip_until;                         /* last call without a vote (history.skip) */
    uint64_t skip_index;                         /* start of the call that decided history.skip */
    bool pieces;                                 /* a rank asked for SS_PIECE in that call's vote */
    struct ss_lane_result results[SS_IN_FLIGHT]; /* this rank's last ones, in any order */
    uint64_t observed;                           /* calls planned in mode observe */
    enum ss_algorithm logged;                    /* last logged by DEBUG=info, SS_AUTO = none */
    unsigned changed;                            /* plans in a row that differ from `logged` */
    uint16_t chain, newer, older;                /* in its bucket; in the order of use */
};

/* The last SS_LANES different lanes of a communicator. A new lane replaces the lane not used for
 * longest that holds no residual; its history and its tensors are forgotten. If all lanes hold
 * residuals, new lanes share a last lane that remembers nothing, and their calls are exact. */
enum { SS_LANES = 1024, SS_LANE_BUCKETS = 2048 };
struct ss_lanes {
    uint16_t count;
    uint16_t newest, oldest;
    uint16_t buckets[SS_LANE_BUCKETS];
    struct ss_lane list[SS_LANES + 1]; /* with the shared lane */
};

/* The call site in the application, which rules name (MODE=topk). */
struct ss_call_site {
    uint64_t hash;      /* 0 = unknown */
    uint64_t path;      /* hash of its callers, 0 = unknown; learn tells gradients apart by it */
    const char *name;   /* MODULE+OFFSET, or NULL; valid until the call has ended */
    const char *symbol; /* its function, or NULL */
    const void *buffer; /* the application's receive buffer; NULL: that of the call */
};

/* Facts that the caller tells of the calls that it starts next. The first four are votes of this
 * rank. */
struct ss_caller {
    bool off;         /* MPI_Pcontrol */
    bool environment; /* the call is a sum of floats under the caller's own traps or rounding mode
                         (ss_fpenv_is_unusual) */
    bool polled;      /* the MPI library's allreduce, if the calls come to it, must be one that can
                         be polled, since other calls of this rank are under way */
    bool callbacks;   /* nonblocking calls must go to the MPI library, on all ranks */
    bool nonblocking; /* the calls are nonblocking, on all ranks */
    uint64_t number;  /* by which messages, logs and traces name the next call; 0: it is counted */
    struct ss_call_site site; /* for the identity of tensors (MODE=topk) */
};

struct ss_comm {
    struct ss_transport *t;
    const struct ss_settings *settings;
    struct ss_mem *mem;
    struct ss_stats *stats;
    char name[64];
    const struct ss_layout *layout; /* hosts of the ranks, NULL: not known */
    struct ss_shared *shared;       /* memory that all ranks share, NULL: none */
    struct ss_peers *peers; /* ranks of this host read each other's memory; NULL: they do not */
    struct ss_costs network;
    bool costs_agreed;       /* no rank will ask for a calibration any more */
    double cost_scan;        /* seconds per element scanned, last seen here */
    double cost_vote;        /* seconds per vote, least seen here */
    uint32_t calls;          /* voted calls so far */
    struct ss_caller caller; /* ss_comm_set_caller */
    uint64_t mismatch_from;  /* options differ between ranks: from that start on all is native */
    int status;              /* < 0: a call failed here; the next fields say where */
    int failed_peer;
    enum ss_phase failed_phase;
    uint64_t failed_call;    /* its number */
    uint64_t failure_from;   /* all ranks know of the failure; calls from this start on fail */
    bool failure_agreed;     /* that start has come, or no message can reach the ranks any more */
    struct ss_lanes lanes;   /* pages that no lane has used stay untouched */
    unsigned most_in_flight; /* calls at once, from the first to the last of them */
    struct ss_call *slots[SS_MERGED]; /* storage of calls, NULL where none was needed yet */
    struct ss_work works[SS_MERGED];  /* of each */
    uint64_t busy[SS_MERGED / 64];    /* a bit each: the call has started, and not ended */
    struct ss_call *open;             /* the calls in flight, the last one first */
    struct ss_call *oldest;           /* the first one in flight */
    size_t room;                      /* most memory that calls in flight may take, bytes */
    size_t idle;                      /* work space of the idle slots, bytes */
    uint64_t starts;                  /* calls started so far */
    uint64_t moves;                   /* steps that brought a call further */
    uint64_t polls;                   /* of the transport */
    const struct ss_algorithm_def *const *algorithms; /* of a test, else NULL */
    bool warned_not_finite; /* a lossy call whose input was not finite has been warned about */

    char warning[800];    /* to be logged, "" = none */
    bool warning_own;     /* the warning concerns this rank alone */
    char decisions[1600]; /* lines to be logged */
    bool wait_warned;     /* ss_call_waits has warned */
    bool unsent_told;     /* ss_comm_unsent has warned */

    struct ss_grouping *grouping; /* MERGE, else NULL (core/call/group.h) */

    struct ss_tensors *tensors;          /* MODE=topk, else NULL */
    struct ss_rounds_sums rounds_booked; /* sums of `rounds` that the statistics have */
    struct ss_rounds *rounds;            /* QUORUM, else NULL */
    uint64_t rounds_bytes;               /* bytes of `rounds` that the statistics have */
    uint64_t rounds_inside;              /* those of rounds_bytes inside the host */
    struct ss_transport *rounds_t;       /* transport of `rounds` alone */
};

uint64_t ss_lane_hash(const struct ss_lane_key *key);
bool ss_comm_knows_lane(struct ss_comm *comm, const struct ss_lane_key *key);
/* Returns the lane of a call, made when new; valid until the next new lane is made. n and type go
 * into the report. */
struct ss_lane *ss_comm_lane(struct ss_comm *comm, const struct ss_lane_key *key, uint64_t n,
                             enum ss_type type);

#endif
