/* Lane numbers that are reused, and labels that stop counting. */
#include <string.h>

#include "core/tensor/steps_impl.h"

enum {
    LABELLED = 64, /* calls looked at */
    LEAST_MOVES = 4
};

static void forget_cycles(struct ss_steps *s, uint32_t lane)
{
    for (int i = 0; i < SS_STEP_CYCLES; i++) {
        struct ss_step_cycle *c = &s->cycles[i];
        uint32_t q = 0;
        while (q < c->length && ss_step_number(c->lane[q]) != lane)
            q++;
        if (q == c->length)
            continue;
        c->length = 0;
        if (s->current == i + 1) {
            s->current = 0;
            s->outs = 0;
        }
    }
}

static void forget_runs(struct ss_steps *s)
{
    memset(s->run, 0, sizeof s->run);
    memset(s->plain, 0, sizeof s->plain);
    memset(s->marked, 0, sizeof s->marked);
}

void ss_steps_forget(struct ss_steps *s, uint32_t lane)
{
    forget_cycles(s, lane);
    for (uint32_t i = 0; i < s->end; i++)
        if (ss_step_number(s->history[i]) == lane) {
            s->history[i] = SS_STEP_LAST_LANE;
            forget_runs(s);
        }
}

void ss_steps_join(struct ss_steps *s, uint32_t lane)
{
    forget_cycles(s, lane);
    for (uint32_t i = 0; i < s->end; i++)
        if (ss_step_number(s->history[i]) == lane)
            s->history[i] = lane;
    ss_step_recount(s);
}

/* ---- labels without a pattern ---- */

/* What is known of the labels that calls of one lane had, the last first. */
struct labelling {
    uint32_t label[LABELLED];
    uint32_t calls, kinds;    /* labels in it, different ones */
    uint32_t moves, regular;  /* changes; those as many calls from the last as that from its last */
    uint32_t last_move, room; /* call of the last change, and that distance */
};

/* The period without labels, where it has held for three times, 16 calls at least; 0 = none. */
static uint32_t plain_period(const struct ss_steps *s)
{
    for (uint32_t p = 1; p <= SS_STEP_LONGEST && 3 * p <= s->end; p++)
        if (s->plain[p] >= 2 * p && s->plain[p] + p >= SS_STEADY)
            return p;
    return 0;
}

/* Labels may yet turn out to repeat: a longer period has been seen nearly twice. */
static bool may_repeat(const struct ss_steps *s, uint32_t p)
{
    for (uint32_t q = 2 * p; q <= SS_STEP_LONGEST && q < s->end; q += p)
        if (s->run[q] >= q && s->run[q] >= 6)
            return true;
    return false;
}

static void enter(struct labelling *l, uint32_t label)
{
    bool known = false;

    for (uint32_t i = 0; i < l->calls; i++)
        known = known || l->label[i] == label;
    l->kinds += !known;
    if (l->calls > 0 && l->label[l->calls - 1] != label) {
        uint32_t room = l->calls - l->last_move;
        l->regular += l->moves > 1 && room == l->room;
        l->moves++;
        l->room = room;
        l->last_move = l->calls;
    }
    l->label[l->calls++] = label;
}

/* Of the calls of the lane in the stretch in which the plain period has held. */
static struct labelling labels_of(const struct ss_steps *s, uint32_t lane, uint32_t p)
{
    struct labelling l = {.calls = 0};
    uint32_t held = s->plain[p] + p < s->end ? s->plain[p] + p : s->end;

    for (uint32_t i = 0; i < held && l.calls < LABELLED; i++)
        if (ss_step_number(ss_step_ago(s, i)) == lane)
            enter(&l, ss_step_ago(s, i) >> 16);
    return l;
}

/* Each of the labels may come once in every so many calls, in whatever order: calls of as many
 * tensors. */
static bool may_be_a_set(const struct labelling *l)
{
    for (uint32_t first = 0; first < l->kinds; first++) {
        uint32_t i = first, from = first;
        bool fits = true;
        for (; i < l->calls && fits; i++) {
            from = i - from == l->kinds ? i : from;
            for (uint32_t j = from; j < i; j++)
                fits = fits && l->label[j] != l->label[i];
        }
        if (fits)
            return true;
    }
    return false;
}

bool ss_steps_irregular(const struct ss_steps *s, uint32_t lane)
{
    const struct ss_step_cycle *c = s->current > 0 ? &s->cycles[s->current - 1] : NULL;
    uint32_t p;

    if (!s->labelled || (c && (c->any_order || s->since_out >= SS_STEADY)))
        return false;
    if ((p = plain_period(s)) == 0 || may_repeat(s, p))
        return false;
    struct labelling l = labels_of(s, lane, p);
    return l.kinds > 1 && l.moves >= LEAST_MOVES && l.regular + 2 < l.moves && !may_be_a_set(&l) &&
           ss_step_labels_even(s, p);
}
