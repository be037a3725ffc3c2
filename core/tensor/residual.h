/* The residual of a tensor: what error feedback has kept back. Nobody else makes, changes or drops
 * one; its squared norm is kept along, up to rounding. */
#ifndef CORE_TENSOR_RESIDUAL_H
#define CORE_TENSOR_RESIDUAL_H

#include "core/place/place.h"
#include "core/tensor/tensor.h"

static inline bool ss_residual_there(const struct ss_tensor *t)
{
    return t->residual.values.data != NULL;
}
/* Element `first` and on, for the selection, which claims from it: ss_residual_claimed says what is
 * left. NULL without one. */
void *ss_residual_at(struct ss_tensor *t, uint64_t first);
const void *ss_residual_values(const struct ss_tensor *t);
int ss_residual_read(const struct ss_tensor *t, void *to); /* to the host; waits */

/* Make: of zeros, false where memory is short. Drop: freed. Clear: made zero, the memory kept. */
bool ss_residual_make(struct ss_tensor *t);
void ss_residual_drop(struct ss_tensor *t);
void ss_residual_clear(struct ss_tensor *t);

/* Squared norm: as last known; to be computed, 0 only where all of it is zero; and taken over when
 * it has been. The norm for reports, computed now and kept: waits. */
static inline double ss_residual_square(const struct ss_tensor *t)
{
    return t->residual.square;
}
ss_ticket ss_residual_measure(const struct ss_tensor *t, double *square);
void ss_residual_measured(struct ss_tensor *t, double square);
double ss_residual_norm(struct ss_tensor *t);

/* Claimed: a call that took claims from it has succeeded and left this squared norm. Return: of
 * them `count` come back, and count in the norm. Add: what rounding took away comes back, at these
 * indices or from element `first` on, and does not. Sums saturate. */
void ss_residual_claimed(struct ss_tensor *t, double square);
void ss_residual_return(struct ss_tensor *t, const uint32_t *idx, const void *val, size_t count);
void ss_residual_add(struct ss_tensor *t, const uint32_t *idx, const void *val, size_t count);
void ss_residual_add_dense(struct ss_tensor *t, uint64_t first, const void *val, size_t count);

/* out = in + share of it; then that share leaves it. */
void ss_residual_join(const struct ss_tensor *t, const void *in, void *out, double share);
void ss_residual_leave(struct ss_tensor *t, double share);

/* It, its norm and the tensor's threshold are multiplied. */
void ss_residual_scale(struct ss_tensor *t, double factor);

/* It is in another place from here on, that of the tensor's buffers: waits. SS_OK, or it stays
 * where it is: SS_ERR_MEMORY. One whose place has failed is lost: there is none then. */
int ss_residual_move(struct ss_tensor *t, struct ss_place *to);

/* Of all residuals that were lost with their place since it was last asked: their norm. */
double ss_residual_lost(struct ss_tensors *tensors);
/* Of a residual whose place is lost: it is dropped, and counted above. Its norm, else 0. */
double ss_residual_give_up(struct ss_tensor *t);

/* A registered tensor needs one again. False: memory is short. */
bool ss_residual_renew(struct ss_tensor *t);

/* All of `from` goes to `to`: added, one rounding per element, or as it is where there is none.
 * false: it had to move and could not. */
bool ss_residual_hand_over(struct ss_tensor *from, struct ss_tensor *to);

#endif
