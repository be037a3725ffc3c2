/* Implements folding to a power of two, the schedule of an exchange of all ranks, and equal parts.
 */
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

enum { OVER, GATHER, FOLD_IN, ROUNDS, FOLD_OUT, TAKE, SPREAD };
enum { TAG_FOLD_IN = 40, TAG_FOLD_OUT, TAG_GATHER, TAG_SPREAD };

/* ---- the tree of a host ---- */

/* Each rank has up to WIDTH - 1 children at distance 1, and, if its number on the host is a
 * multiple of WIDTH, of WIDTH^2, ..., as many at distance WIDTH, WIDTH^2, ... */
enum { WIDTH = 8 };

static int local_of(const struct ss_schedule *s)
{
    return s->layout ? s->layout->local[s->rank] : 0;
}

/* Returns the rank that has number `local` on this rank's host. */
static int on_host(const struct ss_schedule *s, int local)
{
    return s->layout->ranks[s->layout->first[s->layout->host[s->rank]] + local];
}

static int parent_of(const struct ss_schedule *s)
{
    const int local = local_of(s);
    int span = WIDTH;

    while (local % span == 0)
        span *= WIDTH;
    return on_host(s, local - local % span);
}

/* Returns a child of this rank, numbered from 0 in the order of distance; -1 if it has fewer. */
static int child_of(const struct ss_schedule *s, int number)
{
    const int local = local_of(s);
    int distance = 1;

    if (!s->layout)
        return -1;
    for (; number >= WIDTH - 1; number -= WIDTH - 1)
        distance *= WIDTH;
    const int child = local + (number + 1) * distance;
    const bool exists = local % (distance * WIDTH) == 0 &&
                        child < ss_layout_count(s->layout, s->layout->host[s->rank]);
    return exists ? on_host(s, child) : -1;
}

/* ---- the schedule ---- */

/* Returns the rank that takes part in recursive doubling under this number. */
static int among_roots(const struct ss_schedule *s, int number)
{
    return s->layout && number >= 0 ? s->layout->ranks[s->layout->first[number]] : number;
}

/* Leaves out the gather of a root that has no child left. */
static void pass_gather(struct ss_schedule *s)
{
    if (local_of(s) == 0 && child_of(s, s->child) < 0)
        s->stage = FOLD_IN;
}

struct ss_schedule ss_schedule_of(int rank, int size, const struct ss_layout *layout)
{
    const bool deep = ss_layout_is_deep(layout);
    struct ss_schedule s = {.layout = deep ? layout : NULL, .rank = rank, .stage = GATHER};

    s.fold = deep ? ss_fold_of(layout->host[rank], layout->hosts) : ss_fold_of(rank, size);
    pass_gather(&s);
    return s;
}

static void gather_now(const struct ss_schedule *s, struct ss_pair_exchange *m)
{
    m->round = TAG_GATHER;
    m->from = child_of(s, s->child);
    if (m->from < 0)
        m->to = parent_of(s);
}

bool ss_schedule_now(const struct ss_schedule *s, struct ss_pair_exchange *m)
{
    const struct ss_fold *f = &s->fold;
    const bool folded = f->position < 0;

    *m = (struct ss_pair_exchange){.to = -1, .from = -1};
    switch (s->stage) {
    case GATHER:
        gather_now(s, m);
        return true;
    case FOLD_IN:
        m->round = TAG_FOLD_IN;
        *(folded ? &m->to : &m->from) = among_roots(s, f->partner);
        return true;
    case ROUNDS:
        m->round = (unsigned)s->round;
        m->to = m->from = among_roots(s, ss_fold_peer(f, s->round));
        return true;
    case FOLD_OUT:
        m->round = TAG_FOLD_OUT;
        m->result = true;
        *(folded ? &m->from : &m->to) = among_roots(s, f->partner);
        return true;
    case TAKE:
        m->round = TAG_SPREAD;
        m->result = true;
        m->from = parent_of(s);
        return true;
    case SPREAD:
        m->round = TAG_SPREAD;
        m->to = child_of(s, s->child - 1);
        return true;
    default:
        return false;
    }
}

/* The largest subtree gets the result first. */
void ss_schedule_next(struct ss_schedule *s)
{
    switch (s->stage) {
    case GATHER:
        s->stage = child_of(s, s->child) < 0 ? TAKE : GATHER;
        s->child += s->stage == GATHER;
        pass_gather(s);
        break;
    case FOLD_IN:
        s->stage = s->fold.position < 0 || s->fold.pof2 == 1 ? FOLD_OUT : ROUNDS;
        break;
    case ROUNDS:
        s->stage = ++s->round == ss_fold_rounds(&s->fold) ? FOLD_OUT : ROUNDS;
        break;
    case SPREAD:
        s->child--;
        s->stage = s->child > 0 ? SPREAD : OVER;
        break;
    default:
        s->stage = s->stage != OVER && s->child > 0 ? SPREAD : OVER;
        break;
    }
}

uint64_t ss_part_first(uint64_t n, int size, int p)
{
    uint64_t blocks = (n + 15) / 16; /* n <= 2^30, so the product below fits */
    uint64_t first = blocks * (uint64_t)p / (uint64_t)size * 16;

    return first < n ? first : n;
}
