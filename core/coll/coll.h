/* State of a collective: the index space, this rank's stream, the result, and the voted numbers; an
 * algorithm sees nothing else of a call. First member of struct ss_feedback
 * (core/feedback/feedback.h). */
#ifndef CORE_COLL_COLL_H
#define CORE_COLL_COLL_H

#include "core/base/kind.h"
#include "core/compute/kernels.h"
#include "core/net/ranks.h"
#include "core/net/shared_memory.h"
#include "core/plan/plan.h"
#include "core/stream/in.h"
#include "core/stream/out.h"
#include "core/stream/stream.h"
#include "core/stream/word_exchange.h"
#include "core/tensor/part_bounds.h"

/* Clears the result piece by piece: before entries are written there, or while waiting for the
 * network. */
struct ss_fill {
    bool sparse;    /* in place, every element but those of this rank's own entries is +0.0 */
    uint64_t piece; /* elements of a piece */
    size_t pieces;
    size_t next;            /* next piece of the idle sweep */
    size_t left;            /* number of pieces not cleared */
    unsigned char *cleared; /* 1 for each piece that is cleared */
};

/* Claims during a call (MODE=topk; core/README.md, Rounding). The residual stays untouched until
 * the call has succeeded (ss_topk_commit). */
struct ss_claims {
    void *own_error; /* rounding errors, parallel to the own stream; NULL: not rounded */
    /* parallel to the own stream: 1 if the index is in the global set; NULL: all are */
    unsigned char *in_global;
    const uint32_t *idx; /* indices of `error`; NULL: consecutive from `first` */
    uint64_t first;
    const void *error; /* errors of a part that this rank rounded for all ranks; NULL: none */
    size_t errors;
};

/* Bytes for the state of an algorithm of one level, and of any algorithm. Its definition says how
 * many it uses; they are zero at its first step. */
enum { SS_COLL_STATE = 4096, SS_COLL_STATE_MOST = 8192 };

/* Numbers that an algorithm may rely on: equal on all ranks. */
struct ss_voted {
    uint64_t nnz_sum, nnz_max; /* entries of the ranks' own streams */
    uint64_t k_max;            /* top-k: entries asked for */
    bool same_state;           /* `agreed` is the same on all ranks */
    bool balanced;             /* parts of equal load (struct ss_balance) */
    enum ss_algorithm between; /* two_level: algorithm between hosts */
};

/* A whole call: every element of input + residual is sent in few bits. */
struct ss_whole {
    enum ss_values values;   /* SS_VALUES_SAME: the call is none */
    const unsigned char *in; /* element `first` of the index space */
    unsigned char *residual; /* the same element */
    uint64_t first;
    double square;    /* upper bound of the residual's square after the call */
    const void *sent; /* what ss_quantized_return needs; NULL: nothing was sent */
};

struct ss_coll {
    struct ss_exchange x;
    enum ss_kind kind;
    enum ss_op op;
    int root; /* root of a reduce */
    const struct ss_kernels *kernels;
    const void *in; /* element in_first of the index space, and in_n - 1 more */
    uint64_t in_first, in_n;
    unsigned char *out; /* element out_first of the result; out_n elements are written here */
    uint64_t out_first, out_n;
    bool in_place;
    const uint32_t *bounds; /* first elements of the parts, size + 1 of them; NULL: equal parts */
    uint64_t each;          /* equal parts: elements of each; 0: ss_part_first divides */
    uint64_t part_most;     /* balanced parts: most entries of this rank's; 0: not known */
    const struct ss_layout *layout; /* two_level: hosts of the ranks */
    bool by_host; /* the own stream holds entries of this rank's slices, summed over its host */
    struct ss_shared *shared; /* allgather: memory that all ranks share; NULL: use messages */

    struct ss_scan scan; /* result of the look at the input */
    struct ss_stream own;
    /* if the own stream stays in its backend: its share of each part */
    const struct ss_share *own_parts;
    uint64_t part_max; /* most entries of the own stream in one part */
    struct ss_voted voted;
    struct ss_agreed *agreed; /* oktopk: state of the tensor; NULL otherwise */
    struct {
        uint64_t repartition_period; /* calls of a tensor between two partitions */
        size_t threshold_period;
    } oktopk;

    struct ss_fill fill;
    uint64_t result_nnz;         /* entries of the result, 0: not known */
    bool dense_seen;             /* dense chunks came, so that result_nnz is too small */
    struct ss_rounding rounding; /* of streams, and of dsar's dense phase */
    struct ss_claims claims;
    struct ss_whole whole;
    void *state; /* state of the algorithm that runs */
};

/* Returns the collective of an exchange, for callbacks of streams. */
static inline struct ss_coll *ss_coll_of(struct ss_exchange *x)
{
    return (struct ss_coll *)x;
}

/* Returns the first element of part p of the index space; part `size` gives its end. */
static inline uint64_t ss_coll_part(const struct ss_coll *c, int p)
{
    if (c->bounds)
        return c->bounds[p];
    return c->each > 0 ? c->each * (uint64_t)p : ss_part_first(c->x.n, c->x.t->size, p);
}
/* Returns the address of an element of the result on this rank. */
static inline unsigned char *ss_out_at(const struct ss_coll *c, uint64_t element)
{
    return c->out + (element - c->out_first) * c->x.esize;
}

/* core/coll/result.c */
/* Makes room for struct ss_fill before the vote. Returns SS_OK or SS_ERR_MEMORY. */
int ss_fill_reserve(struct ss_coll *c);
/* Starts clearing. `own_alone` says that an input that lies in the result has only +0.0 outside of
 * the own stream. */
void ss_fill_start(struct ss_coll *c, bool own_alone);
/* Clears the pieces that hold elements lo..hi. */
void ss_fill_range(struct ss_coll *c, uint64_t lo, uint64_t hi);
/* Clears one piece. Returns false if none is left. */
bool ss_fill_idle(struct ss_coll *c);
/* Returns true if all entries of a chunk lie in that part of the index space. */
bool ss_chunk_within(const struct ss_coll *c, const struct ss_chunk *chunk, int part);
/* Writes a chunk's entries into the result, whose range is cleared first. */
void ss_result_set(struct ss_coll *c, const struct ss_chunk *chunk);
/* Adds a chunk's entries to the result. */
void ss_result_add(struct ss_coll *c, const struct ss_chunk *chunk);
void ss_result_set_stream(struct ss_coll *c, const struct ss_stream *s);
void ss_result_add_stream(struct ss_coll *c, const struct ss_stream *s);
/* Starts sending n elements of the result. */
void ss_out_result(struct ss_coll *c, struct ss_out *o, uint64_t first, uint64_t n,
                   enum ss_phase phase, unsigned round, int dst, int ndst);

/* core/coll/split.c: returns the entries of the own stream in a part. */
struct ss_stream ss_own_slice(const struct ss_coll *c, int part);

/* core/coll/claims.c */
/* Marks the claims with these ascending indices as members of the global set. */
void ss_claims_find_global(struct ss_coll *c, const uint32_t *idx, size_t nnz);
/* Books errors of reduced entries that this rank rounds: the end of the call adds them to its
 * residual. If idx is NULL, the entries are consecutive from `first`. All arguments are borrowed
 * until the end of the call. Called at most once per call. */
void ss_claims_book(struct ss_coll *c, const uint32_t *idx, uint64_t first, const void *error,
                    size_t count);
/* Acts like ss_out_round, for slices of the own stream. */
void ss_claims_round_own(struct ss_coll *c, struct ss_out *o);
/* Rounds a reduced part that this rank sends to all. Books the errors in work.part_error, which it
 * makes room for. */
void ss_claims_round_part(struct ss_coll *c, struct ss_out *o);

/* core/coll/quantized.c: gives what a failed call has sent back to the residual, which becomes
 * input
 * + residual. c->whole.sent is not NULL. */
void ss_quantized_return(struct ss_coll *c);

/* ---- building blocks of algorithms: each has its own state, zero at first ---- */

/* core/coll/balanced_parts.c: divides the index space into parts of about equal load, by the
 * entries of all ranks. */
struct ss_balance {
    bool started;
    struct ss_word_exchange exchange;
    uint64_t width, bins; /* elements of a bin; number of bins */
    uint64_t *counts;     /* entries in each bin, two bins to a word */
    uint32_t *bounds;     /* result: borders of the parts, at multiples of 16 elements */
};
/* Counts the entries of all ranks and finds the borders of `parts` parts, the same on all ranks.
 * Returns SS_PENDING or SS_OK. There are no borders if the call has failed. */
int ss_balance_step(struct ss_coll *c, struct ss_balance *b, int parts);
/* Returns the most entries that the result can have in elements [lo, hi). */
uint64_t ss_balance_room(const struct ss_balance *b, uint64_t lo, uint64_t hi);

/* core/coll/split.c: reduces every part on its owner, in the result. */
struct ss_split {
    int step;
    bool encoding;       /* the backend is encoding slices of a stream that stays there */
    size_t begin, *ends; /* offset of the slices in the arena; end of each slice */
    int slice;           /* number of slices sent */
    struct ss_out out;
    struct ss_in in;
};
/* Makes room for the messages of the slices. */
int ss_split_reserve_slices(struct ss_coll *c);
/* Makes room for the messages of the slices and of a reduced part. If `part` is not NULL, the part
 * is sent sparse, and `part` gets room for the entries announced by the vote. */
int ss_split_reserve(struct ss_coll *c, struct ss_stream *part);
int ss_split_step(struct ss_coll *c, struct ss_split *s);
/* The extraction of the non-zero entries of the own part. */
struct ss_compact {
    struct ss_scan seen;
    double begin;
};
/* Starts extracting as many entries as `part` has room for. */
void ss_compact_start(struct ss_coll *c, struct ss_compact *h, const struct ss_stream *part);
/* Returns true if the entries are in `part`; seen.nnz is the number that there are. */
bool ss_compact_step(struct ss_coll *c, struct ss_compact *h, struct ss_stream *part);

/* core/coll/gather_parts.c: allgather of parts, or gather on one rank. */
struct ss_gather {
    struct ss_out out;
    struct ss_in in;
    double square;
};
/* Starts sending the own part to all: a stream, or, if `part` is NULL, the dense range of the
 * result. */
void ss_gather_start(struct ss_coll *c, struct ss_gather *g, const struct ss_stream *part);
/* Starts sending the own part of the result, which is quantized, to all (ss_out_quantize_again). */
void ss_gather_start_quantized(struct ss_coll *c, struct ss_gather *g, const uint32_t *breaks,
                               void *zeros);
/* Starts sending the own part to the root, which has its own part in the result. */
void ss_gather_start_to(struct ss_coll *c, struct ss_gather *g, const struct ss_stream *part,
                        int root);
int ss_gather_step(struct ss_coll *c, struct ss_gather *g);

/* core/coll/shared_allgather.c: sum of the own streams through c->shared. */
struct ss_sharing {
    int step;
    int reached;         /* the ranks before this one have been waited for */
    uint64_t round;      /* of the shared memory */
    uint64_t first, end; /* elements that the round covers */
    size_t next;         /* first own entry that the round covers */
    uint64_t counted;    /* elements of the result that were counted */
    uint64_t found;      /* entries among them */
};
int ss_sharing_step(struct ss_coll *c, struct ss_sharing *s);

/* core/coll/split_gather.c: a split, then a gather. */
struct ss_split_gather {
    int step;
    struct ss_balance balance;
    struct ss_split split;
    struct ss_compact compact;
    struct ss_gather gather;
    struct ss_stream part; /* own part, reduced; not used by SS_GATHER_DENSE */
};
enum ss_gathering { SS_GATHER_SPARSE, SS_GATHER_DENSE, SS_GATHER_TO_ROOT };
int ss_split_gather_step(struct ss_coll *c, struct ss_split_gather *s, enum ss_gathering how);

/* core/coll/doubling.c: log2 P exchanges with the rank at distance 1, 2, 4, ... If P is not a power
 * of two, the ranks beyond it hand their data to a neighbour first and get the result last. */
struct ss_doubling {
    int step;
    int round;
    struct ss_fold fold;
    struct ss_out out;
    struct ss_in in;
};
struct ss_doubling_parts {
    int (*start)(struct ss_coll *c); /* Makes room. Returns SS_OK or SS_ERR_MEMORY. */
    ss_consume *take;                /* Consumes data of a rank met in a round or folded in. */
    ss_consume *result;              /* Consumes the result on a rank that is folded away. */
    /* Starts d->out, which sends this rank's data to dst. `initial` says that no other rank has
     * added to the data yet. */
    void (*send)(struct ss_coll *c, enum ss_phase phase, unsigned round, int dst, bool initial);
    void (*merge)(struct ss_coll *c);  /* Merges the consumed data with this rank's data. */
    void (*forget)(struct ss_coll *c); /* Drops this rank's data after it was folded away. */
    void (*finish)(struct ss_coll *c);
};
int ss_doubling_step(struct ss_coll *c, struct ss_doubling *d,
                     const struct ss_doubling_parts *parts);

#endif
