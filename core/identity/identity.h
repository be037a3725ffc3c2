/* Names the tensor of a call (core/README.md, Identity).
 *
 * A tensor is a call signature (lane), a call site where all ranks see it alike, and an ordinal:
 * the number of the call in its sequence, modulo the period of the sequence. The sequence of a call
 * has all calls of its lane that one rule of REGISTER takes, at one site or at all sites, however
 * they were served. Each call is compared with the rules. The period is `calls=N` of the rule; a
 * rule that names no site counts the calls of all sites together; so does a rule that names one,
 * with the calls that it takes, once sites do not count. Without `calls=N` the period is the longer
 * of these, since too long a period only separates, too short a one mixes:
 *
 *  - the distance between marks, once two steps in a row had it. A mark is one small allreduce or
 *    several between two calls of the sequence. Marks with other distances three times in a row, or
 *    none for three steps, are not regular any more, nor are those farther apart than
 *    SS_MARKS_APART calls;
 *  - the period with which the receive addresses have returned for two periods in a row, as this
 *    rank sees them. An address that does not return ends the period.
 *
 * Buffers in turn may serve all layers: if the period of addresses is longer and no multiple of the
 * distance of marks, the joint period of both counts. While addresses seem to return with a longer
 * period, calls wait for it. Addresses win over longer distances of marks which their period
 * divides if the send buffers return with them. A buffer that all calls use in place does not win:
 * it may be a scratch buffer of several layers. Before the first mark such layers are one tensor;
 * layers that show their send buffers wait for it.
 *
 * With regular marks the ordinal is the place behind the last mark; a call that comes after the
 * last place is of no tensor. With `calls=N` marks count only if their distance is a multiple of N,
 * and the places go on from the numbers of the calls before.
 * A step that was shorter than the regular distance makes the next one exact. If the buffer of a
 * place changes after all places kept theirs for three steps, this call and all behind it up to the
 * next mark are exact. Without `calls=N` the same holds if a call has the buffer that a later place
 * had in the step before; marks then are regular again after two steps in the same order.
 *
 * The ranks exchange nothing here. All ranks count the same calls of a communicator in the same
 * order. Sites, addresses and marks may differ between ranks; they go into the label and into
 * ss_standing_code, which the vote of the call compares. The call is lossy only if all ranks mean
 * the same tensor.
 */
#ifndef CORE_IDENTITY_IDENTITY_H
#define CORE_IDENTITY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SS_IDENTITY_LONGEST = 512, /* calls of the longest period that addresses show */
    SS_MARK_COUNT = 8,         /* elements of a mark, at most */
    SS_MARKS_APART = 64,       /* calls between two marks, at most */
    SS_IDENTITY_SITES = 256,   /* call sites of a lane; with more they do not count */
    SS_IDENTITY_TELLS = 32,    /* calls in a row without a period, and the user hears of calls= */
};

struct ss_identity; /* of a communicator */

/* The calls of a lane that one rule takes, at one site or at all. */
struct ss_sequence;

/* The rule of REGISTER for a call. */
struct ss_sequence_rule {
    bool takes;      /* a rule takes the call: its period is looked for */
    bool excluded;   /* by a rule of EXCLUDE */
    bool of_site;    /* the rule names a site: N calls of each site, else of the lane */
    uint32_t calls;  /* calls=N of the rule, 0: not given */
    uint32_t number; /* of the rule, from 1; 0 unless it takes the call */
};

/* A call as identity sees it. */
struct ss_identity_call {
    struct ss_sequence_rule rule;
    uint32_t lane;
    uint64_t site;       /* hash of the call site and its callers, 0: unknown */
    uint32_t buffer;     /* number of the buffer that the program has registered, from 1; 0: none */
    const void *address; /* receive buffer */
    const void *from;    /* send buffer, the receive buffer if in place */
    uint64_t marks;      /* small allreduces on the communicator so far */
};

/* The place of a call in its sequence. */
struct ss_standing {
    uint32_t label; /* of its site or rule; equal on ranks that mean the same one */
    uint32_t ordinal;
    uint32_t period; /* calls per step, 0: unknown */
    uint64_t number; /* of the call in its sequence */
    bool known;      /* the call is one of the tensor that label and ordinal name */
    bool tell;       /* set once, after many calls without a period: log a hint at calls= */
};

struct ss_identity_way {
    bool by_rule;   /* calls= alone gives a period: sites, buffers and marks do not count */
    unsigned steps; /* steps before calls= counts: by then regular marks are known */
};

/* NULL if memory is short. */
struct ss_identity *ss_identity_create(const struct ss_identity_way *how);
void ss_identity_free(struct ss_identity *identity);

/* Counts one call of the communicator and returns its sequence; NULL if memory is short. */
struct ss_sequence *ss_identity_next(struct ss_identity *identity,
                                     const struct ss_identity_call *call);

/* Takes the call into its sequence. */
struct ss_standing ss_sequence_count(struct ss_sequence *sequence,
                                     const struct ss_identity_call *call);

/* Returns a code for the vote: equal on all ranks that mean the same tensor, 0 if the tensor is not
 * known. The vote compares labels separately. */
uint64_t ss_standing_code(const struct ss_standing *standing);

/* Takes the outcome of the vote on a call of the lane. If the labels differ between the ranks,
 * sites do not count on this lane any more. If the codes differ and none is 0, eight times in a
 * row, marks do not count on it. */
void ss_identity_vote(struct ss_identity *identity, uint32_t lane, bool same_label,
                      bool same_tensor, bool all_known);

/* Forgets the lane; its number may then go to another lane. */
void ss_identity_forget(struct ss_identity *identity, uint32_t lane);

#endif
