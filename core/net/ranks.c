/* Implements folding to a power of two, the schedule of an agreement, and equal parts. */
#include "core/net/ranks.h"

struct ss_fold ss_fold_of(int rank, int size)
{
    struct ss_fold f = {.pof2 = 1, .partner = -1};

    while (f.pof2 <= size / 2)
        f.pof2 *= 2;
    f.rem = size - f.pof2;
    if (rank >= 2 * f.rem) {
        f.position = rank - f.rem;
    } else if (rank % 2 == 0) {
        f.position = -1;
        f.partner = rank + 1;
    } else {
        f.position = rank / 2;
        f.partner = rank - 1;
    }
    return f;
}

int ss_fold_rounds(const struct ss_fold *fold)
{
    int rounds = 0;

    for (int p = 1; p < fold->pof2; p *= 2)
        rounds++;
    return rounds;
}

int ss_fold_peer(const struct ss_fold *fold, int round)
{
    int position = fold->position ^ (1 << round);

    return position < fold->rem ? 2 * position + 1 : position + fold->rem;
}

enum { OVER, FOLD_IN, ROUNDS, FOLD_OUT };
enum { TAG_FOLD_IN = 40, TAG_FOLD_OUT = 41 };

struct ss_schedule ss_schedule_of(int rank, int size)
{
    return (struct ss_schedule){.fold = ss_fold_of(rank, size), .stage = FOLD_IN};
}

bool ss_schedule_now(const struct ss_schedule *s, struct ss_meeting *m)
{
    const struct ss_fold *f = &s->fold;
    bool folded = f->position < 0;

    *m = (struct ss_meeting){.to = -1, .from = -1};
    switch (s->stage) {
    case FOLD_IN:
        m->round = TAG_FOLD_IN;
        *(folded ? &m->to : &m->from) = f->partner;
        return true;
    case ROUNDS:
        m->round = (unsigned)s->round;
        m->to = m->from = ss_fold_peer(f, s->round);
        return true;
    case FOLD_OUT:
        m->round = TAG_FOLD_OUT;
        m->result = true;
        *(folded ? &m->from : &m->to) = f->partner;
        return true;
    default:
        return false;
    }
}

void ss_schedule_next(struct ss_schedule *s)
{
    if (s->stage == FOLD_IN)
        s->stage = s->fold.position < 0 || s->fold.pof2 == 1 ? FOLD_OUT : ROUNDS;
    else if (s->stage == FOLD_OUT)
        s->stage = OVER;
    else if (s->stage == ROUNDS && ++s->round == ss_fold_rounds(&s->fold))
        s->stage = FOLD_OUT;
}

uint64_t ss_part_first(uint64_t n, int size, int p)
{
    uint64_t blocks = (n + 15) / 16; /* n <= 2^30, so the product below fits */
    uint64_t first = blocks * (uint64_t)p / (uint64_t)size * 16;

    return first < n ? first : n;
}
