/* Groups of calls that vote and, if they can, exchange as one (MERGE; merged gradient
 * sparsification, Shi et al., INFOCOM 2020, section IV).
 *
 * The calls that may merge are cut into parts by facts that all ranks know. The first call of a
 * part and the order of the calls are thus the same on all ranks. Within a part, a rank casts a
 * group vote (core/vote/group_vote.h) for the calls that it has posted, in the name of the first
 * one. The ranks agree on as many calls as the rank with fewest has posted; the next vote begins
 * behind these. Each rank chooses the time of its vote alone, so that no choice can be wrong:
 *
 * - The part is complete, a later call waits for its calls, or the program waits for one of them.
 * - The vote of another rank has come, with no more calls than this rank has.
 * - No call was added for SS_GROUP_WAIT seconds. The program may be waiting for a message that
 *   another rank sends after this call. Without a thread that steps calls, no call may wait.
 *
 * Each call has its own ballot and is decided by that ballot alone, as without MERGE. A call that
 * is dense or not finite leaves the group. The calls that all ranks run by the same algorithm have
 * one exchange, over the concatenation of their streams. Each call keeps its own selection and
 * residual. Only algorithms whose result does not depend on n, element by element, take part, so
 * that no bit depends on the group.
 */
#ifndef CORE_CALL_GROUP_H
#define CORE_CALL_GROUP_H

#include "core/call/call_impl.h"

/* Creates the groups of a communicator. Returns NULL without memory. */
struct ss_grouping *ss_grouping_create(struct ss_comm *comm);
void ss_grouping_free(struct ss_grouping *gs);
/* Frees the work space of groups that have no calls. */
void ss_grouping_drop_idle(struct ss_grouping *gs);
/* Gives up the groups of calls that never end, when no call is under way any more. */
void ss_grouping_forget(struct ss_grouping *gs);

/* Returns true if a call may merge with others, as all ranks know. Called once the call's lane is
 * known. */
bool ss_group_may_merge(const struct ss_feedback *f);

/* Returns the bytes of a whole part as long as no plan holds. */
static inline uint64_t ss_group_bytes(const struct ss_comm *comm)
{
    uint64_t bytes = comm->settings->merge;

    return bytes == SS_MERGE_AUTO ? SS_MERGE_BYTES : bytes;
}

/* Makes a call with its number the next call of its part. A call that cannot merge ends the
 * part. */
void ss_group_assign(struct ss_group_member *member, const struct ss_feedback *f);

/* The group vote. Its end lets the call leave the group, or go on with the exchange of the group.
 */
extern const struct ss_driver ss_group_vote_driver;

#endif
