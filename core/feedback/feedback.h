/* The part of MODE=topk inside a call: claims, residual, kept elements, GUARD (core/README.md,
 * Mechanisms). */
#ifndef CORE_FEEDBACK_FEEDBACK_H
#define CORE_FEEDBACK_FEEDBACK_H

#include "core/coll/coll.h"
#include "core/comm/communicator.h"
#include "core/vote/vote.h"

/* The residual in a call; core/feedback/topk_state.c has the table of transitions. The call is
 * lossy from SS_TOPK_RESTS on, and claims from SS_TOPK_SELECTS on. */
enum ss_topk_state {
    SS_TOPK_NONE,    /* takes no part: the call is exact or a round, or its claims have returned */
    SS_TOPK_CANNOT,  /* no memory for the tensor, or the residual cannot move to the buffers */
    SS_TOPK_JOINED,  /* a share of the residual is in the input of the MPI library */
    SS_TOPK_RESTS,   /* the tensor rests: claims nothing, since dense is faster */
    SS_TOPK_SELECTS, /* is to claim; the ranks have not voted on the tensor */
    SS_TOPK_CLAIMED, /* claims are out of the residual; the ranks have not voted on the tensor */
    SS_TOPK_AGREED,  /* the ranks have voted on the tensor; is to claim and to vote again */
    SS_TOPK_SENDS,   /* claims are out of the residual, and the ranks have voted on the tensor */
    SS_TOPK_SENT     /* claims are committed */
};

enum ss_topk_event {
    SS_ON_CANNOT,  /* the rank cannot serve the tensor */
    SS_ON_LOSSY,   /* a lossy call begins */
    SS_ON_REST,    /* its tensor rests */
    SS_ON_CLAIMED, /* the backend has claimed */
    SS_ON_VOTE,    /* the ranks have voted on the tensor */
    SS_ON_WAKE,    /* the plan of a resting tensor is sparse */
    SS_ON_JOIN,    /* a share of the residual joins the input */
    SS_ON_COMMIT,  /* the call has succeeded */
    SS_ON_RETURN,  /* the claims return: the call turns native or fails */
    SS_ON_LEAVE    /* the call is a round, or the backend has failed before the share was sent */
};

/* Elements that a rule keeps (core/feedback/kept.c). */
struct ss_keeping {
    uint64_t first, count;
    bool done; /* the exchange has begun */
    struct ss_out out;
    struct ss_in in;
};

/* The dense sum of a host's inputs (core/feedback/host_sum.c). */
struct ss_host_sum {
    bool done;      /* the sum is in work.host_sum, as far as this rank owns slices */
    int sent;       /* ranks of the host that have got their slices */
    double seconds; /* that it took */
    struct ss_subset subset;
    struct ss_out out;
    struct ss_in in;
    bool hidden;      /* other ranks cannot read this rank's input */
    uint64_t covered; /* elements of the sum that are complete, if they are read */
};

/* Facts of tensor and input for the vote, besides the entries (core/feedback/look.c). */
struct ss_looked {
    struct ss_tensor_ballot ballot;
    bool joins;             /* a residual is to join the input if the call goes dense */
    bool checks;            /* a residual of some rank may join: the input must be finite */
    bool measured;          /* residual_square is computed in this call */
    double residual_square; /* squared norms */
    double input_square;
    size_t not_finite; /* elements of input + residual that are not finite */
};

/* A collective and its top-k state. First member of struct ss_call (core/call/call_impl.h). */
struct ss_feedback {
    struct ss_coll c;
    struct ss_comm *comm;
    struct ss_vote vote;
    struct ss_lane_key key;
    uint64_t reported_n; /* elements and type in the lane's record */
    enum ss_type reported_type;
    struct ss_lane *lane; /* NULL until no earlier call of its lane is in the way */
    bool cannot;          /* the arguments are not served */
    bool nonblocking;     /* as struct ss_caller said when it started */

    /* MODE=topk */
    struct ss_call_site site; /* of the application's call */
    struct ss_tensor_found found;
    struct ss_tensor *tensor; /* between start and end */
    enum ss_topk_state state; /* as far as this rank knows; ss_topk_move alone changes it */
    bool
        in_backend; /* claims may stay in their backend; `host_own` has room for them on the host */
    struct ss_stream host_own;
    bool whole;          /* every element is sent in few bits (core/feedback/whole.c) */
    bool reevaluate;     /* too few entries were claimed: asks for a new threshold */
    uint64_t topk_calls; /* registered calls of the tensor before this one */
    size_t select_stop;
    uint64_t select_first, select_n; /* the elements from which the call selects */
    const void *select_in;           /* element select_first of the input or of the host's sum */
    struct ss_selection seen;        /* result of the selection */
    struct ss_looked looked;
    struct ss_keeping keep;
    struct ss_host_sum host;
    struct ss_threshold threshold_before; /* the tensor's, restored if the call turns native */
    bool guarded;                         /* the result is compared with the dense sum */
    bool guarding;                        /* the comparison is under way */
    struct ss_word_exchange guard;
    double guard_seconds;              /* seconds of the exchange that GUARD took */
    const struct ss_after_step *after; /* the step after the collective that is under way */
    size_t k;                          /* entries asked for */
    double input_square, sum_square;   /* squared norms of the input, and of input + residual */
};

static inline struct ss_feedback *ss_feedback_of(struct ss_exchange *x)
{
    return (struct ss_feedback *)x;
}

/* Return true if the call is lossy as far as this rank knows; if it is and its tensor does not
 * rest, so that the own stream is claimed, not scanned. */
static inline bool ss_topk_is_lossy(const struct ss_feedback *f)
{
    return f->state >= SS_TOPK_RESTS;
}

static inline bool ss_topk_claims(const struct ss_feedback *f)
{
    return f->state >= SS_TOPK_SELECTS;
}

/* core/feedback/topk_state.c: changes the state by an event. Returns false, and changes nothing, if
 * the event does not concern the state. */
bool ss_topk_move(enum ss_topk_state *state, enum ss_topk_event event);

/* core/feedback/topk.c: the steps of top-k in a call, in their order. */

/* Finds the tensor and counts the call. With f->cannot (arguments that are not served) f->tensor is
 * NULL. */
void ss_topk_find(struct ss_feedback *f);
/* Starts the call on its tensor, whose last call must have ended. */
void ss_topk_start(struct ss_feedback *f);
/* Starts the selection. Once x->ticket has settled call ss_topk_selected, or ss_topk_lost if the
 * backend has failed. */
int ss_topk_select(struct ss_feedback *f);
void ss_topk_selected(struct ss_feedback *f);
void ss_topk_lost(struct ss_feedback *f);
/* Replaces the selection if the tensor rests: reports the entries that it would claim. */
void ss_topk_rest(struct ss_feedback *f);
uint64_t ss_topk_flags(struct ss_feedback *f);
/* Ends the rest of a tensor; the call then selects and votes again. */
void ss_topk_wake(struct ss_feedback *f);
/* Takes a plan that is no trial: if it is dense, the tensor rests from the next call on. */
void ss_topk_planned(struct ss_feedback *f, bool dense);
/* Returns the entries to claim in this call from every *bucket elements; 0: from all together. */
size_t ss_topk_wanted(const struct ss_feedback *f, uint64_t *bucket);
/* Returns the share of the elements to claim from every *bucket elements; 0: from all together. */
double ss_topk_density(const struct ss_feedback *f, uint64_t *bucket);
/* Return the coding of the tensor's values, and whether they are rounded at random. */
enum ss_values ss_topk_values(const struct ss_feedback *f);
bool ss_topk_random(const struct ss_feedback *f);
/* Returns the most elements from which a rank claims. */
double ss_topk_elements(const struct ss_feedback *f);
/* Returns the number of ranks among which an element's entries are summed: all, or one per host. */
int ss_topk_owners(const struct ss_feedback *f);
/* core/feedback/backend_claims.c. Before the claims: moves the own stream to the backend if it may
 * stay there and the backend has room for so many entries. */
void ss_topk_to_backend(struct ss_feedback *f, size_t room);
/* Starts a survey of claims that have stayed, and takes its result. */
void ss_topk_survey(struct ss_feedback *f);
void ss_topk_surveyed(struct ss_feedback *f);
/* After the vote: copies claims that have stayed to the host, unless the algorithm takes them from
 * their backend (`in_backend`). Returns true if a copy has begun; wait for x->ticket. */
bool ss_topk_fetch(struct ss_feedback *f, bool in_backend);
/* Returns algorithm + 1 of the tensor's rule, 0 if it names none. */
uint64_t ss_topk_forced(const struct ss_feedback *f);
/* Takes the combined flags of the vote; of a second vote on the tensor, those about claims alone.
 * Returns false if the call must undo its claims and go native: the tensor is lossy on some ranks
 * only, ranks mean different tensors, or some ranks have claimed and others rest. */
bool ss_topk_vote(struct ss_feedback *f, uint64_t flags);
/* Returns true if ranks mean different tensors, by the vote: no residual may join the input. */
bool ss_topk_differs(const struct ss_feedback *f);
/* Returns true if the algorithm, or in two_level the one between hosts, keeps a global top-k. */
bool ss_topk_global(const struct ss_feedback *f, enum ss_algorithm algorithm);
/* Before the first step of an algorithm: makes room for claims.own_error if streams are rounded,
 * and for claims.in_global if the collective keeps a global top-k. */
void ss_topk_prepare(struct ss_feedback *f, bool global);
void ss_topk_commit(struct ss_feedback *f); /* the call has succeeded */
void ss_topk_undo(struct ss_feedback *f);   /* the call turns native */
void ss_topk_fail(struct ss_feedback *f);   /* the call fails after the vote */
/* Ends the call. ran: the algorithm that has succeeded, SS_DENSE for the MPI library, SS_AUTO if
 * the call failed. */
void ss_topk_end(struct ss_feedback *f, enum ss_algorithm ran);
/* Warns once per communicator that the input of a lossy call was not finite. */
void ss_topk_not_finite(struct ss_feedback *f);
void ss_topk_warn(struct ss_feedback *f, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* about the tensor, for ss_comm_warning */

/* core/feedback/whole.c: the part of top-k where every element is sent in few bits. */
/* Returns true if the call is a whole one, by what is equal on all ranks but for the backend. */
bool ss_whole_due(const struct ss_feedback *f);
/* Act like ss_topk_select and ss_topk_selected. */
int ss_whole_look(struct ss_feedback *f);
void ss_whole_looked(struct ss_feedback *f);
/* Sets c->whole, before the first step of an algorithm. */
void ss_whole_start(struct ss_feedback *f);
void ss_whole_fail(struct ss_feedback *f); /* as ss_topk_fail */

/* core/feedback/host_sum.c: a tensor with one residual per host (struct ss_residual_range). Once
 * the ranks have voted that the call is lossy, the ranks of a host sum their inputs, each rank its
 * slices; it then selects from the sum, and the call votes again. */

/* Sets the elements of the residual that this rank holds if the host has one for the tensor. */
void ss_host_sum_range(const struct ss_feedback *f, struct ss_tensor_call *call);
/* Returns true if a tensor of the communicator may have one residual per host. */
bool ss_host_sum_possible(const struct ss_comm *comm);
/* Returns true if the sum is still to be made. */
bool ss_host_sum_due(const struct ss_feedback *f);
int ss_host_sum_reserve(struct ss_feedback *f); /* before the vote */
void ss_host_sum_start(struct ss_feedback *f);
/* Returns SS_PENDING or SS_OK, and reports failures in x->failed. */
int ss_host_sum_step(struct ss_feedback *f);

/* core/feedback/read_host_sum.c: the sum where ranks read each other's memory. Returns true if the
 * ranks of the communicator are to do so, as far as options and layout tell. */
bool ss_host_sum_wants_peers(const struct ss_comm *comm);
/* Show the input to the other ranks, before the vote; hide it at the end of the call. */
void ss_host_sum_show(struct ss_feedback *f);
void ss_host_sum_hide(struct ss_feedback *f);
/* Returns true if the inputs are read, as all ranks know after the vote. */
bool ss_host_sum_reads(const struct ss_feedback *f);
/* Acts like ss_host_sum_step. */
int ss_host_sum_read(struct ss_feedback *f);

/* core/feedback/kept.c. Sets f->keep and the elements left to select from. */
void ss_keep_range(struct ss_feedback *f);
/* Returns a code of the kept elements for the vote. */
uint64_t ss_keep_code(const struct ss_feedback *f);
/* Copies the kept elements, before the result is written. */
int ss_keep_take(struct ss_feedback *f);
/* Start and step their exchange. */
void ss_keep_start(struct ss_feedback *f);
int ss_keep_step(struct ss_feedback *f);

/* core/feedback/look.c. Starts to measure input and residual. Once the backend has measured them,
 * ss_look_on starts to count values that are not finite, if the norms leave that open. If the
 * backend has failed, call ss_look_forget. */
void ss_look_start(struct ss_feedback *f);
void ss_look_on(struct ss_feedback *f);
void ss_look_forget(struct ss_feedback *f);
/* Returns true if input + residual is finite by their norms, that of the input squared: no element
 * is larger. */
bool ss_look_is_finite(const struct ss_feedback *f, double input);

/* core/feedback/dense_join.c. Frees a residual that is zero, unless the tensor is still
 * registered. */
void ss_join_free(struct ss_tensor *t);
/* Returns the squared ratio of the residual's norm to the input's. */
double ss_join_ratio_square(const struct ss_feedback *f);
/* Returns the share of the residual that joins a dense call, by the vote. */
double ss_join_share(const struct ss_feedback *f);
/* If the call goes dense, ss_join_start sets out = in + share of the residual. After the sum has
 * succeeded, ss_join_end takes that share from the residual. */
void ss_join_start(struct ss_feedback *f);
void ss_join_end(struct ss_feedback *f);

/* core/feedback/guard.c. Returns true if GUARD compares this call. */
bool ss_guard_due(const struct ss_feedback *f);
int ss_guard_reserve(struct ss_feedback *f); /* before the claims */
/* Starts the sketch of the input, before the result is written. */
void ss_guard_take(struct ss_feedback *f);
/* After the result: start the comparison and step it; the verdict goes into the tensor. */
void ss_guard_start(struct ss_feedback *f);
int ss_guard_step(struct ss_feedback *f);

/* core/feedback/after.c: work with other ranks after the collective (kept elements, GUARD).
 * Starts the next step that is due, as all ranks agree. Returns false if none is. */
bool ss_after_start(struct ss_feedback *f);
/* Goes on with the step. Returns SS_PENDING or SS_OK. */
int ss_after_step(struct ss_feedback *f);

#endif
