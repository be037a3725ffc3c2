/* Algorithm 1 of the OMGS-SGD paper as printed: from the first call to arrive to the last but one,
 * merge a call into the next where that lets the next one's exchange end earlier (Q3 and Q5: eq.
 * 24, 25, from the gains of eq. 21 and 22 and of case C3, and eq. 20, which holds for costs per
 * group that grow faster than the elements). It minimises the end of the next exchange, not of the
 * last, and looks at two calls at a time; so it is not always the optimum that Theorem 1 promises.
 *
 * Where the print leaves a choice: a merged layer costs nothing (eq. 13), although line 22 gives it
 * alpha by line 18; line 10 begins with the merged layer, whose time line 38 has moved on to the
 * next; Q3 is that of section IV.A. */
#include "core/plan/merging_impl.h"

/* Rows of the work space. The paper's d is elements and entries here, and calls. */
enum { TB, TAU_B, TAU_S, TS, TAU_C, TC, CALLS, ELEMENTS, ENTRIES };

struct layers {
    const struct ss_merging_step *step;
    double *const *rows;
};

static double tkpm(const struct layers *p, double calls, double elements)
{
    return ss_merging_select(&p->step->costs, calls, elements);
}

static double agpm(const struct layers *p, uint32_t l)
{
    return p->step->costs.exchange + p->step->costs.entry * p->rows[ENTRIES][l];
}

/* CalculateCompStart, lines 27 to 36, from layer `from` on, where selections take what they take.
 */
static void computation_starts(const struct layers *p, uint32_t from, double begin)
{
    double *const *r = p->rows;

    for (uint32_t l = from; l < p->step->count; l++) {
        r[TAU_B][l] = l == from ? begin : r[TAU_S][l - 1] + r[TS][l - 1];
        r[TAU_S][l] = r[TAU_B][l] + r[TB][l];
    }
}

/* CalculateCommStart, lines 19 to 26, from layer `from` on; a merged layer has no calls left. */
static void communication_starts(const struct layers *p, uint32_t from)
{
    double *const *r = p->rows;

    for (uint32_t l = from; l < p->step->count; l++) {
        double ready = r[TAU_S][l] + r[TS][l];
        r[TC][l] = r[CALLS][l] > 0 ? agpm(p, l) : 0;
        r[TAU_C][l] = l == 0 ? ready : ss_merging_max(r[TAU_C][l - 1] + r[TC][l - 1], ready);
    }
}

/* Lines 5 to 7. */
static bool is_merged_layer(const struct layers *p, uint32_t l)
{
    double *const *r = p->rows;
    double mu = r[TAU_B][l] + r[TB][l] + r[TB][l + 1];
    double apart =
        tkpm(p, r[CALLS][l], r[ELEMENTS][l]) + tkpm(p, r[CALLS][l + 1], r[ELEMENTS][l + 1]);
    double together = tkpm(p, r[CALLS][l] + r[CALLS][l + 1], r[ELEMENTS][l] + r[ELEMENTS][l + 1]);
    bool q3 = mu + apart < r[TAU_C][l] + agpm(p, l);
    bool q5 = r[TAU_C][l] + p->step->costs.exchange > mu + together;

    return q3 && q5;
}

/* Lines 9 to 11 and 37 to 41: eq. 13 to 15. */
static void merge(const struct layers *p, uint32_t l)
{
    static const int moved[] = {TB, CALLS, ELEMENTS, ENTRIES};
    double *const *r = p->rows;
    double begin = r[TAU_B][l];

    for (int i = 0; i < 4; i++) {
        r[moved[i]][l + 1] += r[moved[i]][l];
        r[moved[i]][l] = 0;
    }
    r[TS][l] = 0;
    r[TS][l + 1] = tkpm(p, r[CALLS][l + 1], r[ELEMENTS][l + 1]);
    computation_starts(p, l, begin);
    communication_starts(p, l);
}

void ss_merging_algorithm1(const struct ss_merging_step *step, const struct ss_merging_work *work,
                           struct ss_merging_plan *plan)
{
    struct layers p = {.step = step, .rows = work->rows};
    double arrived = 0;

    for (uint32_t l = 0; l < step->count; l++) {
        p.rows[TB][l] = step->calls[l].arrival - arrived;
        p.rows[CALLS][l] = 1;
        p.rows[ELEMENTS][l] = (double)step->calls[l].elements;
        p.rows[ENTRIES][l] = (double)step->calls[l].entries;
        p.rows[TS][l] = tkpm(&p, 1, p.rows[ELEMENTS][l]);
        arrived = step->calls[l].arrival;
    }
    computation_starts(&p, 0, 0);
    communication_starts(&p, 0);
    plan->groups = 0;
    for (uint32_t l = 0; l < step->count; l++) {
        if (l + 1 < step->count && is_merged_layer(&p, l))
            merge(&p, l);
        else
            plan->ends[plan->groups++] = l + 1;
    }
}
