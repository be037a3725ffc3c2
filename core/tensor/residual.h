/* The residual of a tensor: the part of its gradients that error feedback has kept back. Only this
 * file makes, moves or drops a residual. Claims (core/feedback/topk.c) and contributions to partial
 * calls (core/partial/members.c) also write its elements, through ss_residual_at. The squared norm
 * is kept with it, up to rounding. */
#ifndef CORE_TENSOR_RESIDUAL_H
#define CORE_TENSOR_RESIDUAL_H

#include "core/backend/backend.h"
#include "core/tensor/tensor.h"

static inline bool ss_residual_there(const struct ss_tensor *t)
{
    return t->residual.values.data != NULL;
}
/* All indices are those of the tensor. A residual per host holds a range of them (struct
 * ss_residual_range); the caller keeps within it.
 *
 * Returns the elements from `first` on, NULL if there is no residual. The selection claims from
 * them and then calls ss_residual_claimed. */
void *ss_residual_at(struct ss_tensor *t, uint64_t first);
const void *ss_residual_values(const struct ss_tensor *t);
/* Copies the residual to the host, all elements: 0 where this rank holds none. Waits for its
 * device. */
int ss_residual_read(const struct ss_tensor *t, void *to);

/* Makes a residual of zeros if there is none; returns false if memory is short. */
bool ss_residual_make(struct ss_tensor *t);
void ss_residual_drop(struct ss_tensor *t);  /* frees it */
void ss_residual_clear(struct ss_tensor *t); /* sets it to zero and keeps the memory */

/* Records that the residual of a resting tensor may no longer be zero on all ranks. */
static inline void ss_residual_fill(struct ss_tensor *t)
{
    t->rest = t->rest == SS_AWAKE ? SS_AWAKE : SS_RESTS;
}

/* Returns the squared norm as last known. */
static inline double ss_residual_square(const struct ss_tensor *t)
{
    return t->residual.square;
}
/* Starts to compute the squared norm, which is 0 only if all elements are zero. Once the ticket has
 * settled, pass *square to ss_residual_measured. */
ss_ticket ss_residual_measure(const struct ss_tensor *t, double *square);
void ss_residual_measured(struct ss_tensor *t, double square);
/* Computes the norm for reports and keeps it; waits for the device. */
double ss_residual_norm(struct ss_tensor *t);

/* Sets the squared norm that the claims of a successful call have left. */
void ss_residual_claimed(struct ss_tensor *t, double square);
/* Adds `count` claims back and counts them in the norm. Sums saturate, here and below. */
void ss_residual_return(struct ss_tensor *t, const uint32_t *idx, const void *val, size_t count);
/* Add rounding errors, at indices or from element `first` on. The norm does not count them. */
void ss_residual_add(struct ss_tensor *t, const uint32_t *idx, const void *val, size_t count);
void ss_residual_add_dense(struct ss_tensor *t, uint64_t first, const void *val, size_t count);

/* Sets out = in + share * residual, for all elements of the tensor; ss_residual_leave then takes
 * that share from the residual. */
void ss_residual_join(const struct ss_tensor *t, const void *in, void *out, double share);
void ss_residual_leave(struct ss_tensor *t, double share);

/* Multiplies the residual, its norm and the tensor's threshold. */
void ss_residual_scale(struct ss_tensor *t, double factor);

/* Moves the residual to the backend of the tensor's buffers; waits. Returns SS_OK, or SS_ERR_MEMORY
 * if the residual stays where it is. If its backend has failed, the residual is dropped as lost. */
int ss_residual_move(struct ss_tensor *t, struct ss_backend *to);

/* Returns the norm of all residuals that were lost with their backend since the last call. */
double ss_residual_lost(struct ss_tensors *tensors);
/* If the residual's backend has failed, drops the residual, counts it for ss_residual_lost and
 * returns its norm; else returns 0. */
double ss_residual_give_up(struct ss_tensor *t);

#endif
