/* Tensors: this rank's gradients, which are registered for top-k, and their residuals.
 *
 * Per eligible call on a communicator, skipped ones included:
 *
 *     t = ss_tensor_find(tensors, &call, &found);     NULL: no memory, vote "cannot"
 *     ss_tensor_take(t, &call, &found);               once the tensor's last call has ended
 *     if ss_tensor_lossy(t): select with t->residual; else scan as in exact mode
 *     ballot = ss_tensor_ballot(t);                   into the vote, each field by `or`
 *     ss_tensor_begin(t);
 *     ... the vote arrives ...
 *     ss_tensor_vote(t, &combined, same); collective or the MPI library
 *     ss_tensor_end(t);
 *
 * A lossy call goes ahead only if no rank voted `unregistered` and all ranks mean the same tensor
 * (core/identity/identity.h); else all ranks undo their claims and go native. A change by
 * ss_tensor_vote holds from the next call on. The functions are not thread safe unless their
 * comment says that they lock. Arithmetic expects the default MXCSR (core/base/fpenv.h).
 */
#ifndef CORE_TENSOR_TENSOR_H
#define CORE_TENSOR_TENSOR_H

#include "core/backend/backend.h"
#include "core/base/mem.h"
#include "core/identity/identity.h"
#include "core/select/threshold.h"
#include "core/tensor/named_buffers.h"
#include "core/tensor/part_bounds.h"
#include "core/tensor/rules.h"
#include "core/tensor/series.h"

enum ss_tensor_state { SS_TENSOR_CANDIDATE, SS_TENSOR_REGISTERED, SS_TENSOR_EXACT };

/* Why a tensor is not registered. A candidate's reason may pass. */
enum ss_tensor_reason {
    SS_TENSOR_NONE,      /* registered */
    SS_TENSOR_TYPE,      /* not a sum of floats */
    SS_TENSOR_EXCLUDED,  /* an EXCLUDE rule */
    SS_TENSOR_NO_RULE,   /* no rule of REGISTER matches */
    SS_TENSOR_NO_STEP,   /* the position of its calls in the step is not known */
    SS_TENSOR_MEMORY,    /* MAX_MEMORY, or its device, has no room for its residual */
    SS_TENSOR_OTHERS,    /* another rank does not register it */
    SS_TENSOR_GUARDED,   /* GUARD found the results too far off */
    SS_TENSOR_WITHDRAWN, /* the application unregistered its buffer */
    SS_TENSOR_REASONS
};
const char *ss_tensor_reason_name(enum ss_tensor_reason reason);

/* GUARD's last comparison of a result with the dense sum of the same inputs. */
struct ss_guarding {
    uint64_t checks; /* comparisons so far */
    uint64_t before; /* registered calls when a call that GUARD could check last ended */
    double cosine;   /* of the result with the dense sum */
    double ratio;    /* largest over the ranks of norm of residual / norm of input */
    bool far;        /* past the limits */
};

/* The part of the gradients that error feedback has kept back (core/tensor/residual.h). */
struct ss_residual {
    struct ss_backend *backend; /* of the residual and of the tensor's buffers */
    struct ss_buf values;       /* n elements, finite; data NULL = none */
    double square;              /* squared norm after the tensor's last call, up to rounding */
    double norm;                /* last computed for a report */
};

/* The elements whose residual a rank holds. One residual per rank: all elements on each rank. One
 * residual per host: the elements of this rank's slices (core/net/host_layout.h), since the sum of
 * the host's inputs is what is selected from. Fixed when the tensor is made. */
struct ss_residual_range {
    bool by_host;
    uint64_t first, n;
};

/* A registered tensor rests while dense is faster, or before its first sparse plan. Its calls claim
 * nothing, and dense calls send its residual. Once the residual is empty, calls of the lane may
 * skip the vote. Votes and plans alone decide it, so that all ranks agree.
 *
 *     event                                           from                   to
 *     registered, with a residual of earlier calls    any                    SS_AWAKE
 *     registered, with a new residual                 any                    SS_RESTS_EMPTY
 *     a plan is dense                                 SS_AWAKE               SS_RESTS
 *     a plan is or must be sparse, or a rank claims   any                    SS_AWAKE
 *     no rank's residual is to join                   SS_RESTS               SS_RESTS_EMPTY
 *     a round                                         SS_RESTS_EMPTY         SS_RESTS
 */
enum ss_rest { SS_AWAKE, SS_RESTS, SS_RESTS_EMPTY };

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

/* The state that DEBUG=info has last logged. */
struct ss_tensor_logged {
    enum ss_tensor_state state;
    enum ss_tensor_reason reason;
    bool rests;
};

struct ss_tensors;

struct ss_tensor {
    struct ss_tensor *next;    /* in ss_tensors_first: newest first */
    struct ss_tensor *in_lane; /* in its lane */
    struct ss_tensor *chain;   /* in its hash bucket */
    struct ss_tensors *set;    /* of its communicator */

    uint32_t lane;
    uint32_t ordinal;
    uint32_t rule_code;  /* of its rule or registered buffer (core/identity/identity.h), or of its
                            call site if no rule takes it */
    bool identified;     /* by the program, with a position */
    bool known;          /* its last call is known to be its own, so that it may be lossy */
    const void *buffer;  /* receive buffer of its last call */
    char site_name[128]; /* MODULE+OFFSET, "" = unknown */
    char symbol[64];     /* the function there, cut; "" = unknown */
    enum ss_type type;
    enum ss_op op;
    uint64_t n; /* elements */
    struct ss_residual_range range;

    enum ss_tensor_state state;
    enum ss_tensor_reason reason;
    const struct ss_rule *rule; /* REGISTER rule that matched, owned by the settings, or NULL */
    bool excluded;              /* an EXCLUDE rule matched */
    bool asked;                 /* a rule of REGISTER or the application names it */
    double density; /* that the application gave for its buffer, 0: rule or job decide */

    struct ss_residual residual;
    struct ss_threshold threshold;
    struct ss_agreed agreed; /* oktopk's state, equal on all ranks */
    unsigned in_flight;      /* 1 between begin and end */
    bool withdrawn;          /* by the application; takes effect in its next call with all ranks */
    bool has_rounds;         /* partial calls of it are to come (core/partial): do not free it */
    uint64_t calls;          /* all of its calls */
    uint64_t registered_calls; /* calls that were lossy as far as this rank knew */
    uint64_t lossy_since;      /* number of its first call with a lossy result, 0 = none */

    unsigned refusals; /* votes in a row in which a rank refused, or meant another tensor */
    unsigned alone;    /* votes in a row in which this rank knew its tensor, and another did not */
    uint64_t decided_at;   /* number of its call that first settled its state, 0 = not yet */
    uint64_t last_on_lane; /* number of its last call on its lane */
    enum ss_rest rest;
    double select_least; /* seconds per element of the fastest selection; 0: not measured */
    struct ss_guarding guarding;
    struct ss_tensor_stats stats;
    struct ss_buf series; /* struct ss_series of the lossy calls, if settings ask for it */
    struct ss_tensor_logged logged;
};

struct ss_tensor_settings {
    struct ss_identity identity;    /* by_rule and steps */
    const struct ss_rules *include; /* REGISTER, NULL = empty: nothing is registered; borrowed */
    const struct ss_rules *exclude; /* EXCLUDE, NULL = none; borrowed */
    size_t threshold_period;        /* calls from one exact selection to the next */
    struct ss_registry *registry;   /* buffers the application registered, NULL = none; borrowed */
};

/* Makes the tensors of one communicator, NULL if memory is short. Borrows settings and mem for
 * their lifetime. */
struct ss_tensors *ss_tensors_create(const struct ss_tensor_settings *settings, struct ss_mem *mem);
void ss_tensors_free(struct ss_tensors *tensors); /* residuals included; NULL is allowed */
/* Returns true if a tensor of the lane has a residual. */
bool ss_tensors_have_residual(const struct ss_tensors *tensors, uint32_t lane);
/* Frees all tensors of a lane, residuals included, and returns their number. Call it before the
 * lane's number goes to another lane. */
size_t ss_tensors_forget_lane(struct ss_tensors *tensors, uint32_t lane);
struct ss_tensor *ss_tensors_first(const struct ss_tensors *tensors); /* newest first, by `next` */
/* Guard the list and each `buffer` against threads that look buffers up. */
void ss_tensors_lock(struct ss_tensors *tensors);
void ss_tensors_unlock(struct ss_tensors *tensors);

struct ss_tensor_call {
    uint32_t lane;              /* number of the lane */
    uint64_t site;              /* hash of the call site, 0 = unknown */
    const void *address;        /* receive buffer */
    const void *from;           /* send buffer, the receive buffer if in place or unknown */
    struct ss_backend *backend; /* of that buffer; NULL: the host */
    enum ss_type type;
    enum ss_op op;
    uint64_t n;
    const struct ss_rule_subject *subject; /* `identified` apart; NULL: by count and type alone */
    struct ss_residual_range slices; /* if the residual can be the host's: the elements of this
                              rank; by_host: it is, whatever the rule says */
    bool has_slices;
};

struct ss_tensor_found {
    struct ss_call_identity where;
    uint64_t number; /* of the call among those given to ss_tensor_find, from 1 */
};

/* Returns the tensor of a call, made when new; NULL if memory is short. The tensor is valid until
 * the next ss_tensor_find on `tensors`, or, after ss_tensor_begin, until ss_tensor_end. Locks
 * `tensors` against core/call/tensor_access.h. */
struct ss_tensor *ss_tensor_find(struct ss_tensors *tensors, const struct ss_tensor_call *call,
                                 struct ss_tensor_found *found);
/* Counts the call; the tensor's last call must have ended. A tensor that a rule or the application
 * names is registered in the first call that is known to be its own. Locks `tensors`. */
void ss_tensor_take(struct ss_tensor *t, const struct ss_tensor_call *call,
                    const struct ss_tensor_found *found);

/* Returns true if t is registered and its last call is known to be its own. The call is lossy if
 * all ranks say so. */
bool ss_tensor_lossy(const struct ss_tensor *t);

/* A rank's part of the vote on the tensor of a call. Combine each field by or. */
struct ss_tensor_ballot {
    bool unregistered; /* not lossy on this rank: the call is exact on all ranks */
    bool registered;   /* lossy on this rank */
    bool refused;      /* exact on this rank from now on */
};
struct ss_tensor_ballot ss_tensor_ballot(const struct ss_tensor *t);

/* Takes the combined ballot of the same call; `same` unless two ranks meant unlike tensors. If a
 * rank refuses, or means another tensor, in 8 votes in a row, t becomes exact and keeps its
 * residual. */
void ss_tensor_vote(struct ss_tensor *t, const struct ss_tensor_ballot *combined, bool same);

/* Registers t or makes it exact, without a vote. All ranks must do so in the same call. If t
 * becomes exact for `reason`, a residual stays with it, until dense calls send it. If t is
 * registered, makes the residual. Returns true if t is registered; if memory is short, t is exact.
 */
bool ss_tensor_settle(struct ss_tensor *t, bool registered, enum ss_tensor_reason reason);

/* Decides anew on t, whose buffer the application has registered or withdrawn. */
void ss_tensor_readmit(struct ss_tensor *t);

/* Returns true if the lane of t must not skip votes. Its registered tensors need them, unless they
 * rest with an empty residual, and so do candidates whose position is not known yet. */
bool ss_tensor_lane_interest(const struct ss_tensor *t);

void ss_tensor_begin(struct ss_tensor *t);
void ss_tensor_end(struct ss_tensor *t);

enum { SS_TENSOR_RULE = 192 }; /* bytes of a rule below */
/* Writes a rule that takes the tensor: ddp if the program has identified it, else its count, and
 * its call site if tensors of its lane have several. */
void ss_tensor_rule(const struct ss_tensor *t, char *text, size_t size);
/* Writes the rule that would register an exact tensor, "" if no rule can. */
void ss_tensor_override(const struct ss_tensor *t, char *text, size_t size);

/* Returns the remedy for a reason that no rule removes, as the end of a sentence; NULL if a rule
 * helps or no remedy is needed. */
const char *ss_tensor_remedy(enum ss_tensor_reason reason);

#endif
