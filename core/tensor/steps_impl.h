/* Inside of core/tensor/steps.c, core/tensor/step_periods.c, core/tensor/step_levels.c,
 * core/tensor/step_labels.c and core/tensor/step_marks.c. */
#ifndef CORE_TENSOR_STEPS_IMPL_H
#define CORE_TENSOR_STEPS_IMPL_H

#include "core/tensor/steps.h"

enum {
    SS_STEADY = 16,    /* calls in their place before a step is trusted, where levels do not tell */
    SS_EVEN = 6,       /* where they show that it is one gradient */
    SS_PATIENCE = 128, /* calls a period that explains less must hold at most */
    SS_FEW_WEIGHTS = 6 /* steps between calls from elsewhere with the counts of the step */
};

/* Of a lane, without its label. */
static inline uint32_t ss_step_number(uint32_t lane)
{
    return lane & 0xffff;
}

/* The lane of the call so many calls ago, 0 = the last. */
static inline uint32_t ss_step_ago(const struct ss_steps *s, uint32_t calls)
{
    return s->history[s->end - 1 - calls];
}

/* Counts the runs that the last call goes on with; all of them anew. */
void ss_step_count_runs(struct ss_steps *s);
void ss_step_recount(struct ss_steps *s);

/* How many of the last calls, at most `most`, fit the cycle when the last one is at `position`. */
uint32_t ss_step_fit(const struct ss_steps *s, const struct ss_step_cycle *c, uint32_t position,
                     uint32_t most);
uint32_t ss_step_occurrences(const struct ss_step_cycle *c, uint32_t lane);
/* All lanes of the cycle are among the last p calls. */
bool ss_step_has_lanes(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c);
/* The last call is at that position of the cycle. */
struct ss_step_place ss_step_in_place(struct ss_steps *s, struct ss_step_cycle *c,
                                      uint32_t position);

/* Looks for a period that takes over in this call, and for a set of lanes without an order. */
void ss_step_seek(struct ss_steps *s, struct ss_step_place *place);

/* What marks say (core/tensor/step_marks.c). Those of the call so many calls ago that count. */
static inline uint8_t ss_step_mark_ago(const struct ss_steps *s, uint32_t calls)
{
    return s->mark[s->end - 1 - calls] & (uint8_t)~s->no_marks;
}
/* The marks of that call that its place in the cycle has not had. */
static inline unsigned ss_step_mark_off(const struct ss_steps *s, const struct ss_step_cycle *c,
                                        uint32_t position, uint32_t calls)
{
    unsigned counts = (unsigned)~(c->varies[position] | s->no_marks) & SS_STEP_MARKS;

    return (s->mark[s->end - 1 - calls] ^ c->mark[position]) & counts;
}
/* That call has the lane and the marks of the position. */
static inline bool ss_step_fits(const struct ss_steps *s, const struct ss_step_cycle *c,
                                uint32_t position, uint32_t calls)
{
    return c->lane[position] == ss_step_ago(s, calls) &&
           ss_step_mark_off(s, c, position, calls) == 0;
}
/* Of a cycle made of the last p calls, whose position 0 is the lane `start` calls into them. */
void ss_step_keep_marks(const struct ss_steps *s, struct ss_step_cycle *c, uint32_t start);
/* The last call, at that position, does not have its marks: whether they are from now on held to be
 * not the same in each step. */
bool ss_step_mark_varies(struct ss_steps *s, struct ss_step_cycle *c, uint32_t position);
/* The runs that a new period must hold for. */
const uint16_t *ss_step_runs(const struct ss_steps *s);
/* Whether a period may be one. */
bool ss_step_allowed(const struct ss_steps *s, uint32_t p);
void ss_step_pass_marks(struct ss_steps *s);
void ss_step_forget_all(struct ss_steps *s);

/* What levels say (core/tensor/step_levels.c). Calls a step of p apart resemble each other less
 * than the norms of one gradient do. */
bool ss_step_uneven(const struct ss_steps *s, uint32_t p);
/* Those of different labels a plain period apart resemble each other as those of one gradient do.
 */
bool ss_step_labels_even(const struct ss_steps *s, uint32_t p);
/* They differ in that parts of the buffer are zero, or nearly, in one and not in the other. */
bool ss_step_patchy(const struct ss_steps *s, uint32_t p);
/* They resemble each other, norms and parts, for three periods, SS_EVEN calls at least. */
bool ss_step_even(const struct ss_steps *s, uint32_t p);
/* The last p calls are the cycle repeated, with interruptions, and not layers. */
bool ss_step_only_interrupts(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c);
/* The cycle is followed, but levels come again only after a multiple of it: that, else 0. */
uint32_t ss_step_of_levels(const struct ss_steps *s, const struct ss_step_cycle *c);

#endif
