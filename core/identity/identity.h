/* Names the tensor of a call (core/README.md, Identity).
 *
 * A tensor is a call signature (lane), a rule of REGISTER or a registered buffer (rule code), and a
 * position in the step (ordinal): the two make its identity code. All ranks count the same calls of
 * a communicator in the same order. The vote of a call compares ss_identity_code, and the call is
 * lossy only if all ranks mean the same tensor.
 *
 *  - With calls=N the position is the number of the call modulo N.
 *  - Without it each receive buffer is a position that comes once in each step.
 * A buffer that the program has identified, with a position, is a tensor by that alone.
 * If nothing shows the position, the call is exact. */
#ifndef CORE_IDENTITY_IDENTITY_H
#define CORE_IDENTITY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SS_IDENTITY_TELLS = 32 /* calls in a row without a position: the user hears of it */ };

/* Of a communicator. */
struct ss_identity {
    bool by_rule;     /* calls=N alone counts, no buffer does */
    unsigned steps;   /* a position is known from that step on */
    const void *last; /* receive buffer of the last call that a rule without calls=N took */
};

/* Of a lane. Zero-initialise. */
struct ss_lane_rules {
    struct ss_lane_rule *first;
    uint32_t buffers; /* rule codes of registered buffers, given so far */
};

/* The rule of REGISTER for a call. */
struct ss_call_rule {
    bool takes;      /* a rule takes the call */
    bool excluded;   /* by a rule of EXCLUDE */
    uint32_t calls;  /* calls=N of the rule, 0: not given */
    uint32_t number; /* of the rule, from 1; 0 unless it takes the call */
};

/* A call as identity sees it. */
struct ss_identity_call {
    struct ss_call_rule rule;
    uint32_t buffer; /* number of the buffer that the program has registered, from 1; 0: none */
    bool identified; /* `buffer` is the position that the program has given, equal on all ranks */
    const void *address; /* receive buffer */
    const void *from;    /* send buffer, the receive buffer if in place */
};

/* The identity of a call. */
struct ss_call_identity {
    uint32_t rule_code; /* of its rule or registered buffer */
    uint32_t ordinal;
    bool known; /* the call is one of the tensor that rule_code and ordinal name */
    bool tell;  /* many calls in a row had no position */
};

/* Counts a call of the lane and finds its identity. Returns false if memory is short. */
bool ss_identity_find(struct ss_identity *identity, struct ss_lane_rules *lane,
                      const struct ss_identity_call *call, struct ss_call_identity *now);
void ss_lane_rules_free(struct ss_lane_rules *lane);

/* Returns a code for the vote: equal on all ranks that mean the same tensor, 0 if the tensor is not
 * known. */
static inline uint64_t ss_identity_code(const struct ss_call_identity *now)
{
    return now->known ? (uint64_t)now->rule_code << 32 | (now->ordinal + 1) : 0;
}

#endif
