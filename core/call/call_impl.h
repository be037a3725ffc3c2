/* Inside of core: what a call, its flows and the recipes share. Not for shim. */
#ifndef CORE_CALL_CALL_IMPL_H
#define CORE_CALL_CALL_IMPL_H

#include "core/net/agreement.h"
#include "core/call/call.h"
#include "core/plan/plan.h"
#include "core/net/ranks.h"
#include "core/vote/vote.h"

/* Phases on the wire. */
enum ss_phase {
    SS_PHASE_VOTE,
    SS_PHASE_CALIBRATE,
    SS_PHASE_FOLD_IN,
    SS_PHASE_REDUCE,
    SS_PHASE_FOLD_OUT,
    SS_PHASE_GATHER,
    SS_PHASE_AGREE,
    SS_PHASE_BALANCE,
    SS_PHASE_KEEP,
    SS_PHASES
};
const char *ss_phase_name(enum ss_phase phase);

/* Work space of a communicator, kept between calls and dropped with it. */
struct ss_work {
    struct ss_buf own_idx, own_val; /* the scanned input */
    struct ss_buf idx[3], val[3];   /* streams a recipe builds */
    struct ss_buf arena;            /* encoded messages under way */
    struct ss_buf inbox;            /* receive buffers */
    struct ss_buf scratch;          /* decoded indices of one chunk */
    struct ss_buf pieces;           /* which pieces of the result are cleared */
    struct ss_buf values;           /* decoded values of one chunk */
    struct ss_buf own_error;        /* top-k: see struct ss_claims */
    struct ss_buf marks;
    struct ss_buf part_error;
    struct ss_buf agree;  /* messages of small agreements (core/net/agreement.h) */
    struct ss_buf sketch; /* of the input, for GUARD */
    struct ss_buf keep;   /* the elements that a rule keeps */
};

/* What all ranks know of a call before the vote. */
struct ss_lane_key {
    enum ss_kind kind;
    enum ss_type type; /* SS_I32 in an allgather, as also op and root where they mean nothing */
    enum ss_op op;
    int root;
    uint64_t n; /* elements; bytes in an allgather */
    unsigned window;
};

/* A lane of this communicator (design section 5). Changes by voted values only. */
struct ss_lane {
    struct ss_lane_key key;
    uint32_t number; /* a place among SS_LANES: another lane's after this one has made way */
    struct ss_history history;
    struct ss_lane_record *record;
    bool holds;                   /* some rank has a residual on it, by its last vote */
    uint64_t observed;            /* calls planned in mode observe */
    uint16_t chain, newer, older; /* in its bucket; in the order of use */
};

/* The last SS_LANES different lanes of a communicator. A new one takes the place of the one not
 * used for longest, which is forgotten with its back-off and its tensors, but for those that hold
 * residuals. Where all do, new ones share a place that remembers nothing, and are exact. */
enum { SS_LANES = 1024, SS_LANE_BUCKETS = 2048 };
struct ss_lanes {
    uint16_t count;
    uint16_t newest, oldest;
    uint16_t buckets[SS_LANE_BUCKETS];
    struct ss_lane list[SS_LANES + 1]; /* the last is the place they share then */
};

struct ss_comm {
    struct ss_transport *t;
    const struct ss_settings *settings;
    struct ss_mem *mem;
    struct ss_stats *stats;
    char name[64];
    struct ss_work work;
    struct ss_costs network;
    bool costs_agreed; /* no rank will ask for a calibration any more */
    double cost_scan;  /* seconds per element scanned, last seen here */
    double cost_vote;  /* seconds per vote, least seen here */
    uint32_t calls;    /* voted calls so far */
    bool off;          /* ss_comm_set_off */
    bool polled;       /* votes SS_VOTE_POLLED */
    bool callbacks;    /* votes SS_VOTE_CALLBACKS */
    bool nonblocking;  /* the call that is started */
    bool mismatch;     /* options differ between ranks: everything is native */
    int status;        /* < 0: a call failed here; the rest says where */
    int failed_peer;
    enum ss_phase failed_phase;
    uint32_t failed_call;
    bool told;             /* all ranks know, or nothing can be said to them any more */
    struct ss_lanes lanes; /* pages of it that no lane has been in stay untouched */
    struct ss_call *call;  /* storage of the blocking call */

    /* RESIDUAL_SCALE: rounds, each opened by a call that was not finite. */
    uint64_t scale_opened;
    uint64_t scale_passed; /* the last since whose opening a step has passed */
    unsigned scale_told;   /* lines */

    char warning[800]; /* to be told, "" = none */
    bool wait_told;    /* ss_call_waits */
    bool held_told;    /* ss_comm_held_back */

    struct ss_tensors *tensors; /* MODE=topk, else NULL */
    struct ss_call_site site;   /* of the calls that follow */
    uint64_t small;             /* its count of small calls in the last one */
};

/* A stream in work space. */
struct ss_stream {
    uint32_t *idx;
    void *val;
    size_t nnz;
    size_t capacity;
};

/* Sends under way: a slot each. A slot's own header serves error messages, so that a failing rank
 * needs no memory to say so. */
enum { SS_SEND_SLOTS = 32, SS_RECV_WINDOW = 16 };
struct ss_send_slot {
    struct ss_request request;
    int dst;
    _Alignas(8) unsigned char header[SS_WIRE_HEADER];
};

/* Outgoing: one stream slice or dense range, cut into chunks, each encoded once and sent to `ndst`
 * ranks: dst, dst + 1, ... mod P. They are served in groups as wide as a receiver's window: all
 * chunks to one group, then, from the arena, to the next. Chunk by chunk to all, the sends would
 * fill the slots with messages to ranks that do not listen yet. */
struct ss_out {
    bool dense;
    const uint32_t *idx;
    unsigned char *val;                 /* written only where it is rounded */
    const struct ss_rounding *rounding; /* NULL: values travel as they are */
    unsigned char *error;               /* parallel to val: what rounding took away, or NULL */
    size_t nnz;                         /* entries, or elements when dense */
    uint32_t first;                     /* dense: index of the first element */
    size_t pos;                         /* entries encoded */
    int dst;
    int ndst;
    unsigned phase;
    unsigned round;
    int group; /* first and past the last of the ndst that are being served */
    int group_end;
    int next;        /* the next of them to get the current chunk */
    int told;        /* the one that got an error header where a send was refused, or -1 */
    const void *msg; /* current chunk, NULL before it is taken */
    size_t len;
    bool last;
    bool encoded;      /* all chunks lie in the arena, one after the other */
    size_t stored;     /* where the first of them lies there */
    size_t stored_end; /* behind the last one encoded */
    size_t replay;     /* the next to take, once all are encoded */
    bool erring;       /* sending error headers instead */
    bool done;         /* everything is posted */
};

/* Incoming: one stream from each of several ranks. */
struct ss_in_peer {
    int rank;
    bool finished;
    unsigned char current; /* which of its two buffers is posted */
    uint32_t from;         /* no index below this may come */
    struct ss_request request;
    unsigned char *buffer[2];
};

struct ss_in;
/* Takes a decoded chunk. msg, len: the message itself, for forwarding; valid during the call only.
 */
typedef void ss_consume(struct ss_call *c, struct ss_in *in, int src, const struct ss_chunk *chunk,
                        const void *msg, size_t len);

struct ss_in {
    unsigned phase;
    unsigned round;
    bool ordered; /* by rank, from 0 to P - 1, this rank's own turn by `own`; else sources src, src
                     - 1, ... mod P as they come */
    bool empty_too; /* consume chunks without entries as well */
    int src;
    int count;
    ss_consume *consume;
    void (*own)(struct ss_call *c);
    int head;    /* ordered: whose turn it is; peers are numbered in order of posting */
    int started; /* peers whose first receive is posted */
    int finished;
    struct ss_in_peer peers[SS_RECV_WINDOW]; /* ring: peer i lives in slot i mod window */
};

/* Clears the result piece by piece: before something is written there, or while waiting for the
 * network. */
struct ss_fill {
    bool sparse; /* in place, every element is +0.0 but this rank's own entries */
    size_t pieces;
    size_t next; /* of the idle sweep */
    size_t left;
    unsigned char *cleared;
};

/* Places of the recipes. */
struct ss_split_state {
    int slice; /* phase 1: slices sent so far */
    struct ss_out out;
    struct ss_in in;
    struct ss_stream part; /* own part, reduced */
};
struct ss_gather_state {
    struct ss_out out;
    struct ss_in in;
};
struct ss_ring_state {
    int round;
    struct ss_out out;
    struct ss_in in;
    struct ss_stream partial; /* of the part in hand: own slice + received */
    struct ss_stream received;
    int forwarded;       /* rounds of the allgather whose stream has been sent on whole */
    size_t forward_next; /* arena offsets: the next message to send on, and the end of those
                            received */
    size_t forward_end;
};
struct ss_doubling_state {
    struct ss_fold fold;
    int round;
    bool dense;
    size_t delta;
    struct ss_out out;
    struct ss_in in;
    struct ss_stream current;
    struct ss_stream received;
    struct ss_stream spare; /* room for the next merge */
    struct ss_stream third;
};
/* Elements that a rule keeps (core/feedback/kept.c). */
struct ss_keeping {
    uint64_t first, count;
    bool done; /* the exchange has begun */
    struct ss_out out;
    struct ss_in in;
};

struct ss_guard_state {
    struct ss_agree agree;
    bool agreeing;
};

/* Claims on their way (MODE=topk; design section 8: who rounds, books, once). Nothing of this
 * touches the residual before the call has succeeded (ss_topk_commit). */
struct ss_claims {
    void *own_error; /* parallel to the own stream: what rounding took away; NULL: not rounded */
    unsigned char *mark; /* parallel to it: 1 = the index is in the global set; NULL: all are */
    const uint32_t *idx; /* indices of errors of reduced entries, NULL: consecutive from first */
    uint64_t first;
    const void *error; /* errors of a part that this rank rounded for all; NULL: none */
    size_t errors;
};

struct ss_calibrate_state {
    int round;
    int sent, received, messages;
    size_t size;
    bool final;
    bool again; /* a round is repeated, which took `seconds` */
    double seconds;
    double begin;
    struct ss_request sends[4], recvs[4];
    struct ss_vote vote;
    double alpha;
};

#include "core/coll/gtopk.h"
#include "core/coll/oktopk.h"

struct ss_call {
    struct ss_comm *comm;
    enum ss_kind kind;
    struct ss_lane_key key;
    struct ss_work *work; /* the communicator's, or one of those for calls beside each other */
    struct ss_transport *t;
    struct ss_lane *lane;
    const struct ss_kernels *kernels;
    enum ss_type type;
    enum ss_op op;
    size_t esize;
    const void *in; /* element in_first of the index space and in_n - 1 more */
    uint64_t in_first, in_n;
    unsigned char *out; /* element out_first; out_n elements are written here */
    uint64_t out_first, out_n;
    uint64_t n;
    bool in_place;
    int root;    /* of a reduce */
    bool cannot; /* the arguments are not served */
    uint32_t number;

    int stage;
    int step; /* the recipe's place */
    bool moved;
    uint64_t idle_steps;  /* without movement, in a row until now */
    double waiting_since; /* about the first of them */
    double waited;        /* seconds since then, where the last step looked at the clock, else 0 */
    struct ss_scan scan;
    struct ss_stream own;
    uint64_t part_max;
    const uint32_t *bounds; /* of the parts of the index space, size + 1; NULL: equal parts, */
    uint64_t each;          /* of so many elements, 0: as ss_part_first has it */
    struct ss_vote vote;
    struct ss_plan plan;
    enum ss_reason reason;
    bool native; /* handed to the MPI library, for `reason` */

    /* MODE=topk */
    struct ss_tensor *tensor; /* between start and end */
    bool tensor_short;        /* no memory for one */
    bool unfit;            /* by the evidence, on all ranks: it must be exact, and nothing join */
    bool keeps;            /* here no residual may join it, whatever runs */
    bool topk;             /* registered: the own stream is claimed, not scanned */
    bool resting;          /* registered, but nothing is claimed: dense was faster */
    bool woken;            /* rested when the call began */
    bool claimed;          /* claims are out of the residual */
    bool profiled, unlike; /* its profile has been watched; it was unlike its past */
    bool reevaluate;       /* too few were claimed: asks for a new threshold */
    uint64_t topk_calls;   /* registered calls of the tensor before this one */
    size_t select_stop;
    uint64_t select_first, select_n; /* the elements that are selected from */
    struct ss_keeping keep;
    struct ss_threshold threshold_before; /* that of the tensor, should the call turn native */
    double joined; /* share of the residual that has joined the dense input, 0 = none */
    bool guarded;  /* the result is compared with the dense sum */
    struct ss_guard_state guard;
    size_t k;                       /* entries asked for */
    struct ss_rounding round;       /* of streams; values SS_VALUES_SAME: as they are */
    struct ss_rounding round_dense; /* of dsar's dense phase */
    struct ss_claims claims;
    double input_square, sum_square; /* of the input, and of input + residual */
    uint8_t small;                   /* smaller calls since the last */
    uint8_t parts[SS_STEP_PARTS];    /* of the input of a tensor whose step is not known yet */

    int failed; /* first failure of this call on this rank, < 0 */
    int failed_peer;
    enum ss_phase failed_phase;

    struct ss_send_slot slots[SS_SEND_SLOTS];
    size_t arena_used;
    struct ss_fill fill;
    uint64_t result_nnz; /* entries of the result, 0 = not known */
    bool dense_seen;     /* parts of it came dense, so that result_nnz is short */
    uint64_t bytes_sent;
    uint64_t phase_sent[SS_PHASES], phase_received[SS_PHASES]; /* bytes, headers included */
    struct ss_times times;
    double mark;  /* begin of the current stage */
    double aside; /* seconds of the exchange for what is no part of it: GUARD */
    union {
        struct ss_calibrate_state calibrate;
        struct {
            struct ss_split_state split;
            struct ss_gather_state gather;
        };
        struct ss_ring_state ring;
        struct ss_doubling_state doubling;
        struct ss_oktopk_state oktopk;
        struct ss_gtopk_state gtopk;
    } u;
};

/* Remembers the first failure; from here on error headers go out and what comes in is dropped. */
void ss_fail(struct ss_call *c, int status, int peer, enum ss_phase phase);

static inline double ss_call_now(const struct ss_call *c)
{
    return c->t->ops->now(c->t);
}
static inline void *ss_at(void *base, size_t element, size_t esize)
{
    return (unsigned char *)base + element * esize;
}
static inline const void *ss_at_const(const void *base, size_t element, size_t esize)
{
    return (const unsigned char *)base + element * esize;
}
static inline uint64_t ss_call_part(const struct ss_call *c, int p)
{
    if (c->bounds)
        return c->bounds[p];
    return c->each > 0 ? c->each * (uint64_t)p : ss_part_first(c->n, c->t->size, p);
}
/* An element of the result, where this rank has it. */
static inline unsigned char *ss_out_at(const struct ss_call *c, uint64_t element)
{
    return c->out + (element - c->out_first) * c->esize;
}

/* core/plan/lanes.c: the lane of a call, made when new and valid until the next call starts. */
uint64_t ss_lane_hash(const struct ss_lane_key *key);
struct ss_lane *ss_comm_lane(struct ss_comm *comm, const struct ss_lane_key *key, uint64_t n,
                             enum ss_type type); /* n, type: to be reported */

/* core/call/comm_state.c: work space that recipes built, kept for the next: its bytes, and letting it go. */
size_t ss_work_kept(const struct ss_work *work);
void ss_work_drop(struct ss_work *work);

/* core/call/ballot.c: what a rank says in the vote; what the plan sees of what all said. */
void ss_ballot_fill(struct ss_call *c, uint64_t flags);
uint64_t ss_ballot_flags(struct ss_call *c, int status); /* status: of ss_call_prepare */
struct ss_shape ss_ballot_shape(const struct ss_call *c);

/* core/call/form.c: what depends on the kind. Init: of a zeroed call. Recipe: before its first
 * step. */
void ss_kind_init(struct ss_call *c, const struct ss_collective *what, unsigned window);
uint64_t ss_kind_form(const struct ss_call *c);      /* for SS_SAME_FORM */
double ss_kind_density_max(const struct ss_call *c); /* after the vote */
void ss_kind_recipe(struct ss_call *c);
int ss_kind_step(struct ss_call *c);
uint64_t ss_kind_result(const struct ss_call *c); /* entries of the result, 0 = not known */

/* core/call/observe.c: in mode observe, after the plan: what top-k would have done, into the record; and
 * which calls of the lane are looked at next. */
void ss_observe(struct ss_call *c);

/* core/call/input.c: fills scan, own and part_max. SS_OK or SS_ERR_MEMORY. The second form is for a call
 * that was prepared while its tensor rested, and is to claim after all. */
int ss_call_prepare(struct ss_call *c);
int ss_call_select(struct ss_call *c);
double ss_select_cost(const struct ss_call *c); /* seconds per element, as the plan counts it */
int ss_own_reserve(struct ss_call *c, size_t entries, size_t keep); /* room for the own stream */

/* core/stream/flow.c */
int ss_flow_reserve(struct ss_call *c); /* receive buffers and scratch: before the vote */
size_t ss_flow_arena_bound(enum ss_type type, uint64_t entries);
void ss_out_stream(struct ss_out *o, struct ss_stream s, enum ss_phase phase, unsigned round,
                   int dst, int ndst);
void ss_out_elements(struct ss_out *o, void *val, uint64_t first, uint64_t n, enum ss_phase phase,
                     unsigned round, int dst, int ndst); /* n elements at val, sent as first.. */
void ss_out_dense(struct ss_call *c, struct ss_out *o, uint64_t first, uint64_t n,
                  enum ss_phase phase, unsigned round, int dst, int ndst);
/* Values of `o`, just started, are rounded as they are encoded, in place; what that takes away goes
 * to error (parallel to them, or NULL). The second form is for slices of the own stream. Both do
 * nothing where `how` (c->round) says SS_VALUES_SAME. */
void ss_out_round(struct ss_out *o, const struct ss_rounding *how, void *error);
void ss_out_round_own(struct ss_call *c, struct ss_out *o);
/* A reduced part on its way to all: by c->round, or c->round_dense where `o` is a dense range; its
 * errors are booked (in work.part_error, which is reserved here). */
void ss_out_round_part(struct ss_call *c, struct ss_out *o);
/* Encodes all of a stream or dense range that was just started: from here on its values are rounded
 * and may change. */
void ss_out_encode_ahead(struct ss_call *c, struct ss_out *o);
int ss_out_step(struct ss_call *c, struct ss_out *o);
void ss_in_start(struct ss_call *c, struct ss_in *in, enum ss_phase phase, unsigned round, int src,
                 int count, ss_consume *consume);
void ss_in_start_ordered(struct ss_call *c, struct ss_in *in, enum ss_phase phase,
                         ss_consume *consume, void (*own)(struct ss_call *c));
int ss_in_step(struct ss_call *c, struct ss_in *in);
int ss_sends_reap(struct ss_call *c); /* SS_OK when none is under way */
int ss_send_raw(struct ss_call *c, int dst, enum ss_phase phase, unsigned round, const void *msg,
                size_t len); /* SS_PENDING: no slot free; < 0: an error header went instead */
int ss_send_error(struct ss_call *c, int dst, enum ss_phase phase, unsigned round);
void ss_flow_cancel(struct ss_call *c);
enum ss_phase ss_flow_waiting(struct ss_call *c, int *peer);

/* core/stream/stream.c */
/* The slice of a stream with indices in [lo, hi). */
struct ss_stream ss_stream_slice(const struct ss_stream *s, size_t esize, uint64_t lo, uint64_t hi);
/* Appends a decoded chunk's entries; zeros of dense chunks are left out. A stream without room for
 * them is a malformed message: the call fails. */
void ss_stream_append(struct ss_call *c, int src, struct ss_stream *s,
                      const struct ss_chunk *chunk);
/* Makes room for `entries` in stream pair `which` of the work space. */
int ss_stream_reserve(struct ss_call *c, struct ss_stream *s, int which, uint64_t entries);

/* core/coll/result.c */
int ss_fill_reserve(struct ss_call *c); /* before the vote */
void ss_fill_start(struct ss_call *c);
void ss_fill_range(struct ss_call *c, uint64_t lo, uint64_t hi);
bool ss_fill_idle(struct ss_call *c); /* clears one piece; false when none is left */
/* Whether all entries of a chunk lie in that part of the index space. */
bool ss_chunk_within(const struct ss_call *c, const struct ss_chunk *chunk, int part);
/* Writes a chunk's entries into the result (range cleared first), or adds them to it. */
void ss_result_set(struct ss_call *c, const struct ss_chunk *chunk);
void ss_result_add(struct ss_call *c, const struct ss_chunk *chunk);
void ss_result_set_stream(struct ss_call *c, const struct ss_stream *s);
void ss_result_add_stream(struct ss_call *c, const struct ss_stream *s);

/* core/feedback/topk.c: what top-k does in a call, in this order. All but start and flags do nothing where
 * nothing was claimed or no tensor is known. */
void ss_topk_start(struct ss_call *c);
int ss_topk_select(struct ss_call *c);
void ss_topk_rest(struct ss_call *c); /* instead, where the tensor rests: what it would claim */
uint64_t ss_topk_flags(struct ss_call *c);
void ss_topk_wake(struct ss_call *c);                 /* to be selected from, and voted on again */
void ss_topk_planned(struct ss_call *c, bool dense);  /* and may be trusted: rest where it is */
void ss_topk_show(struct ss_call *c);                 /* evidence, into the ballot; */
uint64_t ss_topk_past(const struct ss_call *c);       /* and by what it will be judged, hashed */
uint64_t ss_topk_forced(const struct ss_call *c);     /* algorithm + 1 of a rule, 0: none */
uint64_t ss_topk_label(const struct ss_call *c);      /* of the call site */
bool ss_topk_vote(struct ss_call *c, uint64_t flags); /* false: registered on some ranks only */
bool ss_topk_claimed(struct ss_call *c, uint64_t flags); /* the part of it on what was claimed */
/* Before the first step of a recipe: room for claims.own_error where the streams are rounded, for
 * claims.mark where the collective keeps a global top-k. */
void ss_topk_recipe(struct ss_call *c);
/* Marks the claims with these ascending indices as part of the global set. */
void ss_topk_mark(struct ss_call *c, const uint32_t *idx, size_t nnz);
/* Errors of reduced entries that this rank rounds, to be added to its residual in the end; idx
 * NULL: consecutive from `first`. All borrowed until the end of the call. Once per call. */
void ss_topk_book(struct ss_call *c, const uint32_t *idx, uint64_t first, const void *error,
                  size_t count);
void ss_topk_commit(struct ss_call *c); /* the call has succeeded */
void ss_topk_undo(struct ss_call *c);   /* the call turns native */
void ss_topk_fail(struct ss_call *c);   /* the call fails after the vote */
void ss_topk_end(struct ss_call *c, bool native_done);
void ss_topk_warn(struct ss_call *c, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* about the tensor, for ss_comm_warning */

/* core/feedback/admission.c: a line on a tensor that was admitted or offered in this call's vote, being a
 * candidate before. */
void ss_admission_tell(struct ss_call *c);

/* core/feedback/kept.c: sets c->keep and what is left to select from; its code in the vote; the elements are
 * taken before the result is written; then the exchange. */
void ss_keep_range(struct ss_call *c);
uint64_t ss_keep_code(const struct ss_call *c);
int ss_keep_take(struct ss_call *c);
void ss_keep_start(struct ss_call *c);
int ss_keep_step(struct ss_call *c);

/* core/feedback/dense_join.c. Norms are squared. */
/* The tensor is exact and has a residual that is to be sent; sets both norms. */
bool ss_residual_pending(struct ss_call *c);
double ss_residual_ratio_square(const struct ss_call *c);
/* The call turns dense: out = in + share of the residual (c->joined); after the sum has succeeded
 * that share leaves the residual. */
void ss_residual_join(struct ss_call *c);
void ss_residual_leave(struct ss_call *c);

/* core/feedback/loss_scale.c: RESIDUAL_SCALE. */
enum ss_scaling {
    SS_SCALE_KNOWN,
    SS_SCALE_OPEN,   /* the unit of the input cannot be told yet: the call is exact */
    SS_SCALE_CHANGED /* the claims are undone, the residual is scaled: select and vote again */
};
bool ss_scale_asked(const struct ss_call *c);     /* something is to be found out */
uint64_t ss_scale_hash(const struct ss_call *c);  /* of what this rank will decide by, or 0 */
enum ss_scaling ss_scale_look(struct ss_call *c); /* after the vote of a finite call */
void ss_scale_seen(struct ss_call *c);            /* a finite call of known unit */
void ss_scale_not_finite(struct ss_call *c);
void ss_residual_scale(struct ss_tensor *t, double factor); /* threshold included */

/* core/feedback/guard.c: before the result is written; after it; the verdict is in the tensor. */
int ss_guard_reserve(struct ss_call *c); /* before the claims */
/* The vote of such a call, of a tensor that a rule has made lossy: what it looks like. agreed: all
 * ranks remember the same. */
void ss_guard_look(struct ss_call *c, bool agreed);
void ss_guard_take(struct ss_call *c);
void ss_guard_start(struct ss_call *c);
int ss_guard_step(struct ss_call *c);

/* Recipes: one file each. A step returns SS_PENDING or SS_OK; failures are in c->failed. `c->step`
 * is 0 at the first. */
int ss_recursive_doubling_step(struct ss_call *c);
int ss_split_allgather_step(struct ss_call *c);
int ss_dsar_step(struct ss_call *c);
int ss_ring_step(struct ss_call *c);
int ss_allgather_step(struct ss_call *c);
int ss_oktopk_step(struct ss_call *c);
int ss_gtopk_step(struct ss_call *c);

/* Those of the other kinds: allgather, reduce_scatter, reduce. */
int ss_slices_step(struct ss_call *c);
int ss_reduce_scatter_step(struct ss_call *c);
int ss_reduce_step(struct ss_call *c);

/* Calibration of the network, before the first plan on a communicator. Reserve: before the vote. */
int ss_calibrate_reserve(struct ss_call *c);
int ss_calibrate_step(struct ss_call *c);
void ss_calibrate_cancel(struct ss_call *c);

/* Costs of this process's own work, measured at first use (a fraction of a millisecond). */
struct ss_local_costs {
    double code;  /* seconds per entry encoded or decoded */
    double merge; /* seconds per entry added to the result */
    double fill;  /* seconds per byte cleared */
};
const struct ss_local_costs *ss_local_costs(void);

/* Where a call is, and in *peer (may be NULL) whom it waits for, -1: nobody in particular. */
enum ss_phase ss_call_phase(struct ss_call *c, int *peer);

/* Shared by split_allgather, dsar and the reductions of other kinds: the first phase (own part
 * reduced in place in the result), its entries made a stream, and the allgather of parts, or their
 * way to one rank. */
int ss_split_reserve_slices(struct ss_call *c); /* for the first phase alone */
int ss_split_reserve(struct ss_call *c, bool dense);
int ss_split_reduce_step(struct ss_call *c);
void ss_split_harvest(struct ss_call *c); /* into u.split.part */
void ss_gather_start(struct ss_call *c, bool dense);
void ss_gather_start_to(struct ss_call *c, int root);
int ss_gather_step(struct ss_call *c);

#endif
