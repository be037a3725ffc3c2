/* A collective on its way: the index space, this rank's stream, the result, and what was voted on
 * them; all that a recipe sees of a call. First member of struct ss_feedback
 * (core/feedback/feedback.h). */
#ifndef CORE_COLL_COLL_H
#define CORE_COLL_COLL_H

#include "core/base/kind.h"
#include "core/compute/kernels.h"
#include "core/net/ranks.h"
#include "core/plan/plan.h"
#include "core/stream/agreement.h"
#include "core/stream/in.h"
#include "core/stream/out.h"
#include "core/stream/stream.h"
#include "core/tensor/regions.h"

/* Clears the result piece by piece: before something is written there, or while waiting for the
 * network. */
struct ss_fill {
    bool sparse;    /* in place, every element is +0.0 but this rank's own entries */
    uint64_t piece; /* elements */
    size_t pieces;
    size_t next; /* of the idle sweep */
    size_t left;
    unsigned char *cleared;
};

/* Claims on their way (MODE=topk; core/README.md, Rounding). Nothing of this
 * touches the residual before the call has succeeded (ss_topk_commit). */
struct ss_claims {
    void *own_error; /* parallel to the own stream: what rounding took away; NULL: not rounded */
    unsigned char *mark; /* parallel to it: 1 = the index is in the global set; NULL: all are */
    const uint32_t *idx; /* indices of errors of reduced entries, NULL: consecutive from first */
    uint64_t first;
    const void *error; /* errors of a part that this rank rounded for all; NULL: none */
    size_t errors;
};

/* Bytes for the state of a recipe, which only it knows: its row says how many it uses, zero at its
 * first step. */
enum { SS_COLL_STATE = 4096 };

/* What a recipe may rely on: the same on all ranks. */
struct ss_voted {
    uint64_t nnz_sum, nnz_max; /* entries of the ranks' own streams */
    uint64_t k_max;            /* top-k: entries asked for */
    bool same_state;           /* `agreed` is the same on all ranks */
};

struct ss_coll {
    struct ss_exchange x;
    enum ss_kind kind;
    enum ss_op op;
    int root; /* of a reduce */
    const struct ss_kernels *kernels;
    const void *in; /* element in_first of the index space and in_n - 1 more */
    uint64_t in_first, in_n;
    unsigned char *out; /* element out_first; out_n elements are written here */
    uint64_t out_first, out_n;
    bool in_place;
    const uint32_t *bounds; /* of the parts of the index space, size + 1; NULL: equal parts, */
    uint64_t each;          /* of so many elements, 0: as ss_part_first has it */

    struct ss_scan scan; /* what was seen of the input, */
    struct ss_stream own;
    const struct ss_share *own_parts; /* where it stays in its place: of each part of the space */
    uint64_t part_max;                /* and the most entries of it in one part */
    struct ss_voted voted;
    struct ss_agreed *agreed; /* oktopk: the tensor's, else NULL */
    struct {
        enum ss_partition partition;
        uint64_t repartition_period; /* calls of a tensor between two partitions */
        size_t threshold_period;
    } oktopk;

    struct ss_fill fill;
    uint64_t result_nnz;               /* entries of the result, 0 = not known */
    bool dense_seen;                   /* parts of it came dense, so that result_nnz is short */
    struct ss_rounding rounding;       /* of streams; values SS_VALUES_SAME: as they are */
    struct ss_rounding rounding_dense; /* of dsar's dense phase */
    struct ss_claims claims;
    void *state; /* of the recipe that runs */
};

/* The collective whose exchange it is: for what a flow calls back. */
static inline struct ss_coll *ss_coll_of(struct ss_exchange *x)
{
    return (struct ss_coll *)x;
}

/* First element of part p of the index space; part `size` is its end. */
static inline uint64_t ss_coll_part(const struct ss_coll *c, int p)
{
    if (c->bounds)
        return c->bounds[p];
    return c->each > 0 ? c->each * (uint64_t)p : ss_part_first(c->x.n, c->x.t->size, p);
}
/* An element of the result, where this rank has it. */
static inline unsigned char *ss_out_at(const struct ss_coll *c, uint64_t element)
{
    return c->out + (element - c->out_first) * c->x.esize;
}

/* core/coll/result.c */
int ss_fill_reserve(struct ss_coll *c); /* before the vote */
/* own_alone: an input that stands in the result has nothing but +0.0 beside the own stream. */
void ss_fill_start(struct ss_coll *c, bool own_alone);
void ss_fill_range(struct ss_coll *c, uint64_t lo, uint64_t hi);
bool ss_fill_idle(struct ss_coll *c); /* clears one piece; false when none is left */
/* Whether all entries of a chunk lie in that part of the index space. */
bool ss_chunk_within(const struct ss_coll *c, const struct ss_chunk *chunk, int part);
/* Writes a chunk's entries into the result (range cleared first), or adds them to it. */
void ss_result_set(struct ss_coll *c, const struct ss_chunk *chunk);
void ss_result_add(struct ss_coll *c, const struct ss_chunk *chunk);
void ss_result_set_stream(struct ss_coll *c, const struct ss_stream *s);
void ss_result_add_stream(struct ss_coll *c, const struct ss_stream *s);
/* n elements of the result go out. */
void ss_out_result(struct ss_coll *c, struct ss_out *o, uint64_t first, uint64_t n,
                   enum ss_phase phase, unsigned round, int dst, int ndst);

/* core/coll/split.c: what the own stream has in a part. */
struct ss_stream ss_own_slice(const struct ss_coll *c, int part);

/* core/coll/claims.c */
/* Marks the claims with these ascending indices as part of the global set. */
void ss_claims_mark(struct ss_coll *c, const uint32_t *idx, size_t nnz);
/* Errors of reduced entries that this rank rounds, to be added to its residual in the end; idx
 * NULL: consecutive from `first`. All borrowed until the end of the call. Once per call. */
void ss_claims_book(struct ss_coll *c, const uint32_t *idx, uint64_t first, const void *error,
                    size_t count);
/* As ss_out_round, for slices of the own stream. */
void ss_claims_round_own(struct ss_coll *c, struct ss_out *o);
/* A reduced part on its way to all: by `rounding`, or `rounding_dense` where `o` is a dense range;
 * its errors are booked (in work.part_error, which is reserved here). */
void ss_claims_round_part(struct ss_coll *c, struct ss_out *o);

/* ---- what several recipes are made of: each has its own state of it, zero at first ---- */

/* core/coll/split.c: every rank gets its part of the sum, in place in the result. */
struct ss_split {
    int step;
    bool encoding;       /* slices that stay in their place */
    size_t begin, *ends; /* of them in the arena */
    int slice;           /* slices sent so far */
    struct ss_out out;
    struct ss_in in;
};
/* Room for its messages, and beside them for those of a part: dense, or at most the entries that
 * the vote announced, for which *part (or NULL) is made room too. */
int ss_split_reserve_slices(struct ss_coll *c);
int ss_split_reserve(struct ss_coll *c, struct ss_stream *part);
int ss_split_step(struct ss_coll *c, struct ss_split *s);
/* The non-zero entries of the own part, as many as *part has room for: begins; whether they are
 * there, seen.nnz being how many there are. */
struct ss_harvest {
    struct ss_scan seen;
    double begin;
};
void ss_harvest_start(struct ss_coll *c, struct ss_harvest *h, const struct ss_stream *part);
bool ss_harvest_step(struct ss_coll *c, struct ss_harvest *h, struct ss_stream *part);

/* core/coll/gather_parts.c: allgather of parts, or their way to one rank. */
struct ss_gather {
    struct ss_out out;
    struct ss_in in;
};
/* The own part: a stream, or, part NULL, the dense range of the result. */
void ss_gather_start(struct ss_coll *c, struct ss_gather *g, const struct ss_stream *part);
void ss_gather_start_to(struct ss_coll *c, struct ss_gather *g, const struct ss_stream *part,
                        int root); /* which has its own in the result */
int ss_gather_step(struct ss_coll *c, struct ss_gather *g);

/* core/coll/split_gather.c: the one after the other. */
struct ss_split_gather {
    int step;
    struct ss_split split;
    struct ss_harvest harvest;
    struct ss_gather gather;
    struct ss_stream part; /* own part, reduced; not of DENSE */
};
enum ss_gathering { SS_GATHER_SPARSE, SS_GATHER_DENSE, SS_GATHER_TO_ROOT };
int ss_split_gather_step(struct ss_coll *c, struct ss_split_gather *s, enum ss_gathering how);

/* core/coll/doubling.c: log2 P exchanges with the rank at distance 1, 2, 4, ...; ranks beyond the
 * largest power of two hand what they have to a neighbour first and get the result last. */
struct ss_doubling {
    int step;
    int round;
    struct ss_fold fold;
    struct ss_out out;
    struct ss_in in;
};
struct ss_doubling_parts {
    int (*start)(struct ss_coll *c); /* room: SS_OK or SS_ERR_MEMORY */
    ss_consume *take;                /* what a rank met in a round, or folded in, has sent */
    ss_consume *result;              /* what comes at the end where this rank was folded away */
    /* Starts d->out: what this rank has goes to dst. own: no other rank has added to it yet. */
    void (*send)(struct ss_coll *c, enum ss_phase phase, unsigned round, int dst, bool own);
    void (*merge)(struct ss_coll *c);  /* what was taken joins what this rank has */
    void (*forget)(struct ss_coll *c); /* it was folded away: what it has is dropped */
    void (*finish)(struct ss_coll *c);
};
int ss_doubling_step(struct ss_coll *c, struct ss_doubling *d,
                     const struct ss_doubling_parts *parts);

#endif
