/* The MPI library's own collective: what the others are compared with. */
#include "core/coll/rows.h"
#include "core/plan/cost.h"

/* Of images of buffers that lie in a place of their own: without the host's hands, through which
 * all else goes that crosses. */
static double copy_rate(const struct ss_shape *s)
{
    return ss_max(s->place.cross - s->fill, 0);
}

/* Seconds for copies that the exchange waits for: of an allreduce the first piece to the host, and
 * the last one back. */
static double copied(const struct ss_shape *s, double all)
{
    double bytes = s->kind == SS_KIND_ALLREDUCE ? 2 * ss_min(all, SS_PIECE) : all + all / s->size;

    return copy_rate(s) * bytes + 2 * s->place.wait;
}

/* The MPI library's best for long vectors at the limit of the link: reduce-scatter and allgather or
 * gather (Rabenseifner 2004), or one of these alone. The input is copied, sums are read and
 * written. */
static struct ss_estimate cost_dense(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_fold fold = ss_fold_of(0, s->size);
    double all = (double)s->n * (double)ss_type_size(s->type);
    double bytes = (double)(s->size - 1) / s->size * all;
    int phases = s->kind == SS_KIND_ALLREDUCE || s->kind == SS_KIND_REDUCE ? 2 : 1;
    bool sums = s->kind != SS_KIND_ALLGATHER;

    (void)h;
    return (struct ss_estimate){
        .wire = ss_max(phases * (s->alpha * ss_fold_rounds(&fold) + s->beta * bytes),
                       copy_rate(s) * all),
        .serial = s->fill * (sums ? 2 * all + 3 * bytes : 2 * all / s->size) + copied(s, all),
        .bytes = s->kind == SS_KIND_REDUCE ? all : phases * bytes};
}

const struct ss_row ss_row_dense = {
    .source = "Rabenseifner 2004",
    .cost = cost_dense,
};
