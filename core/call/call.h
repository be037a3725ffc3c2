/* clang-format off */
/* One allreduce, or one of the other collectives of core/base/kind.h, from scan to result, over any
 * transport, and the state that lasts between calls on a communicator.
 *
 *     status = ss_call_start(&call, comm, place, type, op, in, out, n);      or ss_call_start_kind
 *     while (status == SS_PENDING)
 *         status = ss_call_step(&call);
 *     if (status == SS_NATIVE)
 *         run the MPI library's collective on the untouched input;
 *     ss_call_end(&call, seconds_in_native);
 *
 * A blocking call does this loop; nonblocking calls and the simulator step the same way. All ranks
 * of a communicator start the same calls in the same order; several nonblocking ones may be under
 * way at once (ss_comm_slot). Between start and end nothing but the call touches `out`; `in` is
 * never written.
 */
/* clang-format on */
#ifndef CORE_CALL_CALL_H
#define CORE_CALL_CALL_H

#include "core/comm/communicator.h"

struct ss_call;

/* A further status of ss_call_start and ss_call_step: all ranks hand this call to the MPI library;
 * `out` has not been written. */
enum { SS_NATIVE = 2 };

/* State of a communicator. Borrows all arguments for its lifetime; `name` is copied. Returns NULL
 * when memory is short. */
struct ss_comm *ss_comm_create(struct ss_transport *transport, const struct ss_settings *settings,
                               struct ss_mem *mem, struct ss_stats *stats, const char *name);
void ss_comm_free(struct ss_comm *comm);

/* Below 0 once a call on this communicator has ended with an error and all ranks know: every later
 * call returns it at once. A rank that failed alone says so in its next vote, which then ends with
 * an error everywhere. */
int ss_comm_status(const struct ss_comm *comm);

/* Measured costs of the network; a communicator over the same ranks can start with them. */
struct ss_costs ss_comm_costs(const struct ss_comm *comm);
void ss_comm_set_costs(struct ss_comm *comm, struct ss_costs costs);

/* Before the first call: all ranks know that their options differ. Every call is handed to the MPI
 * library for SS_WHY_SETTINGS, without a vote: what a vote looks like is one of the options. */
void ss_comm_differs(struct ss_comm *comm);

/* MERGE: the program waits for the call, or for something else that is to come after it: nothing
 * under way is to wait for others any more. */
void ss_call_hurry(struct ss_call *call);
void ss_comm_hurry(struct ss_comm *comm);
/* Frees the work space that no call under way uses; residuals stay. */
void ss_comm_give_back(struct ss_comm *comm);
/* Calls that may be under way at once: when the one that is called so many later starts, a call has
 * ended. */
unsigned ss_comm_window(const struct ss_comm *comm);

/* Votes "off" (MPI_Pcontrol) for calls started from here on. */
void ss_comm_set_off(struct ss_comm *comm, bool off);

/* Votes the same for calls started from here on where `own`, for another reason: the caller's
 * traps or rounding mode (ss_fpenv_is_own), and the call is a sum of floats. */
void ss_comm_set_environment(struct ss_comm *comm, bool own);

/* Votes for calls started from here on that the MPI library's allreduce, should it come to that, is
 * one that can be polled: other calls of this rank are under way meanwhile. */
void ss_comm_set_polled(struct ss_comm *comm, bool polled);

/* Votes for calls started from here on that nonblocking ones are to be the MPI library's, on all
 * ranks; and says whether they are nonblocking, which is the same on all ranks. */
void ss_comm_set_callbacks(struct ss_comm *comm, bool callbacks, bool nonblocking);

/* QUORUM: calls of registered tensors become rounds on a transport of their own (core/quorum), on
 * all ranks or none. SS_OK or SS_ERR_MEMORY. Close: before that transport is closed. */
int ss_comm_open_rounds(struct ss_comm *comm, struct ss_transport *t);
void ss_comm_close_rounds(struct ss_comm *comm);
void ss_comm_pause_rounds(struct ss_comm *comm); /* until the next call no receive is posted */
bool ss_comm_rounds_settled(const struct ss_comm *comm); /* no message of them is on its way */
bool ss_comm_has_rounds(const struct ss_comm *comm);
/* Takes part in them, whether this rank is in a call or not; whether something moved, and in
 * *under_way whether there is more to come. */
bool ss_comm_serve(struct ss_comm *comm, bool *under_way);
struct ss_rounds_stats;
/* What this rank has seen of them; *not_asked_for: calls of others that it has not made. */
struct ss_rounds_stats ss_comm_rounds_seen(const struct ss_comm *comm, uint64_t *not_asked_for);

/* Numbers the calls started from here on, as messages, logs and traces name them. Without it they
 * count the calls started on the communicator. */
void ss_comm_set_number(struct ss_comm *comm, uint64_t number);

/* Where the application calls from, for the identity of tensors (MODE=topk). */
void ss_comm_set_site(struct ss_comm *comm, const struct ss_call_site *site);

/* What has come up in a call and should be told: copied to text and forgotten. *own: it is about
 * this rank alone, not something that all ranks have found. False: nothing. */
bool ss_comm_warning(struct ss_comm *comm, char *text, size_t size, bool *own);

/* The next line about what was decided, on the communicator's first rank (settings->decisions):
 * copied to text and forgotten. False: nothing. */
bool ss_comm_decision(struct ss_comm *comm, char *text, size_t size);

struct ss_call;

/* Bytes a caller provides for a call; struct ss_call is defined in core/call/call_impl.h. */
struct ss_call *
ss_comm_call(struct ss_comm *comm); /* the communicator's own storage, where no call is under way */
/* Storage for a nonblocking call beside those under way, NULL: not now. It is to be started next,
 * and of the calls of a communicator no later one before it. */
struct ss_call *ss_comm_slot(struct ss_comm *comm);
/* No call is under way: those that have not ended never will. */
void ss_comm_begin_anew(struct ss_comm *comm);

/* in NULL: in place. n elements, 1 <= n <= SS_WINDOW, both buffers in `place`, which is this rank's
 * own matter. `window` tells windows of one large call apart (0 for ordinary calls). */
int ss_call_start(struct ss_call *call, struct ss_comm *comm, struct ss_place *place,
                  enum ss_type type, enum ss_op op, const void *in, void *out, uint64_t n,
                  unsigned window);

/* A call of any kind.
 *
 * Equal on all ranks, or the call fails with SS_ERR_DIFFERENT: kind, root and the size of all parts
 * together in bytes; for reductions type and op too. What may differ although the MPI library takes
 * the call is agreed on: in an allgather the word size (ranks may describe the same bytes by other
 * datatypes) and, everywhere, `parts`; where they differ all ranks go native, SS_WHY_TYPE. A rank
 * whose arguments are not served, but which knows that size (and type and op), says `cannot`: all
 * go native, SS_WHY_BUFFER. Lanes where that happens back off as those do where dense is faster.
 *
 * ALGORITHM=dense means native; recursive_doubling, split_allgather, dsar, ring and allgather all
 * force the one sparse way that a kind has (ss_kind_algorithm); otherwise the plan decides. These
 * calls are exact in every mode and no business of top-k. Sums are formed in rank order. */
struct ss_collective {
    enum ss_kind kind;
    /* Allgather: of the words that are moved, any type of their size. A word is sent if any bit of
     * it is set, so that -0.0, NaN and Inf arrive as they are. */
    enum ss_type type;
    enum ss_op op; /* of a reduction */
    int root;      /* of a reduce */
    uint64_t n;    /* elements of all parts together, 1 <= n <= SS_WINDOW; an allgather, of which
                      all ranks know but the bytes, at most 4 * SS_WINDOW of these */
    /* Allgather: rank r gives elements parts[r] to parts[r + 1] of the result; reduce_scatter: it
     * gets them. size + 1 values, ascending from 0 to n, borrowed until the end of the call; NULL:
     * equal parts, n a multiple of the number of ranks. A reduce has none. */
    const uint32_t *parts;
    /* Allgather: this rank's slice; NULL: in place, it stands in `out` where it belongs.
     * Reductions: n elements; NULL: in place, they stand in `out` (reduce: the root only). */
    const void *in;
    /* Allgather: n elements. Reduce_scatter: this rank's part alone; in place n elements, of which
     * the first are overwritten by the part. Reduce: n elements on the root, not looked at on other
     * ranks. */
    void *out;
    struct ss_place *place; /* of both; NULL: the host */
    bool cannot;            /* nothing but kind, root and that size need be set (and type and op) */
    bool broken; /* and its elements cannot be read any more: where it is voted on it, and
                    every later call, is an error on all ranks */
};
int ss_call_start_kind(struct ss_call *call, struct ss_comm *comm,
                       const struct ss_collective *what);

int ss_call_step(struct ss_call *call);

/* After SS_NATIVE: the input stands in `out`, with a part of a residual added, and the MPI library
 * is to reduce it in place there. */
bool ss_call_joined(const struct ss_call *call);

/* After SS_NATIVE: the MPI library's part has failed on a rank, as this one knows. The next vote of
 * the communicator fails it on all ranks. */
void ss_call_lost(struct ss_call *call);

/* After SS_NATIVE: a rank has voted so (ss_comm_set_polled). False where there was no vote. */
bool ss_call_polled(const struct ss_call *call);

/* After SS_NATIVE: elements of the pieces, the last one shorter, in which all ranks hand the
 * allreduce to the MPI library one after the other; 0: as a whole. A rank asks for that in the vote
 * where its buffers lie in a place that is not the host's: they are copied a piece at a time beside
 * the sums, and behind these it says whether they were. Where REPRODUCIBLE is on it asks for more
 * than a piece alone, and wherever they lie, since shorter sums may be formed in another order. */
uint64_t ss_call_piece(const struct ss_call *call);

/* After the end: a rank has voted so (ss_comm_set_callbacks). */
bool ss_call_callbacks(const struct ss_call *call);

/* After the end of a sparse call: exceptions of core/base/fpenv.h for the caller to raise in the
 * program's thread, since the result is not finite. 0 for a result that is not the host's. */
unsigned ss_call_exceptions(const struct ss_call *call);

/* Whether the call has been decided on, and is not the MPI library's. */
bool ss_call_is_sparse(const struct ss_call *call);

/* Whether the last step has brought the call further. */
bool ss_call_moved(const struct ss_call *call);

/* MERGE: another call is stepped for it, so that a step of its own would find nothing to do. */
bool ss_call_rests(const struct ss_call *call);

/* Whether the call has waited for another rank for longer than the settings' patience; true once
 * per communicator, with a sentence that names rank, peer, phase and what may be the cause. */
bool ss_call_waits(struct ss_call *call, char *text, size_t size);

/* Books the call. native_seconds: time in the MPI library's collective where the status was
 * SS_NATIVE, < 0 where that failed, else ignored. */
void ss_call_end(struct ss_call *call, double native_seconds);

/* After SS_NATIVE: why. After an error: one sentence with rank, peer and phase. */
enum ss_reason ss_call_reason(const struct ss_call *call);
/* After the end: whether it has waited for all ranks, and the next one like it will. */
bool ss_call_is_synchronous(const struct ss_call *call);
/* After the end: what ran, SS_DENSE for the MPI library; the share of this rank's elements that are
 * not zero, -1 where the call was not scanned. */
enum ss_algorithm ss_call_algorithm(const struct ss_call *call);
double ss_call_density(const struct ss_call *call);
void ss_call_explain(const struct ss_call *call, char *text, size_t size);

#endif
