/* What small calls and the ends of calls tell of steps. */
#include <string.h>

#include "core/tensor/steps_impl.h"

enum {
    BARRED = 1024, /* calls for which a period that was too short is none */
    STRIKE = 6,    /* steps with the marks that make up for one with others */
    STRUCK = 2 * STRIKE
};

unsigned ss_steps_mark(struct ss_steps *s, unsigned marks)
{
    s->coming = (uint8_t)(marks & SS_STEP_MARKS & ~(unsigned)s->no_marks);
    return s->coming;
}

/* Whether marks tell places of the cycle apart: some have one always and others never. */
static bool are_told(const struct ss_steps *s, const struct ss_step_cycle *c)
{
    unsigned with = 0, without = 0;

    for (uint32_t q = 0; q < c->length; q++) {
        unsigned counts = SS_STEP_MARKS & ~(unsigned)(c->varies[q] | s->no_marks);
        with |= c->mark[q] & counts;
        without |= ~(unsigned)c->mark[q] & counts;
    }
    return (with & without) != 0;
}

/* Where marks tell nothing apart, at once. Else a call with others now and then is an interruption:
 * an evaluation behind the loss, before the next step. */
bool ss_step_mark_varies(struct ss_steps *s, struct ss_step_cycle *c, uint32_t position)
{
    if (c->told) {
        c->strikes[position] = (uint8_t)(c->strikes[position] + STRIKE);
        if (c->strikes[position] < STRUCK)
            return false;
    }
    c->strikes[position] = 0;
    c->varies[position] |= (uint8_t)ss_step_mark_off(s, c, position, 0);
    c->told = are_told(s, c);
    return true;
}

void ss_step_keep_marks(const struct ss_steps *s, struct ss_step_cycle *c, uint32_t start)
{
    uint32_t p = c->length;

    for (uint32_t q = 0; q < p; q++) {
        uint32_t calls = p - 1 - (start + q) % p;
        c->mark[q] = ss_step_mark_ago(s, calls);
        c->varies[q] = SS_STEP_MARKS;
        if (ss_step_occurrences(c, c->lane[q]) > 1 && calls + 2 * p < s->end)
            c->varies[q] = (uint8_t)((c->mark[q] ^ ss_step_mark_ago(s, calls + p)) |
                                     (c->mark[q] ^ ss_step_mark_ago(s, calls + 2 * p)));
    }
    c->told = are_told(s, c);
}

const uint16_t *ss_step_runs(const struct ss_steps *s)
{
    bool told = s->current > 0 && s->cycles[s->current - 1].told;

    return told || s->barred > 0 ? s->marked : s->run;
}

bool ss_step_allowed(const struct ss_steps *s, uint32_t p)
{
    return s->barred == 0 || p > s->too_short;
}

void ss_step_pass_marks(struct ss_steps *s)
{
    s->used = s->barred > 0;
    for (int i = 0; i < SS_STEP_CYCLES; i++)
        s->used = s->used || (s->cycles[i].length > 0 && s->cycles[i].told);
    if (s->barred > 0 && --s->barred == 0)
        s->too_short = 0;
}

unsigned ss_steps_marks(const struct ss_steps *s)
{
    return SS_STEP_MARKS & ~(unsigned)s->no_marks;
}

/* The cycles of ranks that saw different marks may stand in different places, unless no mark could
 * move any; then so do foreign calls, whose marks were carried on. */
void ss_steps_unmark(struct ss_steps *s, unsigned marks, bool at_once, uint32_t calls)
{
    if ((s->no_marks | marks) == s->no_marks)
        return;
    s->no_marks |= (uint8_t)(marks & SS_STEP_MARKS);
    if (!at_once || s->used) {
        ss_step_forget_all(s);
        memset(s->mark, 0, sizeof s->mark);
        s->carried = 0;
        s->ordinals = calls > s->ordinals ? calls : s->ordinals;
        s->step = calls > s->step ? calls : s->step;
        s->too_short = s->barred = 0;
        s->since_out = 0;
        s->doubted = 0;
        s->lost = false;
    }
    for (int i = 0; i < SS_STEP_CYCLES; i++)
        s->cycles[i].told = are_told(s, &s->cycles[i]);
    ss_step_recount(s);
}

void ss_steps_too_short(struct ss_steps *s, uint32_t period)
{
    uint32_t least = period > 0 ? period : 1;

    if (s->current > 0 && s->cycles[s->current - 1].length > least)
        return; /* found meanwhile */
    if (least > s->too_short)
        s->too_short = least;
    s->barred = BARRED;
    for (int i = 0; i < SS_STEP_CYCLES; i++)
        if (s->cycles[i].length <= s->too_short)
            s->cycles[i].length = 0;
    if (s->current > 0 && s->cycles[s->current - 1].length == 0) {
        s->current = 0;
        s->outs = 0;
    }
}
