/* Computes the terms of the cost and memory formulas. */
#include "core/plan/cost.h"

double ss_cost_bytes_as(const struct ss_shape *s, enum ss_values values, double nnz, double n)
{
    const struct ss_rounding how = {.values = values, .bucket = s->bucket};

    if (nnz <= 0 || n <= 0)
        return SS_WIRE_HEADER;
    double bytes = nnz * ss_wire_bytes_per_entry(s->type, &how, ss_min(nnz / n, 1));

    if (values == SS_VALUES_SAME)
        bytes = ss_min(bytes, n * (double)ss_type_size(s->type));
    return bytes + SS_WIRE_HEADER * (1 + nnz / SS_CHUNK_ENTRIES);
}

double ss_cost_stream_bytes(const struct ss_shape *s, double nnz, double n)
{
    return ss_cost_bytes_as(s, s->values, nnz, n);
}

/* Work on values alone, as fractions of the cost of coding an entry (measured: 1.3 and 0.35 ns of
 * 4). */
static const double ROUNDING = 0.3, READING = 0.1;

double ss_cost_rounding(const struct ss_shape *s, enum ss_values values, double out, double in)
{
    return values == SS_VALUES_SAME ? 0 : s->code * (ROUNDING * out + READING * in);
}

double ss_cost_rounding_there(const struct ss_shape *s, enum ss_values values, double out,
                              double in)
{
    return values == SS_VALUES_SAME ? 0 : s->backend.encode * (ROUNDING * out + READING * in);
}

double ss_cost_leave(const struct ss_shape *s, double nnz)
{
    if (!s->topk)
        return s->code * nnz;
    /* one for the lengths, one for the messages */
    return s->backend.encode * nnz + 2 * s->backend.wait;
}

double ss_cost_take(const struct ss_shape *s, double nnz, double senders)
{
    return s->backend.decode * nnz + s->backend.message * (senders + nnz / SS_CHUNK_ENTRIES);
}

double ss_cost_put(const struct ss_shape *s, double nnz)
{
    return s->backend.put * nnz + s->backend.message * (1 + nnz / SS_CHUNK_ENTRIES);
}

double ss_cost_cross(const struct ss_shape *s, double bytes)
{
    return s->backend.cross * bytes + s->backend.wait;
}

double ss_cost_compact(const struct ss_shape *s, double nnz, double part_n)
{
    double seconds = s->scan * part_n + ss_cost_leave(s, nnz);

    if (!s->topk)
        seconds += ss_cost_cross(s, nnz * (4 + (double)ss_type_size(s->type)));
    return seconds + ss_cost_rounding_there(s, s->values, nnz, 0);
}

double ss_cost_part_share(const struct ss_shape *s)
{
    double mean = (double)s->nnz_max / s->size;

    return ss_max(mean, (double)s->part_max - 3 * ss_root(mean) - 3);
}

double ss_cost_skew(const struct ss_shape *s)
{
    return s->nnz_max > 0 ? ss_cost_part_share(s) * s->size / (double)s->nnz_max : 1;
}

double ss_cost_balance(const struct ss_shape *s)
{
    struct ss_fold fold = ss_fold_of(0, s->size);
    int rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0);
    const uint64_t bins = s->n / ss_balance_width(s->n, s->size) + 1;

    return rounds * (s->alpha + s->beta * 4 * (double)bins);
}

bool ss_cost_balances(const struct ss_shape *s)
{
    double mean = (double)s->nnz_max / s->size, part_n = (double)s->n / s->size;

    if (s->kind != SS_KIND_ALLREDUCE || s->topk)
        return false;
    return s->beta * (s->size - 1) *
               (ss_cost_stream_bytes(s, ss_cost_part_share(s), part_n) -
                ss_cost_stream_bytes(s, mean, part_n)) >
           ss_cost_balance(s);
}

struct ss_shape ss_cost_divided(const struct ss_shape *s)
{
    struct ss_shape even = *s;

    if (s->balanced)
        even.part_max = 0;
    even.balanced = false;
    return even;
}

/* A rank sends all parts but its own; the owner of the fullest part receives most. */
struct ss_estimate ss_cost_split(const struct ss_shape *s)
{
    int others = s->size - 1;
    double mean = (double)s->nnz_max / s->size, share = ss_cost_part_share(s);
    double part_n = (double)s->n / s->size;

    return (struct ss_estimate){
        .wire = ss_cost_fan(s, others) + s->beta * others * ss_cost_stream_bytes(s, share, part_n),
        .serial = ss_cost_leave(s, (double)s->nnz_max) + ss_cost_take(s, others * share, others) +
                  ss_cost_rounding_there(s, s->values, (double)s->nnz_max, others * share),
        .bytes = others * ss_cost_stream_bytes(s, mean, part_n)};
}

double ss_memory_own(const struct ss_shape *s)
{
    double slack = 65536 + 256.0 * s->size; /* headers and rounding */

    return slack + ss_plan_own(s->n, s->type, s->nnz_max);
}

/* With balanced parts the load of a part is at most the mean, and a bin at each end. An entry of
 * the result is a load of at least P, and all together are at most 2 P - 1 each. */
double ss_memory_part(const struct ss_shape *s)
{
    double all = ss_min((double)s->n, (double)s->nnz_sum);

    if (!s->balanced)
        return ss_min((double)s->n / s->size + 16, all);
    return ss_min(all, 2 * all / s->size + 2 * (double)ss_balance_width(s->n, s->size));
}

double ss_memory_sent(const struct ss_shape *s)
{
    return 1.1 * (double)s->nnz_max * (4 + (double)ss_type_size(s->type));
}

double ss_memory_claims(const struct ss_shape *s, enum ss_values values, double reduced,
                        bool global)
{
    double size = (double)ss_type_size(s->type);
    double bytes = s->values != SS_VALUES_SAME ? ((double)s->nnz_max + 1) * size : 0;

    if (values != SS_VALUES_SAME)
        bytes += reduced * size;
    return global ? bytes + (double)s->nnz_max + 1 : bytes;
}
