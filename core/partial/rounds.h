/* Partial allreduces of top-k tensors (eager-SGD, Li et al., PPoPP'20, sections 4 and 5) in which
 * nothing is lost. An allreduce is over when one rank has arrived (solo), or a rank drawn by lot
 * (majority: half of the ranks on average).
 *
 * The partial calls of a communicator are its rounds: call t of every rank returns the result of
 * round t, with the same bits on all ranks. A rank is *in* round t if its call was made before it
 * handled the start of t (core/net/start_exchange.h). Such a rank contributes the largest entries
 * of gradient + residual, as in an ordinary call. A rank that is not in contributes the largest
 * entries of its residual if a gradient has come late since its last contribution, otherwise an
 * empty stream. When the gradient of its call t comes, it is added to the residual, once. Results
 * that came before their call wait in a queue of sparse streams. The algorithm is an ordinary one
 * that needs no exchange beforehand.
 *
 * A round waits for ever only if a synchronous allreduce would. A rank takes part in round t
 * without its call t if its queue has room for the result: at most `staleness` results of a tensor,
 * memory permitting. Otherwise it takes part once the call is made. A round thus waits at most for
 * a rank's call t, for which a synchronous call t waits on every rank. A round that can take place
 * does: the rank that starts it has made the call, and its start reaches every rank.
 *
 * Tensors that follow each other make a step, which ends when one of them comes again. If a rank is
 * in for the first tensor of a step, it takes part in the others once their calls are made;
 * otherwise it is in for none of them.
 *
 * A rank on which a round fails tells all ranks by the error headers of its streams, in that round
 * or in the next that any rank starts. The failed rank takes part, with errors, until its rounds
 * are closed.
 *
 * Rounds have a transport of their own. All functions run in the default floating-point
 * environment, and one at a time.
 */
#ifndef CORE_PARTIAL_ROUNDS_H
#define CORE_PARTIAL_ROUNDS_H

#include "core/base/round_sums.h"
#include "core/coll/coll.h"
#include "core/tensor/tensor.h"

struct ss_rounds_settings {
    enum ss_quorum quorum;       /* SOLO or MAJORITY */
    uint64_t staleness;          /* most results of a tensor that wait for their call, 1 or more */
    struct ss_rounding rounding; /* rounding of values, if there is memory for the errors */
    const struct ss_algorithm_def *algorithm; /* SS_ALLGATHER's or SS_RECURSIVE_DOUBLING's */
    /* Address of the trace, read when each round begins; NULL: none. */
    struct ss_trace *const *trace;
    const char *name; /* name of the communicator, for the trace */
};

/* Statistics of a rank's rounds. */
struct ss_rounds_stats {
    struct ss_rounds_sums sum;
    uint64_t queued_most;
    uint64_t pending; /* late gradients that no selection has seen yet */
    uint64_t bytes;   /* bytes sent */
    uint64_t inside;  /* those of `bytes` that went to ranks of the same host */
};

struct ss_rounds;

/* Creates the rounds of a communicator; NULL if memory is short. Borrows all arguments until
 * ss_rounds_free. */
struct ss_rounds *ss_rounds_create(struct ss_transport *t,
                                   const struct ss_rounds_settings *settings, struct ss_mem *mem);
/* Returns true if no message of a finished or begun round is on its way to or from this rank. */
bool ss_rounds_settled(const struct ss_rounds *r);
/* Ends the trace events. If the rounds are settled, no receive stays posted until the next step, so
 * that a message library may end. */
void ss_rounds_pause(struct ss_rounds *r);
/* Cancels what is in flight; claims return to their residuals. Messages may still write to the
 * storage until the transport is closed, so that ss_rounds_free comes after that. */
void ss_rounds_close(struct ss_rounds *r);
/* Frees the rounds; NULL is allowed. */
void ss_rounds_free(struct ss_rounds *r);

/* Makes room for the rounds of a tensor with k entries (bucket > 0: k of each `bucket` elements).
 * Called on all ranks before any starts such a round, while no call is in progress. code: number of
 * the tensor on all ranks, not 0. Returns SS_OK, also if the tensor is admitted already, or
 * SS_ERR_MEMORY if this rank cannot take part. */
int ss_rounds_admit(struct ss_rounds *r, struct ss_tensor *tensor, uint64_t code, size_t k,
                    size_t bucket);

/* Makes the next `calls` calls of the tensor partial, on all ranks. The tensor cannot be forgotten
 * meanwhile. */
void ss_rounds_open(struct ss_rounds *r, const struct ss_tensor *tensor, uint64_t calls);
/* Returns true if the current call is one of them, and counts it. */
bool ss_rounds_next(struct ss_rounds *r, const struct ss_tensor *tensor);

/* A call, made on all ranks in the same order, of n elements of the tensor in host memory. */
struct ss_round_call {
    struct ss_tensor *tensor;
    const void *in; /* may be equal to `out` */
    void *out;
    size_t k, bucket; /* entries to claim; bucket > 0: of each `bucket` elements */
    bool silent;      /* this rank contributes nothing; its gradient is added to the residual */
};
/* Starts a call; its result is written in a later step. At most one call is in progress. */
void ss_rounds_call(struct ss_rounds *r, const struct ss_round_call *call);
/* Returns SS_PENDING, SS_OK with the result in `out`, or an error; the rank has then failed. */
int ss_rounds_call_status(struct ss_rounds *r);
/* Returns the number of the last call, from 1. */
uint32_t ss_rounds_call_number(const struct ss_rounds *r);

/* Takes part in the rounds; polls the transport. Returns true if something moved. */
bool ss_rounds_step(struct ss_rounds *r);
/* Returns true if a round is in progress. */
bool ss_rounds_under_way(const struct ss_rounds *r);

/* Blocks the rounds: this rank begins none while an ordinary call uses the residuals. */
void ss_rounds_block(struct ss_rounds *r, bool blocked);

/* Fails this rank, after an error elsewhere. */
void ss_rounds_fail(struct ss_rounds *r, int status);
/* Fails this rank and gives up its rounds, when a wait ends. */
void ss_rounds_abandon(struct ss_rounds *r, int status);

/* Returns SS_OK, or the first failure with its place. */
int ss_rounds_failure(const struct ss_rounds *r, int *peer, enum ss_phase *phase);
/* Returns the rank that the current round waits for, -1: no particular rank. */
int ss_rounds_waits_for(const struct ss_rounds *r, enum ss_phase *phase);

struct ss_rounds_stats ss_rounds_seen(const struct ss_rounds *r);
/* Returns the number of results that wait for calls of this rank, and of rounds that other ranks
 * have started without it: at the end of a job, calls that this rank has not made. */
uint64_t ss_rounds_not_asked_for(const struct ss_rounds *r);
/* Returns the number of late gradients of the tensor that are not sent yet. */
uint64_t ss_rounds_late(const struct ss_rounds *r, const struct ss_tensor *tensor);
/* Records that an ordinary call has selected from the tensor's residual; it counts as one of its
 * rounds. */
void ss_rounds_selected(struct ss_rounds *r, const struct ss_tensor *tensor);

#endif
