/* Names the tensor of a call (core/README.md, Identity).
 *
 * A tensor is a call signature (lane), a rule of REGISTER or a registered buffer (label), and a
 * position in the step (ordinal). The calls of a lane that one rule takes are a sequence. All ranks
 * count the same calls of a communicator in the same order. The vote of a call compares
 * ss_standing_code, and the call is lossy only if all ranks mean the same tensor.
 *
 *  - With calls=N the position is the number of the call modulo N.
 *  - Without it each receive buffer is a position that comes once in each step.
 * If neither shows the position, the call is exact. */
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
struct ss_sequences {
    struct ss_sequence *first;
    uint32_t buffers; /* labels of registered buffers, given so far */
};

/* The rule of REGISTER for a call. */
struct ss_sequence_rule {
    bool takes;      /* a rule takes the call */
    bool excluded;   /* by a rule of EXCLUDE */
    uint32_t calls;  /* calls=N of the rule, 0: not given */
    uint32_t number; /* of the rule, from 1; 0 unless it takes the call */
};

/* A call as identity sees it. */
struct ss_identity_call {
    struct ss_sequence_rule rule;
    uint32_t buffer;     /* number of the buffer that the program has registered, from 1; 0: none */
    const void *address; /* receive buffer */
    const void *from;    /* send buffer, the receive buffer if in place */
};

/* The place of a call in its sequence. */
struct ss_standing {
    uint32_t label; /* of its rule or registered buffer */
    uint32_t ordinal;
    bool known; /* the call is one of the tensor that label and ordinal name */
    bool tell;  /* many calls in a row had no position */
};

/* Counts a call of the lane and places it. Returns false if memory is short. */
bool ss_identity_place(struct ss_identity *identity, struct ss_sequences *lane,
                       const struct ss_identity_call *call, struct ss_standing *now);
void ss_sequences_free(struct ss_sequences *lane);

/* Returns a code for the vote: equal on all ranks that mean the same tensor, 0 if the tensor is not
 * known. */
static inline uint64_t ss_standing_code(const struct ss_standing *now)
{
    return now->known ? (uint64_t)now->label << 32 | (now->ordinal + 1) : 0;
}

#endif
