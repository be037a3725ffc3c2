/* The plan: which collective runs this call, from voted values alone, hence the same on every rank.
 */
#ifndef CORE_PLAN_PLAN_H
#define CORE_PLAN_PLAN_H

#include "core/base/kind.h"
#include "core/place/place_costs.h"
#include "core/vote/vote.h"
#include "core/wire/values.h"
#include "core/wire/wire.h"

/* What a lane remembers. Filled from voted values and plans only, so that all ranks remember the
 * same. */
struct ss_history {
    unsigned runs[SS_ALGORITHMS];  /* measured, up to what makes the ratio trusted */
    unsigned since[SS_ALGORITHMS]; /* calls measured since its last */
    double ratio[SS_ALGORITHMS];   /* measured over predicted seconds, 0 = not tried */
    enum ss_algorithm last;        /* what ran last, SS_AUTO = nothing yet */
    double last_predicted;         /* its prediction, seconds */
    double last_seconds;           /* this rank's measurement of it, to be voted; 0 = none */
    uint64_t result_nnz;           /* entries of the last sparse result, 0 = not known */
    uint64_t result_sum;           /* sum of nnz of the call that had it */
    unsigned dense_streak;         /* dense plans in a row */
    unsigned skip;                 /* calls still to be handed on without a vote */
};

struct ss_row;

/* A call as the plan sees it. */
struct ss_shape {
    const struct ss_row *const *rows; /* of its kind, by algorithm; NULL: it does not run these */
    enum ss_kind kind;
    uint64_t n;
    uint64_t part_n; /* other kinds than the allreduce: elements of the largest part */
    int size;        /* ranks */
    enum ss_type type;
    enum ss_coding coding;
    enum ss_algorithm forced; /* SS_AUTO: choose */
    bool topk;                /* the own stream is claimed: oktopk and gtopk can run */
    bool resting;             /* it would be: the call is dense, the plan is for the next */
    enum ss_values values;    /* of streams */
    enum ss_values quant;     /* of dsar's dense phase */
    uint32_t bucket;          /* values of one scale */
    bool learn;               /* correct predictions by the lane's measurements */
    uint64_t nnz_sum, nnz_max, part_max, memory_min;
    uint64_t k;                     /* top-k: entries asked for */
    double alpha, beta;             /* seconds, seconds per byte */
    double scan, code, merge, fill; /* the host's: seconds per element, entry, entry, byte */
    struct ss_place_costs place;    /* of the place of inputs and results */
    double vote;                    /* seconds */
};

/* What a collective costs before its result is cleared: time on the wire, work that runs meanwhile,
 * and work that the wire waits for. */
struct ss_estimate {
    double wire;    /* seconds */
    double overlap; /* seconds */
    double serial;  /* seconds */
    double bytes;   /* sent by the busiest rank */
};

/* An algorithm, or the one sparse way of another kind of collective: all there is to say of it
 * stands beside its step. */
struct ss_coll;
struct ss_row {
    const char *source; /* paper, section */
    bool global;        /* keeps the largest entries of all ranks only: MODE=topk */
    bool elementwise;   /* an element of the result has the same bits whatever n and the others are,
                           where values travel as they are */
    bool stays;         /* its own stream may stay in the place, and be encoded there */
    struct ss_estimate (*cost)(const struct ss_shape *shape, const struct ss_history *history);
    double (*memory)(const struct ss_shape *shape); /* most work space of any rank, bytes */
    size_t state;                                   /* bytes of c->state that it uses */
    int (*step)(struct ss_coll *c); /* SS_PENDING or SS_OK, failures in c->x.failed; c->state is
                                       zero at the first. NULL: the MPI library's */
};

/* Bytes of the MPI library's collective at a time, where that goes in pieces (ss_call_piece). */
enum { SS_PIECE = 4 << 20 };

/* Under SS_AUTO an input of higher density on any rank is reduced by the MPI library. */
#define SS_DENSE_FROM 0.75

/* Entries of a rank to which that comes: of all elements, or, where each rank gives a slice of
 * them, of the mean slice. */
double ss_plan_dense_from(enum ss_kind kind, uint64_t n, int size);

struct ss_plan {
    enum ss_algorithm algorithm;   /* SS_DENSE: native */
    double seconds[SS_ALGORITHMS]; /* predicted, scan and vote included for sparse ones; < 0: cannot
                                      run */
    double bytes[SS_ALGORITHMS];   /* predicted, sent by the busiest rank */
    bool settled;                  /* the choice between dense and sparse is no trial */
    bool short_of_memory; /* dense, because what would be faster (or is forced) needs more memory
                             than a rank has left */
    double fillin;        /* expected density of the result */
};

/* Entries a rank makes room for before it knows how many it has, and bytes of its own stream. */
uint64_t ss_plan_own_least(uint64_t n);
double ss_plan_own(uint64_t n, enum ss_type type, uint64_t nnz);

/* Most work space any rank needs for the algorithm, bytes. */
double ss_plan_memory(const struct ss_shape *shape, enum ss_algorithm algorithm);

/* Entries from which a stream is better dense (SparCML section 5.1: N isize / (c + isize), with the
 * index size c = 4). */
uint64_t ss_plan_delta(uint64_t n, enum ss_type type);

/* Expected size of the union of `ranks` sets of nnz_sum / size entries each, drawn alike, given
 * what the lane saw. */
double ss_plan_union(const struct ss_shape *shape, const struct ss_history *history, double ranks);

void ss_plan_make(const struct ss_shape *shape, const struct ss_history *history,
                  struct ss_plan *plan);

/* Takes the voted measurement of the lane's last call in, and books a new plan. */
void ss_history_measured(struct ss_history *history, double seconds);
void ss_history_planned(struct ss_history *history, const struct ss_plan *plan, bool observe);

/* The next calls on the lane are handed on without a vote, twice as many each time until a plan is
 * not dense. */
void ss_history_back_off(struct ss_history *history);

#endif
