/* What the cost formulas of the collectives are made of: latency alpha, inverse bandwidth beta, and
 * local costs per element and entry, after SparCML section 5.3 and Chan et al. 2007, with the bytes
 * of our own codings in place of index-value pairs. */
#ifndef CORE_PLAN_COST_H
#define CORE_PLAN_COST_H

#include "core/plan/plan.h"

static inline double ss_min(double a, double b)
{
    return a < b ? a : b;
}
static inline double ss_max(double a, double b)
{
    return a > b ? a : b;
}

/* Several messages at once cost a latency and, beyond the first, a share of it for handling. */
static inline double ss_cost_fan(const struct ss_shape *s, int messages)
{
    return s->alpha * (1 + 0.1 * (messages - 1));
}

/* Bytes of a stream of nnz entries spread over n elements, its values rounded or as they are; of
 * one of inputs or of reduced parts. */
double ss_cost_bytes_as(const struct ss_shape *s, enum ss_values values, double nnz, double n);
double ss_cost_stream_bytes(const struct ss_shape *s, double nnz, double n);

/* Seconds until the own stream's entries are messages: where it was claimed, it has stayed in its
 * place. For those that the place does not encode they are s->code. */
double ss_cost_leave(const struct ss_shape *s, double nnz);

/* Seconds for received entries of `senders` streams to be decoded into a vector of the place; for
 * entries of the host's to be put there. */
double ss_cost_take(const struct ss_shape *s, double nnz, double senders);
double ss_cost_put(const struct ss_shape *s, double nnz);

/* Seconds until the host has what it asked of a vector of the place, or has written it. */
double ss_cost_cross(const struct ss_shape *s, double bytes);

/* Seconds until the entries of a reduced part of part_n elements are messages. */
double ss_cost_harvest(const struct ss_shape *s, double nnz, double part_n);

/* Seconds for rounding `out` values and decoding `in` of them, by the host or the place. */
double ss_cost_rounding(const struct ss_shape *s, enum ss_values values, double out, double in);
double ss_cost_rounding_there(const struct ss_shape *s, enum ss_values values, double out,
                              double in);

/* Entries a rank has in the fullest part of the index space: what the vote saw, less what chance
 * alone adds to the mean; and how much fuller that part is than the mean. */
double ss_cost_part_share(const struct ss_shape *s);
double ss_cost_skew(const struct ss_shape *s);

/* The first phase of those that split the index space among the ranks. */
struct ss_estimate ss_cost_split(const struct ss_shape *s);

/* Bytes of the own stream and slack for headers; and of what rounding takes away from the own
 * stream and from a reduced part of `reduced` entries that travels as `values`, with a mark for
 * each claim where a global top-k is kept. */
double ss_memory_own(const struct ss_shape *s);
double ss_memory_claims(const struct ss_shape *s, enum ss_values values, double reduced,
                        bool global);
/* Of the own stream's messages: a packed entry may take a little more than index and value. */
double ss_memory_sent(const struct ss_shape *s);

#endif
