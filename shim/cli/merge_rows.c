/* Lanes and tensors of all ranks. */
#include <math.h>

#include "core/report/tensor_record.h"
#include "shim/cli/report_merge.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* ---- lanes ---- */

enum {
    L_LANE,
    L_COMM,
    L_RANKS,
    L_COUNT,
    L_TYPE,
    L_KIND,
    L_OP,
    L_SHOWN_OP,
    L_REPORTS,
    L_CALLS,
    L_SPARSE,
    L_DENSITY_LEAST,
    L_DENSITY,
    L_DENSITY_MOST,
    L_DENSE,
    L_SENT,
    L_RATIO,
    L_SCAN,
    L_VOTE,
    L_EXCHANGE,
    L_MERGE,
    L_CODING,
    L_NATIVE,
    L_SECONDS_LEAST,
    L_SECONDS,
    L_SECONDS_MOST,
    L_SLOWEST,
    L_COLUMNS
};

enum { SIZES = 1, TIMES = 2 };

static const struct ss_emit_column lane_columns[L_COLUMNS] = {
    [L_LANE] = {"lane", "lane", SIZES | TIMES, 0, "number of the lane in this table"},
    [L_COMM] = {"communicator", "communicator", SIZES, SS_LEFT, "its MPI name"},
    [L_RANKS] = {"ranks", "ranks", SIZES, 0, "ranks of the communicator"},
    [L_COUNT] = {"count", "count", SIZES, 0, "elements of the result"},
    [L_TYPE] = {"type", "type", SIZES, SS_LEFT, "datatype of the elements"},
    [L_KIND] = {"kind", NULL, 0, SS_LEFT, "the collective"},
    [L_OP] = {"op", NULL, 0, SS_LEFT, "the operator"},
    [L_SHOWN_OP] = {NULL, "op", SIZES, SS_LEFT,
                    "the operator; before it the collective where it is no allreduce"},
    [L_REPORTS] = {"reports", "reports", SIZES, SS_RARE, "ranks that report it"},
    [L_CALLS] = {"calls", "calls", SIZES, 0, "eligible calls of the rank that has most"},
    [L_SPARSE] = {"calls_sparse", "sparse", SIZES, 0, "of them, those made sparse"},
    [L_DENSITY_LEAST] = {"density_least", "least", SIZES, SS_RARE, "least mean density of a rank"},
    [L_DENSITY] = {"density_median", "density", SIZES, 0, "median of the ranks' mean densities"},
    [L_DENSITY_MOST] = {"density_most", "largest", SIZES, 0, "largest mean density of a rank"},
    [L_DENSE] = {"bytes_dense", "dense", SIZES, 0,
                 "bytes that dense collectives would have sent, all ranks together"},
    [L_SENT] = {"bytes_sent", "sent", SIZES, 0, "bytes sent, all ranks together"},
    [L_RATIO] = {"ratio", "ratio", SIZES, 0, "dense / sent"},
    [L_SCAN] = {"seconds_scan", "scan", TIMES, 0, "time looking for entries, median of the ranks"},
    [L_VOTE] = {"seconds_vote", "vote", TIMES, 0, "time agreeing, median of the ranks"},
    [L_EXCHANGE] = {"seconds_exchange", "exchange", TIMES, 0,
                    "time sending and receiving, median of the ranks"},
    [L_MERGE] = {"seconds_merge", "merge", TIMES, 0, "time adding up, median of the ranks"},
    [L_CODING] = {"seconds_coding", "coding", TIMES, 0,
                  "time encoding and decoding, median of the ranks"},
    [L_NATIVE] = {"seconds_native", "native", TIMES, 0,
                  "time in the MPI library's own collective, median of the ranks"},
    [L_SECONDS_LEAST] = {"seconds_least", "least", TIMES, 0, "least time of a rank in all phases"},
    [L_SECONDS] = {"seconds_median", "all", TIMES, 0, "time in all phases, median of the ranks"},
    [L_SECONDS_MOST] = {"seconds_most", "most", TIMES, 0, "most time of a rank in all phases"},
    [L_SLOWEST] = {"rank_most", "most at", TIMES, 0, "that rank"},
};
const struct ss_emit_group merging_lanes_group = {"lanes", "Merged: lanes", lane_columns,
                                                  L_COLUMNS};

static struct cli_spread lane_spread(struct merging *m, size_t row,
                                     double (*of)(const struct ss_lane_record *lane))
{
    size_t n = 0;

    for (size_t i = 0; i < m->job->n; i++) {
        const struct ss_lane_record *lane = cli_joined(&m->lanes, row, i);

        if (lane != NULL)
            m->values[n++] = (struct cli_value){of(lane), m->job->file[i].report->job.rank};
    }
    return cli_spread_of(m->values, n);
}

#define OF_LANE(name, expression)                                                                  \
    static double lane_##name(const struct ss_lane_record *r)                                      \
    {                                                                                              \
        return (double)(expression);                                                               \
    }
OF_LANE(calls, r->calls)
OF_LANE(dense, r->bytes_dense)
OF_LANE(sent, r->bytes_sent)
OF_LANE(scan, r->times.scan)
OF_LANE(vote, r->times.vote)
OF_LANE(exchange, r->times.exchange)
OF_LANE(merge, r->times.merge)
OF_LANE(coding, r->times.coding)
OF_LANE(native, r->times.native)

static double lane_sparse(const struct ss_lane_record *lane)
{
    uint64_t calls = 0;

    for (int a = 0; a < SS_ALGORITHMS; a++)
        calls += lane->sparse[a];
    return (double)calls;
}

static void lane_names(struct merging *m, const struct ss_lane_record *r, struct ss_emit_value *v)
{
    v[L_COMM] = ss_v_text(r->count == 0 ? "(further lanes)" : r->comm);
    v[L_RANKS] = ss_v_integer(r->size);
    v[L_COUNT] = ss_v_count(r->count);
    v[L_TYPE] = ss_v_text(ss_type_name(r->type));
    v[L_KIND] = ss_v_text(ss_kind_name(r->kind));
    v[L_OP] = ss_v_text(ss_op_name(r->op));
    v[L_SHOWN_OP] = ss_report_lane_op(r, m->sentence);
}

static void lane_times(struct merging *m, size_t row, struct ss_emit_value *v)
{
    static const struct {
        int column;
        double (*of)(const struct ss_lane_record *lane);
    } phases[] = {{L_SCAN, lane_scan},   {L_VOTE, lane_vote},     {L_EXCHANGE, lane_exchange},
                  {L_MERGE, lane_merge}, {L_CODING, lane_coding}, {L_NATIVE, lane_native}};
    struct cli_spread all = lane_spread(m, row, cli_lane_seconds);

    for (size_t i = 0; i < LENGTH(phases); i++)
        v[phases[i].column] = ss_v_number(SS_V_SECONDS, lane_spread(m, row, phases[i].of).median);
    v[L_SECONDS_LEAST] = ss_v_number(SS_V_SECONDS, all.least);
    v[L_SECONDS] = ss_v_number(SS_V_SECONDS, all.median);
    v[L_SECONDS_MOST] = ss_v_number(SS_V_SECONDS, all.most);
    v[L_SLOWEST] = merging_rank(all.rank_most);
}

static bool lane_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct merging *m = ctx;

    if (row == m->lanes.rows)
        return false;
    struct cli_spread density = lane_spread(m, row, cli_lane_density);
    double bytes = lane_spread(m, row, lane_dense).sum, out = lane_spread(m, row, lane_sent).sum;
    struct cli_spread calls = lane_spread(m, row, lane_calls);
    lane_names(m, cli_joined_any(&m->lanes, row), v);
    v[L_LANE] = ss_v_count(row + 1);
    v[L_REPORTS] = ss_v_count(calls.n);
    v[L_CALLS] = ss_v_count((uint64_t)calls.most);
    v[L_SPARSE] = ss_v_count((uint64_t)lane_spread(m, row, lane_sparse).most);
    v[L_DENSITY_LEAST] = ss_v_number(SS_V_SHARE, density.least);
    v[L_DENSITY] = ss_v_number(SS_V_SHARE, density.median);
    v[L_DENSITY_MOST] = ss_v_number(SS_V_SHARE, density.most);
    v[L_DENSE] = ss_v_number(SS_V_MEAN, bytes);
    v[L_SENT] = ss_v_number(SS_V_MEAN, out);
    v[L_RATIO] = ss_v_number(SS_V_FACTOR, out > 0 ? bytes / out : NAN);
    lane_times(m, row, v);
    return true;
}

/* ---- tensors ---- */

enum {
    T_TENSOR,
    T_COMM,
    T_RANKS,
    T_SITE,
    T_SYMBOL,
    T_ORDINAL,
    T_TYPE,
    T_COUNT,
    T_STATE,
    T_REPORTS,
    T_CALLS,
    T_TOPK,
    T_SELECTED_LEAST,
    T_SELECTED,
    T_SELECTED_MOST,
    T_NORM_LEAST,
    T_NORM,
    T_NORM_MOST,
    T_RATIO_LEAST,
    T_RATIO,
    T_RATIO_MOST,
    T_MOST_AT,
    T_COLUMNS
};

static const struct ss_emit_column tensor_columns[T_COLUMNS] = {
    [T_TENSOR] = {"tensor", "tensor", 1, 0, "number of the tensor in this table"},
    [T_COMM] = {"communicator", "communicator", 1, SS_LEFT | SS_RARE, "its MPI name"},
    [T_RANKS] = {"ranks", "ranks", 1, SS_RARE, "ranks of the communicator"},
    [T_SITE] = {"site", "called from", 1, SS_LEFT, "module and offset that it is called from"},
    [T_SYMBOL] = {"symbol", "function", 1, SS_LEFT, "the function there"},
    [T_ORDINAL] = {"ordinal", "ordinal", 1, SS_RARE,
                   "which call of its lane it is in the step, from 0; -1: out of step"},
    [T_TYPE] = {"type", "type", 1, SS_LEFT | SS_RARE, "datatype of the elements"},
    [T_COUNT] = {"count", "count", 1, 0, "elements"},
    [T_STATE] = {"state", "state", 1, SS_LEFT,
                 "registered: its calls are lossy; exact; candidate: still being watched; differs: "
                 "not the same on all ranks"},
    [T_REPORTS] = {"reports", "reports", 1, SS_RARE, "ranks that report it"},
    [T_CALLS] = {"calls", "calls", 1, 0, "calls of the rank that has most"},
    [T_TOPK] = {"topk_calls", "top-k calls", 1, 0, "of them, those sent as top-k"},
    [T_SELECTED_LEAST] = {"density_least", "least", 1, SS_RARE,
                          "least share of the elements that a rank selected, mean of its calls"},
    [T_SELECTED] = {"density_median", "selected", 1, 0, "median of these shares"},
    [T_SELECTED_MOST] = {"density_most", "most", 1, SS_RARE, "largest of these shares"},
    [T_NORM_LEAST] = {"residual_norm_least", NULL, 0, 0, "least norm of a rank's residual"},
    [T_NORM] = {"residual_norm_median", "residual", 1, SS_RARE, "median of these norms"},
    [T_NORM_MOST] = {"residual_norm_most", NULL, 0, 0, "largest of these norms"},
    [T_RATIO_LEAST] = {"residual_ratio_least", "least", 1, SS_RARE,
                       "least norm of a rank's residual over that of its last input"},
    [T_RATIO] = {"residual_ratio_median", "to input", 1, 0, "median of these ratios"},
    [T_RATIO_MOST] = {"residual_ratio_most", "most", 1, 0, "largest of these ratios"},
    [T_MOST_AT] = {"rank_most", "most at", 1, 0, "the rank that has it"},
};
const struct ss_emit_group merging_tensors_group = {"tensors", "Merged: tensors (MODE=topk)",
                                                    tensor_columns, T_COLUMNS};

static struct cli_spread tensor_spread(struct merging *m, size_t row,
                                       double (*of)(const struct ss_tensor_record *tensor))
{
    size_t n = 0;

    for (size_t i = 0; i < m->job->n; i++) {
        const struct ss_tensor_record *tensor = cli_joined(&m->tensors, row, i);

        if (tensor != NULL)
            m->values[n++] = (struct cli_value){of(tensor), m->job->file[i].report->job.rank};
    }
    return cli_spread_of(m->values, n);
}

static double tensor_calls(const struct ss_tensor_record *tensor)
{
    return (double)tensor->calls;
}

static double tensor_topk(const struct ss_tensor_record *tensor)
{
    return (double)tensor->topk_calls;
}

static double tensor_norm(const struct ss_tensor_record *tensor)
{
    return tensor->topk_calls > 0 ? tensor->residual_norm : NAN;
}

static const char *state_of(const struct cli_join *join, size_t row)
{
    const struct ss_tensor_record *first = cli_joined_any(join, row);

    for (size_t i = 0; i < join->reports; i++) {
        const struct ss_tensor_record *tensor = cli_joined(join, row, i);

        if (tensor != NULL && tensor->state != first->state)
            return "differs";
    }
    return ss_tensor_state_name(first->state);
}

static void tensor_place(const struct ss_tensor_record *r, struct ss_emit_value *v)
{
    v[T_COMM] = ss_v_text(r->comm);
    v[T_RANKS] = ss_v_integer(r->size);
    v[T_SITE] = ss_v_text(r->site[0] != '\0' ? r->site : NULL);
    v[T_SYMBOL] = ss_v_text(r->symbol[0] != '\0' ? r->symbol : NULL);
    v[T_ORDINAL] = ss_v_integer(r->ordinal == SS_ORDINAL_LOST ? -1 : (int64_t)r->ordinal);
    v[T_TYPE] = ss_v_text(ss_type_name(r->type));
    v[T_COUNT] = ss_v_count(r->count);
}

static bool tensor_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct merging *m = ctx;

    if (row == m->tensors.rows)
        return false;
    struct cli_spread selected = tensor_spread(m, row, cli_tensor_density);
    struct cli_spread norm = tensor_spread(m, row, tensor_norm);
    struct cli_spread ratio = tensor_spread(m, row, cli_tensor_ratio);
    struct cli_spread calls = tensor_spread(m, row, tensor_calls);
    tensor_place(cli_joined_any(&m->tensors, row), v);
    v[T_TENSOR] = ss_v_count(row + 1);
    v[T_STATE] = ss_v_text(state_of(&m->tensors, row));
    v[T_REPORTS] = ss_v_count(calls.n);
    v[T_CALLS] = ss_v_count((uint64_t)calls.most);
    v[T_TOPK] = ss_v_count((uint64_t)tensor_spread(m, row, tensor_topk).most);
    v[T_SELECTED_LEAST] = ss_v_number(SS_V_SHARE, selected.least);
    v[T_SELECTED] = ss_v_number(SS_V_SHARE, selected.median);
    v[T_SELECTED_MOST] = ss_v_number(SS_V_SHARE, selected.most);
    v[T_NORM_LEAST] = ss_v_number(SS_V_FACTOR, norm.least);
    v[T_NORM] = ss_v_number(SS_V_FACTOR, norm.median);
    v[T_NORM_MOST] = ss_v_number(SS_V_FACTOR, norm.most);
    v[T_RATIO_LEAST] = ss_v_number(SS_V_FACTOR, ratio.least);
    v[T_RATIO] = ss_v_number(SS_V_FACTOR, ratio.median);
    v[T_RATIO_MOST] = ss_v_number(SS_V_FACTOR, ratio.most);
    v[T_MOST_AT] = merging_rank(ratio.rank_most);
    return true;
}

void merging_rows(struct ss_emit *emit, struct merging *m)
{
    static const struct ss_emit_table lanes = {
        "lanes",
        {"Lanes, bytes of all ranks together", "Time by lane, medians of the ranks, all calls"},
        0,
        lane_columns,
        L_COLUMNS,
        lane_row};
    static const struct ss_emit_table tensors = {
        "tensors", {"Tensors, medians of the ranks"}, 0, tensor_columns, T_COLUMNS, tensor_row};

    ss_emit_table(emit, &lanes, m);
    ss_emit_table(emit, &tensors, m);
}
