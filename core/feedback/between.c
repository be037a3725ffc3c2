/* What stands between a call and the one before it: small calls, and whether the program has seen
 * all calls before it end. All ranks compare it in the vote. */
#include "core/feedback/feedback.h"

/* As this rank knows it. IN_TURN: the last call of the tensor, a step before, has not ended. */
enum { SMALL_CALLS = UINT8_MAX, AFTER_ALL = SMALL_CALLS + 1, IN_TURN = 2 * AFTER_ALL };

static unsigned marks_of(uint64_t between)
{
    unsigned marks = between & SMALL_CALLS ? SS_STEP_AFTER_SMALL : 0;

    return between & AFTER_ALL ? marks | SS_STEP_AFTER_ALL : marks;
}

/* Those in which ranks differ, as far as the vote shows it: of what stands behind the first bit
 * that differs nothing is known. */
static unsigned marks_unlike(const struct ss_ballot *all)
{
    uint64_t least = all->same_min[SS_SAME_BETWEEN], most = all->same_max[SS_SAME_BETWEEN];

    if ((least ^ most) & (IN_TURN | AFTER_ALL))
        return SS_STEP_AFTER_ALL;
    return marks_of(least) ^ marks_of(most);
}

unsigned ss_between_take(struct ss_feedback *f)
{
    struct ss_comm *comm = f->comm;
    uint64_t small = f->site.small - comm->small;

    f->between = small < SMALL_CALLS ? small : SMALL_CALLS;
    if (!ss_any_under_way(&f->site.under_way))
        f->between |= AFTER_ALL;
    comm->small = f->site.small;
    return marks_of(f->between);
}

void ss_between_keep(struct ss_feedback *f)
{
    if (!(f->found.marks & SS_STEP_AFTER_ALL))
        f->between &= SMALL_CALLS;
    if (f->found.in_turn)
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
    if ((all->same_max[SS_SAME_BETWEEN] & IN_TURN) && (unlike != 0 || !f->found.at_once))
        ss_tensors_too_short(ts, f->found.place.period, from);
    return (flags & SS_VOTE_OVERLAPS) && !f->found.waived;
}
