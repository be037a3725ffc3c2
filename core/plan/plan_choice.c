/* Chooses among the algorithms by predictions, corrected by the lane's measurements. */
#include "core/plan/plan_impl.h"

/* The first run of an algorithm on a lane touches new memory, so that its time says little. */
enum { TRUSTED_RUNS = 2 };

static double half_excess(double ratio)
{
    return ratio > 1 ? (1 + ratio) / 2 : ratio;
}

/* Returns the factor that corrects an algorithm's prediction on this lane: its measured ratio if it
 * has TRUSTED_RUNS runs. Otherwise an algorithm gets half the excess of the best measured ratio, so
 * that it is tried where it may be the best. For a sparse algorithm this is the best of the sparse
 * ones, which share selection and costs of entries with it. dsar is half dense and gets the ratio
 * of dense if that is larger. */
static double correction(const struct ss_history *h, enum ss_algorithm a)
{
    double least = 0;

    if (h->runs[a] >= TRUSTED_RUNS)
        return h->ratio[a];
    for (int i = SS_AUTO + 1; i < SS_ALGORITHMS; i++)
        if (h->runs[i] >= TRUSTED_RUNS && (i == SS_DENSE) == (a == SS_DENSE) &&
            (least == 0 || h->ratio[i] < least))
            least = h->ratio[i];
    double expected = least > 0 ? half_excess(least) : 1;
    if (a == SS_DSAR && h->runs[SS_DENSE] >= TRUSTED_RUNS && h->ratio[SS_DENSE] > 1)
        expected = half_excess(h->ratio[SS_DENSE] > least ? h->ratio[SS_DENSE] : least);
    return h->runs[a] > 0 && h->ratio[a] < expected ? h->ratio[a] : expected;
}

/* Returns the algorithm that must run, or SS_AUTO if none must. A kind other than allreduce has one
 * sparse algorithm. */
static enum ss_algorithm forced(const struct ss_shape *s)
{
    if (s->kind != SS_KIND_ALLREDUCE && s->forced != SS_AUTO && s->forced != SS_DENSE)
        return ss_kind_algorithm(s->kind);
    return s->forced;
}

/* Returns the expected seconds of an algorithm; < 0 if it cannot run. */
static double expected(const struct ss_shape *s, const struct ss_history *h,
                       const struct ss_plan *plan, enum ss_algorithm a)
{
    return plan->seconds[a] * (s->learn ? correction(h, a) : 1);
}

/* Returns the least known seconds: measured, or predicted if nothing was measured. */
static double known_best(const struct ss_shape *s, const struct ss_history *h,
                         const struct ss_plan *plan)
{
    double best = 0;

    for (int a = SS_AUTO + 1; a < SS_ALGORITHMS; a++) {
        double seconds = plan->seconds[a];
        if (s->learn && h->runs[a] >= TRUSTED_RUNS)
            seconds *= h->ratio[a];
        if (seconds >= 0 && (best == 0 || seconds < best))
            best = seconds;
    }
    return best;
}

/* An algorithm that is predicted to take NOT_TRIED times the best known seconds is not tried. */
static const double NOT_TRIED = 2;

/* A tensor changes between sparse and dense only if that is faster by this factor, since its
 * residual must be sent first. */
static const double CHANGE = 0.95;

static double favoured(const struct ss_shape *s, enum ss_algorithm a, double seconds)
{
    return s->topk && (a == SS_DENSE) == s->resting ? seconds * CHANGE : seconds;
}

/* Returns true if dense should be measured: while a tensor rests, since nothing has to be undone
 * for it; otherwise once, after the best sparse algorithm has been measured. */
static bool dense_is_due(const struct ss_shape *s, const struct ss_history *h,
                         const struct ss_plan *plan, double least)
{
    if (!s->topk || !s->learn || plan->seconds[SS_DENSE] > NOT_TRIED * least)
        return false;
    if (s->resting)
        return h->runs[SS_DENSE] < TRUSTED_RUNS;
    return h->runs[SS_DENSE] == 0 && h->runs[plan->algorithm] >= TRUSTED_RUNS;
}

/* Calls after which a measurement must be confirmed. */
enum { RECENT = 16 };

/* Returns true if the choice is no trial. While a tensor rests, only dense is tried, since sparse
 * algorithms do not run. */
static bool is_settled(const struct ss_shape *s, const struct ss_history *h,
                       const struct ss_plan *plan)
{
    enum ss_algorithm a = plan->algorithm;

    return !s->learn || (h->runs[a] >= TRUSTED_RUNS && (s->resting || h->since[a] < RECENT));
}

void ss_plan_make(const struct ss_shape *s, const struct ss_history *h, struct ss_plan *plan)
{
    double best = 0;
    bool too_dense = !s->topk && (double)s->nnz_max > ss_plan_dense_from(s->kind, s->n, s->size);
    enum ss_algorithm must = forced(s);

    *plan = (struct ss_plan){.algorithm = SS_DENSE, .settled = true};
    bool excluded = ss_plan_predict(s, h, plan);
    if (must != SS_AUTO) {
        plan->short_of_memory = plan->seconds[must] < 0;
        if (!plan->short_of_memory)
            plan->algorithm = must;
        return;
    }
    double least = known_best(s, h, plan);
    for (int i = SS_AUTO + 1; i < SS_ALGORITHMS; i++) {
        enum ss_algorithm a = (enum ss_algorithm)i;
        double seconds = favoured(s, a, expected(s, h, plan, a));
        bool untried = s->learn && h->runs[a] == 0;
        if (seconds < 0 || (a != SS_DENSE && too_dense) ||
            (untried && plan->seconds[a] > NOT_TRIED * least))
            continue;
        if (best == 0 || seconds < best) {
            best = seconds;
            plan->algorithm = a;
        }
    }
    if (dense_is_due(s, h, plan, least))
        plan->algorithm = SS_DENSE;
    plan->settled = is_settled(s, h, plan);
    plan->short_of_memory = plan->algorithm == SS_DENSE && excluded && !too_dense;
}

/* Factor per call. An algorithm measured 10 % slower gets another turn after some 30 calls, an
 * algorithm twice as slow after 230. */
static const double FORGIVENESS = 0.997;

void ss_history_measured(struct ss_history *h, double seconds)
{
    enum ss_algorithm a = h->last;

    if (a == SS_AUTO || seconds <= 0 || h->last_predicted <= 0)
        return;
    double ratio = seconds / h->last_predicted;
    if (h->runs[a] == 0 || ratio < h->ratio[a] || h->since[a] >= RECENT)
        h->ratio[a] = ratio;
    else /* noise only adds time: rises are believed slowly */
        h->ratio[a] += 0.2 * (ratio - h->ratio[a]);
    if (h->runs[a] < TRUSTED_RUNS)
        h->runs[a]++;
    /* Algorithms that lost by little are tried again after a while, since the network or the input
     * may have changed. */
    for (int i = SS_AUTO + 1; i < SS_ALGORITHMS; i++) {
        h->since[i]++;
        if (i != (int)a)
            h->ratio[i] *= FORGIVENESS;
    }
    h->since[a] = 0;
    h->last_seconds = 0;
}

void ss_history_planned(struct ss_history *h, const struct ss_plan *plan, bool observe)
{
    h->last = observe ? SS_DENSE : plan->algorithm;
    h->last_predicted = plan->seconds[h->last];
    h->last_seconds = 0;
    if (!observe && plan->algorithm != SS_DENSE)
        h->dense_streak = 0;
}

void ss_history_back_off(struct ss_history *h)
{
    if (h->dense_streak < 6)
        h->dense_streak++;
    h->skip = (1u << h->dense_streak) - 1;
}
