/* Partial allreduces of top-k tensors (eager-SGD, Li et al., PPoPP'20, sections 4 and 5), with
 * nothing lost: an allreduce is over when one rank (solo) or a rank drawn by lot (majority: half of
 * the ranks on average) has arrived.
 *
 * The calls on a communicator that run so are its rounds: call t of every rank returns the result
 * of round t, the same bits on all ranks. A rank is *in* round t where its call was made before it
 * handled the activation of t (core/net/activation.h): it contributes the largest entries of
 * gradient + residual, as in an ordinary call. Else it contributes those of its residual, where a
 * gradient has come late since its last contribution, or an empty stream; and the gradient of its
 * call t, when that comes, joins the residual, once. Results that came before their call wait in a
 * queue of sparse streams. The recipe is an ordinary one that needs nothing agreed beforehand.
 *
 * Nothing can wait for ever that would not in a synchronous allreduce. A rank takes part in round t
 * without its call t if its queue has room for the result (at most `staleness` of a tensor, memory
 * included) and otherwise once the call is made; so a round waits for a rank's call t at most,
 * which is what a synchronous call t waits for on every rank. A round that can take place does: the
 * one that starts it is one of those that have made the call, and its activation reaches every
 * rank.
 *
 * Tensors that follow each other make a step: it ends where one of them comes again. A rank that
 * was in for the first of a step takes part in the others once its call is made, one that was not
 * is in none of them.
 *
 * A rank on which a round fails tells all others, by the error headers of its streams, in that
 * round or the next one that any rank starts; it goes on taking part, with errors, until it is
 * closed.
 *
 * Rounds have a transport of their own. All functions in the default floating-point environment,
 * and one at a time. */
#ifndef CORE_QUORUM_ROUNDS_H
#define CORE_QUORUM_ROUNDS_H

#include "core/coll/coll.h"
#include "core/tensor/tensor.h"

struct ss_rounds_settings {
    enum ss_quorum quorum;       /* SOLO or MAJORITY */
    uint64_t staleness;          /* most results of a tensor that wait for their call, 1 or more */
    uint64_t seed;               /* of the lot; with the rest the same on all ranks */
    enum ss_coding coding;       /* of streams, */
    struct ss_rounding rounding; /* and of their values, where there is memory for what it leaves */
    const struct ss_row *row;    /* recipe: SS_ALLGATHER's or SS_RECURSIVE_DOUBLING's */
    /* Where, if anywhere, whoever takes the events of rounds is to be found as each begins. */
    struct ss_trace *const *trace;
    const char *name; /* of the communicator, for these */
};

/* What a rank has seen of its rounds. */
enum { SS_ROUNDS_STALE = 16 };
struct ss_rounds_stats {
    uint64_t rounds; /* over here */
    uint64_t in;     /* with the gradient of their call */
    uint64_t left;   /* with what late gradients had left in the residual */
    uint64_t late;   /* calls whose gradient came late */
    uint64_t queued_most;
    /* Late gradients by the rounds of their tensor from their own to the one whose selection they
     * entered; the last counts all beyond. */
    uint64_t stale[SS_ROUNDS_STALE];
    uint64_t pending; /* late gradients that no selection has seen yet */
    uint64_t bytes;   /* sent */
    uint64_t steps;   /* that the rounds make */
    double waited;    /* seconds from calls to their results */
    /* Seconds that calls came later after the begin of their round here than the call before: the
     * others would have waited for them. */
    double behind;
};

struct ss_rounds;

/* NULL when memory is short. Borrows all arguments until it is freed. */
struct ss_rounds *ss_rounds_create(struct ss_transport *t,
                                   const struct ss_rounds_settings *settings, struct ss_mem *mem);
/* Whether nothing is on its way to this rank or from it, of the rounds that are over or begun. */
bool ss_rounds_settled(const struct ss_rounds *r);
/* The events end. Until the next step no receive is left posted, if it is settled: a message
 * library may end. */
void ss_rounds_pause(struct ss_rounds *r);
/* Gives up what is under way; claims return to their residuals. Messages may still write to the
 * storage until the transport is closed: free comes after that. */
void ss_rounds_close(struct ss_rounds *r);
void ss_rounds_free(struct ss_rounds *r); /* NULL is allowed */

/* Room for the rounds of a tensor, of k entries (bucket > 0: of each so many elements): on all
 * ranks before any starts one, while no call is under way. code: what all ranks know it by, not 0.
 * The tensor is kept from being forgotten until ss_rounds_dismiss. SS_OK, also where it is there
 * already, or SS_ERR_MEMORY: this rank cannot take part. */
int ss_rounds_admit(struct ss_rounds *r, struct ss_tensor *tensor, uint64_t code, size_t k,
                    size_t bucket);

/* Of the tensor's calls that follow so many are partial, on all ranks: it is kept from being
 * forgotten meanwhile. Whether the one at hand is, which counts it. */
void ss_rounds_open(struct ss_rounds *r, const struct ss_tensor *tensor, uint64_t calls);
bool ss_rounds_next(struct ss_rounds *r, const struct ss_tensor *tensor);

/* One call, on all ranks in the same order. Host memory, n elements of the tensor. */
struct ss_round_call {
    struct ss_tensor *tensor;
    const void *in; /* may be `out` */
    void *out;
    size_t k, bucket; /* entries to claim; bucket > 0: of each so many elements */
    bool silent;      /* this rank contributes nothing, its gradient joins the residual */
};
/* Starts it; the result is not written before a step. At most one is under way. */
void ss_rounds_call(struct ss_rounds *r, const struct ss_round_call *call);
/* SS_PENDING, SS_OK with the result in `out`, or an error; then, as after it, the rank is failed.
 */
int ss_rounds_call_status(struct ss_rounds *r);
uint32_t ss_rounds_call_number(const struct ss_rounds *r); /* of the last one, from 1 */
bool ss_rounds_call_was_in(const struct ss_rounds *r);     /* likewise, once it is over */

/* Takes part in what is going on. Polls the transport. Whether something moved. */
bool ss_rounds_step(struct ss_rounds *r);
bool ss_rounds_under_way(const struct ss_rounds *r); /* a round is */

/* While held, no further round is begun here: an ordinary call uses the residuals. */
void ss_rounds_hold(struct ss_rounds *r, bool held);

/* This rank has failed, elsewhere; or gives up a wait: nothing of its rounds can go on. */
void ss_rounds_fail(struct ss_rounds *r, int status);
void ss_rounds_abandon(struct ss_rounds *r, int status);

/* SS_OK, or the first failure, and where that was. */
int ss_rounds_failure(const struct ss_rounds *r, int *peer, enum ss_phase *phase);
/* Whom the round under way waits for, -1: nobody in particular. */
int ss_rounds_waits_for(const struct ss_rounds *r, enum ss_phase *phase);

struct ss_rounds_stats ss_rounds_seen(const struct ss_rounds *r);
/* Results that wait for calls of this rank, and rounds that others have started and this rank has
 * not taken part in: at the end of a job, calls that it has not made. */
uint64_t ss_rounds_not_asked_for(const struct ss_rounds *r);
/* The tensor's late gradients, of which nothing has been sent yet. */
uint64_t ss_rounds_late(const struct ss_rounds *r, const struct ss_tensor *tensor);
/* An ordinary call has selected from the tensor's residual, and counts as one of its rounds. */
void ss_rounds_selected(struct ss_rounds *r, const struct ss_tensor *tensor);

#endif
