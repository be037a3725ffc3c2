/* Inside of core/quorum. */
#ifndef CORE_QUORUM_ROUNDS_IMPL_H
#define CORE_QUORUM_ROUNDS_IMPL_H

#include "core/net/activation.h"
#include "core/plan/plan.h"
#include "core/quorum/rounds.h"

/* Entries that are not finite: they travel, and never enter a residual. */
struct ss_strays {
    struct ss_buf idx, val;
    size_t count;
};

/* A result that waits for its call. */
struct ss_outcome {
    double begun; /* its round, here */
    bool landed;  /* it stands where it was summed: no memory for a stream */
    struct ss_buf idx, val;
    size_t nnz;
};

/* A tensor that has rounds. */
struct ss_member {
    struct ss_member *next;
    struct ss_tensor *tensor;
    uint64_t code;
    uint64_t n;
    enum ss_type type;
    size_t k, bucket; /* of its last call */
    uint64_t step;    /* of its last round */
    uint32_t rounds;  /* begun */
    uint32_t calls;   /* made */
    uint64_t open;    /* calls that are to be partial */
    struct ss_strays strays;
    uint64_t late;            /* gradients in the residual that no selection has seen yet, */
    uint32_t *late_calls;     /* and their calls: as many as there can be */
    struct ss_outcome *queue; /* ring of `staleness` */
    uint64_t first, queued;
};

enum ss_round_stage { SS_ROUND_NONE, SS_ROUND_RECIPE, SS_ROUND_DRAIN, SS_ROUND_ABANDONED };

struct ss_rounds {
    struct ss_transport *t;
    struct ss_rounds_settings s;
    struct ss_mem *mem;
    struct ss_mem promised; /* without a limit: for what was reserved once */
    struct ss_activation activation;
    struct ss_member *members;
    struct ss_rounds_stats stats;

    enum ss_round_stage stage;
    bool held;
    int status;     /* of this rank; the rest says where */
    bool announced; /* to all ranks */
    int failed_peer;
    enum ss_phase failed_phase;

    uint32_t done;      /* rounds */
    uint32_t calls;     /* made */
    uint32_t delivered; /* calls that have their result */
    uint64_t step;
    bool was_in; /* for the first tensor of the step */

    /* the round under way */
    struct ss_member *member;
    bool pinned;    /* its tensor is in flight, without a call of this rank */
    bool direct;    /* its result goes where the call wants it */
    size_t claimed; /* entries of work.own that are out of the residual */
    double begun;   /* when */

    /* the call under way */
    struct ss_round_call call;
    struct ss_member *caller;
    bool calling, claims; /* there is one; its claims are in work.own */
    double called;        /* when */
    double lag;           /* seconds that it came after its round had begun */
    bool in;
    int claim_status;

    struct ss_buf landing; /* +0.0 throughout, but for a round without a call and what has landed */
    bool landed;
    struct ss_buf mixed_idx, mixed_val; /* claims and strays */
    struct ss_work work;
    struct ss_coll c;
    _Alignas(max_align_t) unsigned char state[SS_COLL_STATE];
};

/* core/quorum/members.c */
struct ss_member *ss_member_of(const struct ss_rounds *r, const struct ss_tensor *tensor);
struct ss_member *ss_member_coded(const struct ss_rounds *r, uint64_t code);
/* Room for what a round of it needs beside its contribution. SS_OK or SS_ERR_MEMORY: what other
 * tensors had may be gone. */
int ss_member_room(struct ss_rounds *r, const struct ss_member *m, struct ss_mem *mem);
/* The late gradient of its last call joins the residual. SS_OK or SS_ERR_MEMORY. */
int ss_member_join(struct ss_rounds *r, struct ss_member *m, const void *g);
/* The contribution to come, into c->own and r->claimed: of g + residual; g NULL: of the residual.
 * SS_OK or SS_ERR_MEMORY. */
int ss_member_claim(struct ss_rounds *r, struct ss_member *m, const void *g);
void ss_member_selected(struct ss_rounds *r, struct ss_member *m); /* in its last round */
/* The round under way is over: what rounding has taken from its contribution joins the residual. */
void ss_member_sent(struct ss_rounds *r);
void ss_member_return(struct ss_rounds *r, struct ss_member *m); /* claims of a round that failed */
void ss_member_free(struct ss_rounds *r, struct ss_member *m);

/* core/quorum/outcomes.c */
bool ss_outcomes_room(const struct ss_rounds *r, const struct ss_member *m);
void ss_outcomes_keep(struct ss_rounds *r); /* the result in the landing waits for its call */
/* The first that waits goes to the call. */
void ss_outcomes_deliver(struct ss_rounds *r);
void ss_outcomes_free(struct ss_rounds *r, struct ss_member *m);

/* core/quorum/round_spans.c: what a trace shows of a round, in a lane of its own. Asked, where
 * somebody wants a trace: the next round is to begin if a call of this rank (own) or other ranks
 * want it. Stepped: only where that has opened a lane. Over: nothing where it has not. */
static inline bool ss_round_is_traced(const struct ss_rounds *r)
{
    return r->s.trace && *r->s.trace;
}
void ss_round_spans_asked(struct ss_rounds *r, bool own);
void ss_round_spans_stepped(struct ss_rounds *r, bool moved);
void ss_round_spans_over(struct ss_rounds *r, bool took_place);

#endif
