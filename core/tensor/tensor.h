/* Tensors: this rank's gradients, which are registered for top-k, and their residuals.
 *
 * Per eligible call on a communicator, skipped ones included:
 *
 *     t = ss_tensor_find(tensors, &call, &found);     NULL: no memory, vote "cannot"
 *     ss_tensor_take(t, &call, &found);               once the tensor's last call has ended
 *     registered: select with t->residual; else scan as in exact mode
 *     ballot = ss_tensor_ballot(t);                   into the vote, each field by `or`
 *     ss_tensor_begin(t);
 *     ... the vote arrives ...
 *     ss_tensors_identity_vote(...); ss_tensor_vote(t, &combined); collective or the MPI library
 *     ss_tensor_end(t);
 *
 * A call that found its tensor registered goes ahead only where no rank voted `unregistered` and
 * all mean the same tensor (core/identity/identity.h); else all undo and go native. What
 * ss_tensor_vote changes holds from the next call on. Not thread safe; arithmetic expects the
 * default MXCSR (core/base/fpenv.h).
 */
#ifndef CORE_TENSOR_TENSOR_H
#define CORE_TENSOR_TENSOR_H

#include "core/base/mem.h"
#include "core/identity/identity.h"
#include "core/place/place.h"
#include "core/select/threshold.h"
#include "core/tensor/named_buffers.h"
#include "core/tensor/regions.h"
#include "core/tensor/rules.h"
#include "core/tensor/series.h"

enum ss_tensor_state { SS_TENSOR_CANDIDATE, SS_TENSOR_REGISTERED, SS_TENSOR_EXACT };

/* Why a tensor is not registered. A candidate's reason may pass. */
enum ss_tensor_reason {
    SS_TENSOR_NONE,      /* registered */
    SS_TENSOR_TYPE,      /* not a sum of floats */
    SS_TENSOR_EXCLUDED,  /* an EXCLUDE rule */
    SS_TENSOR_NO_RULE,   /* no rule of REGISTER matches */
    SS_TENSOR_NO_STEP,   /* the period of its calls is not known */
    SS_TENSOR_MEMORY,    /* MAX_MEMORY, or its device, has no room for its residual */
    SS_TENSOR_OTHERS,    /* another rank does not register it */
    SS_TENSOR_GUARDED,   /* GUARD found the results too far off */
    SS_TENSOR_WITHDRAWN, /* the application unregistered its buffer */
    SS_TENSOR_REASONS
};
const char *ss_tensor_reason_name(enum ss_tensor_reason reason);

/* What GUARD has seen. */
struct ss_guarding {
    uint64_t checks;
    uint64_t before; /* registered calls when one that could be looked at ended last */
    double cosine;   /* of the last result with the dense sum of the same inputs */
    double ratio;    /* largest over the ranks of norm of residual / norm of input then */
    bool far;        /* past the limits */
};

/* What error feedback has kept back (core/tensor/residual.h). */
struct ss_residual {
    struct ss_place *place; /* its and that of the tensor's buffers */
    struct ss_buf values;   /* n elements, finite; data NULL = none */
    double square;          /* squared norm after the tensor's last call, up to rounding */
    double norm;            /* last computed for a report */
};

/* Where its calls stood (core/tensor/tensor.c). */
struct ss_call_history {
    uint32_t period;        /* of the last call, 0: unknown */
    uint64_t first_on_lane; /* number of its first call on its lane, from 1, */
    uint64_t last_on_lane;  /* and of its last */
    uint64_t last_call;     /* number of that call on the communicator */
};

/* Registered, but no plan was sparse yet or dense is faster: nothing is claimed, and what the
 * residual holds is sent in dense calls; once it is empty the lane may back off. From plans alone,
 * so that all ranks agree (core/feedback). */
struct ss_rest {
    bool resting;
    bool emptied;        /* while resting: the residual is zero */
    double select_least; /* seconds per element of a selection, least seen; 0: nothing yet */
};

/* For the report, over registered calls that were sent sparse (core/feedback/topk.c). */
struct ss_tensor_stats {
    uint64_t topk_calls;
    double density_sum;    /* claimed / n */
    double asked_sum;      /* asked for / n */
    double off_sum;        /* |claimed - k| / k */
    uint64_t global_calls; /* by oktopk or gtopk */
    double global_off_sum; /* |global set - k| / k over these */
    double input_norm;     /* of the last such call's input */
};

/* What DEBUG=info has told of it. */
struct ss_tensor_told {
    enum ss_tensor_state state;
    enum ss_tensor_reason reason;
    bool resting;
};

struct ss_tensors;

struct ss_tensor {
    struct ss_tensor *next;    /* in ss_tensors_first: newest first */
    struct ss_tensor *in_lane; /* in its lane */
    struct ss_tensor *chain;   /* in its hash bucket */
    struct ss_tensors *owner;
    uint32_t number; /* from 0, in order of first appearance on this rank */

    uint32_t lane;
    uint32_t ordinal;
    uint32_t label;      /* 0 where it does not count */
    bool placed;         /* its last call is known to be one of this tensor: it may be lossy */
    const void *buffer;  /* receive buffer of its last call, whether it counts or not */
    char site_name[128]; /* as the subject said, "" = unknown */
    char symbol[64];     /* the function there, cut; "" = unknown */
    enum ss_type type;
    enum ss_op op;
    uint64_t n; /* elements */

    enum ss_tensor_state state;
    enum ss_tensor_reason reason;
    const struct ss_rule *rule; /* REGISTER rule that matched, owned by the settings, or NULL */
    bool excluded;              /* an EXCLUDE rule matched */
    bool asked;                 /* by that rule, or by the application */
    double density;             /* as the application said for its buffer, 0: rule or job decide */

    struct ss_residual residual;
    struct ss_threshold threshold;
    struct ss_agreed agreed;   /* oktopk: what all ranks share */
    unsigned in_flight;        /* 1 between begin and end */
    bool withdrawn;            /* by the application, from its next call with all ranks on */
    bool has_rounds;           /* partial calls of it are to come (core/quorum): not to be freed */
    uint64_t calls;            /* all */
    uint64_t registered_calls; /* that found it registered */
    uint64_t lossy_since;      /* call of its own whose result was the first lossy one, 0 = none */
    bool fresh;                /* the residual was made for the last ballot and is zero */

    unsigned refusals;   /* votes in a row in which a rank refused, or meant another tensor */
    uint64_t decided_at; /* call of its own in which was first decided on it, 0 = not yet */
    struct ss_call_history history;
    struct ss_rest rest;
    struct ss_guarding guarding;
    struct ss_tensor_stats stats;
    struct ss_buf series; /* struct ss_series of the same calls, where settings ask for it */
    struct ss_tensor_told told;
};

struct ss_tensor_settings {
    struct ss_identity_way identity;
    const struct ss_rules *include; /* REGISTER, NULL = empty: nothing is registered; borrowed */
    const struct ss_rules *exclude; /* EXCLUDE, NULL = none; borrowed */
    size_t threshold_period;        /* calls from one exact selection to the next */
    struct ss_registry *registry;   /* buffers the application registered, NULL = none; borrowed */
};

/* Tensors of one communicator. Borrows settings and mem for its lifetime. NULL when memory is
 * short. */
struct ss_tensors *ss_tensors_create(const struct ss_tensor_settings *settings, struct ss_mem *mem);
void ss_tensors_free(struct ss_tensors *tensors); /* residuals included; NULL is allowed */
/* Whether a tensor of a lane has a residual; all tensors of a lane are freed, residuals included,
 * before its number is given to another lane: how many. */
bool ss_tensors_hold(const struct ss_tensors *tensors, uint32_t lane);
size_t ss_tensors_forget_lane(struct ss_tensors *tensors, uint32_t lane);
/* What the vote of a call of the lane has found (ss_identity_vote). */
void ss_tensors_identity_vote(struct ss_tensors *tensors, uint32_t lane, bool same_label,
                              bool same_tensor, bool all_known);
struct ss_tensor *ss_tensors_first(const struct ss_tensors *tensors); /* newest first, by `next` */
/* Against threads that look buffers up: the list, and `buffer` of each. */
void ss_tensors_lock(struct ss_tensors *tensors);
void ss_tensors_unlock(struct ss_tensors *tensors);

struct ss_tensor_call {
    uint32_t lane;          /* number of the lane */
    uint64_t site;          /* hash of the call site, 0 = unknown */
    uint64_t path;          /* hash of its callers, 0 = unknown */
    const void *address;    /* receive buffer */
    struct ss_place *place; /* where it is; a tensor stays in its first one */
    bool overlaps; /* it is nonblocking: up to SS_MERGED calls before it may be in flight */
    enum ss_type type;
    enum ss_op op;
    uint64_t n;
    const struct ss_rule_subject *subject; /* read when the tensor is new */
    uint64_t marks; /* small allreduces on the communicator so far, that were not looked for */
};

struct ss_tensor_found {
    struct ss_standing where;
    uint64_t number; /* of the call among those that were looked for, from 1 */
};

/* The tensor of a call, made when new. NULL when memory is short. Valid until the next one on
 * `tensors`, or, after ss_tensor_begin, until ss_tensor_end. Locks `tensors` against
 * core/call/tensor_access.h. */
struct ss_tensor *ss_tensor_find(struct ss_tensors *tensors, const struct ss_tensor_call *call,
                                 struct ss_tensor_found *found);
/* Counts the call, once the one before it of the same tensor has ended. A tensor that a rule or the
 * application names is registered in the first call that is known to be its own. Locks, too.
 *
 * Here orphaned residuals go to their successors. An orphan is a tensor with a residual that was
 * not called for 64 calls of its lane and three periods. Its successor is a registered tensor of
 * the lane, or one that is exact for want of memory, for another rank or for GUARD: one of the same
 * ordinal that came first after the orphan's last call, or the only registered one of its label
 * that still comes. The residual is added to the successor's, one rounding per element, and the
 * orphan is registered anew if it returns. */
void ss_tensor_take(struct ss_tensor *t, const struct ss_tensor_call *call,
                    const struct ss_tensor_found *found);

/* Registered, and its last call is known to be its own: this call is lossy where all ranks say so.
 */
bool ss_tensor_lossy(const struct ss_tensor *t);

/* What this rank says of the tensor in the vote of this call; combine each by or. */
struct ss_tensor_ballot {
    bool unregistered; /* not lossy here: the call is exact on all ranks */
    bool registered;   /* lossy here: if it is not so on others, this rank undoes its claims */
    bool refused;      /* exact for good here */
};
struct ss_tensor_ballot ss_tensor_ballot(const struct ss_tensor *t);

/* Takes the combined ballot of the same call, and whether all ranks meant the same tensor. If a
 * rank has refused, or meant another, in 8 votes in a row, the tensor is exact here, and its
 * residual stays. */
void ss_tensor_vote(struct ss_tensor *t, const struct ss_tensor_ballot *combined, bool same);

/* Registers it, or makes it exact, without a vote: registered = false with a reason such as
 * SS_TENSOR_GUARDED, on all ranks in the same call; a residual stays with the tensor, for the
 * caller to send or a successor to take. registered = true makes the residual; false is returned,
 * and the state is exact, where memory is short. */
bool ss_tensor_settle(struct ss_tensor *t, bool registered, enum ss_tensor_reason reason);

/* The application has registered its buffer, or withdrawn it: decided on anew. */
void ss_tensor_readmit(struct ss_tensor *t);

/* Whether a tensor of its lane, itself or another, is registered, or a candidate whose period is
 * still looked for: to be voted, as the lane then must not skip calls. */
bool ss_tensor_lane_interest(const struct ss_tensor *t);

void ss_tensor_begin(struct ss_tensor *t);
void ss_tensor_end(struct ss_tensor *t);

/* A rule that takes the tensor: its count, and its call site where tensors of that count are called
 * from several. Override: the one that would register an exact tensor all the same, "" where no
 * rule can. */
enum { SS_TENSOR_RULE = 192 }; /* room for either */
void ss_tensor_rule(const struct ss_tensor *t, char *text, size_t size);
void ss_tensor_override(const struct ss_tensor *t, char *text, size_t size);

/* What helps where no rule does, in one sentence; NULL where a rule does, or nothing is to be
 * helped. */
const char *ss_tensor_remedy(enum ss_tensor_reason reason);

#endif
