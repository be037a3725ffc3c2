/* The report of the tensors: what became of them, where they are, what was seen of them. */
#include "core/report/report_impl.h"
#include "core/report/tensor_record.h"

const char *ss_tensor_reason_key(enum ss_tensor_reason reason)
{
    static const char *const keys[SS_TENSOR_REASONS] = {
        "registered", "watched", "type",      "excluded", "no_rule",  "offered", "double",
        "no_step",    "outside", "seldom",    "average",  "constant", "memory",  "others",
        "profile",    "guarded", "withdrawn", "parts",    "one_sign", "drift",   "left",
        "mixed",      "data",    "short",     "layers",   "mean",
    };
    return keys[reason];
}

const char *ss_tensor_state_name(enum ss_tensor_state state)
{
    static const char *const names[] = {
        [SS_TENSOR_CANDIDATE] = "candidate",
        [SS_TENSOR_REGISTERED] = "registered",
        [SS_TENSOR_EXACT] = "exact",
    };
    return names[state];
}

enum column {
    TENSOR,
    COMMUNICATOR,
    SHOWN_NAME,
    RANKS,
    SITE,
    SHOWN_SITE,
    SYMBOL,
    ORDINAL,
    SHOWN_ORDINAL,
    TYPE,
    COUNT,
    CALLS,
    STATE,
    TOPK_CALLS,
    DENSITY_ASKED,
    DENSITY_SELECTED,
    OFF,
    GLOBAL_OFF,
    RESIDUAL_NORM,
    RESIDUAL_RATIO,
    REASON,
    SHOWN_REASON,
    RULE,
    SHOWN_RULE,
    REMEDY,
    ASKED_SUM,
    DENSITY_SUM,
    OFF_SUM,
    GLOBAL_CALLS,
    GLOBAL_OFF_SUM,
    INPUT_NORM,
    LATE,
    SERIES,
    WATCHED,
    ALIKE,
    AGAIN,
    ALONG,
    BALANCE,
    PARTS,
    DRIFT,
    SAME,
    OVERLAP,
    STAY,
    FIRST,
    THIRD,
    COMMON,
    LASTING,
    DECIDED,
    DECIDED_AT,
    MOVED,
    GUARD_LOOKS,
    GUARD_COSINE,
    GUARD_RATIO,
    GUARD_DOUBT,
    COLUMNS
};

_Static_assert((int)COLUMNS <= (int)SS_EMIT_COLUMNS, "room for a row");

/* Views of the table. */
enum { PLACES = 1, FATES = 2, SEEN = 4 };

static const struct ss_emit_column columns[COLUMNS] = {
    [TENSOR] = {"tensor", "tensor", PLACES | FATES | SEEN, 0,
                "number of the tensor in this report; a tensor is one sum of the program, in all "
                "its steps: a lane, its place in the step and its call site"},
    [COMMUNICATOR] = {"communicator", NULL, 0, SS_LEFT, "its MPI name, \"\" where it has none"},
    [SHOWN_NAME] = {NULL, "communicator", PLACES, SS_LEFT, "MPI name of the communicator"},
    [RANKS] = {"ranks", "ranks", PLACES, 0, "ranks of the communicator"},
    [SITE] = {"site", NULL, 0, SS_LEFT, "module and offset that it is called from; null: unknown"},
    [SHOWN_SITE] = {NULL, "called from", PLACES, SS_LEFT,
                    "module and offset that it is called from"},
    [SYMBOL] = {"symbol", "function", PLACES, SS_LEFT, "the function there"},
    [ORDINAL] = {"ordinal", NULL, 0, 0,
                 "which call of its lane it is in the step, from 0; -1: out of step"},
    [SHOWN_ORDINAL] = {NULL, "ordinal", PLACES, SS_RARE,
                       "which call of its lane it is in the step, from 0; -: out of step"},
    [TYPE] = {"type", "type", PLACES, SS_LEFT, "datatype of the elements"},
    [COUNT] = {"count", "count", PLACES, 0, "elements"},
    [CALLS] = {"calls", "calls", PLACES, 0, "calls of it, lossy or not"},
    [STATE] = {"state", "state", FATES, SS_LEFT,
               "registered: its calls are lossy; exact; candidate: still being watched"},
    [TOPK_CALLS] = {"topk_calls", "top-k calls", FATES, 0, "calls sent as top-k, which are lossy"},
    [DENSITY_ASKED] = {"density_asked", "asked", FATES, 0,
                       "share of the elements asked for, warm-up included; mean of these calls"},
    [DENSITY_SELECTED] = {"density_selected", "selected", FATES, 0,
                          "share of the elements that this rank selected; mean of these calls"},
    [OFF] = {"off", "off k", FATES, SS_RARE,
             "how far selections were from what was asked for: |selected - k| / k, mean"},
    [GLOBAL_OFF] = {"global_off", "in sum", FATES, SS_RARE,
                    "the same of the set that oktopk or gtopk keeps of the sum"},
    [RESIDUAL_NORM] = {"residual_norm", "residual", FATES, 0,
                       "norm of what this rank has kept back, at the end"},
    [RESIDUAL_RATIO] = {"residual_ratio", "to input", FATES, 0,
                        "norm of what this rank has kept back, over that of the last input sent as "
                        "top-k: about how many steps are waiting"},
    [REASON] = {"reason", NULL, 0, SS_LEFT, "short name of why it is not lossy; null: it is"},
    [SHOWN_REASON] = {NULL, "because", FATES, SS_LEFT, "why it is not lossy"},
    [RULE] = {"rule", NULL, 0, SS_LEFT, "rule of REGISTER that makes it lossy all the same"},
    [SHOWN_RULE] = {NULL, "to register it all the same", FATES, SS_LEFT,
                    "setting that makes it lossy all the same, or what helps where none does"},
    [REMEDY] = {"remedy", NULL, 0, SS_LEFT, "what helps where no rule does"},
    [ASKED_SUM] = {"asked_sum", NULL, 0, 0, "sum behind density_asked"},
    [DENSITY_SUM] = {"density_sum", NULL, 0, 0, "sum behind density_selected"},
    [OFF_SUM] = {"off_sum", NULL, 0, 0, "sum behind off"},
    [GLOBAL_CALLS] = {"global_calls", NULL, 0, 0, "calls by oktopk or gtopk, behind global_off"},
    [GLOBAL_OFF_SUM] = {"global_off_sum", NULL, 0, 0, "sum behind global_off"},
    [INPUT_NORM] = {"input_norm", NULL, 0, 0,
                    "norm of this rank's last input sent as top-k; 0: there was none"},
    [LATE] = {"late", NULL, 0, 0,
              "QUORUM: gradients of this rank that came late, of which no selection has sent "
              "anything yet; they are in what it has kept back"},
    [SERIES] = {"series", NULL, 0, 0,
                "how these calls went, at even distances, 128 points at most; null: there were "
                "none"},
    [WATCHED] = {"watched", "watched", SEEN, SS_RARE,
                 "calls in which samples of all ranks were compared; what follows are means of "
                 "them"},
    [ALIKE] = {"alike", "alike", SEEN, SS_RARE,
               "cosine between the inputs of different ranks; 1: all the same, as in an average"},
    [AGAIN] = {"again", "again", SEEN, SS_RARE,
               "largest |cosine| of the sum with one of the last four"},
    [ALONG] = {"along", "along", SEEN, SS_RARE, "cosine of the sum with the last"},
    [BALANCE] = {"balance", "balance", SEEN, SS_RARE,
                 "the smaller share of energy of one sign; 0: one sign, 1/2: both alike"},
    [PARTS] = {"parts", "parts", SEEN, SS_RARE,
               "how different the places of the ranks' energy are; 1: disjoint, as in a gather"},
    [DRIFT] = {"drift", "drift", SEEN, SS_RARE, "octaves of energy that the norm moves per call"},
    [SAME] = {"same", "same", SEEN, SS_RARE, "share of calls in which \"along\" is above 0.98"},
    [OVERLAP] = {"overlap", "overlap", SEEN, SS_RARE,
                 "how much of what is not zero on one rank is not zero on others; 0: a gather"},
    [STAY] = {"stay", "stay", SEEN, SS_RARE, "cosine of a rank's input with its last"},
    [FIRST] = {"first", "first", SEEN, SS_RARE, "|cosine| of the sum with the last"},
    [THIRD] = {"third", "third", SEEN, SS_RARE, "|cosine| of the sum with the third last"},
    [COMMON] = {"common", "common", SEEN, SS_RARE,
                "\"alike\", with all calls counted the same; 0: nothing in common, as divided "
                "layers"},
    [LASTING] = {"lasting", "lasting", SEEN, SS_RARE,
                 "mean cosine of any two sums over that of neighbours; 1: one direction"},
    [DECIDED] = {"decided", "decided", SEEN, SS_RARE | SS_LEFT,
                 "short name of why it was refused when it was first decided on"},
    [DECIDED_AT] = {"decided_at", "at call", SEEN, SS_RARE,
                    "call of it after which that was; 0: not yet"},
    [MOVED] = {"moved", "moved", SEEN, SS_RARE,
               "octaves of energy that the norm moved when it was last looked at again; 0: never"},
    [GUARD_LOOKS] = {"guard_looks", "looks", SEEN, SS_RARE,
                     "calls in which GUARD compared the result with the dense sum"},
    [GUARD_COSINE] = {"guard_cosine", "cosine", SEEN, SS_RARE,
                      "cosine of the two in the last of them"},
    [GUARD_RATIO] = {"guard_ratio", "ratio", SEEN, SS_RARE,
                     "largest norm of a rank's residual over that of its input then"},
    [GUARD_DOUBT] = {"guard_doubt", "looks like", SEEN, SS_RARE | SS_LEFT,
                     "what speaks against a gradient that a rule has made lossy"},
};
const struct ss_emit_group ss_report_tensors_group = {"tensors", "Tensors (MODE=topk)", columns,
                                                      COLUMNS};

/* As struct ss_series_point has them. */
static const struct ss_emit_column point_columns[] = {
    {"call", NULL, 0, 0, "number of the tensor's own call, from 1"},
    {"density", NULL, 0, 0, "share of the elements that this rank selected in it"},
    {"threshold", NULL, 0, 0, "least magnitude that it selected; null where k of each B are taken"},
    {"residual_norm", NULL, 0, 0, "norm of what this rank had kept back after it"},
    {"input_norm", NULL, 0, 0, "norm of this rank's input"},
};
enum { POINT_COLUMNS = sizeof point_columns / sizeof *point_columns };
const struct ss_emit_group ss_report_series_group = {"series", "Series of a tensor, an array each",
                                                     point_columns, POINT_COLUMNS};

static double point_at(const void *ctx, size_t column, size_t i)
{
    const struct ss_series_point *p = &((const struct ss_series *)ctx)->point[i];
    const double values[POINT_COLUMNS] = {p->call, p->density, p->threshold, p->residual, p->input};

    return values[column];
}

static struct ss_emit_value series_value(const struct ss_series *s)
{
    struct ss_emit_value v = {.kind = SS_V_ARRAYS};

    v.as.arrays.columns = point_columns;
    v.as.arrays.n_columns = POINT_COLUMNS;
    v.as.arrays.n = s ? s->n : 0;
    v.as.arrays.at = point_at;
    v.as.arrays.ctx = s;
    return v;
}

struct walk {
    const struct ss_stats *stats;
    const struct ss_tensor_record *tensor;
    struct ss_emit_value rule[2]; /* sentence of the row */
};

static void places(const struct ss_tensor_record *r, struct ss_emit_value *v)
{
    bool lost = r->ordinal == SS_ORDINAL_LOST;

    v[COMMUNICATOR] = ss_v_text(r->comm);
    v[SHOWN_NAME] = ss_v_text(r->comm[0] ? r->comm : "(no name)");
    v[RANKS] = ss_v_integer(r->size);
    v[SITE] = ss_v_text(r->site[0] ? r->site : NULL);
    v[SHOWN_SITE] = ss_v_text(r->site[0] ? r->site : "(unknown)");
    v[SYMBOL] = ss_v_text(r->symbol[0] ? r->symbol : NULL);
    v[ORDINAL] = ss_v_integer(lost ? -1 : (int64_t)r->ordinal);
    v[SHOWN_ORDINAL] = lost ? ss_v_text("-") : ss_v_count(r->ordinal);
    v[TYPE] = ss_v_text(ss_type_name(r->type));
    v[COUNT] = ss_v_count(r->count);
    v[CALLS] = ss_v_count(r->calls);
}

static void fates(struct walk *at, struct ss_emit_value *v)
{
    const struct ss_tensor_record *r = at->tensor;
    bool registered = r->reason == SS_TENSOR_NONE;

    at->rule[0] = ss_v_text("REGISTER=");
    at->rule[1] = ss_v_text(r->rule);
    v[STATE] = ss_v_text(ss_tensor_state_name(r->state));
    v[TOPK_CALLS] = ss_v_count(r->topk_calls);
    v[DENSITY_ASKED] = ss_v_share(ss_ratio(r->asked_sum, (double)r->topk_calls));
    v[DENSITY_SELECTED] = ss_v_share(ss_ratio(r->density_sum, (double)r->topk_calls));
    v[OFF] = ss_v_share(ss_ratio(r->off_sum, (double)r->topk_calls));
    v[GLOBAL_OFF] = ss_v_share(ss_ratio(r->global_off_sum, (double)r->global_calls));
    v[RESIDUAL_NORM] = ss_v_factor(r->residual_norm);
    v[RESIDUAL_RATIO] = ss_v_factor(ss_ratio(r->residual_norm, r->input_norm));
    v[REASON] = ss_v_text(registered ? NULL : ss_tensor_reason_key(r->reason));
    v[SHOWN_REASON] = ss_v_text(registered ? NULL : ss_tensor_reason_name(r->reason));
    v[RULE] = ss_v_text(r->rule[0] ? r->rule : NULL);
    v[REMEDY] = ss_v_text(r->rule[0] ? NULL : ss_tensor_remedy(r->reason));
    v[SHOWN_RULE] = r->rule[0] ? ss_v_sentence(at->rule, 2) : v[REMEDY];
    v[ASKED_SUM] = ss_v_factor(r->asked_sum);
    v[DENSITY_SUM] = ss_v_factor(r->density_sum);
    v[OFF_SUM] = ss_v_factor(r->off_sum);
    v[GLOBAL_CALLS] = ss_v_count(r->global_calls);
    v[GLOBAL_OFF_SUM] = ss_v_factor(r->global_off_sum);
    v[INPUT_NORM] = ss_v_factor(r->input_norm);
    v[LATE] = ss_v_count(r->late);
    v[SERIES] = series_value(r->series);
}

/* What was seen of it, for those who choose limits. */
static void evidence(const struct ss_tensor_record *r, struct ss_emit_value *v)
{
    v[WATCHED] = ss_v_count(r->watched);
    v[ALIKE] = ss_v_factor(r->alike);
    v[AGAIN] = ss_v_factor(r->again);
    v[ALONG] = ss_v_factor(r->along);
    v[BALANCE] = ss_v_factor(r->balance);
    v[PARTS] = ss_v_factor(r->parts);
    v[DRIFT] = ss_v_factor(r->drift);
    v[SAME] = ss_v_factor(r->same);
    v[OVERLAP] = ss_v_factor(r->overlap);
    v[STAY] = ss_v_factor(r->stay);
    v[FIRST] = ss_v_factor(r->first);
    v[THIRD] = ss_v_factor(r->third);
    v[COMMON] = ss_v_factor(r->common);
    v[LASTING] = ss_v_factor(r->lasting);
    v[DECIDED] = ss_v_text(r->decided_at > 0 ? ss_tensor_reason_key(r->decided) : NULL);
    v[MOVED] = ss_v_factor(r->moved);
    v[DECIDED_AT] = ss_v_count(r->decided_at);
    v[GUARD_LOOKS] = ss_v_count(r->guard_looks);
    v[GUARD_COSINE] = ss_v_factor(r->guard_cosine);
    v[GUARD_RATIO] = ss_v_factor(r->guard_ratio);
    v[GUARD_DOUBT] = ss_v_text(r->guard_doubt ? ss_likeness_text(r->guard_doubt) : NULL);
}

static bool tensor_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct walk *at = ctx;

    at->tensor = row == 0 ? at->stats->tensors : at->tensor->next;
    if (!at->tensor)
        return false;
    v[TENSOR] = ss_v_count(row + 1);
    places(at->tensor, v);
    fates(at, v);
    evidence(at->tensor, v);
    return true;
}

void ss_report_tensors(struct ss_emit *emit, const struct ss_stats *stats)
{
    static const struct ss_emit_table tensors = {
        "tensors",
        {"Tensors (MODE=topk), where they come from",
         "Tensors, what became of them (norms of this rank, at the end)",
         "Tensors, what was seen of them"},
        SEEN,
        columns,
        COLUMNS,
        tensor_row,
    };

    ss_emit_table(emit, &tensors, &(struct walk){.stats = stats});
}

void ss_report_topk(struct ss_emit *emit, const struct ss_stats *stats)
{
    uint64_t in_state[3] = {0}, calls = 0;
    double asked = 0, sent = 0;

    if (!stats->tensors)
        return;
    for (const struct ss_tensor_record *r = stats->tensors; r; r = r->next) {
        in_state[r->state]++;
        calls += r->topk_calls;
        asked += (double)r->topk_calls * (double)r->count;
        sent += r->density_sum * (double)r->count;
    }
    struct ss_emit_value parts[] = {
        ss_v_count(in_state[SS_TENSOR_REGISTERED]),
        ss_v_text(" of "),
        ss_v_count(stats->tensor_count),
        ss_v_text(" tensors registered, "),
        ss_v_count(in_state[SS_TENSOR_EXACT]),
        ss_v_text(" exact, "),
        ss_v_count(in_state[SS_TENSOR_CANDIDATE]),
        ss_v_text(" still being watched; "),
        ss_v_count(calls),
        ss_v_text(" calls sent as top-k, "),
        ss_v_share(ss_ratio(sent, asked)),
        ss_v_text(" of their elements"),
        stats->tensors_unlisted > 0 ? ss_v_text("; tensors not listed for want of room: ")
                                    : ss_v_text(""),
        stats->tensors_unlisted > 0 ? ss_v_count(stats->tensors_unlisted) : ss_v_text(""),
    };
    ss_report_line(emit, SS_LINE_TOPK, ss_v_sentence(parts, sizeof parts / sizeof *parts));
}
