/* The definition of the MPI library's own collective (Rabenseifner 2004), with which the algorithms
 * are compared. */
#include "core/coll/algorithms.h"
#include "core/plan/cost.h"

/* Returns seconds per byte for copying images of device buffers. The host's share of the work is
 * not in it: all other traffic that crosses goes through the host. */
static double copy_rate(const struct ss_shape *s)
{
    return ss_max(s->backend.cross - s->fill, 0);
}

/* Returns the seconds of copies that the exchange waits for; in an allreduce, the first piece to
 * the host and the last piece back. */
static double copied(const struct ss_shape *s, double all)
{
    double bytes = s->kind == SS_KIND_ALLREDUCE ? 2 * ss_min(all, SS_PIECE) : all + all / s->size;

    return copy_rate(s) * bytes + 2 * s->backend.wait;
}

/* Estimates the MPI library's best algorithm for long vectors at the bandwidth limit:
 * reduce-scatter and allgather or gather (Rabenseifner 2004), or one of these alone. Inputs are
 * copied; sums are read and written. */
static struct ss_estimate cost_dense(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_fold fold = ss_fold_of(0, s->size);
    double all = (double)s->n * (double)ss_type_size(s->type);
    double bytes = (double)(s->size - 1) / s->size * all;
    double beta = s->beta, inside = 0;
    int phases = s->kind == SS_KIND_ALLREDUCE || s->kind == SS_KIND_REDUCE ? 2 : 1;
    bool sums = s->kind != SS_KIND_ALLGATHER;

    (void)h;
    if (ss_layout_is_deep(s->layout))
        inside = phases * all * (s->layout->most - 1) / s->layout->most;
    if (ss_layout_is_deep(s->layout) &&
        s->kind == SS_KIND_ALLREDUCE) { /* which sums inside hosts first */
        const struct ss_layout *l = s->layout;
        fold = ss_fold_of(0, l->hosts);
        beta = s->beta_between * (l->hosts - 1) / l->hosts / l->most * s->size / (s->size - 1);
    }
    return (struct ss_estimate){
        .wire =
            ss_max(phases * (s->alpha * ss_fold_rounds(&fold) + beta * bytes), copy_rate(s) * all),
        .serial = s->fill * (sums ? 2 * all + 3 * bytes : 2 * all / s->size) + copied(s, all),
        .bytes = s->kind == SS_KIND_REDUCE ? all : phases * bytes,
        .inside = inside};
}

const struct ss_algorithm_def ss_algorithm_dense = {
    .cost = cost_dense,
};
