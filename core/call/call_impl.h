/* Inside of core/call. */
#ifndef CORE_CALL_CALL_IMPL_H
#define CORE_CALL_CALL_IMPL_H

#include <stddef.h>

#include "core/call/call.h"
#include "core/feedback/feedback.h"
#include "core/place/place_costs.h"

/* What the next step of a call does. */
enum ss_stage {
    SS_STAGE_TURN,
    SS_STAGE_LOOK,
    SS_STAGE_GROUPED,
    SS_STAGE_VOTE,
    SS_STAGE_CALIBRATE,
    SS_STAGE_VOTE_AGAIN,
    SS_STAGE_MERGED,
    SS_STAGE_RECIPE,
    SS_STAGE_KEEP,
    SS_STAGE_GUARD,
    SS_STAGE_DRAIN,
    SS_STAGE_COUNT,
    SS_STAGE_LEAVE,
    SS_STAGE_ROUND,
    SS_STAGE_GIVEN_UP,
    SS_STAGE_OVER
};

struct ss_call {
    struct ss_feedback f;
    struct ss_lane_key key;
    struct ss_lane *lane; /* NULL until its turn has come */
    uint64_t reported_n;  /* elements and type as the lane's record has them */
    enum ss_type reported_type;
    bool cannot; /* the arguments are not served */
    bool broken; /* the input cannot be read */

    /* Beside others (core/call/beside.c). */
    struct ss_call *next_open; /* the one started before it, of those that have not ended, */
    struct ss_call *newer;     /* and the one after it */
    uint64_t index;            /* of its start on the communicator, from 1 */
    uint64_t number;           /* ss_comm_set_number, for messages alone */
    uint64_t failed_call;      /* number of the earlier call that it fails for, 0: none */
    uint64_t moves;            /* those of the communicator when it last waited */
    uint64_t polls;            /* and when it was stepped */
    size_t room;               /* most memory that it may take, bytes */
    bool passed;               /* its turn has come */
    bool alone;                /* none may start before it has ended */
    bool beside;               /* another was under way meanwhile: its times tell little */
    bool decided;              /* by the vote, or without one */
    bool off, environment, polled, callbacks; /* it votes so (ss_comm_set_off and the like) */
    uint32_t turn;                            /* on its lane, from 1 */
    uint32_t measured;                        /* planned_call of the lane when its turn came */
    struct ss_lane_result past;               /* of the lane, that it goes by */

    /* With others (core/call/group.h). */
    bool merges;       /* it may, as far as all ranks know */
    bool grouped;      /* its vote is, or was, that of a group */
    bool hurried;      /* none may wait for others on its account */
    bool plans;        /* it agrees on a plan, too (core/call/group_plan.h) */
    uint32_t position; /* in the period */
    uint64_t part;
    struct ss_group *group; /* NULL: none yet, or it has left */
    unsigned member;        /* of the group */
    double memory;          /* bytes that the plan counts for it */
    bool limited;           /* this rank votes "cannot" because of MAX_MEMORY */

    /* Before a vote: which look at the input is under way (core/call/input.c). */
    int look;
    int look_status;
    bool made_way; /* other work space has been freed on its account */
    double look_begin;
    struct ss_scan rest; /* the second part of a scan */
    bool fetching;       /* what has stayed in its place is on its way to the host */
    bool sampled;        /* the input was not looked at as a whole: dense */

    enum ss_stage stage;
    bool revote;          /* the vote to come is not the call's first */
    uint64_t idle_steps;  /* without movement, in a row until now */
    double waiting_since; /* about the first of them */
    double waited;        /* seconds since then, where the last step looked at the clock, else 0 */
    struct ss_plan plan;
    const struct ss_row *row; /* of what runs */
    enum ss_reason reason;
    bool native;           /* handed to the MPI library, for `reason`, */
    bool pieces;           /* in pieces, as all ranks know */
    double mark;           /* begin of the current stage */
    double aside;          /* seconds of the exchange for what is no part of it: GUARD */
    struct ss_scan result; /* of the own part, where the recipe did not count */
    uint64_t doubts;       /* of the transport when the call started */
    unsigned exceptions;   /* ss_call_exceptions */
    bool partial;          /* it is a round */
    bool between;          /* it is with all ranks, and the tensor's next calls are rounds */
    size_t observed;       /* elements of the sample that observe has taken, 0: none */

    /* Not cleared with the rest when a call starts. */
    unsigned slot; /* of the communicator */
    struct ss_calibrate calibrate;
    _Alignas(max_align_t) unsigned char state[SS_COLL_STATE];
};

/* core/call/beside.c. Enter: started, behind those under way. Turn: it may look at its input, after
 * its lane and its tensor are known; each is asked again until it is true. Leave: it has ended. */
void ss_beside_enter(struct ss_call *call);
bool ss_beside_lane_turn(struct ss_call *call);
bool ss_beside_tensor_turn(const struct ss_call *call);
void ss_beside_pass(struct ss_call *call);
void ss_beside_leave(struct ss_call *call);
/* How many are under way, those of a group as one: of these calls and all before them; and whether
 * there is room for one more behind those before it. */
unsigned ss_beside_count(const struct ss_call *from);
bool ss_beside_may_go(const struct ss_call *call);
/* Its vote is over, and earlier calls of the lane have been decided on. */
bool ss_beside_may_decide(const struct ss_call *call);
/* It has a sparse result. */
void ss_beside_add_result(struct ss_call *call);
/* The lane's history says from the call on that the next ones are to be skipped. The call is one of
 * these: as all ranks know when it starts; as they know when it is decided on. */
void ss_beside_set_skip(struct ss_call *call);
bool ss_beside_starts_skipped(const struct ss_call *call);
bool ss_beside_is_skipped(const struct ss_call *call);
/* What the call has found holds for all from which start on; whether it holds for the call. */
void ss_beside_set_from(const struct ss_call *call, uint64_t *from);
bool ss_beside_is_from(const struct ss_call *call, uint64_t from);
/* Returns the most that any collective takes of the pool, whatever the ranks' inputs are, and a
 * residual, bytes: own stream, receipts, merged and sent data (struct ss_row). */
size_t ss_beside_most_memory(const struct ss_call *call);
/* Work space that lies idle, in slots without a call: its bytes; frees it: whether there was any.
 */
size_t ss_beside_idle(const struct ss_comm *comm);
bool ss_beside_drop_idle(struct ss_comm *comm);
/* The call becomes the MPI library's: frees its work space and what is idle if the system has
 * refused this rank memory. */
void ss_beside_give_back(struct ss_call *call);

/* core/call/ballot.c: what a rank says in the vote; what the plan sees of what all said. */
void ss_ballot_fill(struct ss_call *call, uint64_t flags);
uint64_t ss_ballot_flags(struct ss_call *call, int status); /* status: of ss_call_look */
/* Whether what all ranks have said can have been meant: the plan and the recipes go by it. */
bool ss_ballot_is_sound(const struct ss_call *call);
/* Whether a native call goes in pieces: by its own vote; or without one, as that of the call has it
 * which sent it on. */
bool ss_ballot_pieces(const struct ss_call *call);
struct ss_shape ss_ballot_shape(const struct ss_call *call);
struct ss_shape ss_ballot_shape_alone(const struct ss_call *call); /* whoever goes with it */

/* core/call/decide.c: how a call goes on after a vote; `first`: its first one. */
enum ss_next {
    SS_NEXT_RECIPE,     /* it is ready for its first step */
    SS_NEXT_CALIBRATE,  /* and vote again */
    SS_NEXT_LOOK_INPUT, /* again, and vote again */
    SS_NEXT_NATIVE,     /* for call->reason */
    SS_NEXT_FAIL,       /* x->failed says how */
    SS_NEXT_FAIL_AGAIN  /* as an earlier call of the communicator did */
};
enum ss_next ss_call_decide(struct ss_call *call, bool first);

/* core/call/decisions.c: notes what ss_comm_decision is to tell: the plan, where the collective of
 * the lane changes; the tensor, where it is admitted, refused, rests or wakes. */
void ss_tell_plan(struct ss_call *call);
void ss_tell_tensor(struct ss_call *call);

/* core/call/form.c: a call that begins, of which `slot` stays, and what depends on the kind.
 * Recipe: before its first step. */
void ss_call_init(struct ss_call *call, struct ss_comm *comm, const struct ss_collective *what,
                  unsigned window);
bool ss_kind_has_tensor(const struct ss_call *call);    /* once its lane is known */
uint64_t ss_kind_form(const struct ss_call *call);      /* for SS_SAME_FORM */
double ss_kind_density_max(const struct ss_call *call); /* after the vote */
void ss_kind_recipe(struct ss_call *call);
/* Entries of the result, 0 = not known, once x->ticket is settled. */
void ss_kind_count(struct ss_call *call);
uint64_t ss_kind_result(const struct ss_call *call);

/* core/call/partial.c. Calls with all ranks: what this rank says of the next ones, what all have
 * said, and around the call itself. Then whether a call is partial, which counts it; its start, and
 * a step: SS_PENDING, SS_OK, or an error with x->failed set. */
uint64_t ss_partial_flags(struct ss_call *call);
void ss_partial_agreed(struct ss_call *call);
void ss_partial_begin_full(struct ss_call *call);
void ss_partial_end_full(struct ss_call *call, bool ended_well);
bool ss_partial_is_next(struct ss_call *call);
void ss_partial_start(struct ss_call *call);
int ss_partial_step(struct ss_call *call);

/* core/call/observe.c: in mode observe: before the vote, a sample of the input; after the plan,
 * what top-k would have done with it, into the record; and which calls of the lane are looked at
 * next.
 */
void ss_observe_sample(struct ss_call *call);
void ss_observe(struct ss_call *call);

/* core/call/end.c: seconds that the call took, for the plans of its lane: those of a sparse one, as
 * it ends; taken down. */
double ss_call_whole_seconds(const struct ss_call *call);
void ss_call_book_seconds(struct ss_call *call, double seconds);
/* The calibration is over: books its time and its bytes. */
void ss_call_calibrated(struct ss_call *call);

/* core/call/input.c: fills scan, own and part_max, and what the vote is to hear beside. All of it;
 * the input again, such as where a tensor rested and is to claim after all; or only what goes with
 * it. SS_PENDING, SS_OK, SS_ERR_MEMORY or SS_ERR_DEVICE. */
enum ss_look_from { SS_LOOK_ALL, SS_LOOK_INPUT, SS_LOOK_EXTRAS };
void ss_call_look_start(struct ss_call *call, enum ss_look_from from);
int ss_call_look(struct ss_call *call);
/* The call is given up, and the place is done, or has failed: claims that were on their way are
 * there, or lost. */
void ss_call_look_over(struct ss_call *call, int status);
double ss_select_cost(const struct ss_feedback *f); /* seconds per element, as the plan counts it */

/* core/call/phase.c: where a call is, and in *peer (may be NULL) whom it waits for, -1: nobody in
 * particular; whether nothing but its place is waited for: that ends, well or badly; whether its
 * place is still at what it was given last, whoever else is waited for: that is no time of theirs.
 */
enum ss_phase ss_call_phase(struct ss_call *call, int *peer);
bool ss_call_waits_for_place(const struct ss_call *call);
bool ss_call_place_works(const struct ss_call *call);
/* In its trace: whom it waits for, from the first step in which nothing moved on, or what it clears
 * meanwhile. */
void ss_call_trace_wait(struct ss_call *call);

#endif
