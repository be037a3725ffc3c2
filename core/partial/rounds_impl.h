/* Shared by the files of core/partial. */
#ifndef CORE_PARTIAL_ROUNDS_IMPL_H
#define CORE_PARTIAL_ROUNDS_IMPL_H

#include "core/net/start_exchange.h"
#include "core/partial/rounds.h"
#include "core/plan/plan.h"

/* Entries that are not finite: they travel, and never enter a residual. */
struct ss_strays {
    struct ss_buf idx, val;
    size_t count;
};

/* A result that waits for its call. */
struct ss_outcome {
    double begun; /* time when its round began on this rank */
    bool landed;  /* lies where it was summed, for lack of memory for a stream */
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
    size_t k, bucket; /* as in its last call */
    uint64_t step;    /* step of its last round */
    uint32_t rounds;  /* number of rounds begun */
    uint32_t calls;   /* number of calls made */
    uint64_t open;    /* number of following calls that are partial */
    struct ss_strays strays;
    uint64_t late;            /* late gradients in the residual that no selection has seen yet */
    uint32_t *late_calls;     /* numbers of their calls, with room for all */
    struct ss_outcome *queue; /* ring of `staleness` */
    uint64_t first, queued;
};

enum ss_round_stage { SS_ROUND_NONE, SS_ROUND_ALGORITHM, SS_ROUND_DRAIN, SS_ROUND_ABANDONED };

struct ss_rounds {
    struct ss_transport *t;
    struct ss_rounds_settings s;
    struct ss_mem *mem;
    struct ss_mem promised; /* without a limit: for memory that was reserved before */
    struct ss_start_exchange start;
    struct ss_member *members;
    struct ss_rounds_stats stats;

    enum ss_round_stage stage;
    bool blocked;
    int status;     /* status of this rank; the next fields say where it failed */
    bool announced; /* all ranks know of the failure */
    int failed_peer;
    enum ss_phase failed_phase;

    uint32_t done;      /* rounds that are over */
    uint32_t calls;     /* calls made */
    uint32_t delivered; /* calls that have their result */
    uint64_t step;
    bool was_in; /* this rank was in for the first tensor of the step */

    /* The current round. */
    struct ss_member *member;
    bool pinned;    /* its tensor is in flight without a call of this rank */
    bool direct;    /* its result goes directly into the buffer of the call */
    size_t claimed; /* entries of work.own that are out of the residual */
    double begun;   /* time when it began */

    /* The current call. */
    struct ss_round_call call;
    struct ss_member *caller;
    bool calling, claims; /* there is a call; its claims are in work.own */
    double called;        /* time of the call */
    double lag;           /* seconds from the beginning of its round to the call */
    int claim_status;

    /* +0.0 throughout, except during a round without a call, and a result that has landed */
    struct ss_buf landing;
    bool landed;
    struct ss_buf mixed_idx, mixed_val; /* claims together with strays */
    struct ss_work work;
    struct ss_coll c;
    _Alignas(max_align_t) unsigned char state[SS_COLL_STATE];
};

/* core/partial/rounds.c: records the first failure of this rank. */
void ss_round_note(struct ss_rounds *r, int status, int peer, enum ss_phase phase);

/* Returns true for the first tensor of a step: a tensor that has had its round in this step begins
 * another step. */
static inline bool ss_round_is_first(const struct ss_rounds *r, const struct ss_member *m)
{
    return r->step == 0 || m->step == r->step;
}

/* core/partial/round_begin.c */
/* Begins the next round if it is due. Returns true if the stage has changed and the round can be
 * stepped. */
bool ss_round_begin(struct ss_rounds *r);
/* Returns claims that no round took. */
void ss_round_drop_claims(struct ss_rounds *r);

/* core/partial/members.c */
struct ss_member *ss_member_of(const struct ss_rounds *r, const struct ss_tensor *tensor);
struct ss_member *ss_member_coded(const struct ss_rounds *r, uint64_t code);
/* Makes room for a round besides its contribution. Returns SS_OK or SS_ERR_MEMORY; room of other
 * tensors may then be lost. */
int ss_member_room(struct ss_rounds *r, const struct ss_member *m, struct ss_mem *mem);
/* Adds the late gradient of the last call to the residual. Returns SS_OK or SS_ERR_MEMORY. */
int ss_member_accumulate(struct ss_rounds *r, struct ss_member *m, const void *g);
/* Claims the next contribution into c->own and r->claimed, from g + residual, or from the residual
 * if g is NULL. Returns SS_OK or SS_ERR_MEMORY. */
int ss_member_claim(struct ss_rounds *r, struct ss_member *m, const void *g);
/* Records a selection in the last round. */
void ss_member_selected(struct ss_rounds *r, struct ss_member *m);
/* Ends a contribution: adds its rounding errors to the residual. */
void ss_member_sent(struct ss_rounds *r);
/* Returns the claims of a failed round to the residual. */
void ss_member_return(struct ss_rounds *r, struct ss_member *m);
void ss_member_free(struct ss_rounds *r, struct ss_member *m);

/* core/partial/outcomes.c */
bool ss_outcomes_room(const struct ss_rounds *r, const struct ss_member *m);
/* Keeps the result in the landing until its call comes. */
void ss_outcomes_keep(struct ss_rounds *r);
/* Hands the first waiting result to the call. */
void ss_outcomes_deliver(struct ss_rounds *r);
void ss_outcomes_free(struct ss_rounds *r, struct ss_member *m);

/* core/partial/round_spans.c: the trace of a round, in a lane of its own. Returns true if there is
 * a trace. */
static inline bool ss_round_is_traced(const struct ss_rounds *r)
{
    return r->s.trace && *r->s.trace;
}
/* Records that the next round should begin, for a call of this rank (by_call) or of other ranks. */
void ss_round_spans_asked(struct ss_rounds *r, bool by_call);
/* Records a step, if the round has a lane. */
void ss_round_spans_stepped(struct ss_rounds *r, bool moved);
/* Ends the round's spans, if it has a lane. */
void ss_round_spans_over(struct ss_rounds *r, bool happened);

#endif
