/* Inside of core/identity. */
#ifndef CORE_IDENTITY_IDENTITY_IMPL_H
#define CORE_IDENTITY_IDENTITY_IMPL_H

#include "core/identity/identity.h"

/* Steps between marks. */
struct ss_marking {
    uint64_t marks;    /* of the communicator at the last call */
    uint32_t since;    /* calls behind the last mark */
    uint32_t distance; /* of the last two marks, 0: fewer have been seen */
    uint32_t same;     /* steps in a row that had it */
    uint32_t step;     /* the regular distance, 0: none */
    uint32_t strikes;  /* steps in a row with another */
    uint64_t ended;    /* steps seen as a whole */
    bool begun;        /* a call has come */
    bool seen;         /* a mark */
    bool came;         /* a mark behind the first call */
    bool strayed;      /* a call behind the last mark had another buffer than its place */
    bool disordered;   /* it had that of a later place */
    bool cut;          /* the last step was shorter than the regular distance */
    bool apart;        /* a step was longer than SS_MARKS_APART calls */
    uint64_t kept;     /* calls in a row that had the buffer of their place */
    const void *seats[SS_MARKS_APART]; /* the receive buffer of each place between marks */
};

/* Periods of receive addresses. */
struct ss_returns {
    struct ss_return {
        const void *address;
        const void *from; /* send buffer */
        uint32_t ordinal; /* that the call had, + 1; 0: none */
    } * last;             /* ring of SS_IDENTITY_LONGEST, NULL: not made yet */
    uint64_t count;       /* calls taken in */
    uint32_t period;      /* at which the last `run` addresses have returned, 0: none */
    uint64_t run;
    uint64_t breaks; /* runs that have ended */
    uint32_t former; /* the last period that held for long, 0: another one is known by now */
    uint64_t ended;  /* number of the call that ended it */
    uint64_t base;   /* number of a call with the ordinal 0 */
    uint64_t whole;  /* returns in a row that show one tensor (core/identity/returns.c) */
    bool known;
    bool won; /* addresses decide, not marks */
};

struct ss_sequence {
    struct ss_identity_lane *lane;
    uint64_t key; /* of the site, the buffer or the rule */
    uint32_t label;
    uint32_t calls;   /* of the rule, 0: none */
    bool taken;       /* by a rule */
    bool told;        /* struct ss_standing.tell was set */
    uint32_t unknown; /* calls in a row without a known place */
    uint64_t count;   /* of a rule: all its calls, those counted at their sites included */
    bool was_marked;  /* marks have placed a call of a rule with calls=N, */
    uint64_t at_mark; /* and the mark before it came at this number */
    struct ss_marking marking;
    struct ss_returns returns;
    struct ss_sequence *next;
};

struct ss_identity_lane {
    struct ss_identity *identity;
    /* The newest first. */
    struct ss_sequence *sites, *rules, *named;
    uint32_t labels;  /* of sites, given so far */
    uint32_t buffers; /* labels of registered buffers, given so far */
    uint32_t unlike;  /* calls in a row with differing codes */
    bool joined;      /* sites do not count */
    bool unmarked;    /* marks do not count */
};

struct ss_identity {
    struct ss_identity_way how;
    struct ss_identity_lane **lanes; /* NULL where there is none */
    size_t lane_count;
};

/* core/identity/marks.c: takes in one call. Returns the distance of regular marks, or 0; *place is
 * the number of calls between the last mark and this call. */
uint32_t ss_marking_next(struct ss_marking *m, uint64_t marks, uint32_t *place);
/* Returns false if a call, or one before it in its step, has another buffer than its place, after
 * all places kept theirs for three steps. If `ordered` is set, returns false also if it has the
 * buffer that a later place had in the step before. */
bool ss_marking_fits(struct ss_marking *m, uint32_t place, const void *address, bool ordered);
/* Returns true while a first mark may come. */
bool ss_marking_may_begin(const struct ss_marking *m);
/* Returns true while the first marks may still turn out to be regular. */
bool ss_marking_is_open(const struct ss_marking *m);

/* core/identity/returns.c: takes in the address of call `number`; returns the period and sets the
 * ordinal of the call. Returns 0 if there is no period or memory is short. */
uint32_t ss_returns_next(struct ss_returns *r, const struct ss_identity_call *call, uint64_t number,
                         uint32_t *ordinal);
/* Returns true if each address of the period is one tensor's. */
bool ss_returns_tell(const struct ss_returns *r);
/* Records the ordinal that the call got from marks, calls= or addresses, so that its address keeps
 * that ordinal in a later period. */
void ss_returns_keep(struct ss_returns *r, const struct ss_standing *now);
/* Returns true while the period may turn out to be longer than `step`: it seems so and the returns
 * have not broken off twice, or it was a multiple of `step` until SS_MARKS_APART calls ago. */
bool ss_returns_may_exceed(const struct ss_returns *r, uint32_t step);
void ss_returns_free(struct ss_returns *r);

#endif
