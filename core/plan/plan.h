/* The plan: the algorithm of a call, computed from voted values alone, hence the same on every
 * rank. */
#ifndef CORE_PLAN_PLAN_H
#define CORE_PLAN_PLAN_H

#include "core/backend/backend_costs.h"
#include "core/base/kind.h"
#include "core/net/host_layout.h"
#include "core/vote/vote.h"
#include "core/wire/values.h"
#include "core/wire/wire.h"

/* Memory of a lane. Filled from voted values and plans only, so that it is equal on all ranks. */
struct ss_history {
    unsigned runs[SS_ALGORITHMS];  /* measured calls, counted up to TRUSTED_RUNS */
    unsigned since[SS_ALGORITHMS]; /* calls measured since the algorithm's last one */
    double ratio[SS_ALGORITHMS];   /* measured over predicted seconds, 0: not tried */
    enum ss_algorithm last;        /* algorithm of the last call, SS_AUTO: none yet */
    double last_predicted;         /* predicted seconds of the last call */
    double last_seconds;           /* seconds of the last call on this rank, to be voted; 0: none */
    uint64_t result_nnz;           /* entries of the last sparse result, 0: not known */
    uint64_t result_sum;           /* nnz_sum of the call with that result */
    unsigned dense_streak;         /* number of consecutive dense plans */
    unsigned skip;                 /* calls still to go native without a vote */
};

struct ss_algorithm_def;

/* The inputs of a plan. */
struct ss_shape {
    const struct ss_algorithm_def *const *algorithms; /* by algorithm; NULL: not served */
    enum ss_kind kind;
    uint64_t n;
    uint64_t part_n; /* elements of the largest part; not for the allreduce */
    int size;        /* ranks */
    enum ss_type type;
    enum ss_algorithm forced; /* SS_AUTO: choose */
    bool whole;               /* every element is sent in few bits: only such algorithms run */
    bool topk;                /* the own stream is claimed: oktopk and gtopk can run */
    bool resting;             /* the tensor rests: this call is dense, the plan is for the next */
    enum ss_values values;    /* coding of values */
    uint32_t bucket;          /* values per scale */
    bool learn;               /* correct predictions by the lane's measurements */
    uint64_t nnz_sum, nnz_max, part_max, memory_min;
    uint64_t k;                     /* top-k: entries asked for */
    double alpha, beta;             /* seconds, seconds per byte */
    const struct ss_layout *layout; /* hosts of the ranks, NULL: one rank on each */
    bool deep;                      /* an algorithm on two levels may run */
    bool shared;                    /* allgather may use shared memory */
    bool aggregated;                /* no sparse algorithm on one level may run */
    bool by_host;  /* the entries are claims from sums of hosts (core/feedback/host_sum.c) */
    bool balanced; /* split_allgather and two_level divide the index space by its entries */
    enum ss_algorithm between;        /* forced between hosts, SS_AUTO: choose */
    double beta_between;              /* of messages between hosts; beta is a mean over all peers */
    double alpha_inside, beta_inside; /* of messages inside a host */
    double scan, code, merge, fill; /* costs of the host: seconds per element, entry, entry, byte */
    struct ss_backend_costs backend; /* costs of the backend of inputs and results */
    double vote;                     /* seconds */
};

/* Cost of a collective without clearing its result: time on the wire, work that overlaps with it,
 * and work that the wire waits for. */
struct ss_estimate {
    double wire;    /* seconds */
    double overlap; /* seconds */
    double serial;  /* seconds */
    double bytes;   /* bytes sent by the busiest rank */
    double inside;  /* those of `bytes` to ranks of its host; ss_plan_predict fills it in for the
                       algorithms of one level */
};

/* Definition of an algorithm, written beside its step. */
struct ss_coll;
struct ss_algorithm_def {
    bool global; /* keeps the largest entries of all ranks only: needs MODE=topk */
    /* if values are not rounded, an element of the result has the same bits for any n and any other
     * elements */
    bool elementwise;
    bool in_backend; /* the own stream may be in the backend and be encoded there */
    bool deep;       /* acts on two levels (struct ss_shape, deep) */
    bool whole;      /* sends every element of whole calls in few bits, and runs in no other call */
    struct ss_estimate (*cost)(const struct ss_shape *shape, const struct ss_history *history);
    /* Returns the most work space of any rank in bytes. */
    double (*memory)(const struct ss_shape *shape);
    size_t state; /* bytes of c->state that the step uses */
    /* Returns SS_PENDING or SS_OK, and reports failures in c->x.failed. c->state is zero at the
     * first step. NULL: the MPI library's collective. */
    int (*step)(struct ss_coll *c);
};

/* Bytes of a piece, if the MPI library's collective runs in pieces (ss_call_piece). */
enum { SS_PIECE = 4 << 20 };

/* With SS_AUTO, a denser input on any rank makes the call dense. */
#define SS_DENSE_FROM 0.75

/* Returns the entries of a rank at that density: of all elements, or, if each rank gives a slice of
 * them, of the mean slice. */
double ss_plan_dense_from(enum ss_kind kind, uint64_t n, int size);

struct ss_plan {
    enum ss_algorithm algorithm; /* SS_DENSE: native */
    /* predicted seconds, including scan and vote if sparse; < 0: cannot run */
    double seconds[SS_ALGORITHMS];
    double bytes[SS_ALGORITHMS];  /* predicted bytes sent by the busiest rank */
    double inside[SS_ALGORITHMS]; /* those of them to ranks of its host */
    bool settled;                 /* the choice is no trial */
    /* dense, because the algorithm that is faster (or forced) needs more memory than a rank has
     * left */
    bool short_of_memory;
};

/* Takes the layout, which may be NULL, into the costs. The measured beta is that of a rank while
 * all ranks of its host send to other hosts; in an algorithm of one level, a share of the peers is
 * on the same host. */
void ss_plan_see_layout(struct ss_shape *shape, const struct ss_layout *layout);

/* Returns the entries that a rank makes room for before it knows how many it has. */
uint64_t ss_plan_own_least(uint64_t n);
/* Returns the bytes of its own stream of nnz entries. */
double ss_plan_own(uint64_t n, enum ss_type type, uint64_t nnz);

/* Returns the most work space that any rank needs for the algorithm, in bytes. */
double ss_plan_memory(const struct ss_shape *shape, enum ss_algorithm algorithm);

/* Returns the number of entries from which a stream is better dense (SparCML section 5.1: N isize /
 * (c + isize) with the index size c = 4). */
uint64_t ss_plan_delta(uint64_t n, enum ss_type type);

/* Returns the expected size of the union of `ranks` sets of nnz_sum / size entries each, given the
 * lane's last result. */
double ss_plan_union(const struct ss_shape *shape, const struct ss_history *history, double ranks);

/* Fills in the plan. */
void ss_plan_make(const struct ss_shape *shape, const struct ss_history *history,
                  struct ss_plan *plan);

/* Records the voted seconds of the lane's last call. */
void ss_history_measured(struct ss_history *history, double seconds);
/* Records a new plan. `observe` says that the call is dense whatever the plan. */
void ss_history_planned(struct ss_history *history, const struct ss_plan *plan, bool observe);

/* Makes the next calls of the lane native without a vote, twice as many each time until a plan is
 * not dense. */
void ss_history_back_off(struct ss_history *history);

#endif
