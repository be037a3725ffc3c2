/* The advice of mode observe for a lane. */
#include "core/report/report.h"

enum { FIRST_SPARSE = SS_RECURSIVE_DOUBLING };

/* A call must be predicted this much shorter before a change is recommended. */
static const double worth_it = 0.9;

/* Beyond this factor the model and the MPI library's collective do not agree. */
static const double MISFIT = 2;

uint64_t ss_lane_passed(const struct ss_lane_record *lane)
{
    uint64_t sum = 0;

    for (int i = 0; i < SS_REASONS; i++)
        sum += lane->passed[i];
    return sum;
}

/* Returns NaN if there is no mean. */
static double mean_of(double sum, uint64_t calls)
{
    double mean = ss_ratio(sum, (double)calls);

    return mean > 0 && isfinite(mean) ? mean : NAN;
}

/* Returns the sparse algorithm of the least mean, which is left in *seconds; SS_AUTO and NaN if
 * there is none. */
static enum ss_algorithm least_of(const double *sums, uint64_t calls, double *seconds)
{
    enum ss_algorithm best = SS_AUTO;

    *seconds = NAN;
    for (int a = FIRST_SPARSE; a < SS_DENSE; a++) {
        double mean = mean_of(sums[a], calls);

        if (isfinite(mean) && !(mean >= *seconds)) {
            best = (enum ss_algorithm)a;
            *seconds = mean;
        }
    }
    return best;
}

/* Returns true if a call is shorter than dense ones both as measured and as predicted. The
 * network's noise is in the measured time, that of the calibration in both predictions. */
static bool gains(const struct ss_report_advice *a, double predicted)
{
    return predicted <= worth_it * a->native && !(predicted > worth_it * a->dense);
}

static bool may_gain(const struct ss_report_advice *a, double predicted)
{
    return predicted <= worth_it * a->native || predicted <= worth_it * a->dense;
}

struct ss_report_advice ss_report_advise(const struct ss_lane_record *lane)
{
    struct ss_report_advice a = {.native = mean_of(lane->times.native, ss_lane_passed(lane)),
                                 .dense =
                                     mean_of(lane->predicted_seconds[SS_DENSE], lane->planned)};

    a.best = least_of(lane->predicted_seconds, lane->planned, &a.predicted);
    a.topk = least_of(lane->topk_seconds, lane->topk_samples, &a.topk_predicted);
    a.topk_bytes = mean_of(lane->topk_bytes[a.topk], lane->topk_samples);
    a.topk_inside = mean_of(lane->topk_inside[a.topk], lane->topk_samples);
    a.quant_predicted = mean_of(lane->quant_seconds, lane->topk_samples);
    a.quant_bytes = mean_of(lane->quant_bytes, lane->topk_samples);
    a.quant_inside = mean_of(lane->quant_inside, lane->topk_samples);
    a.misfit = a.dense > MISFIT * a.native || a.native > MISFIT * a.dense;
    a.against = a.misfit && a.dense < a.native ? a.dense : a.native;
    a.gain = gains(&a, a.predicted);
    a.topk_gain = gains(&a, a.topk_predicted);
    a.quant_gain = gains(&a, a.quant_predicted);
    a.unclear = !a.misfit && !a.gain && !a.topk_gain && !a.quant_gain &&
                (may_gain(&a, a.predicted) || may_gain(&a, a.topk_predicted) ||
                 may_gain(&a, a.quant_predicted));
    return a;
}
