/* What stands between a call and the one before it: small calls, and whether the program has seen
 * all calls before it end. All ranks compare it in the vote. */
#include "core/feedback/feedback.h"

/* As this rank knows it, the weightier first: the vote shows the first bit in which ranks differ.
 * IN_TURN: the last call of the tensor, a step before, has not ended. */
enum { SMALL_CALLS = UINT8_MAX, IN_TURN = 1 << 8, AFTER_ALL = 1 << 9, AFTER_SMALL = 1 << 10 };

/* Those in which ranks differ, as far as the vote shows it. */
static unsigned marks_unlike(const struct ss_ballot *all)
{
    uint64_t unlike = all->same_min[SS_SAME_BETWEEN] ^ all->same_max[SS_SAME_BETWEEN];

    if (unlike & AFTER_SMALL)
        return SS_STEP_AFTER_SMALL;
    return unlike & (AFTER_ALL | IN_TURN) ? SS_STEP_AFTER_ALL : 0;
}

/* When a program that tests for ends sees one depends on time, which must not enter. */
const struct ss_under_way *ss_between_under_way(const struct ss_feedback *f)
{
    return ss_costs_fixed(f->comm->settings) ? NULL : &f->site.under_way;
}

unsigned ss_between_take(struct ss_feedback *f)
{
    const struct ss_under_way *under_way = ss_between_under_way(f);
    struct ss_comm *comm = f->comm;
    uint64_t small = f->site.small - comm->small;
    unsigned marks = small > 0 ? SS_STEP_AFTER_SMALL : 0;

    f->between = small < SMALL_CALLS ? small : SMALL_CALLS;
    comm->small = f->site.small;
    return !under_way || ss_any_under_way(under_way) ? marks : marks | SS_STEP_AFTER_ALL;
}

void ss_between_keep(struct ss_feedback *f)
{
    const struct ss_tensor_found *found = &f->found;

    if (found->marks & SS_STEP_AFTER_SMALL)
        f->between |= AFTER_SMALL;
    if (found->marks & SS_STEP_AFTER_ALL)
        f->between |= AFTER_ALL;
    if (found->overlaps && found->in_turn && found->at_once)
        f->between |= IN_TURN;
}

bool ss_between_vote(struct ss_feedback *f, uint64_t flags)
{
    const struct ss_ballot *all = &f->vote.ballot;
    struct ss_tensors *ts = f->comm->tensors;
    uint64_t from = f->nonblocking ? f->found.number + SS_MERGED : 0; /* MERGE or not */
    bool same = ss_ballot_same(all, SS_SAME_BETWEEN);
    uint64_t small = all->same_min[SS_SAME_BETWEEN] & SMALL_CALLS;
    unsigned unlike = marks_unlike(all);

    ss_tensors_level(ts, ss_bits_double(all->norm_max), all->parts, same ? (uint8_t)small : 0);
    if (!ss_ballot_same(all, SS_SAME_LABEL))
        ss_tensors_join(ts, f->lane_number, from);
    if (unlike != 0)
        ss_tensors_unmark(ts, unlike, from);
    if ((flags & SS_VOTE_OVERLAPS) && f->found.in_turn && (unlike != 0 || !f->found.at_once))
        ss_tensors_too_short(ts, f->found.place.period, from);
    return (flags & SS_VOTE_OVERLAPS) && !f->found.waived;
}
