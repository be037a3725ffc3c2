#ifndef CORE_COMM_SETTINGS_H
#define CORE_COMM_SETTINGS_H

#include "core/tensor/tensor.h"
#include "core/wire/wire.h"

/* Options as core needs them, equal on all ranks except where a field says otherwise. */
struct ss_settings {
    bool observe;
    enum ss_algorithm algorithm;
    enum ss_aggregation aggregation;
    enum ss_coding coding;
    double alpha;       /* seconds per message, < 0: measured */
    double beta;        /* seconds per byte, < 0: measured */
    bool reproducible;  /* no measured time enters a choice; so with alpha and beta given */
    uint64_t host;      /* the same number on ranks of one host */
    double timeout;     /* seconds any wait may last without progress, 0 = no limit */
    double patience;    /* seconds of a wait until a warning (ss_call_waits), 0 = no warning */
    bool decisions;     /* decisions are logged (ss_comm_decision); of this rank alone */
    unsigned in_flight; /* calls of a communicator in flight at once, up to SS_IN_FLIGHT, a merged
                           group as one call; of this rank alone, 0 counts as 1 */
    uint64_t merge;     /* MODE=topk: bytes that complete a part (core/call/group.h), or
                           SS_MERGE_AUTO; 0: off */
    uint64_t hash;      /* of everything that must be equal on all ranks */

    /* Top-k with error feedback (MODE=topk); core/tensor/tensor.h explains registration. */
    bool topk;
    double density;        /* share of the elements sent, 0 < density <= 1; or, with bucket > 0: */
    uint64_t k, bucket;    /* the k largest of each `bucket` elements (SparCML section 8.3) */
    uint64_t warmup_steps; /* calls of a tensor over which its density falls to `density` */
    struct ss_tensor_settings tensors;
    unsigned value_type;         /* an enum ss_values, or one of SS_QSGD_LIST */
    uint32_t quant_bucket;       /* values of one scale */
    uint64_t repartition_period; /* oktopk calls of a tensor between two partitions */
    enum ss_guard guard;
    struct ss_trace *trace; /* takes the events of calls; NULL: no trace; of this rank alone */
    bool series;            /* keep series of lossy calls for a report; of this rank alone */

    /* Partial allreduces (core/partial/rounds.h). */
    enum ss_quorum quorum;
    uint64_t quorum_period;    /* one call of a tensor in so many waits for all ranks; 1 or more */
    uint64_t quorum_staleness; /* most results that wait for a late rank's calls, 1 or more */
};

/* Returns true if the costs are given or come from a table, so that none are measured. */
static inline bool ss_costs_fixed(const struct ss_settings *s)
{
    return s->reproducible || (s->alpha >= 0 && s->beta >= 0);
}

#endif
