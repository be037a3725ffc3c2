/* Calls that vote, and where they can exchange, as one (MERGE; merged gradient sparsification, Shi
 * et al., INFOCOM 2020, section IV).
 *
 * The calls that may go together are cut into parts by what all ranks know of each: the first of a
 * part is the same everywhere, and so is the order. Within a part a rank votes for what it has
 * posted when it does, by a joint vote (core/vote/joint.h) in the name of the first call; what is
 * agreed on is as many as the rank with fewest has, and the next vote begins behind these. When a
 * rank votes is its own matter, so that no choice of the moment can be wrong:
 *
 * - the part is complete, a later call is waiting for these, or the program waits for one of them;
 * - the vote of another rank has come, which has not more of them;
 * - nothing was added for SS_GROUP_HOLD seconds. The program may be waiting for a message that
 *   another sends after this call: without a thread that steps calls meanwhile none may be held.
 *
 * Each call has its own ballot, and is decided on by that alone, as without MERGE: one that is
 * dense or not finite leaves the others. Those that all ranks decided to run by the same collective
 * have one exchange, over the concatenation of their streams; their selections and residuals stay
 * their own. Only collectives whose result is, element by element, the same for any n take part, so
 * that no bit depends on who goes with whom. */
#ifndef CORE_CALL_GROUP_H
#define CORE_CALL_GROUP_H

#include "core/call/call_impl.h"

/* Of struct ss_comm; NULL without memory. */
struct ss_grouping *ss_grouping_create(struct ss_comm *comm);
void ss_grouping_free(struct ss_grouping *gs);
/* Frees the work space of groups that have no calls. */
void ss_grouping_drop_idle(struct ss_grouping *gs);
/* No call is under way any more: groups of those that have not ended are given up. */
void ss_grouping_forget(struct ss_grouping *gs);

/* Its lane being known: whether it may go with others, as far as all ranks know. */
bool ss_group_may_merge(const struct ss_call *call);

uint64_t ss_group_bytes(const struct ss_comm *comm); /* of a whole part */

/* The call has got its number: the next of its part, or none that could merge. */
void ss_group_assign(struct ss_call *call);

/* It has been selected from. */
void ss_group_posted(struct ss_call *call);
/* Its ballot is filled: SS_PENDING; SS_OK: the combined one is there and it is to be decided on
 * next; or an error, with x->failed set: it has left. */
int ss_group_vote(struct ss_call *call);
/* It has been decided on: it leaves, or waits for the exchange (SS_STAGE_MERGED). */
void ss_group_decided(struct ss_call *call);
/* SS_PENDING; SS_OK: its result is written, and it has left; or an error as above. */
int ss_group_exchange(struct ss_call *call);

/* What the calls of its group have under way is given up, for all of them. */
void ss_group_abandon(struct ss_call *call, int status, int peer, enum ss_phase phase);

/* Whether it is under way, or its group: not while it waits for others. */
bool ss_group_counts(const struct ss_call *call);
/* In SS_STAGE_GROUPED: nothing is under way that could be missed, others are to join. */
bool ss_group_is_open(const struct ss_call *call);
enum ss_phase ss_group_phase(const struct ss_call *call, int *peer);

#endif
