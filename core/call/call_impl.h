/* Inside of core/call. */
#ifndef CORE_CALL_CALL_IMPL_H
#define CORE_CALL_CALL_IMPL_H

#include <stddef.h>

#include "core/backend/backend_costs.h"
#include "core/call/call.h"
#include "core/feedback/feedback.h"

/* The next step of a call. */
enum ss_stage {
    SS_STAGE_WAIT,
    SS_STAGE_LOOK,
    SS_STAGE_DRIVEN, /* call->driver has the next step */
    SS_STAGE_DRAIN,
    SS_STAGE_COUNT,
    SS_STAGE_LEAVE,
    SS_STAGE_GIVEN_UP,
    SS_STAGE_OVER
};

/* The step of a call after the end of a driver's work. */
enum ss_then {
    SS_THEN_DECIDE, /* decide by the combined ballot */
    SS_THEN_VOTE,   /* vote again */
    SS_THEN_LOOK,   /* look at the input again, and vote again */
    SS_THEN_DRAIN,  /* wait for the result, then start the next step behind the collective */
    SS_THEN_END     /* the call is over */
};

/* Work of a call together with other ranks: a vote, a collective, a comparison. A call has one
 * driver at a time. A driver names no other driver and does not choose the one that follows. */
struct ss_driver {
    enum ss_then then;
    /* Starts the work. NULL: the first step does. */
    void (*start)(struct ss_call *call);
    /* Goes on with the work. Returns SS_PENDING, SS_OK at the end, or an error with x->failed
     * set. */
    int (*step)(struct ss_call *call);
    /* Returns the phase, and sets *peer if the call waits for a single rank. NULL: the phase of the
     * call's exchange. */
    enum ss_phase (*waiting_for)(const struct ss_call *call, int *peer);
    /* Cancels the messages in flight. x->failed says why. NULL: those of the call's exchange. */
    void (*cancel)(struct ss_call *call);
    /* Takes note that the call was decided on by the driver's ballot. May be NULL. */
    void (*decided)(struct ss_call *call);
    /* Returns true while the call waits for further calls of this rank, so that it is not in
     * flight. NULL: it never does. */
    bool (*is_open)(const struct ss_call *call);
};

/* A call among the calls in flight (core/call/in_flight.c). */
struct ss_flight {
    struct ss_feedback *f;      /* of the call */
    unsigned slot;              /* index in the communicator's slots; stays when a call starts */
    struct ss_call *next_open;  /* next older call that has not ended */
    struct ss_call *newer;      /* next newer call that has not ended */
    uint64_t index;             /* number of the start on the communicator, from 1 */
    size_t room;                /* most memory that the call may take, bytes */
    bool begun;                 /* the call has */
    bool alone;                 /* no call may start before this one has ended */
    bool overlapped;            /* another call was in flight meanwhile: the times tell little */
    uint32_t on_lane;           /* number on the lane, from 1 */
    uint32_t measured;          /* planned_call of the lane when the call began */
    struct ss_lane_result past; /* earlier result of the lane, by which the call goes */
};

/* A call as member of a group (core/call/group.h). */
struct ss_group_member {
    bool merges;            /* all ranks know that the call may enter a group */
    bool voting;            /* the call votes in a group */
    bool waits_for_none;    /* no call may wait for others on account of this one */
    bool plans;             /* the call agrees on a plan after its vote (core/call/group_plan.h) */
    uint32_t position;      /* position in the period */
    uint64_t part;          /* part of the calls that may merge */
    struct ss_group *group; /* NULL: none yet, or the call has left */
    unsigned index;         /* index in the group */
    double memory;          /* bytes that the plan counts for the call */
};

/* The look of a rank at its input before a vote (core/call/input.c). */
struct ss_look {
    struct ss_feedback *f;
    int at;                /* position in the sequence of looks */
    int status;            /* SS_OK, or the first failure */
    bool made_way;         /* other work space was freed for the call */
    bool sampled;          /* a sample found the input dense, no other element was looked at */
    double begin;          /* time */
    struct ss_scan second; /* second part of a scan */
    size_t observed;       /* elements of the sample that mode observe has taken, 0: none */
};

/* Steps of a call without movement. */
struct ss_wait {
    uint64_t moves; /* moves of the communicator when the call last waited */
    uint64_t polls; /* polls of the communicator when the call was last stepped */
    uint64_t steps; /* steps without movement until now, in a row */
    double since;   /* time near the first of these steps */
    double seconds; /* seconds since then, if the last step looked at the clock; else 0 */
};

struct ss_call {
    struct ss_feedback f;
    bool broken;          /* the input cannot be read */
    uint64_t number;      /* number for messages (struct ss_caller) */
    uint64_t failed_call; /* earlier call whose error this call returns, 0: none */
    struct ss_caller caller;
    struct ss_flight flight;
    struct ss_group_member member;
    struct ss_look look;
    struct ss_wait wait;

    enum ss_stage stage;
    const struct ss_driver *driver; /* of SS_STAGE_DRIVEN */
    bool revote;                    /* the next vote is not the call's first */
    bool decided; /* the ranks have decided on the call, by the vote or without one */
    bool limited; /* this rank votes "cannot" because of MAX_MEMORY */
    struct ss_plan plan;
    const struct ss_algorithm_def *algorithm; /* that runs */
    enum ss_reason reason;
    bool native;           /* handed to the MPI library, for `reason` */
    bool pieces;           /* all ranks know that the native call goes in pieces */
    bool fetching;         /* entries that stayed in their backend are on their way to the host */
    double stage_begin;    /* begin of the current stage */
    struct ss_scan result; /* scan of the own part, if the algorithm did not count */
    uint64_t not_finite;   /* that of the transport when the call started */
    unsigned exceptions;   /* ss_call_exceptions */
    bool partial;          /* the call is a round */
    bool between;          /* the call is with all ranks, and the tensor's next calls are rounds */

    /* Fields that are not cleared when a call starts. */
    struct ss_calibrate calibrate;
    _Alignas(max_align_t) unsigned char state[SS_COLL_STATE_MOST];
};

/* core/call/communicator.c: records a failure of call `number`. The first failure on a communicator
 * stays its status, which its votes tell. */
void ss_comm_fail(struct ss_comm *comm, int status, int peer, enum ss_phase phase, uint64_t number);

/* core/call/in_flight.c: puts a call that starts behind the calls under way. */
void ss_in_flight_enter(struct ss_call *call);
/* Finds the lane and the tensor of the call. Returns true when no earlier call of either is in the
 * way. Called again until then; after that the call may look at its input. */
bool ss_in_flight_may_begin(struct ss_flight *flight);
/* Record that the call begins; that the call has ended. */
void ss_in_flight_begin(struct ss_flight *flight);
void ss_in_flight_leave(struct ss_flight *flight);
/* Returns the number of calls under way, with a group counted as one: `from` and all calls before
 * it. */
unsigned ss_in_flight_count(const struct ss_call *from);
/* Returns true if the calls under way before it leave room for the call. */
bool ss_in_flight_may_go(const struct ss_flight *flight);
/* Returns true if the vote is over and the ranks have decided on all earlier calls of the lane. */
bool ss_in_flight_may_decide(const struct ss_flight *flight);
/* Adds the call's sparse result to the lane's results. */
void ss_in_flight_add_result(const struct ss_flight *flight);
/* Records that the lane's history tells to skip the next calls, from a call on that all ranks
 * know. */
void ss_in_flight_set_skip(const struct ss_flight *flight);
/* Books the seconds of a call for the lane's next plan, unless another plan was made since. */
void ss_in_flight_book_seconds(const struct ss_flight *flight, double seconds);
/* Return true if the call is to be skipped, as all ranks know when the call starts; when it is
 * decided on. */
bool ss_in_flight_starts_skipped(const struct ss_flight *flight);
bool ss_in_flight_is_skipped(const struct ss_flight *flight);
/* Sets *from to the first call that starts after all ranks know this call's finding. */
void ss_in_flight_set_from(const struct ss_flight *flight, uint64_t *from);
/* Returns true if a finding from call `from` on holds for the call. */
bool ss_in_flight_is_from(const struct ss_flight *flight, uint64_t from);
/* Returns the most bytes that any collective takes of the pool for own stream, receipts, merged and
 * sent data (struct ss_algorithm_def), whatever the ranks' inputs are, and for a residual. */
size_t ss_in_flight_most_memory(const struct ss_exchange *x);
/* Returns the bytes of idle work space in slots without a call. */
size_t ss_in_flight_idle(const struct ss_comm *comm);
/* Frees the idle work space. Returns true if there was any. */
bool ss_in_flight_drop_idle(struct ss_comm *comm);
/* For a call that no rank's memory serves: if the system has refused this rank memory, frees the
 * work space of the call and idle work space. */
void ss_in_flight_give_back(const struct ss_flight *flight);

/* core/call/ballot.c: fills the call's ballot after the look. */
void ss_ballot_fill(struct ss_call *call);
/* Returns true if the plan and the algorithms can rely on the combined ballot. */
bool ss_ballot_is_sound(const struct ss_feedback *f);
/* Returns true if a native call goes in pieces, by its own vote. Without a vote, decides as the
 * vote of the call that caused this did. */
bool ss_ballot_pieces(const struct ss_feedback *f, enum ss_reason reason);

/* core/call/shape.c: return the shape of the call for the plan: as a member of a group; alone. */
struct ss_shape ss_ballot_shape(const struct ss_feedback *f, const struct ss_group_member *member);
struct ss_shape ss_ballot_shape_alone(const struct ss_feedback *f);

/* core/call/decide.c: the course of a call after a vote. */
enum ss_next {
    SS_NEXT_ALGORITHM,  /* the call is ready for its first step */
    SS_NEXT_CALIBRATE,  /* calibrate, and vote again */
    SS_NEXT_HOST_SUM,   /* sum the inputs of the host, look at the sum, and vote again */
    SS_NEXT_LOOK_INPUT, /* look at the input again, and vote again */
    SS_NEXT_NATIVE,     /* hand the call to the MPI library for call->reason */
    SS_NEXT_FAIL,       /* fail, as x->failed tells */
    SS_NEXT_FAIL_AGAIN  /* fail as an earlier call of the communicator did */
};
/* Decides by the vote. */
enum ss_next ss_call_decide(struct ss_call *call);

/* core/call/decisions.c: notes lines for ss_comm_decision: a plan that changes the lane's
 * algorithm; a tensor that is admitted or refused, rests or wakes. */
void ss_log_plan(struct ss_call *call);
void ss_log_tensor(struct ss_feedback *f);

/* core/call/form.c: initializes a call, but for `flight.slot`. */
void ss_call_init(struct ss_call *call, struct ss_comm *comm, const struct ss_collective *what);
/* Returns true if the call has a tensor. Called once the lane is known. */
bool ss_kind_has_tensor(const struct ss_feedback *f);
uint64_t ss_kind_form(const struct ss_feedback *f); /* form of the call, for SS_SAME_FORM */
/* Returns the largest density of the ranks, after the vote. */
double ss_kind_density_max(const struct ss_feedback *f);
/* Prepares the algorithm before its first step. */
void ss_kind_prepare(struct ss_feedback *f);
/* Counts the entries of the result in the part that is scanned to `own`, if the algorithm has not
 * counted them. */
void ss_kind_count(struct ss_coll *c, struct ss_scan *own);
/* Returns the entries of the result once x->ticket is settled, 0 if they are unknown. */
uint64_t ss_kind_result(const struct ss_feedback *f, const struct ss_scan *own);

/* core/call/partial.c. The first four functions serve calls with all ranks: the flags of this rank
 * for the next calls, what all ranks must have in common, the begin and the end of the call. */
uint64_t ss_partial_flags(struct ss_feedback *f);
bool ss_partial_agreed(struct ss_feedback *f);
void ss_partial_begin_full(struct ss_feedback *f);
/* ran: as for ss_topk_end. */
void ss_partial_end_full(struct ss_feedback *f, enum ss_algorithm ran);
/* Returns true if the next call is partial, and counts it. Its driver is ss_round_driver. */
bool ss_partial_is_next(struct ss_feedback *f);
extern const struct ss_driver ss_round_driver;

/* core/call/observe.c: takes a sample of the input before the vote, in mode observe. */
void ss_observe_sample(struct ss_look *look);
/* Records after the plan the effect that top-k would have had on the sample, and chooses the lane's
 * next calls to look at. */
void ss_observe(struct ss_call *call);

/* core/call/input.c: looks at the input before the vote. Fills scan, own, part_max and further
 * parts of the vote. SS_LOOK_ALL: everything. SS_LOOK_INPUT: the input again, for example if a
 * tensor rested and must claim after all. SS_LOOK_EXTRAS: only the further parts. */
enum ss_look_from { SS_LOOK_ALL, SS_LOOK_INPUT, SS_LOOK_EXTRAS };
void ss_call_look_start(struct ss_look *look, enum ss_look_from from);
/* Goes on with the look. Returns SS_PENDING, SS_OK, SS_ERR_MEMORY or SS_ERR_DEVICE. */
int ss_call_look(struct ss_look *look);
/* Ends the look of a call that is given up, once its backend is done or has failed. Claims that
 * were under way have arrived, or are lost. */
void ss_call_look_over(struct ss_look *look, int status);
/* Returns the seconds of a selection per element, as the plan counts them. */
double ss_select_cost(const struct ss_feedback *f);

/* core/call/drivers.c: gives the next step to a driver and starts it. */
void ss_call_drive(struct ss_call *call, const struct ss_driver *driver);
/* Returns true if the driver has the next step. */
bool ss_call_is_driven_by(const struct ss_call *call, const struct ss_driver *driver);
extern const struct ss_driver ss_vote_driver, ss_calibrate_driver, ss_algorithm_driver;
extern const struct ss_driver ss_host_sum_driver;
extern const struct ss_driver ss_after_driver; /* of a step that ss_after_start has started */

/* core/call/phase.c: returns the phase of a call. Sets *peer, which may be NULL, to the rank that
 * the call waits for; -1: no single rank. */
enum ss_phase ss_call_phase(const struct ss_call *call, int *peer);
/* Returns true if the call waits only for its backend, whose work ends, well or badly. */
bool ss_stage_waits_on_this_rank(enum ss_stage stage);
/* Returns true if the backend still does the call's last work. The time is no
 * wait for other ranks. */
bool ss_call_backend_works(const struct ss_exchange *x);
/* Traces a wait: its peer, from the first step without movement, or the vector that the call clears
 * meanwhile. */
void ss_call_trace_wait(struct ss_call *call);

#endif
