/* The report of the lanes: their calls, densities and bytes; predictions, and what mode observe
 * advises. */
#include "core/report/report_impl.h"

enum { FIRST_SPARSE = SS_RECURSIVE_DOUBLING, WHY_PARTS = 12 };

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* A call must be predicted this much shorter before a change is recommended. */
static const double worth_it = 0.9;

/* Where the model is that far off for the MPI library's own collective, nothing is advised. */
static const double MISFIT = 2;

const char *ss_reason_key(enum ss_reason reason)
{
    static const char *const keys[SS_REASONS] = {
        "small",      "type",         "communicator", "buffer",    "first_call",
        "settings",   "off",          "environment",  "memory",    "max_memory",
        "not_finite", "unregistered", "unfit",        "observe",   "dense",
        "backed_off", "nonblocking",  "unmet",        "callbacks",
    };
    return keys[reason];
}

static const char *reason_key(int i)
{
    return ss_reason_key((enum ss_reason)i);
}

static const char *reason_name(int i)
{
    return ss_reason_name((enum ss_reason)i);
}

static const char *algorithm_name(int i)
{
    return ss_algorithm_name((enum ss_algorithm)i);
}

static double mean_of(const double *sums, int algorithm, uint64_t calls)
{
    double mean = ss_ratio(sums[algorithm], (double)calls);

    return mean > 0 && isfinite(mean) ? mean : NAN;
}

/* Returns the mean prediction of a planned call; NaN where there is none. */
static double predicted(const struct ss_lane_record *lane, const double *sums, int algorithm)
{
    return mean_of(sums, algorithm, lane->planned);
}

static double native_seconds(const struct ss_lane_record *lane)
{
    double mean = ss_ratio(lane->times.native, (double)ss_lane_passed(lane));

    return mean > 0 && isfinite(mean) ? mean : NAN;
}

/* The sparse algorithm of the least mean, which is left in *seconds; SS_AUTO and NaN where there is
 * none. */
static enum ss_algorithm least_of(const double *sums, uint64_t calls, double *seconds)
{
    enum ss_algorithm best = SS_AUTO;

    *seconds = NAN;
    for (int a = FIRST_SPARSE; a < SS_DENSE; a++) {
        double mean = mean_of(sums, a, calls);

        if (isfinite(mean) && !(mean >= *seconds)) {
            best = (enum ss_algorithm)a;
            *seconds = mean;
        }
    }
    return best;
}

struct ss_report_advice ss_report_advise(const struct ss_lane_record *lane)
{
    struct ss_report_advice advice = {.native = native_seconds(lane)};
    double dense = predicted(lane, lane->predicted_seconds, SS_DENSE);

    advice.best = least_of(lane->predicted_seconds, lane->planned, &advice.predicted);
    advice.topk = least_of(lane->topk_seconds, lane->topk_samples, &advice.topk_predicted);
    advice.topk_bytes = mean_of(lane->topk_bytes, (int)advice.topk, lane->topk_samples);
    advice.dense = dense;
    advice.misfit = dense > MISFIT * advice.native || advice.native > MISFIT * dense;
    advice.gain = advice.predicted <= worth_it * advice.native && !advice.misfit;
    advice.force = dense <= advice.predicted;
    advice.topk_gain = advice.topk_predicted <= worth_it * advice.native && !advice.misfit;
    return advice;
}

/* Expected density of the sum of P inputs of density d whose index sets are independent: 1 - (1 -
 * d)^P (SparCML, section 5.3), by repeated doubling of u(a + b) = u(a) + u(b) - u(a) u(b), which
 * keeps its digits where d is small. */
static double fill_in(double d, int ranks)
{
    double result = 0;

    for (unsigned p = ranks > 0 ? (unsigned)ranks : 0; p > 0; p >>= 1) {
        if (p & 1)
            result += d - result * d;
        d += d - d * d;
    }
    return result;
}

/* A merge sort, as a list allows it without memory. */
struct ss_lane_record *ss_lanes_sorted(struct ss_lane_record *list)
{
    struct ss_lane_record *half = list, *end = list, *result = NULL, **tail = &result;

    if (!list || !list->next)
        return list;
    while (end->next && end->next->next) {
        half = half->next;
        end = end->next->next;
    }
    end = ss_lanes_sorted(half->next);
    half->next = NULL;
    half = ss_lanes_sorted(list);
    while (half && end) {
        struct ss_lane_record **from = end->bytes_dense > half->bytes_dense ? &end : &half;

        *tail = *from;
        tail = &(*from)->next;
        *from = *tail;
    }
    *tail = half ? half : end;
    return result;
}

/* What the row functions walk over. */
struct walk {
    const struct ss_stats *stats;
    const struct ss_lane_record *lane;
    uint64_t number; /* of the lane, from 1 */
    int algorithm;
    struct ss_emit_value settings[2], why[WHY_PARTS], op[3]; /* sentences of the row */
};

/* Steps to the lane of a row, where each row is one lane. */
static bool next_lane(struct walk *at, size_t row)
{
    at->lane = row == 0 ? at->stats->lanes : at->lane->next;
    at->number = row + 1;
    return at->lane != NULL;
}

static const char *shown_name(const struct ss_lane_record *lane)
{
    if (lane->count == 0) /* see ss_stats_lane */
        return "(further lanes)";
    return lane->comm[0] ? lane->comm : "(no name)";
}

static double mean_density(const struct ss_lane_record *lane)
{
    return ss_ratio(lane->density_sum, (double)lane->scans);
}

struct ss_emit_value ss_report_lane_op(const struct ss_lane_record *r,
                                       struct ss_emit_value parts[3])
{
    if (r->kind == SS_KIND_ALLREDUCE)
        return ss_v_text(ss_op_name(r->op));
    if (r->kind == SS_KIND_ALLGATHER)
        return ss_v_text(ss_kind_name(r->kind));
    parts[0] = ss_v_text(ss_kind_name(r->kind));
    parts[1] = ss_v_text(" ");
    parts[2] = ss_v_text(ss_op_name(r->op));
    return ss_v_sentence(parts, 3);
}

enum lane_column {
    LANE,
    COMMUNICATOR,
    SHOWN_NAME,
    RANKS,
    COUNT,
    TYPE,
    KIND,
    OP,
    SHOWN_OP,
    CALLS,
    DENSITY_MEAN,
    DENSITY_MAX,
    DENSITY_RESULT,
    DENSITY_INDEPENDENT,
    BYTES_DENSE,
    BYTES_SENT,
    RATIO,
    SECONDS_SCAN,
    SECONDS_VOTE,
    SECONDS_EXCHANGE,
    SECONDS_MERGE,
    SECONDS_CODING,
    SECONDS_NATIVE,
    SPARSE,
    PASSED,
    SCANS,
    DENSITY_SUM,
    FILLIN_CALLS,
    FILLIN_SUM,
    PLANNED,
    PREDICTED_SECONDS,
    PREDICTED_BYTES,
    TOPK_SAMPLES,
    TOPK_DENSITY_SUM,
    TOPK_KEPT_SUM,
    TOPK_SECONDS,
    TOPK_BYTES,
    LANE_COLUMNS
};

/* Views of the lane table. */
enum { SIZES = 1, TIMES = 2, WAYS = 4 };

static const struct ss_emit_column lane_columns[LANE_COLUMNS] = {
    [LANE] = {"lane", "lane", SIZES | TIMES | WAYS, 0,
              "number of the lane in this report; a lane is all that ranks agree on: communicator, "
              "count, type, operator"},
    [COMMUNICATOR] = {"communicator", NULL, 0, SS_LEFT, "its MPI name, \"\" where it has none"},
    [SHOWN_NAME] = {NULL, "communicator", SIZES, SS_LEFT, "MPI name of the communicator"},
    [RANKS] = {"ranks", "ranks", SIZES, 0, "ranks of the communicator, P"},
    [COUNT] = {"count", "count", SIZES, 0,
               "elements of the result; 0: further lanes, which share a line"},
    [TYPE] = {"type", "type", SIZES, SS_LEFT, "datatype of the elements"},
    [KIND] = {"kind", NULL, 0, SS_LEFT, "the collective"},
    [OP] = {"op", NULL, 0, SS_LEFT, "the operator; means nothing in an allgather"},
    [SHOWN_OP] = {NULL, "op", SIZES, SS_LEFT,
                  "the operator; before it the collective where it is no allreduce"},
    [CALLS] = {"calls", "calls", SIZES, 0, "eligible calls"},
    [DENSITY_MEAN] = {"density_mean", "density", SIZES, 0,
                      "share of the elements of this rank's input that are not zero, or were "
                      "selected; mean of the calls that were scanned"},
    [DENSITY_MAX] = {"density_max", "largest", SIZES, SS_RARE,
                     "largest density of a rank in a call"},
    [DENSITY_RESULT] = {"density_result", "of result", SIZES, 0,
                        "density of the result, mean of the calls made sparse in which this rank "
                        "has all of it"},
    [DENSITY_INDEPENDENT] = {"density_independent", "1-(1-d)^P", SIZES, SS_RARE,
                             "density of the result if the ranks' entries lay independently: "
                             "\"of result\" below it means that they overlap"},
    [BYTES_DENSE] = {"bytes_dense", "dense", SIZES, 0,
                     "bytes that a dense collective would have sent from this rank, all calls"},
    [BYTES_SENT] = {"bytes_sent", "sent", SIZES, 0,
                    "bytes sent by this rank, votes included; calls of the MPI library count as "
                    "dense"},
    [RATIO] = {"ratio", "ratio", SIZES, 0, "dense / sent"},
    [SECONDS_SCAN] = {"seconds_scan", "scan", TIMES, 0,
                      "time looking for the entries to send: those that are not zero, or the "
                      "largest"},
    [SECONDS_VOTE] = {"seconds_vote", "vote", TIMES, 0,
                      "time agreeing on the call, calibration and the wait for the last rank "
                      "included"},
    [SECONDS_EXCHANGE] = {"seconds_exchange", "exchange", TIMES, 0,
                          "time sending and receiving, waits included"},
    [SECONDS_MERGE] = {"seconds_merge", "merge", TIMES, 0, "time adding up what was received"},
    [SECONDS_CODING] = {"seconds_coding", "coding", TIMES, 0, "time encoding and decoding"},
    [SECONDS_NATIVE] = {"seconds_native", "native", TIMES, 0,
                        "time in the MPI library's own collective, of calls handed to it"},
    [SPARSE] = {"sparse", "made sparse by", WAYS, SS_LEFT, "calls by the algorithm that ran"},
    [PASSED] = {"passed", "passed through", WAYS, SS_LEFT,
                "calls handed to the MPI library, by reason"},
    [SCANS] = {"scans", NULL, 0, 0, "calls that were scanned; density_sum is the sum over these"},
    [DENSITY_SUM] = {"density_sum", NULL, 0, 0, "sum behind density_mean"},
    [FILLIN_CALLS] = {"fillin_calls", NULL, 0, 0, "calls behind density_result"},
    [FILLIN_SUM] = {"fillin_sum", NULL, 0, 0, "sum behind density_result"},
    [PLANNED] = {"planned", NULL, 0, 0, "calls with a plan; the predictions are sums over these"},
    [PREDICTED_SECONDS] = {"predicted_seconds_sum", NULL, 0, 0,
                           "seconds predicted by the model, by algorithm, scan and vote included; "
                           "null: a call could not run it"},
    [PREDICTED_BYTES] = {"predicted_bytes_sum", NULL, 0, 0,
                         "bytes predicted to be sent by this rank, likewise"},
    [TOPK_SAMPLES] = {"topk_samples", NULL, 0, 0,
                      "MODE=observe: calls of which a sample was taken for what top-k would do"},
    [TOPK_DENSITY_SUM] = {"topk_density_sum", NULL, 0, 0,
                          "share of the elements it would send, sum over these"},
    [TOPK_KEPT_SUM] = {"topk_kept_sum", NULL, 0, 0,
                       "share of the input's squared norm in them, sum over these"},
    [TOPK_SECONDS] = {"topk_seconds_sum", NULL, 0, 0,
                      "seconds predicted for it by algorithm, sums over these"},
    [TOPK_BYTES] = {"topk_bytes_sum", NULL, 0, 0,
                    "bytes predicted to be sent by this rank, likewise"},
};
const struct ss_emit_group ss_report_lanes_group = {"lanes", "Lanes", lane_columns, LANE_COLUMNS};

static struct ss_emit_value sums(const double *sums_by_algorithm)
{
    struct ss_emit_value v = {.kind = SS_V_SUMS};

    v.as.list.key = v.as.list.name = algorithm_name;
    v.as.list.sums = sums_by_algorithm;
    v.as.list.n = SS_ALGORITHMS;
    return v;
}

static void lane_ways(const struct ss_lane_record *lane, struct ss_emit_value *v)
{
    v[SPARSE] = (struct ss_emit_value){.kind = SS_V_COUNTS};
    v[SPARSE].as.list.key = v[SPARSE].as.list.name = algorithm_name;
    v[SPARSE].as.list.counts = lane->sparse;
    v[SPARSE].as.list.n = SS_ALGORITHMS;
    v[PASSED] = (struct ss_emit_value){.kind = SS_V_COUNTS};
    v[PASSED].as.list.key = reason_key;
    v[PASSED].as.list.name = reason_name;
    v[PASSED].as.list.counts = lane->passed;
    v[PASSED].as.list.n = SS_REASONS;
}

static bool lane_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct walk *at = ctx;
    const struct ss_lane_record *r;

    if (!next_lane(at, row))
        return false;
    r = at->lane;
    v[LANE] = ss_v_count(at->number);
    v[COMMUNICATOR] = ss_v_text(r->comm);
    v[SHOWN_NAME] = ss_v_text(shown_name(r));
    v[RANKS] = ss_v_integer(r->size);
    v[COUNT] = ss_v_count(r->count);
    v[TYPE] = ss_v_text(ss_type_name(r->type));
    v[KIND] = ss_v_text(ss_kind_name(r->kind));
    v[OP] = ss_v_text(ss_op_name(r->op));
    v[SHOWN_OP] = ss_report_lane_op(r, at->op);
    v[CALLS] = ss_v_count(r->calls);
    v[DENSITY_MEAN] = ss_v_share(mean_density(r));
    v[DENSITY_MAX] = ss_v_share(r->planned > 0 ? r->density_max : NAN);
    v[DENSITY_RESULT] = ss_v_share(ss_ratio(r->fillin_sum, (double)r->fillin_calls));
    v[DENSITY_INDEPENDENT] = ss_v_share(fill_in(mean_density(r), r->size));
    v[BYTES_DENSE] = ss_v_bytes(r->bytes_dense);
    v[BYTES_SENT] = ss_v_bytes(r->bytes_sent);
    v[RATIO] = ss_v_factor(ss_ratio((double)r->bytes_dense, (double)r->bytes_sent));
    v[SECONDS_SCAN] = ss_v_seconds(r->times.scan);
    v[SECONDS_VOTE] = ss_v_seconds(r->times.vote);
    v[SECONDS_EXCHANGE] = ss_v_seconds(r->times.exchange);
    v[SECONDS_MERGE] = ss_v_seconds(r->times.merge);
    v[SECONDS_CODING] = ss_v_seconds(r->times.coding);
    v[SECONDS_NATIVE] = ss_v_seconds(r->times.native);
    v[SCANS] = ss_v_count(r->scans);
    v[DENSITY_SUM] = ss_v_number(SS_V_FACTOR, r->density_sum);
    v[FILLIN_CALLS] = ss_v_count(r->fillin_calls);
    v[FILLIN_SUM] = ss_v_number(SS_V_FACTOR, r->fillin_sum);
    v[PLANNED] = ss_v_count(r->planned);
    v[PREDICTED_SECONDS] = sums(r->predicted_seconds);
    v[PREDICTED_BYTES] = sums(r->predicted_bytes);
    v[TOPK_SAMPLES] = ss_v_count(r->topk_samples);
    v[TOPK_DENSITY_SUM] = ss_v_number(SS_V_FACTOR, r->topk_density_sum);
    v[TOPK_KEPT_SUM] = ss_v_number(SS_V_FACTOR, r->topk_kept_sum);
    v[TOPK_SECONDS] = sums(r->topk_seconds);
    v[TOPK_BYTES] = sums(r->topk_bytes);
    lane_ways(r, v);
    return true;
}

enum { P_LANE, P_ALGORITHM, P_BYTES, P_SECONDS, P_FASTER, P_BEST, P_COLUMNS };

static const struct ss_emit_column prediction_columns[P_COLUMNS] = {
    [P_LANE] = {"lane", "lane", 1, 0, "number of the lane, as above"},
    [P_ALGORITHM] = {"algorithm", "algorithm", 1, SS_LEFT,
                     "the collective; native: the MPI library's, as measured"},
    [P_BYTES] = {"bytes_per_call", "bytes sent", 1, 0, "bytes sent by this rank, mean of a call"},
    [P_SECONDS] = {"seconds_per_call", "time", 1, 0, "time of a call, scan and vote included"},
    [P_FASTER] = {"times_faster", "times faster", 1, 0, "time of native / this time"},
    [P_BEST] = {"remark", "", 1, SS_LEFT, "what was measured, and the best of the sparse ones"},
};
const struct ss_emit_group ss_report_predictions_group = {
    "predictions", "Predicted by lane and algorithm (MODE=observe)", prediction_columns, P_COLUMNS};

/* Rows of a lane: SS_AUTO stands for what was measured, the others for predictions. */
static bool prediction_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct walk *at = ctx;
    const struct ss_lane_record *r;
    double native, time;
    int a;

    at->algorithm++;
    if (row == 0 || at->algorithm == SS_ALGORITHMS) {
        at->lane = row == 0 ? at->stats->lanes : at->lane->next;
        at->number = row == 0 ? 1 : at->number + 1;
        at->algorithm = SS_AUTO;
    }
    if (!at->lane)
        return false;
    r = at->lane;
    a = at->algorithm;
    native = native_seconds(r);
    time = a == SS_AUTO ? native : predicted(r, r->predicted_seconds, a);
    v[P_LANE] = ss_v_count(at->number);
    v[P_ALGORITHM] = ss_v_text(a == SS_AUTO ? "native" : algorithm_name(a));
    v[P_BYTES] =
        ss_v_number(SS_V_MEAN, a == SS_AUTO ? ss_ratio((double)r->bytes_dense, (double)r->calls)
                                            : predicted(r, r->predicted_bytes, a));
    v[P_SECONDS] = ss_v_seconds(time);
    v[P_FASTER] = ss_v_factor(a == SS_AUTO ? NAN : ss_ratio(native, time));
    v[P_BEST] = ss_v_text(a == SS_AUTO ? "measured"
                          : a != SS_DENSE && ss_report_advise(r).best == (enum ss_algorithm)a
                              ? "best sparse"
                              : "");
    return true;
}

enum { A_LANE, A_TRY, A_WHY, A_COLUMNS };

static const struct ss_emit_column advice_columns[A_COLUMNS] = {
    [A_LANE] = {"lane", "lane", 1, 0, "number of the lane, as above"},
    [A_TRY] = {"try", "try", 1, SS_LEFT, "settings that would make its calls faster; -: none"},
    [A_WHY] = {"why", "because", 1, SS_LEFT,
               "density, and the time predicted against that measured of the MPI library"},
};
const struct ss_emit_group ss_report_advice_group = {"advice", "What to try (MODE=observe)",
                                                     advice_columns, A_COLUMNS};

static struct ss_emit_value why(struct walk *at, const struct ss_report_advice *advice)
{
    struct ss_emit_value *w = at->why;
    double density = mean_density(at->lane);

    if (at->lane->planned == 0)
        return ss_v_text("no call was looked at");
    *w++ = ss_v_text(advice->gain || advice->misfit ? "density " : "nothing to gain: density ");
    *w++ = ss_v_share(density);
    if (advice->misfit) {
        *w++ = ss_v_text("; no advice: dense was predicted to take ");
        *w++ = ss_v_seconds(advice->dense);
        *w++ = ss_v_text(" and took ");
        *w++ = ss_v_seconds(advice->native);
    } else if (advice->best != SS_AUTO) {
        *w++ = ss_v_text(", ");
        *w++ = ss_v_text(ss_algorithm_name(advice->best));
        *w++ = ss_v_text(" ");
        *w++ = ss_v_seconds(advice->predicted);
        *w++ = ss_v_text(advice->gain ? " instead of " : " against ");
        *w++ = ss_v_seconds(advice->native);
        *w++ = ss_v_text(" per call");
    }
    return ss_v_sentence(at->why, (size_t)(w - at->why));
}

static bool advice_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct walk *at = ctx;
    struct ss_report_advice advice;

    if (!next_lane(at, row))
        return false;
    advice = ss_report_advise(at->lane);
    at->settings[0] = ss_v_text("SPARSESHIM_MODE=exact SPARSESHIM_ALGORITHM=");
    at->settings[1] = ss_v_text(ss_algorithm_name(advice.best));
    v[A_LANE] = ss_v_count(at->number);
    v[A_TRY] = !advice.gain   ? ss_v_text("-")
               : advice.force ? ss_v_sentence(at->settings, LENGTH(at->settings))
                              : ss_v_text("SPARSESHIM_MODE=exact");
    v[A_WHY] = why(at, &advice);
    return true;
}

void ss_report_lanes(struct ss_emit *emit, const struct ss_stats *stats, bool observe)
{
    static const struct ss_emit_table lanes = {
        "lanes",
        {"Lanes, those of most bytes first (bytes of all calls, sent by this rank)",
         "Time by lane, all calls", "Calls by lane"},
        0,
        lane_columns,
        LANE_COLUMNS,
        lane_row,
    };
    static const struct ss_emit_table predictions = {
        "predictions",
        {"Predicted by lane and algorithm, mean of a call, scan and vote included"},
        0,
        prediction_columns,
        P_COLUMNS,
        prediction_row,
    };
    static const struct ss_emit_table advice = {"advice",       {"What to try"}, 0,
                                                advice_columns, A_COLUMNS,       advice_row};
    struct walk at = {.stats = stats};

    ss_emit_table(emit, &lanes, &at);
    if (observe) {
        ss_emit_table(emit, &advice, &at);
        ss_emit_table(emit, &predictions, &at);
        ss_report_observed(emit, stats);
    }
}
