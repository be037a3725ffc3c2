/* The tensors of a communicator from outside of its calls: for the report and for the application's
 * own word on a buffer (shim/sparseshim.h).
 *
 * Tensors are looked up under the lock of ss_tensor_find, so that another thread may be in a call
 * on the same communicator as long as that call is not on the tensor in question.
 */
#ifndef CORE_CALL_TENSOR_ACCESS_H
#define CORE_CALL_TENSOR_ACCESS_H

#include "core/call/call.h"

/* How many tensors have `buffer` as the receive buffer of their last call; NULL: all. */
size_t ss_comm_tensors(struct ss_comm *comm, const void *buffer);

/* Visits number i of them, the oldest first. What `visit` returns; SS_ACCESS_NONE past the last,
 * SS_ACCESS_BUSY where a call on it is under way. `visit` must not look up tensors. */
enum { SS_ACCESS_NONE = -100, SS_ACCESS_BUSY = -101, SS_ACCESS_NO_RESIDUAL = -102 };
typedef int ss_tensor_visit(struct ss_tensor *t, void *ctx);
int ss_comm_tensor(struct ss_comm *comm, const void *buffer, size_t i, ss_tensor_visit *visit,
                   void *ctx);

/* Visits, ctx unused (NULL) unless said. ask: the buffer has been entered in the registry; a tensor
 * that is exact or watched becomes a candidate as under a REGISTER rule, a registered one takes the
 * density. withdraw: exact from now on. These and set_density return SS_OK. Of an identified
 * tensor, withdraw frees the residual; a call with its position begins a new one. The others return
 * SS_ACCESS_NO_RESIDUAL where there is none. drop: of a registered tensor, becomes zero. scale: ctx
 * is a double. */
int ss_tensor_ask(struct ss_tensor *t, void *ctx);
int ss_tensor_withdraw(struct ss_tensor *t, void *ctx);
int ss_tensor_set_density(struct ss_tensor *t, void *density);
int ss_tensor_scale(struct ss_tensor *t, void *factor);
int ss_tensor_drop(struct ss_tensor *t, void *ctx);

/* Writes a record of every tensor to the statistics, in place of those of the last time. last: the
 * communicator will not be booked again. Calls may be under way, but none may be stepped meanwhile.
 */
void ss_comm_book_tensors(struct ss_comm *comm, bool last);

/* One sentence on the tensors that are exact by now and end with a residual, as too few calls came
 * that could take it: how many, and the one that holds most, with its norm on this rank. Returns
 * how many; with 0 text is "". A second time: 0. */
size_t ss_comm_unsent(struct ss_comm *comm, char *text, size_t size);
/* The norm of this rank's residuals together: what goes with the communicator. */
double ss_comm_residual(struct ss_comm *comm);
/* Residuals of this rank that are lost with their device, no call having come since: how many, and
 * a sentence on the largest. Each is told once. */
size_t ss_comm_lost(struct ss_comm *comm, char *text, size_t size);

#endif
