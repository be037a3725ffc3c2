/* Terms of the cost formulas: latency alpha, inverse bandwidth beta, and local costs per element
 * and entry, after SparCML section 5.3 and Chan et al. 2007. Bytes are those of this library's
 * codings instead of index-value pairs. */
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

/* Returns the latency of several messages at once: alpha for the first, and a share of it for
 * handling each further message. */
static inline double ss_cost_fan(const struct ss_shape *s, int messages)
{
    return s->alpha * (1 + 0.1 * (messages - 1));
}

/* Returns the bytes of a stream of nnz entries spread over n elements, its values coded as
 * `values`. */
double ss_cost_bytes_as(const struct ss_shape *s, enum ss_values values, double nnz, double n);
/* Returns the bytes of a stream of inputs or of reduced parts. */
double ss_cost_stream_bytes(const struct ss_shape *s, double nnz, double n);

/* Returns the seconds to turn nnz entries of the own stream into messages. A claimed stream has
 * stayed in its backend and is encoded there; other streams cost s->code per entry. */
double ss_cost_leave(const struct ss_shape *s, double nnz);

/* Returns the seconds to decode received entries of `senders` streams into a vector of the
 * backend. */
double ss_cost_take(const struct ss_shape *s, double nnz, double senders);
/* Returns the seconds to write entries of the host into a vector of the backend. */
double ss_cost_put(const struct ss_shape *s, double nnz);

/* Returns the seconds until the host has read bytes of a vector of the backend, or has written
 * them. */
double ss_cost_cross(const struct ss_shape *s, double bytes);

/* Returns the seconds to turn the entries of a reduced part of part_n elements into messages. */
double ss_cost_compact(const struct ss_shape *s, double nnz, double part_n);

/* Returns the seconds to round `out` values and decode `in` values on the host. */
double ss_cost_rounding(const struct ss_shape *s, enum ss_values values, double out, double in);
/* Returns the seconds to round `out` values and decode `in` values in the backend. */
double ss_cost_rounding_there(const struct ss_shape *s, enum ss_values values, double out,
                              double in);

/* Returns the entries of a rank in the fullest part of the index space: the voted maximum, less
 * what chance alone adds to the mean. */
double ss_cost_part_share(const struct ss_shape *s);
/* Returns the ratio of the fullest part to the mean. */
double ss_cost_skew(const struct ss_shape *s);

/* Ranks that balance the parts of the index space count their entries in bins, at most 512, or 16
 * of each rank if these are more. Returns the elements of a bin, a multiple of 16. */
static inline uint64_t ss_balance_width(uint64_t n, int size)
{
    return (n / (size > 32 ? 16 * (uint64_t)size : 512) + 16) / 16 * 16;
}
/* Returns the seconds of adding up the counts of all ranks. */
double ss_cost_balance(const struct ss_shape *s);
/* Returns true if parts of equal load pay: what they save in the first phase is more than the
 * counts cost. Only exact allreduces divide the index space anew in each call. */
bool ss_cost_balances(const struct ss_shape *s);
/* Returns the shape of a call whose index space is divided already: if its parts are balanced, none
 * is fuller than the mean. */
struct ss_shape ss_cost_divided(const struct ss_shape *s);

/* Returns the estimate of the first phase of algorithms that split the index space among the
 * ranks. */
struct ss_estimate ss_cost_split(const struct ss_shape *s);

/* Returns the bytes of the own stream, and slack for headers. */
double ss_memory_own(const struct ss_shape *s);
/* Returns the bytes of rounding errors: of the own stream, and of a reduced part of `reduced`
 * entries that travels as `values`. If `global`, includes a byte for each claim. */
double ss_memory_claims(const struct ss_shape *s, enum ss_values values, double reduced,
                        bool global);
/* Returns the most entries of a reduced part. */
double ss_memory_part(const struct ss_shape *s);
/* Returns the bytes of the own stream's messages; a packed entry may take a little more than index
 * and value. */
double ss_memory_sent(const struct ss_shape *s);

#endif
