/* Mode observe: predictions for top-k and for a lower MIN_COUNT. */
#include "core/report/report_impl.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { REMARK_PARTS = 8 };

struct walk {
    const struct ss_stats *stats;
    const struct ss_lane_record *lane;
    uint64_t number; /* of the lane, from 1 */
    int class;       /* of small calls, those above it summed up: */
    struct ss_small sum;
    struct ss_emit_value remark[REMARK_PARTS];
};

/* ---- top-k ---- */

enum {
    T_LANE,
    T_TAKES,
    T_KEEPS,
    T_ALGORITHM,
    T_BYTES,
    T_FEWER,
    T_SECONDS,
    T_FASTER,
    T_REMARK,
    T_COLUMNS
};

static const struct ss_emit_column topk_columns[T_COLUMNS] = {
    [T_LANE] = {"lane", "lane", 1, 0, "number of the lane, as above"},
    [T_TAKES] = {"density", "takes", 1, 0, "share of the elements that would be sent"},
    [T_KEEPS] = {"kept", "of the norm^2", 1, 0,
                 "share of the input's squared norm in them; the rest waits in the residual"},
    [T_ALGORITHM] = {"algorithm", "algorithm", 1, SS_LEFT,
                     "the collective of the least predicted time"},
    [T_BYTES] = {"bytes_per_call", "bytes sent", 1, 0, "bytes that this rank would send in a call"},
    [T_FEWER] = {"times_fewer", "times fewer", 1, 0, "bytes of a dense call / these"},
    [T_SECONDS] = {"seconds_per_call", "time", 1, 0, "time predicted for a call"},
    [T_FASTER] = {"times_faster", "times faster", 1, 0,
                  "measured time of the MPI library / this time"},
    [T_REMARK] = {"remark", "", 1, SS_LEFT, "settings for it, or why there are none"},
};
const struct ss_emit_group ss_report_topk_group = {"topk", "What MODE=topk would do (MODE=observe)",
                                                   topk_columns, T_COLUMNS};

static struct ss_emit_value remark(struct walk *at, const struct ss_report_advice *a)
{
    struct ss_emit_value *v = at->remark;

    if (a->misfit) {
        *v++ = ss_v_text("lossy; no advice: dense was predicted to take ");
        *v++ = ss_v_seconds(a->dense);
        *v++ = ss_v_text(" and took ");
        *v++ = ss_v_seconds(a->native);
    } else if (!a->topk_gain) {
        return ss_v_text("lossy; nothing to gain");
    } else if (at->lane->type == SS_F32) {
        return ss_v_text(
            "LOSSY, for gradients only: SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=auto");
    } else {
        *v++ =
            ss_v_text("LOSSY, for gradients only: SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=");
        *v++ = ss_v_integer((int64_t)at->lane->count);
    }
    return ss_v_sentence(at->remark, (size_t)(v - at->remark));
}

static bool topk_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct walk *at = ctx;
    const struct ss_lane_record *r;

    at->lane = row == 0 ? at->stats->lanes : at->lane->next;
    at->number = row == 0 ? 1 : at->number + 1;
    for (; at->lane && at->lane->topk_samples == 0; at->number++)
        at->lane = at->lane->next;
    if (!(r = at->lane))
        return false;
    struct ss_report_advice a = ss_report_advise(r);
    double samples = (double)r->topk_samples,
           dense = ss_ratio((double)r->bytes_dense, (double)r->calls);
    v[T_LANE] = ss_v_count(at->number);
    v[T_TAKES] = ss_v_share(ss_ratio(r->topk_density_sum, samples));
    v[T_KEEPS] = ss_v_share(ss_ratio(r->topk_kept_sum, samples));
    v[T_ALGORITHM] = ss_v_text(a.topk == SS_AUTO ? "-" : ss_algorithm_name(a.topk));
    v[T_BYTES] = ss_v_number(SS_V_MEAN, a.topk_bytes);
    v[T_FEWER] = ss_v_factor(ss_ratio(dense, a.topk_bytes));
    v[T_SECONDS] = ss_v_seconds(a.topk_predicted);
    v[T_FASTER] = ss_v_factor(ss_ratio(a.native, a.topk_predicted));
    v[T_REMARK] = remark(at, &a);
    return true;
}

/* ---- MIN_COUNT ---- */

enum {
    S_MIN,
    S_CALLS,
    S_BYTES,
    S_SECONDS,
    S_SHARE,
    S_OWN_CALLS,
    S_OWN_BYTES,
    S_OWN_SECONDS,
    S_COLUMNS
};

static const struct ss_emit_column small_columns[S_COLUMNS] = {
    [S_MIN] = {"min_count", "MIN_COUNT", 1, 0, "a lower MIN_COUNT"},
    [S_CALLS] = {"would_take", "calls more", 1, 0, "calls that it would take over"},
    [S_BYTES] = {"would_take_bytes", "bytes", 1, 0, "bytes in their buffers"},
    [S_SECONDS] = {"would_take_seconds", "time", 1, 0, "time spent in them"},
    [S_SHARE] = {"share", "of the job", 1, 0, "this time, as a share of the job's"},
    [S_OWN_CALLS] = {"calls", NULL, 0, 0,
                     "calls of min_count elements and more, to below twice as many"},
    [S_OWN_BYTES] = {"bytes", NULL, 0, 0, "bytes in their buffers"},
    [S_OWN_SECONDS] = {"seconds", NULL, 0, 0, "seconds spent in them"},
};
const struct ss_emit_group ss_report_small_group = {"small", "Calls below MIN_COUNT (MODE=observe)",
                                                    small_columns, S_COLUMNS};

/* From the largest calls down, each row with those above it. */
static bool small_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct walk *at = ctx;
    const struct ss_stats *stats = at->stats;

    if (row == 0) {
        at->class = SS_SMALL_CLASSES;
        at->sum = (struct ss_small){0, 0, 0};
    }
    do {
        if (--at->class < 0)
            return false;
    } while (stats->small[at->class].calls == 0);
    const struct ss_small *own = &stats->small[at->class];
    at->sum.calls += own->calls;
    at->sum.bytes += own->bytes;
    at->sum.seconds += own->seconds;
    v[S_MIN] = ss_v_count((uint64_t)1 << at->class);
    v[S_CALLS] = ss_v_count(at->sum.calls);
    v[S_BYTES] = ss_v_bytes(at->sum.bytes);
    v[S_SECONDS] = ss_v_seconds(at->sum.seconds);
    v[S_SHARE] = ss_v_share(ss_ratio(at->sum.seconds, stats->end - stats->start));
    v[S_OWN_CALLS] = ss_v_count(own->calls);
    v[S_OWN_BYTES] = ss_v_bytes(own->bytes);
    v[S_OWN_SECONDS] = ss_v_seconds(own->seconds);
    return true;
}

void ss_report_observed(struct ss_emit *emit, const struct ss_stats *stats)
{
    static const struct ss_emit_table topk = {
        "topk",    {"MODE=topk would be LOSSY: what it would take and send per call, from samples"},
        0,         topk_columns,
        T_COLUMNS, topk_row};
    static const struct ss_emit_table small = {
        "small",   {"Calls below MIN_COUNT: what a lower one would take over"},
        0,         small_columns,
        S_COLUMNS, small_row};
    struct walk at = {.stats = stats};

    ss_emit_table(emit, &topk, &at);
    ss_emit_table(emit, &small, &at);
}
