/* The tensors of a report as JSON. */
#include "core/report/report.h"
#include "core/report/tensor_record.h"

/* Return names, which are short and stay the same within a schema. */
static const char *reason_key(enum ss_tensor_reason reason)
{
    static const char *const keys[SS_TENSOR_REASONS] = {
        [SS_TENSOR_NONE] = "registered",     [SS_TENSOR_TYPE] = "type",
        [SS_TENSOR_EXCLUDED] = "excluded",   [SS_TENSOR_NO_RULE] = "no_rule",
        [SS_TENSOR_NO_STEP] = "no_step",     [SS_TENSOR_MEMORY] = "memory",
        [SS_TENSOR_OTHERS] = "others",       [SS_TENSOR_GUARDED] = "guarded",
        [SS_TENSOR_WITHDRAWN] = "withdrawn",
    };
    return keys[reason];
}

static const char *state_name(enum ss_tensor_state state)
{
    static const char *const names[] = {
        [SS_TENSOR_CANDIDATE] = "candidate",
        [SS_TENSOR_REGISTERED] = "registered",
        [SS_TENSOR_EXACT] = "exact",
    };
    return names[state];
}

static void write_series(struct ss_json *j, const struct ss_series *s)
{
    static const char *const keys[] = {"call", "density", "threshold", "residual_norm",
                                       "input_norm"};

    if (!s) {
        ss_json_null(j, "series");
        return;
    }
    ss_json_object(j, "series");
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        ss_json_array(j, keys[k]);
        for (size_t i = 0; i < s->n; i++) {
            const struct ss_series_point *p = &s->point[i];
            const double values[] = {p->call, p->density, p->threshold, p->residual, p->input};

            ss_json_short(j, NULL, values[k]);
        }
        ss_json_close(j);
    }
    ss_json_close(j);
}

static void write_position(struct ss_json *j, const struct ss_tensor_record *r)
{
    ss_json_text(j, "communicator", r->comm);
    ss_json_integer(j, "ranks", r->size);
    ss_json_text(j, "site", r->site[0] ? r->site : NULL);
    ss_json_text(j, "symbol", r->symbol[0] ? r->symbol : NULL);
    ss_json_integer(j, "ordinal", (int64_t)r->ordinal);
    ss_json_text(j, "type", ss_type_name(r->type));
    ss_json_count(j, "count", r->count);
    ss_json_count(j, "calls", r->calls);
}

static void write_fate(struct ss_json *j, const struct ss_tensor_record *r)
{
    const double calls = (double)r->topk_calls;
    bool registered = r->reason == SS_TENSOR_NONE;

    ss_json_text(j, "state", state_name(r->state));
    ss_json_count(j, "topk_calls", r->topk_calls);
    ss_json_real(j, "density_asked", ss_ratio(r->asked_sum, calls));
    ss_json_real(j, "density_selected", ss_ratio(r->density_sum, calls));
    ss_json_real(j, "off", ss_ratio(r->off_sum, calls));
    ss_json_real(j, "global_off", ss_ratio(r->global_off_sum, (double)r->global_calls));
    ss_json_real(j, "residual_norm", r->residual_norm);
    ss_json_real(j, "residual_ratio", ss_ratio(r->residual_norm, r->input_norm));
    ss_json_text(j, "residual_of", r->by_host ? "host" : "rank");
    ss_json_text(j, "reason", registered ? NULL : reason_key(r->reason));
    ss_json_text(j, "because", registered ? NULL : ss_tensor_reason_name(r->reason));
    ss_json_text(j, "rule", r->rule[0] ? r->rule : NULL);
    ss_json_text(j, "remedy", r->rule[0] ? NULL : ss_tensor_remedy(r->reason));
    ss_json_real(j, "asked_sum", r->asked_sum);
    ss_json_real(j, "density_sum", r->density_sum);
    ss_json_real(j, "off_sum", r->off_sum);
    ss_json_count(j, "global_calls", r->global_calls);
    ss_json_real(j, "global_off_sum", r->global_off_sum);
    ss_json_real(j, "input_norm", r->input_norm);
    ss_json_count(j, "late", r->late);
    write_series(j, r->series);
}

static void write_guard(struct ss_json *j, const struct ss_tensor_record *r)
{
    ss_json_count(j, "guard_looks", r->guard_looks);
    ss_json_real(j, "guard_cosine", r->guard_cosine);
    ss_json_real(j, "guard_ratio", r->guard_ratio);
}

void ss_tensors_write_json(struct ss_json *j, const struct ss_stats *stats)
{
    uint64_t number = 0;

    ss_json_array(j, "tensors");
    for (const struct ss_tensor_record *r = stats->tensors; r; r = r->next) {
        ss_json_object(j, NULL);
        ss_json_count(j, "tensor", ++number);
        write_position(j, r);
        write_fate(j, r);
        ss_json_count(j, "decided_at", r->decided_at);
        write_guard(j, r);
        ss_json_close(j);
    }
    ss_json_close(j);
}
