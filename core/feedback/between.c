/* What stands between a call and the one before it: small calls, and whether the program has seen
 * all calls before it end. All ranks compare it in the vote. */
#include "core/feedback/feedback.h"

/* What stands between the call and the one before it, as this rank knows it. */
enum { SMALL_CALLS = UINT8_MAX, AFTER_ALL = SMALL_CALLS + 1 };

static unsigned marks_of(uint64_t between)
{
    unsigned marks = between & SMALL_CALLS ? SS_STEP_AFTER_SMALL : 0;

    return between & AFTER_ALL ? marks | SS_STEP_AFTER_ALL : marks;
}

/* Those in which ranks differ, as far as the vote shows it. */
static unsigned marks_unlike(const struct ss_ballot *all)
{
    uint64_t least = all->same_min[SS_SAME_BETWEEN], most = all->same_max[SS_SAME_BETWEEN];

    unsigned unlike = marks_of(least) ^ marks_of(most);

    return unlike & SS_STEP_AFTER_ALL ? SS_STEP_AFTER_ALL : unlike; /* else of different ranks */
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
}

/* The call and the last of its tensor are a step apart: its place was not just lost. */
static bool is_in_turn(const struct ss_tensor_found *found)
{
    const struct ss_step_place *place = &found->place;

    if (place->sync == SS_STEP_UNKNOWN)
        return true;
    return place->sync == SS_STEP_IN && found->apart == place->period;
}

void ss_between_vote(struct ss_feedback *f, uint64_t flags)
{
    const struct ss_ballot *all = &f->vote.ballot;
    struct ss_tensors *ts = f->comm->tensors;
    uint64_t from = f->nonblocking ? f->found.number + f->comm->window : 0;
    bool same = ss_ballot_same(all, SS_SAME_BETWEEN);
    uint64_t small = all->same_min[SS_SAME_BETWEEN] & SMALL_CALLS;

    ss_tensors_level(ts, ss_bits_double(all->norm_max), all->parts, same ? (uint8_t)small : 0);
    if (!ss_ballot_same(all, SS_SAME_LABEL))
        ss_tensors_join(ts, f->lane_number, from);
    if (marks_unlike(all) != 0)
        ss_tensors_unmark(ts, marks_unlike(all), from);
    if ((flags & SS_VOTE_OVERLAPS) && is_in_turn(&f->found))
        ss_tensors_too_short(ts, f->found.place.period, from);
}
