/* What lasts between the calls on a communicator. Made and freed by core/call/communicator.c. */
#ifndef CORE_COMM_COMMUNICATOR_H
#define CORE_COMM_COMMUNICATOR_H

#include "core/comm/settings.h"
#include "core/plan/calibrate.h"
#include "core/plan/plan.h"
#include "core/report/stats.h"
#include "core/stream/work.h"

/* What all ranks know of a call before the vote. */
struct ss_lane_key {
    enum ss_kind kind;
    enum ss_type type; /* SS_I32 in an allgather, as also op and root where they mean nothing */
    enum ss_op op;
    int root;
    uint64_t n; /* elements; bytes in an allgather */
    unsigned window;
};

/* A sparse result of this rank: of the call that started so, 0 = none; its entries, and those of
 * all inputs together. */
struct ss_lane_result {
    uint64_t index, nnz, sum;
};

/* A lane of this communicator (core/README.md, Lanes). Changes by voted values only. */
struct ss_lane {
    struct ss_lane_key key;
    uint32_t number; /* index among SS_LANES; given to another lane when this one is forgotten */
    struct ss_history history;
    struct ss_lane_record *record;
    bool holds;                               /* some rank has a residual on it, by its last vote */
    bool was_dense;                           /* this rank's last input, as a whole; not voted */
    bool settled;                             /* the last plan was no trial */
    uint32_t turns;                           /* calls */
    uint32_t planned_call;                    /* voted call that history.last was planned for */
    uint32_t skip_until;                      /* history.skip is of turns up to that one, */
    uint64_t skip_index;                      /* by the decision of the call that started so, */
    bool pieces;                              /* in whose vote a rank asked for SS_PIECE */
    struct ss_lane_result results[SS_BESIDE]; /* of this rank's last ones, in any order */
    uint64_t observed;                        /* calls planned in mode observe */
    enum ss_algorithm told;                   /* as DEBUG=info has it, SS_AUTO = nothing yet */
    unsigned changed;                         /* plans in a row that were another */
    uint16_t chain, newer, older;             /* in its bucket; in the order of use */
};

/* The last SS_LANES different lanes of a communicator. A new one takes the place of the one not
 * used for longest, which is forgotten with its back-off and its tensors, but for those that hold
 * residuals. Where all do, new ones share a place that remembers nothing, and are exact. */
enum { SS_LANES = 1024, SS_LANE_BUCKETS = 2048 };
struct ss_lanes {
    uint16_t count;
    uint16_t newest, oldest;
    uint16_t buckets[SS_LANE_BUCKETS];
    struct ss_lane list[SS_LANES + 1]; /* the last is the place they share then */
};

/* Where the application calls from, for the identity of tensors (MODE=topk). */
struct ss_call_site {
    uint64_t hash;      /* 0 = unknown */
    uint64_t path;      /* hash of its callers, 0 = unknown */
    uint64_t marks;     /* small allreduces of the communicator so far (core/identity/identity.h) */
    const char *name;   /* MODULE+OFFSET, or NULL; valid until the call has ended */
    const char *symbol; /* its function, or NULL */
    const void *buffer; /* the receive buffer as the application has it; NULL: that of the call */
};

struct ss_comm {
    struct ss_transport *t;
    const struct ss_settings *settings;
    struct ss_mem *mem;
    struct ss_stats *stats;
    char name[64];
    struct ss_costs network;
    bool costs_agreed;      /* no rank will ask for a calibration any more */
    double cost_scan;       /* seconds per element scanned, last seen here */
    double cost_vote;       /* seconds per vote, least seen here */
    uint32_t calls;         /* voted calls so far */
    bool off;               /* ss_comm_set_off */
    bool environment;       /* ss_comm_set_environment */
    bool polled;            /* votes SS_VOTE_POLLED */
    bool callbacks;         /* votes SS_VOTE_CALLBACKS */
    bool nonblocking;       /* the call that is started */
    uint64_t number;        /* ss_comm_set_number, 0: not set */
    uint64_t mismatch_from; /* options differ between ranks: from that start on all is native */
    int status;             /* < 0: a call failed here; the rest says where */
    int failed_peer;
    enum ss_phase failed_phase;
    uint64_t failed_call;  /* its number (ss_comm_set_number) */
    uint64_t told_from;    /* all ranks know of it, and calls from that start on end with it */
    bool told;             /* the start has come, or no message can reach them any more */
    struct ss_lanes lanes; /* pages of it that no lane has been in stay untouched */
    unsigned window; /* calls that may be under way at once, from the first to the last of them */
    struct ss_call *slots[SS_MERGED]; /* storage of calls, NULL where none was needed yet */
    struct ss_work works[SS_MERGED];  /* of each */
    uint64_t busy[SS_MERGED / 64];    /* a bit each: the call has started, and not ended */
    struct ss_call *open;             /* these, the last one first, */
    struct ss_call *oldest;           /* and the first one */
    size_t room;                      /* most memory that they may take, bytes */
    size_t idle;                      /* bytes of the work space of all others */
    uint64_t starts;                  /* calls started so far */
    uint64_t moves;                   /* steps that brought a call further */
    uint64_t polls;                   /* of the transport */
    const struct ss_row *const *rows; /* others than ss_rows: for tests, NULL = none */
    bool told_not_finite; /* a lossy call whose input was not finite has been warned about */

    char warning[800];    /* to be told, "" = none */
    bool warning_own;     /* it is about this rank alone */
    char decisions[1600]; /* lines to be told */
    bool wait_told;       /* ss_call_waits */
    bool held_told;       /* ss_comm_held_back */

    struct ss_grouping *grouping; /* MERGE, else NULL (core/call/group.h) */

    struct ss_tensors *tensors;          /* MODE=topk, else NULL */
    struct ss_rounds_sums rounds_booked; /* of `rounds`, in the statistics so far */
    struct ss_rounds *rounds;            /* QUORUM, else NULL, and */
    uint64_t rounds_bytes;               /* those of their bytes that are booked */
    struct ss_transport *rounds_t;       /* their own transport */
    struct ss_call_site site;            /* of the calls that follow */
};

/* The lane of a call, made when new and valid until another new one is made. n, type: to be
 * reported. */
uint64_t ss_lane_hash(const struct ss_lane_key *key);
bool ss_comm_knows_lane(struct ss_comm *comm, const struct ss_lane_key *key);
struct ss_lane *ss_comm_lane(struct ss_comm *comm, const struct ss_lane_key *key, uint64_t n,
                             enum ss_type type);

#endif
