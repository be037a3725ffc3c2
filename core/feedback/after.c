/* The steps after the collective, one after the other. */
#include "core/feedback/feedback.h"

struct ss_after_step {
    bool (*is_due)(const struct ss_feedback *f);
    void (*start)(struct ss_feedback *f);
    int (*step)(struct ss_feedback *f);
};

static bool keep_is_due(const struct ss_feedback *f)
{
    return ss_topk_claims(f) && f->keep.count > 0 && !f->keep.done;
}

static bool guard_is_due(const struct ss_feedback *f)
{
    return f->guarded;
}

/* The steps in their order. Each is due at most once in a call, since `start` makes the condition
 * false. */
static const struct ss_after_step steps[] = {{keep_is_due, ss_keep_start, ss_keep_step},
                                             {guard_is_due, ss_guard_start, ss_guard_step}};

bool ss_after_start(struct ss_feedback *f)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].is_due(f)) {
            f->after = &steps[i];
            f->after->start(f);
            return true;
        }
    return false;
}

int ss_after_step(struct ss_feedback *f)
{
    return f->after->step(f);
}
