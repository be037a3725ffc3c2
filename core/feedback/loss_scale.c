/* RESIDUAL_SCALE: the residual is in the unit of the buffer, and a loss scale that shrinks after an
 * overflow changes that unit. `off` leaves the residual alone. `auto` looks, after a call that was
 * not finite, at the norm of each tensor's first finite inputs: where they are a power of two below
 * those before, the tensor's residual is scaled along. Until that can be told from the norm's own
 * fluctuation the tensor's calls are exact and leave the residual where it is.
 *
 * Whose loss scale it was is not known, and there may be several: every tensor follows its own
 * inputs alone. All is decided from voted norms, and only where all ranks vote the same past. */
#include <float.h>
#include <stdio.h>

#include "core/feedback/feedback.h"
#include "core/tensor/residual.h"

/* Levels are binary logarithms of norms, in this unit. */
enum { LEVEL_BITS = 10, LEVEL = 1 << LEVEL_BITS, MOST = 24, TOLD = 8 };

/* Of a positive number, Inf included: half its logarithm. By squaring, so that every processor
 * finds the same. */
static int32_t level_of(double square)
{
    const uint64_t mantissa = (UINT64_C(1) << 52) - 1;
    double inside = square > DBL_MAX ? DBL_MAX : square < DBL_MIN ? DBL_MIN : square;
    uint64_t bits = ss_double_bits(inside);
    int32_t level = (int32_t)(bits >> 52) - 1023;

    square = ss_bits_double((bits & mantissa) | UINT64_C(1023) << 52);
    for (int bit = 0; bit < LEVEL_BITS; bit++) {
        square *= square;
        level *= 2;
        if (square >= 2) {
            square *= 0.5;
            level++;
        }
    }
    return level / 2;
}

static double power_of_two(int exponent)
{
    double x = 1;

    for (; exponent > 0; exponent--)
        x *= 2;
    for (; exponent < 0; exponent++)
        x /= 2;
    return x;
}

static void levels_add(struct ss_levels *l, int32_t level)
{
    l->of[l->seen++ % SS_LEVELS] = level;
}

static unsigned levels_kept(const struct ss_levels *l)
{
    return l->seen < SS_LEVELS ? l->seen : SS_LEVELS;
}

static double levels_mean(const struct ss_levels *l)
{
    double sum = 0;

    for (unsigned i = 0; i < levels_kept(l); i++)
        sum += (double)l->of[i] / LEVEL;
    return sum / levels_kept(l);
}

/* Squared distances from the mean, added. */
static double levels_spread(const struct ss_levels *l)
{
    double mean = levels_mean(l), sum = 0;

    for (unsigned i = 0; i < levels_kept(l); i++) {
        double apart = (double)l->of[i] / LEVEL - mean;
        sum += apart * apart;
    }
    return sum;
}

/* What norms fluctuate by at least: a few calls alike do not prove that they never do. */
static const double LEAST_KNOWN = 0.07, LEAST_UNKNOWN = 0.15;

/* By which power of two the norms have jumped; false where their fluctuation leaves that open, by
 * two standard errors. */
static bool jump_between(const struct ss_levels *past, const struct ss_levels *now, int *jump)
{
    unsigned m = levels_kept(past), n = levels_kept(now);
    double apart = levels_mean(now) - levels_mean(past);
    double free = m + n > 2 ? m + n - 2 : 1;
    double deviation = ss_root((levels_spread(past) + levels_spread(now)) / free);
    double least = m + n < 4 ? LEAST_UNKNOWN : LEAST_KNOWN;
    int nearest = (int)(apart < 0 ? apart - 0.5 : apart + 0.5);
    double off = apart < nearest ? nearest - apart : apart - nearest;

    if (deviation < least)
        deviation = least;
    *jump = nearest;
    return off + 2 * deviation * ss_root(1.0 / m + 1.0 / n) < 0.5;
}

/* ---- which tensors are asked ---- */

/* A call that is not finite opens a round. Calls of the same step may follow in the old unit, so
 * that inputs which have not changed settle nothing before a step has passed: the tensor that
 * opened the round, or the one at hand, has come again. Further calls that are not finite belong to
 * the round until then. */
static uint64_t passed_now(const struct ss_feedback *f)
{
    const struct ss_loss_scale *s = &f->tensor->scale;

    return s->opened > f->comm->scale_passed ? s->opened : f->comm->scale_passed;
}

bool ss_scale_asked(const struct ss_feedback *f)
{
    bool kept = f->topk || (f->resting && !f->tensor->rest.emptied);

    return kept && f->comm->settings->residual_scale &&
           f->tensor->scale.round < f->comm->scale_opened;
}

static void told_unit(struct ss_feedback *f)
{
    if (f->comm->settings->residual_scale || f->comm->scale_told > 0 || !f->topk)
        return;
    f->comm->scale_told++;
    ss_topk_warn(f, "an input that is not finite. Its residual keeps its unit; if the program now "
                    "changes its loss scale, SPARSESHIM_RESIDUAL_SCALE=auto has residuals follow");
}

void ss_scale_not_finite(struct ss_feedback *f)
{
    struct ss_comm *comm = f->comm;

    if (!f->tensor || f->tensor->excluded)
        return;
    told_unit(f);
    comm->scale_passed = passed_now(f);
    if (comm->scale_passed == comm->scale_opened)
        comm->scale_opened++;
    f->tensor->scale.opened = comm->scale_opened;
}

uint64_t ss_scale_hash(const struct ss_feedback *f)
{
    if (!ss_scale_asked(f))
        return 0;
    const struct ss_loss_scale *s = &f->tensor->scale;
    const struct ss_levels *levels[] = {&s->past, &s->now};
    uint64_t h =
        ss_mix(0x9e3779b97f4a7c15ULL + passed_now(f), s->waited | (uint64_t)s->asked << 32);
    for (int l = 0; l < 2; l++) {
        h = ss_mix(h, levels[l]->seen);
        for (unsigned i = 0; i < levels_kept(levels[l]); i++)
            h = ss_mix(h, (uint64_t)(uint32_t)levels[l]->of[i]);
    }
    return h | 1;
}

/* ---- scaling ---- */

static void shift_levels(struct ss_levels *l, int32_t by)
{
    for (unsigned i = 0; i < levels_kept(l); i++)
        l->of[i] += by;
}

void ss_scale_residual(struct ss_tensor *t, double factor)
{
    if (!ss_residual_there(t))
        return;
    ss_residual_scale(t, factor);
    if (factor * factor > 0)
        shift_levels(&t->scale.past, level_of(factor * factor));
}

static void say(struct ss_feedback *f, const char *what)
{
    unsigned told = ++f->comm->scale_told;

    if (told <= TOLD)
        ss_topk_warn(f, "%s (RESIDUAL_SCALE=auto)%s", what,
                     told == TOLD ? "; further ones are not told" : "");
}

/* What was open is settled; the calls since then are the past of the next jump. */
static void settle(struct ss_loss_scale *s, uint64_t round, bool jumped)
{
    s->round = round;
    if (jumped)
        s->past.seen = 0;
    for (unsigned i = 0; i < levels_kept(&s->now); i++)
        levels_add(&s->past, s->now.of[i]);
    s->now.seen = 0;
    s->waited = 0;
}

/* Scales the residual, whose claims are undone, threshold and all. */
static void follow(struct ss_feedback *f, int jump)
{
    struct ss_tensor *t = f->tensor;
    double factor = power_of_two(jump);
    char what[120];

    ss_topk_undo(f);
    ss_scale_residual(t, factor);
    ss_threshold_scale(&t->agreed.global, t->type, factor);
    t->scale.by += jump;
    snprintf(what, sizeof what,
             "its inputs are 2^%d times what they were before a call that was not finite; its "
             "residual follows",
             jump);
    say(f, what);
}

/* Whether a step has passed since the round was opened. Calls before that tell nothing of what
 * follows. */
static bool step_passed(struct ss_feedback *f)
{
    const struct ss_comm *comm = f->comm;
    struct ss_loss_scale *s = &f->tensor->scale;
    bool passed;

    if (s->asked_in != comm->scale_opened)
        s->asked = 0;
    s->asked_in = comm->scale_opened;
    passed = comm->scale_passed == comm->scale_opened || s->asked > 0;
    if (s->asked++ == 0 || passed != s->passed)
        s->now.seen = s->waited = 0;
    return s->passed = passed;
}

/* The unit cannot be determined: the residual keeps the one it has. */
static void leave_open(struct ss_feedback *f)
{
    struct ss_loss_scale *s = &f->tensor->scale;

    if (s->waited > 0)
        say(f, "its inputs fluctuate too much since a call that was not finite to tell a loss "
               "scale from them; its residual keeps its unit");
    settle(s, f->comm->scale_opened, s->waited > 0);
}

enum ss_scaling ss_scale_look(struct ss_feedback *f)
{
    struct ss_comm *comm = f->comm;
    double norm = ss_bits_double(f->vote.ballot.norm_max);
    int jump;

    if (!f->tensor || !comm->settings->residual_scale)
        return SS_SCALE_KNOWN;
    struct ss_loss_scale *s = &f->tensor->scale;
    comm->scale_passed = passed_now(f);
    if (!ss_scale_asked(f))
        return SS_SCALE_KNOWN;
    bool passed = step_passed(f);
    if (!ss_ballot_same(&f->vote.ballot, SS_SAME_SCALE) || s->past.seen == 0 ||
        s->waited == SS_LEVELS) {
        leave_open(f);
        return SS_SCALE_KNOWN;
    }
    s->waited++;
    if (!(norm > 0))
        return SS_SCALE_OPEN;
    levels_add(&s->now, level_of(norm));
    if (!jump_between(&s->past, &s->now, &jump))
        return SS_SCALE_OPEN;
    s->now.seen--;                   /* it is seen again, now that the unit is known */
    if (jump < 0 && jump >= -MOST) { /* an overflow makes no loss scale grow */
        follow(f, jump);
        settle(s, comm->scale_opened, true);
        return SS_SCALE_CHANGED;
    }
    if (passed)
        settle(s, comm->scale_opened, false);
    else
        s->now.seen = s->waited = 0;
    return SS_SCALE_KNOWN;
}

void ss_scale_seen(struct ss_feedback *f)
{
    double norm = ss_bits_double(f->vote.ballot.norm_max);

    if ((f->topk || f->resting) && norm > 0)
        levels_add(&f->tensor->scale.past, level_of(norm));
}
