/* Tensors: this rank's identities of gradients, their residuals, and what must be seen of one
 * before it is registered for top-k (core/README.md, Identity).
 *
 * Per eligible call on a communicator, skipped ones included:
 *
 *     t = ss_tensor_find(tensors, &call);             NULL: no memory, vote "cannot"
 *     registered: select with t->residual; else scan as in exact mode
 *     ballot = ss_tensor_ballot(t);                   into the vote, each field by `or`;
 *     t->label, ss_tensor_code(t)                     into the vote, by min and max
 *     if (ss_tensor_watching(t)) ss_evidence_show(&evidence, &t->watch, ...);   likewise
 *     ss_tensor_begin(t);
 *     ... the vote arrives: labels differ: ss_tensors_join(tensors, t->lane);
 *     ss_tensor_vote(t, &combined); ss_tensor_judge(t, &evidence, ...); collective or the MPI
 *     library ...
 *     ss_tensor_end(t);
 *
 * A call that found its tensor registered goes ahead only where no rank voted `unregistered` and
 * all mean the same tensor; else all undo and go native. What ss_tensor_vote changes holds from the
 * next call on. Not thread safe; arithmetic expects the default MXCSR (core/base/fpenv.h).
 */
#ifndef CORE_TENSOR_TENSOR_H
#define CORE_TENSOR_TENSOR_H

#include "core/base/mem.h"
#include "core/place/place.h"
#include "core/select/threshold.h"
#include "core/tensor/evidence.h"
#include "core/tensor/named_buffers.h"
#include "core/tensor/regions.h"
#include "core/tensor/rules.h"
#include "core/tensor/series.h"
#include "core/tensor/steps.h"
#include "core/tensor/under_way.h"

/* What tells tensors of one lane apart (enum ss_identity).
 *
 * AUTO: the ordinal in the step, and the label. A rank numbers the call sites of a lane, their
 * callers included, in the order in which they first come: the label of a call is the number of its
 * site. Every vote compares the labels. As long as they are equal on all ranks the sites split the
 * calls alike everywhere, and calls of different labels count as those of different lanes, for the
 * step as well. Where they differ, or a lane has more than SS_SITES sites, labels stop counting for
 * that lane, for good.
 * SITE: the label alone; ORDINAL: the ordinal alone.
 * ADDRESS: the receive buffer, as this rank sees it, alone. */
enum { SS_SITES = 256 };

enum ss_tensor_state { SS_TENSOR_CANDIDATE, SS_TENSOR_REGISTERED, SS_TENSOR_EXACT };

/* Why a tensor is not registered. A candidate's reason may pass. */
enum ss_tensor_reason {
    SS_TENSOR_NONE,      /* registered */
    SS_TENSOR_WATCHED,   /* its first calls are being watched */
    SS_TENSOR_TYPE,      /* not a sum of floats */
    SS_TENSOR_EXCLUDED,  /* an EXCLUDE rule */
    SS_TENSOR_NO_RULE,   /* REGISTER is given and no rule matches */
    SS_TENSOR_OFFERED,   /* looks like a gradient, but REGISTER is empty */
    SS_TENSOR_DOUBLE,    /* a sum of doubles that no rule names */
    SS_TENSOR_NO_STEP,   /* calls of the communicator do not repeat */
    SS_TENSOR_OUTSIDE,   /* called outside the step */
    SS_TENSOR_SELDOM,    /* called less than once per step */
    SS_TENSOR_AVERAGE,   /* the inputs are alike on all ranks */
    SS_TENSOR_CONSTANT,  /* results are parallel to ones before */
    SS_TENSOR_MEMORY,    /* MAX_MEMORY, or its device, has no room for its residual */
    SS_TENSOR_OTHERS,    /* another rank does not register it */
    SS_TENSOR_PROFILE,   /* different tensors in turn in one buffer */
    SS_TENSOR_GUARDED,   /* GUARD found the results too far off */
    SS_TENSOR_WITHDRAWN, /* the application unregistered its buffer */
    SS_TENSOR_PARTS,     /* the ranks hold different parts of it */
    SS_TENSOR_ONE_SIGN,  /* all elements have one sign */
    SS_TENSOR_DRIFT,     /* its norm falls or grows all the time */
    SS_TENSOR_LEFT,      /* was registered, and then did not look like a gradient */
    SS_TENSOR_MIXED,     /* some calls look like weights */
    SS_TENSOR_DATA,      /* a rank's inputs resemble each other more than the ranks' do */
    SS_TENSOR_SHORT,     /* results are like the last one, and not like any before */
    SS_TENSOR_LAYERS,    /* the ranks' inputs have nothing in common */
    SS_TENSOR_MEAN,      /* the results keep one direction, however noisy */
    SS_TENSOR_REASONS
};
const char *ss_tensor_reason_name(enum ss_tensor_reason reason);

/* The norms of the blocks of a buffer: where they stop resembling their past, it holds different
 * tensors in turn. */
enum { SS_PROFILE_BLOCKS = 64, SS_PROFILE_ENTRIES = 256 };
struct ss_profile {
    double past[SS_PROFILE_BLOCKS]; /* running mean of unit profiles, weight 1/8 for the newest */
    unsigned seen;                  /* profiles in it, saturating */
    bool was_unlike;                /* the last one, with cosine < 0.5 */
    unsigned score;                 /* 2 more for one that is unlike, 1 less for one that is not */
};
struct ss_profile_now {
    double norm[SS_PROFILE_BLOCKS];
    size_t entries; /* non-zero finite ones behind it */
};

/* Of a stream of n elements: what a place says of its ranges of indices; all its entries. */
void ss_profile_cuts(size_t n, uint32_t cuts[SS_PROFILE_BLOCKS + 1]);
void ss_profile_shares(struct ss_profile_now *now, const struct ss_share shares[SS_PROFILE_BLOCKS]);
void ss_profile_sparse(struct ss_profile_now *now, enum ss_type type, const uint32_t *idx,
                       const void *val, size_t nnz, size_t n);
/* Cosine with the past, -1 where none can be told: fewer than SS_PROFILE_ENTRIES entries, or
 * fewer than 3 profiles before. */
double ss_profile_cosine(const struct ss_profile *profile, const struct ss_profile_now *now);
/* Takes it in; one that is unlike enters the past only when the one before it was unlike, too.
 * Returns whether two calls in a row were unlike, or a third of them for a while, as when two
 * packings take turns: to be voted. */
bool ss_profile_watch(struct ss_profile *profile, const struct ss_profile_now *now);

/* What GUARD has seen. */
struct ss_guarding {
    uint64_t checks;
    uint64_t before;        /* registered calls when one that could be looked at ended last */
    double cosine;          /* of the last result with the dense sum of the same inputs */
    double ratio;           /* largest over the ranks of norm of residual / norm of input then */
    bool far;               /* past the limits */
    enum ss_likeness doubt; /* what its calls look like, where a rule has made it lossy */
};

/* What error feedback has kept back (core/tensor/residual.h). */
struct ss_residual {
    struct ss_place *place; /* its and that of the tensor's buffers */
    struct ss_buf values;   /* n elements, finite; data NULL = none */
    double square;          /* squared norm after the tensor's last call, up to rounding */
    double norm;            /* last computed for a report */
};

/* How it came to be registered, or not (core/tensor/registration.c). */
struct ss_admission {
    unsigned refusals;   /* votes in a row in which a rank refused */
    bool ready;          /* what the last ballot said */
    uint64_t look_at;    /* refused: looked at again in that call of its own, */
    unsigned looks;      /* so many times so far */
    bool seen_by_others; /* SS_TENSOR_OTHERS: their evidence spoke against it, to be looked at again
                          */
    double moved; /* as in its watch when it was last decided on, where it was refused before */
    uint64_t decided_at; /* call of its own after which was first decided on it, 0 = not yet */
    enum ss_tensor_reason decided; /* then; SS_TENSOR_NONE: registered */
};

/* Where its calls stood (core/tensor/tensor.c). */
struct ss_call_history {
    struct ss_step_place place; /* of its last call */
    uint64_t confirmed;         /* calls in confirmed steps */
    uint64_t first_turn;        /* step of the cycle in which it was called first */
    uint64_t step_calls;        /* calls from that one on */
    uint64_t first_on_lane;     /* number of that call on its lane, from 1 */
    uint64_t last_on_lane;      /* and of its last */
    uint64_t last_call;         /* number of that call on the communicator, */
    uint64_t last_made;         /* and as the program counts (struct ss_tensor_call), */
    uint32_t last_period;       /* in a cycle of that period */
    uint64_t last_since;        /* found in that step */
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
    uint32_t ordinal;    /* SS_ORDINAL_LOST: calls out of step, always exact */
    uint32_t label;      /* 0 where it does not count */
    const void *address; /* NULL where it does not count */
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
    bool asked;     /* by that rule, which is not `auto`, or by the application: no gradient test */
    double density; /* as the application said for its buffer, 0: rule or job decide */

    struct ss_residual residual;
    struct ss_threshold threshold;
    struct ss_agreed agreed; /* oktopk: what all ranks share */
    struct ss_profile profile;
    struct ss_watch watch;
    unsigned in_flight;        /* 1 between begin and end */
    bool withdrawn;            /* by the application, from its next call with all ranks on */
    bool has_rounds;           /* partial calls of it are to come (core/quorum): not to be freed */
    uint64_t calls;            /* all */
    uint64_t registered_calls; /* that found it registered */
    uint64_t lossy_since;      /* call of its own whose result was the first lossy one, 0 = none */
    bool fresh;                /* the residual was made for the last ballot and is zero */

    struct ss_admission admission;
    struct ss_call_history history;
    struct ss_rest rest;
    struct ss_guarding guarding;
    struct ss_tensor_stats stats;
    struct ss_buf series; /* struct ss_series of the same calls, where settings ask for it */
    struct ss_tensor_told told;
};

struct ss_tensor_settings {
    enum ss_identity identity;
    uint64_t register_after;        /* calls */
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
/* What is voted of the last call, as for ss_steps_level. */
void ss_tensors_level(struct ss_tensors *tensors, double square, const uint8_t *parts,
                      uint8_t small);
/* Ranks have voted different labels for a call of the lane: labels of it do not count from the
 * ss_tensor_find of that number on; 0: from now on. */
void ss_tensors_join(struct ss_tensors *tensors, uint32_t lane, uint64_t from);
/* Ranks have seen different marks before a call, or one has overlapped with the last of its tensor
 * in a step of that period (core/tensor/steps.h): holds from that ss_tensor_find on, too. */
void ss_tensors_unmark(struct ss_tensors *tensors, unsigned marks, uint64_t from);
void ss_tensors_too_short(struct ss_tensors *tensors, uint32_t period, uint64_t from);
struct ss_tensor *ss_tensors_first(const struct ss_tensors *tensors); /* newest first, by `next` */
/* Against threads that look buffers up: the list, and `buffer` of each. */
void ss_tensors_lock(struct ss_tensors *tensors);
void ss_tensors_unlock(struct ss_tensors *tensors);

/* One call as identity sees it. */
struct ss_tensor_call {
    uint32_t lane;          /* number of the lane, as for ss_steps_next */
    uint64_t site;          /* hash of the call site, 0 = unknown */
    uint64_t path;          /* hash of its callers, 0 = unknown */
    const void *address;    /* receive buffer */
    struct ss_place *place; /* where it is; a tensor stays in its first one */
    bool overlaps; /* it is nonblocking: up to SS_MERGED calls before it may be under way */
    enum ss_type type;
    enum ss_op op;
    uint64_t n;
    const struct ss_rule_subject *subject; /* read when the tensor is new */
    unsigned marks;                        /* enum ss_step_mark */
    const struct ss_under_way *under_way;  /* NULL: nothing is known */
};

/* Where a call was found to stand. */
struct ss_tensor_found {
    struct ss_step_place place;
    uint64_t number; /* of the call among those that were looked for, from 1 */
    unsigned marks;  /* those of the call that count */
    bool overlaps;   /* the program has not seen the tensor's last call end: it is not one tensor,
                        and if a rank says so the call is exact on all, */
    bool waived;     /* but for REGISTER_AFTER=0, while no step is known */
    bool in_turn;    /* the place of neither was lost: where they overlap the step is longer, */
    bool at_once;    /* from the next call on, as all ranks see the same (marks count) */
};

/* The tensor of a call, made when new. NULL when memory is short. Valid until the next one on
 * `tensors`, or, after ss_tensor_begin, until ss_tensor_end. Locks `tensors` against
 * core/call/tensor_access.h. */
struct ss_tensor *ss_tensor_find(struct ss_tensors *tensors, const struct ss_tensor_call *call,
                                 struct ss_tensor_found *found);
/* Counts the call, once the one before it of the same tensor has ended. Here orphaned residuals go
 * to their successors, and an explicit rule with REGISTER_AFTER=0 registers at once. Locks, too.
 *
 * An orphan is a tensor with a residual and no operation in flight that was not called
 *  - for 3 steps, when a successor has replaced it: registered, same lane and ordinal, first called
 *    after the orphan's last call; or
 *  - for 64 calls of its lane and 3 periods of calls, when any registered tensor of its lane and
 *    label was called since, and is the only one that still comes, or the orphan is one of a stack
 *    of equal layers whose step is no longer remembered (core/tensor/steps.h), or one has replaced
 *    it that is a gradient but exact, for want of memory, for GUARD or for another rank, and sends
 *    it in dense calls: the one of the same ordinal, else the last called.
 * The residual is added to the successor's, one rounding per element, and the orphan has to be
 * registered again if it returns. */
void ss_tensor_take(struct ss_tensor *t, const struct ss_tensor_call *call,
                    const struct ss_tensor_found *found);

/* Registered, and its last call is known to be its own: this call is lossy where all ranks say so.
 */
bool ss_tensor_lossy(const struct ss_tensor *t);

/* Which tensor of its lane it is, but for the label and the address; equal on all ranks, else the
 * call is exact. */
uint64_t ss_tensor_code(const struct ss_tensor *t);

/* What this rank says of the tensor in the vote of this call; combine each by or. A rank that is
 * ready has made room for the residual, or has become exact for want of memory. */
struct ss_tensor_ballot {
    bool unregistered; /* not registered here: the call is exact on all ranks */
    bool registered;   /* registered here: others that are not make it undo */
    bool not_ready;    /* must not be registered in this call: still watched, or exact for good */
    bool not_gradient; /* ready, but does not look like a gradient here */
    bool refused;      /* exact for good here */
};
struct ss_tensor_ballot ss_tensor_ballot(struct ss_tensor *t);

/* Takes the combined ballot of the same call. All ready: registered on all ranks, or exact with the
 * reason on all. Refused by a rank in 8 votes in a row: exact here (a residual stays). */
void ss_tensor_vote(struct ss_tensor *t, const struct ss_tensor_ballot *combined);

/* Registers it, or makes it exact, without a vote: registered = false with a reason such as
 * SS_TENSOR_PROFILE, on all ranks in the same call; a residual stays with the tensor, for the
 * caller to send or a successor to take. registered = true makes the residual; false is returned,
 * and the state is exact, where memory is short. */
bool ss_tensor_settle(struct ss_tensor *t, bool registered, enum ss_tensor_reason reason);

/* The application has registered its buffer, or withdrawn it: decided on anew. */
void ss_tensor_readmit(struct ss_tensor *t);

/* Whether a tensor of its lane, itself or another, is registered, or a candidate that is still
 * called: to be voted, as the lane then must not skip calls. */
bool ss_tensor_lane_interest(const struct ss_tensor *t);

void ss_tensor_begin(struct ss_tensor *t);
void ss_tensor_end(struct ss_tensor *t);

/* Whether it was registered until evidence or GUARD spoke against it. */
bool ss_tensor_has_left(const struct ss_tensor *t);

/* Whether its next vote is to carry evidence: it is for `auto`, or REGISTER being empty nobody, to
 * decide on, and a candidate or registered, or has left and has a residual to give back. */
bool ss_tensor_watching(const struct ss_tensor *t);

/* Takes in what the vote says of the call, all = the combined evidence, agreed = all ranks remember
 * the same: after ss_tensor_vote. Whether the call fits: false = it must be exact on all ranks. A
 * registered tensor is exact from the next call on when two calls have spoken against it. */
bool ss_tensor_judge(struct ss_tensor *t, const struct ss_evidence *all, bool agreed, int size);

/* A rule that takes the tensor: its count, and its call site where tensors of that count are called
 * from several. Override: the one that would register an exact tensor all the same, "" where no
 * rule can. */
enum { SS_TENSOR_RULE = 192 }; /* room for either */
void ss_tensor_rule(const struct ss_tensor *t, char *text, size_t size);
void ss_tensor_override(const struct ss_tensor *t, char *text, size_t size);

/* What was refused on evidence: the call of its own from which on it is looked at again; else 0. */
uint64_t ss_tensor_look_at(const struct ss_tensor *t);

/* What helps where no rule does, in one sentence; NULL where a rule does, or nothing is to be
 * helped. */
const char *ss_tensor_remedy(enum ss_tensor_reason reason);

#endif
