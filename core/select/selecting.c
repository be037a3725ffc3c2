/* Decides when the threshold of a tensor is found anew, how it moves in between, and what follows a
 * pass. Callers make the passes, so that host and device decide alike. */
#include "core/select/threshold.h"

/* The sample that a kept threshold follows. About FOLLOWED of the k entries are in it, and at most
 * 1 / FOLLOW_SHARE of all elements. A sample with fewer than FOLLOW_LEAST entries is less accurate
 * than the kept threshold. */
enum { FOLLOWED = 512, FOLLOW_SHARE = 4, FOLLOW_LEAST = 64 };

/* If the last pass met k entries up to k / CLOSE, one piece in GLANCE is counted first. If their
 * count is as expected, the other pieces are not counted. */
enum { GLANCE = 5, CLOSE = 16 };

size_t ss_claim_limit(size_t k)
{
    return k + k / 3;
}

bool ss_threshold_due(const struct ss_threshold *t, size_t k)
{
    return t->magnitude == 0 || t->reevaluate || t->k != k || t->calls % t->period == 0;
}

void ss_threshold_found(struct ss_threshold *t, size_t k, ss_magnitude magnitude)
{
    t->magnitude = magnitude;
    t->sampled = 0;
    t->k = k;
    t->reevaluate = false;
}

void ss_threshold_reevaluate(struct ss_threshold *t)
{
    t->reevaluate = true;
}

enum ss_fit ss_threshold_judge(const struct ss_threshold *t, size_t count)
{
    if (count > ss_claim_limit(t->k))
        return SS_FIT_MANY;
    return count < t->k - t->k / 2 ? SS_FIT_FEW : SS_FIT_GOOD;
}

/* Returns the distance of two pieces: odd, so that the sample does not see only a few columns of a
 * matrix. */
static size_t step_of(size_t k)
{
    const size_t step = k / (FOLLOWED / SS_FOLLOW_PIECE), least = SS_FOLLOW_PIECE * FOLLOW_SHARE;

    return (step > least ? step : least) | 1;
}

static void ask_claim(struct ss_selecting *s)
{
    if (!s->again)
        s->t->calls++;
    s->ask = SS_ASK_CLAIM;
}

static size_t apart(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

void ss_selecting_start(struct ss_selecting *s, struct ss_threshold *t, size_t k, bool residual)
{
    *s = (struct ss_selecting){
        .t = t, .k = k, .step = step_of(k), .residual = residual, .due = ss_threshold_due(t, k)};
    if (s->due) {
        s->ask = SS_ASK_FIND;
    } else if (t->sampled < FOLLOW_LEAST) {
        ask_claim(s);
    } else {
        s->close = apart(t->claimed, k) <= k / CLOSE;
        s->glances = s->close && t->sampled >= GLANCE * FOLLOW_LEAST;
        s->step *= s->glances ? GLANCE : 1;
        s->ask = SS_ASK_COUNT;
    }
}

void ss_selecting_found(struct ss_selecting *s, const struct ss_exact *found)
{
    struct ss_threshold *t = s->t;

    if (s->ask == SS_ASK_FIND_SAMPLED) {
        t->magnitude = found->threshold + (found->above == t->sampled);
        ask_claim(s);
        return;
    }
    ss_threshold_found(t, s->k, found->threshold);
    t->exact_calls++;
    /* If ties exceed the capacity, the sample would also count ties that are cut: then there is no
     * sample. */
    if (t->period > 1 && found->count <= ss_claim_limit(s->k) && !found->all_zero)
        s->ask = SS_ASK_COUNT;
    else
        ask_claim(s);
}

/* Returns true if the count is close enough to leave the threshold alone: within one standard
 * deviation of its value when the threshold was found, or two if the last pass met about k entries.
 * Otherwise the threshold moves to the next value that restores the count. */
static bool is_like(const struct ss_selecting *s, size_t count, size_t expected)
{
    const size_t by = apart(count, expected);

    return by * by <= (s->close ? 4 : 1) * expected;
}

void ss_selecting_counted(struct ss_selecting *s, size_t count)
{
    struct ss_threshold *t = s->t;

    if (s->due || s->again) {
        t->sampled = count;
        ask_claim(s);
    } else if (s->glances) {
        s->glances = false;
        s->step /= GLANCE;
        if (is_like(s, count, t->sampled / GLANCE))
            ask_claim(s); /* otherwise the whole sample is counted */
    } else if (is_like(s, count, t->sampled)) {
        ask_claim(s);
    } else {
        s->rank = t->sampled + (count > t->sampled);
        s->ask = SS_ASK_FIND_SAMPLED;
    }
}

void ss_selecting_claimed(struct ss_selecting *s, struct ss_selection *out)
{
    const enum ss_fit fit = ss_threshold_judge(s->t, out->claimed + out->over);
    const bool drain = fit == SS_FIT_FEW && out->zero_input && out->largest > 0;

    s->ask = SS_ASK_NOTHING;
    if (out->not_finite == 0)
        s->t->claimed = out->claimed + out->over;
    if (s->again) {
        out->zero_input = s->first.zero_input;
        out->input_square = s->first.input_square;
        out->sum_square = s->first.sum_square;
    } else if (out->not_finite > 0) {
        return;
    } else if (!s->due && (fit == SS_FIT_MANY || drain)) {
        s->first = *out;
        s->again = true;
        s->ask = s->residual ? SS_ASK_PUT_BACK : SS_ASK_FIND;
        return;
    }
    s->few = fit == SS_FIT_FEW && s->t->magnitude > SS_LEAST_MAGNITUDE;
}

/* Goes on with the residual alone: with its claims back it holds a = g + r. */
void ss_selecting_put_back(struct ss_selecting *s)
{
    s->alone = true;
    s->ask = SS_ASK_FIND;
}
