/* clang-format off */
/* An allreduce, or another collective of core/base/kind.h, from scan to result over any transport.
 * Also the state that lasts between calls on a communicator.
 *
 *     status = ss_call_start(&call, comm, backend, type, op, in, out, n);      or ss_call_start_kind
 *     while (status == SS_PENDING)
 *         status = ss_call_step(&call);
 *     if (status == SS_NATIVE)
 *         run the MPI library's collective on the untouched input;
 *     ss_call_end(&call, seconds_in_native);
 *
 * A blocking call does this loop; nonblocking calls and the simulator step the same way. All ranks
 * of a communicator start the same calls in the same order. Several nonblocking calls may be under
 * way at once (ss_comm_slot). Between start and end only the call touches `out`, and no function
 * writes `in`.
 */
/* clang-format on */
#ifndef CORE_CALL_CALL_H
#define CORE_CALL_CALL_H

#include "core/comm/communicator.h"

struct ss_call;

/* A further status of ss_call_start and ss_call_step: all ranks hand this call to the MPI library,
 * and `out` has not been written. */
enum { SS_NATIVE = 2 };

/* Creates the state of a communicator. Borrows all arguments for its lifetime; copies `name`.
 * Returns NULL if memory is short. */
struct ss_comm *ss_comm_create(struct ss_transport *transport, const struct ss_settings *settings,
                               struct ss_mem *mem, struct ss_stats *stats, const char *name);
/* Takes another name, before the first call. */
void ss_comm_rename(struct ss_comm *comm, const char *name);
void ss_comm_free(struct ss_comm *comm);

/* Returns an error once a call on this communicator has ended with it and all ranks know. Every
 * later call then returns that error at once. A rank that failed alone says so in its next vote,
 * which ends with an error on all ranks. */
int ss_comm_status(const struct ss_comm *comm);

/* Return and set the measured costs of the network. A new communicator over the same ranks can
 * start with the costs of an earlier one. */
struct ss_costs ss_comm_costs(const struct ss_comm *comm);
void ss_comm_set_costs(struct ss_comm *comm, struct ss_costs costs);

/* Tells, before the first call, on which hosts the ranks are. The layout is equal on all ranks and
 * borrowed until the communicator is freed. Without this function no call is on two levels. */
void ss_comm_set_layout(struct ss_comm *comm, const struct ss_layout *layout);

/* Gives the ranks, before the first call, memory that all of them share: on all ranks or on none.
 * Borrowed until the communicator is freed. */
void ss_comm_set_shared(struct ss_comm *comm, struct ss_shared *shared);

/* Returns true if the ranks of each host are to read each other's memory (core/net/peer_memory.h).
 * All ranks know, once the layout is set. */
bool ss_comm_wants_peers(const struct ss_comm *comm);
/* Lets them do so, before the first call: on all ranks or on none. Borrowed until the communicator
 * is freed. */
void ss_comm_set_peers(struct ss_comm *comm, struct ss_peers *peers);

/* Records, before the first call, that the options of the ranks differ, as all ranks know. Every
 * call then goes to the MPI library for SS_WHY_SETTINGS, without a vote, since the form of a vote
 * is one of the options. */
void ss_comm_differs(struct ss_comm *comm);

/* Record that the program waits for the call, or for something that comes after all calls under way
 * (core/call/group.h). These calls then wait for no further calls. */
void ss_call_wait_for_none(struct ss_call *call);
void ss_comm_wait_for_none(struct ss_comm *comm);
/* Frees the work space that no call under way uses. Residuals stay. */
void ss_comm_give_back(struct ss_comm *comm);
/* Returns the number of calls that may be under way at once. When a call starts, the call that many
 * before it has ended. */
unsigned ss_comm_most_in_flight(const struct ss_comm *comm);

/* Sets what holds for the calls that follow; copied. */
void ss_comm_set_caller(struct ss_comm *comm, const struct ss_caller *caller);

/* Turns calls of registered tensors into rounds on a transport of their own (core/partial),
 * on all ranks or none. Returns SS_OK or SS_ERR_MEMORY. */
int ss_comm_open_rounds(struct ss_comm *comm, struct ss_transport *t);
/* Ends the rounds. Called before their transport is closed. */
void ss_comm_close_rounds(struct ss_comm *comm);
void ss_comm_pause_rounds(struct ss_comm *comm);         /* posts no receive until the next call */
bool ss_comm_rounds_settled(const struct ss_comm *comm); /* true: no message is on its way */
bool ss_comm_has_rounds(const struct ss_comm *comm);
/* Takes part in rounds, in a call or not. Returns true if something moved. Sets *under_way if more
 * is to come. */
bool ss_comm_serve(struct ss_comm *comm, bool *under_way);
struct ss_rounds_stats;
/* Returns the counts of rounds that this rank has seen. *not_asked_for: calls of other ranks that
 * this rank has not made. */
struct ss_rounds_stats ss_comm_rounds_seen(const struct ss_comm *comm, uint64_t *not_asked_for);

/* Copies the next warning of a call to text and forgets it. Returns false if there is none. *own:
 * the warning is about this rank alone, and not about a fact that all ranks have found. */
bool ss_comm_warning(struct ss_comm *comm, char *text, size_t size, bool *own);

/* Copies the next line about decisions to text and forgets it, on the communicator's first rank
 * (settings->decisions). Returns false if there is none. */
bool ss_comm_decision(struct ss_comm *comm, char *text, size_t size);

struct ss_call;

/* Returns the communicator's own storage for a call, when no call is under way. struct ss_call is
 * defined in core/call/call_impl.h. */
struct ss_call *ss_comm_call(struct ss_comm *comm);
/* Returns storage for a nonblocking call while other calls are under way, or NULL if there is none
 * now. The call must be the next call to start on the communicator. */
struct ss_call *ss_comm_slot(struct ss_comm *comm);
/* Forgets the calls under way, which never end. */
void ss_comm_begin_anew(struct ss_comm *comm);

/* Starts an allreduce of n elements, 1 <= n <= SS_WINDOW. Both buffers are in `backend`, which
 * other ranks need not know. in NULL: in place. window: number of the window of a large call; 0 for
 * other calls. */
int ss_call_start(struct ss_call *call, struct ss_comm *comm, struct ss_backend *backend,
                  enum ss_type type, enum ss_op op, const void *in, void *out, uint64_t n,
                  unsigned window);

/* A call of any kind.
 *
 * Equal on all ranks, or the call fails with SS_ERR_DIFFERENT: kind, root, the bytes of all parts
 * together, and for reductions type and op.
 *
 * The ranks agree on differences that the MPI library accepts. In an allgather the word size may
 * differ, since ranks may describe the same bytes by other datatypes. In every kind `parts` may
 * differ. If they differ, all ranks go native for SS_WHY_TYPE. If a rank's arguments are not
 * served, it sets `cannot`, and all ranks go native for SS_WHY_BUFFER; that rank still knows the
 * bytes, the type and the operator. Lanes with such calls back off like lanes in which dense is
 * faster.
 *
 * ALGORITHM=dense means native. An exact algorithm of one level forces the one sparse algorithm of
 * the kind (ss_kind_algorithm); otherwise the plan decides. These calls are exact in every mode and
 * never use top-k. Sums are formed in the order of the ranks.
 */
struct ss_collective {
    enum ss_kind kind;
    /* Allgather: any type of the size of the words that are moved. A word is sent if any of its
     * bits is set, so that -0.0, NaN and Inf arrive as they are. */
    enum ss_type type;
    enum ss_op op; /* of a reduction */
    int root;      /* of a reduce */
    /* elements of all parts together, 1 <= n <= SS_WINDOW; in an allgather of which all ranks know
     * only the bytes, at most 4 * SS_WINDOW */
    uint64_t n;
    /* First elements of the ranks' parts: size + 1 values, ascending from 0 to n, borrowed until
     * the end of the call. In an allgather, rank r gives elements parts[r] to parts[r + 1]; in a
     * reduce_scatter it gets them. NULL: equal parts, with n a multiple of the number of ranks. A
     * reduce has no parts. */
    const uint32_t *parts;
    /* Allgather: this rank's slice; NULL: in place, the slice stands at its place in `out`.
     * Reductions: n elements; NULL: in place, the elements stand in `out` (reduce: on the root
     * only). */
    const void *in;
    /* Allgather: n elements. Reduce_scatter: this rank's part; in place n elements, of which the
     * first are overwritten by the part. Reduce: n elements on the root, unused on other ranks. */
    void *out;
    struct ss_backend *backend; /* backend of both buffers; NULL: the host */
    unsigned window;            /* number of the window of a large allreduce; 0 for other calls */
    /* this rank's arguments are not served; only kind, root, bytes, type, op and window need be set
     */
    bool cannot;
    /* and the elements cannot be read any more: if the ranks vote on the call, then this and every
     * later call is an error on all ranks */
    bool broken;
};
int ss_call_start_kind(struct ss_call *call, struct ss_comm *comm,
                       const struct ss_collective *what);

/* Steps the call. Returns SS_PENDING, SS_OK, SS_NATIVE or an error. */
int ss_call_step(struct ss_call *call);

/* Returns true after SS_NATIVE if the input stands in `out`, with a part of a residual added. The
 * MPI library must then reduce it in place. */
bool ss_call_joined(const struct ss_call *call);

/* Records after SS_NATIVE that the MPI library's part has failed on a rank. The next vote of the
 * communicator fails it on all ranks. */
void ss_call_lost(struct ss_call *call);

/* Returns true after SS_NATIVE if a rank has voted "polled" (struct ss_caller). Returns false if
 * there was no vote. */
bool ss_call_polled(const struct ss_call *call);

/* Returns after SS_NATIVE the elements of a piece, or 0 for the whole vector. All ranks hand an
 * allreduce to the MPI library piece by piece, with a shorter last piece. A rank votes for pieces
 * if its buffers lie in another backend than the host: while a piece is summed, the next one is
 * copied. After the sums each rank tells whether its copies succeeded. With REPRODUCIBLE, every
 * rank votes for pieces if the vector is longer than one piece, in any backend, since shorter sums
 * may be formed in another order. */
uint64_t ss_call_piece(const struct ss_call *call);

/* Returns true after the end if a rank has voted "callbacks" (struct ss_caller). */
bool ss_call_callbacks(const struct ss_call *call);

/* Returns after the end of a sparse call the exceptions of core/base/fpenv.h that the caller must
 * raise in the program's thread, since the result is not finite. Returns 0 for a result outside of
 * the host. */
unsigned ss_call_exceptions(const struct ss_call *call);

/* Returns true if the ranks have decided on the call and it does not go to the MPI library. */
bool ss_call_is_sparse(const struct ss_call *call);

/* Returns true if the last step has moved the call. */
bool ss_call_moved(const struct ss_call *call);

/* Returns true if another call of its group is stepped for this one, so that a step has no
 * effect. */
bool ss_call_follows(const struct ss_call *call);

/* Returns true, once per communicator, if the call has waited for another rank for longer than the
 * settings' patience. Writes a sentence that names rank, peer, phase and a possible cause. */
bool ss_call_waits(struct ss_call *call, char *text, size_t size);

/* Ends the call and books it. native_seconds: time in the MPI library's collective after SS_NATIVE,
 * < 0 if that failed; else ignored. */
void ss_call_end(struct ss_call *call, double native_seconds);

/* Returns the reason after SS_NATIVE. */
enum ss_reason ss_call_reason(const struct ss_call *call);
/* Returns true after the end if the call has waited for all ranks, and the next one like it
 * will. */
bool ss_call_is_synchronous(const struct ss_call *call);
/* Returns after the end the algorithm that ran, SS_DENSE for the MPI library's. */
enum ss_algorithm ss_call_algorithm(const struct ss_call *call);
/* Returns the share of this rank's elements that are not zero, -1 if the call was not scanned. */
double ss_call_density(const struct ss_call *call);
/* Writes a sentence with rank, peer and phase after an error. */
void ss_call_explain(const struct ss_call *call, char *text, size_t size);

#endif
