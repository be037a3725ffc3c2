/* Predicts a trial by the cost model, without local costs. */
#include <stddef.h>

#include "core/coll/algorithms.h"
#include "core/plan/cost.h"
#include "core/trial/trial.h"

/* Returns the seconds of a vote, whose ballot goes through the rounds of an exchange between
 * hosts, or between the ranks of the only one. */
static double vote_seconds(const struct ss_trial *t, const struct ss_layout *layout)
{
    struct ss_fold fold = ss_fold_of(0, layout->hosts > 1 ? layout->hosts : t->ranks);
    int rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0);

    return t->algorithm == SS_DENSE
               ? 0
               : rounds * (t->alpha + t->beta * (double)sizeof(struct ss_ballot));
}

void ss_trial_predict(const struct ss_trial *t, struct ss_trial_estimate *estimate)
{
    const int per_host = t->per_host > 0 ? t->per_host : 1;
    /* of the layout, formulas need these fields alone */
    const struct ss_layout layout = {.size = t->ranks,
                                     .hosts = (t->ranks + per_host - 1) / per_host,
                                     .most = t->ranks < per_host ? t->ranks : per_host,
                                     .slice_least = SS_SLICE_LEAST};
    const bool alone = layout.hosts == 1; /* on one host */
    uint64_t each = ss_entries_each(&t->entries), mean = each / (uint64_t)t->ranks + 1;
    const struct ss_history none = {0};
    struct ss_shape shape = {.algorithms = ss_algorithms(SS_KIND_ALLREDUCE),
                             .kind = SS_KIND_ALLREDUCE,
                             .n = t->entries.n,
                             .part_n = t->entries.n / (uint64_t)t->ranks + 1,
                             .size = t->ranks,
                             .type = SS_F32,
                             .whole = ss_sends_whole(t->algorithm),
                             .topk = true,
                             .values = ss_sends_whole(t->algorithm) ? SS_VALUES_Q4 : SS_VALUES_SAME,
                             .bucket = SS_BUCKET,
                             .nnz_sum = each * (uint64_t)t->ranks,
                             .nnz_max = each,
                             .part_max = mean,
                             .memory_min = UINT64_MAX,
                             .k = each,
                             .alpha = alone ? SS_TRIAL_ALPHA_INSIDE : t->alpha,
                             .beta = alone ? SS_TRIAL_BETA_INSIDE : t->beta * layout.most,
                             .deep = true,
                             .between = t->algorithm == SS_TWO_LEVEL ? SS_SPLIT_ALLGATHER : SS_AUTO,
                             .alpha_inside = SS_TRIAL_ALPHA_INSIDE,
                             .beta_inside = SS_TRIAL_BETA_INSIDE};
    enum ss_algorithm a = t->algorithm;
    struct ss_estimate e;
    struct ss_plan plan;

    ss_plan_see_layout(&shape, &layout);
    if (a == SS_AUTO) {
        shape.topk = false;
        ss_plan_make(&shape, &none, &plan);
        a = plan.algorithm;
    }
    e = shape.algorithms[a]->cost(&shape, &none);
    *estimate = (struct ss_trial_estimate){.seconds = e.wire + vote_seconds(t, &layout),
                                           .bytes = e.bytes,
                                           .result_nnz = ss_entries_union(&t->entries, t->ranks)};
    if (ss_keeps_global(a))
        estimate->result_nnz = ss_min(estimate->result_nnz, (double)each);
}
