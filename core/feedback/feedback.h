/* What stays behind in MODE=topk, inside a call: claims, residual, kept elements, GUARD
 * (core/README.md, Mechanisms). */
#ifndef CORE_FEEDBACK_FEEDBACK_H
#define CORE_FEEDBACK_FEEDBACK_H

#include "core/coll/coll.h"
#include "core/comm/communicator.h"
#include "core/vote/vote.h"

/* Elements that a rule keeps (core/feedback/kept.c). */
struct ss_keeping {
    uint64_t first, count;
    bool done; /* the exchange has begun */
    struct ss_out out;
    struct ss_in in;
};

/* What was seen of the input beside its entries (core/feedback/look.c). */
struct ss_looked {
    struct ss_tensor_ballot ballot;
    bool joins;    /* the tensor is exact, and has a residual that is to be sent */
    bool measured; /* anew: */
    double residual_square, input_square;
    size_t not_finite; /* elements of their sum */
};

/* A collective and what it keeps back. First member of struct ss_call (core/call/call_impl.h). */
struct ss_feedback {
    struct ss_coll c;
    struct ss_comm *comm;
    struct ss_vote vote;
    uint32_t lane_number;
    bool nonblocking; /* as ss_comm_set_callbacks said when it started */

    /* MODE=topk */
    struct ss_call_site site; /* where it is called */
    struct ss_tensor_found found;
    struct ss_tensor *tensor; /* between start and end */
    bool tensor_short;        /* no memory for one */
    bool stuck;               /* its residual cannot follow the buffers: all are to go native */
    bool keeps;   /* ranks mean different tensors: no residual may join the input, whatever runs */
    bool topk;    /* registered: the own stream is claimed, not scanned */
    bool resting; /* registered, but nothing is claimed: dense was faster */
    bool woken;   /* rested when the call began */
    bool claimed; /* claims are out of the residual */
    bool few;     /* what the place says of it */
    bool stays;   /* what is claimed may stay in its place; `home` has room for it */
    struct ss_stream home;
    bool reevaluate;     /* too few were claimed: asks for a new threshold */
    uint64_t topk_calls; /* registered calls of the tensor before this one */
    size_t select_stop;
    uint64_t select_first, select_n; /* the elements that are selected from */
    struct ss_selection seen;        /* of them */
    struct ss_looked looked;
    struct ss_keeping keep;
    struct ss_threshold threshold_before; /* that of the tensor, should the call turn native */
    double joined; /* share of the residual that has joined the dense input, 0 = none */
    bool guarded;  /* the result is compared with the dense sum */
    bool guarding; /* the comparison is under way */
    struct ss_agree guard;
    size_t k;                        /* entries asked for */
    double input_square, sum_square; /* of the input, and of input + residual */
};

static inline struct ss_feedback *ss_feedback_of(struct ss_exchange *x)
{
    return (struct ss_feedback *)x;
}

/* core/feedback/topk.c: what top-k does in a call, in this order. All but start and flags do
 * nothing where nothing was claimed or no tensor is known. */
/* The tensor, none where the arguments are not served: the call counts all the same. Then, its last
 * call having ended: */
void ss_topk_find(struct ss_feedback *f, bool cannot);
void ss_topk_start(struct ss_feedback *f);
int ss_topk_select(struct ss_feedback *f);
void ss_topk_selected(struct ss_feedback *f); /* what it claims is there */
void ss_topk_lost(struct ss_feedback *f);     /* or never will be: the place has failed */
void ss_topk_rest(struct ss_feedback *f); /* instead, where the tensor rests: what it would claim */
uint64_t ss_topk_flags(struct ss_feedback *f);
void ss_topk_wake(struct ss_feedback *f); /* to be selected from, and voted on again */
void ss_topk_planned(struct ss_feedback *f, bool dense); /* no trial: rests where dense */
/* Entries to claim in this call, and in *bucket of how many elements each (0 = of all). */
size_t ss_topk_wanted(const struct ss_feedback *f, uint64_t *bucket);
/* Share of the elements to claim: of each `bucket`, 0: of all. */
double ss_topk_density(const struct ss_feedback *f, uint64_t *bucket);
/* core/feedback/stay.c. Before the claims: the own stream moves to the place, where it may and
 * there is room for so many entries. */
void ss_topk_stay(struct ss_feedback *f, size_t room);
void ss_topk_survey(struct ss_feedback *f);   /* where that has stayed: a look at it, and */
void ss_topk_surveyed(struct ss_feedback *f); /* what it shows */
/* After the vote: what has stayed in its place comes to the host unless the recipe takes it there:
 * whether that is under way, until x->ticket is settled. */
bool ss_topk_fetch(struct ss_feedback *f, bool stays);
uint64_t ss_topk_forced(const struct ss_feedback *f);     /* algorithm + 1 of a rule, 0: none */
bool ss_topk_vote(struct ss_feedback *f, uint64_t flags); /* false: registered on some ranks only */
bool ss_topk_claimed(struct ss_feedback *f,
                     uint64_t flags); /* the part of it on what was claimed */
/* Before the first step of a recipe: room for claims.own_error where the streams are rounded, for
 * claims.mark where the collective keeps a global top-k. */
void ss_topk_recipe(struct ss_feedback *f, bool global);
void ss_topk_commit(struct ss_feedback *f); /* the call has succeeded */
void ss_topk_undo(struct ss_feedback *f);   /* the call turns native */
void ss_topk_fail(struct ss_feedback *f);   /* the call fails after the vote */
/* ran: the algorithm that has succeeded, SS_DENSE for the MPI library, SS_AUTO: the call failed. */
void ss_topk_end(struct ss_feedback *f, enum ss_algorithm ran);
/* Warns once per communicator that the input of a lossy call was not finite. */
void ss_topk_not_finite(struct ss_feedback *f);
void ss_topk_warn(struct ss_feedback *f, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* about the tensor, for ss_comm_warning */

/* core/feedback/kept.c: sets f->keep and what is left to select from; its code in the vote; the
 * elements are taken before the result is written; then the exchange. */
void ss_keep_range(struct ss_feedback *f);
uint64_t ss_keep_code(const struct ss_feedback *f);
int ss_keep_take(struct ss_feedback *f);
void ss_keep_start(struct ss_feedback *f);
int ss_keep_step(struct ss_feedback *f);

/* core/feedback/look.c: takes what it needs of the input; then, the place having given it, asks for
 * what that leaves open. */
void ss_look_start(struct ss_feedback *f);

void ss_look_on(struct ss_feedback *f);
void ss_look_forget(struct ss_feedback *f); /* the place did not give it */

/* core/feedback/dense_join.c. Norms are squared. */
void ss_join_emptied(struct ss_tensor *t); /* all of the residual has been sent */
double ss_join_ratio_square(const struct ss_feedback *f);
/* The call turns dense: out = in + share of the residual (f->joined); after the sum has succeeded
 * that share leaves the residual. */
void ss_join_start(struct ss_feedback *f);
void ss_join_end(struct ss_feedback *f);

/* core/feedback/guard.c: before the result is written; after it; the verdict is in the tensor. */
bool ss_guard_due(const struct ss_feedback *f);
int ss_guard_reserve(struct ss_feedback *f); /* before the claims */
void ss_guard_take(struct ss_feedback *f);
void ss_guard_start(struct ss_feedback *f);
int ss_guard_step(struct ss_feedback *f);

#endif
