#ifndef CORE_COMM_SETTINGS_H
#define CORE_COMM_SETTINGS_H

#include "core/tensor/tensor.h"
#include "core/wire/wire.h"

/* Options as core needs them; the same on all ranks. */
struct ss_settings {
    bool observe;
    enum ss_algorithm algorithm;
    enum ss_coding coding;
    double alpha;       /* seconds per message, < 0: measured */
    double beta;        /* seconds per byte, < 0: measured */
    bool reproducible;  /* nothing timed enters any choice; so with alpha and beta given */
    uint64_t host;      /* the same number on ranks of one host */
    double timeout;     /* seconds any wait may last without progress, 0 = no limit */
    double patience;    /* seconds after which it is worth a warning (ss_call_waits), 0 = never */
    bool decisions;     /* they are told (ss_comm_decision); of this rank alone */
    unsigned in_flight; /* calls of a communicator under way at once, up to SS_BESIDE, those of a
                           group as one; of this rank alone, 0 counts as 1 */
    uint64_t merge;     /* MODE=topk: bytes that complete a part (core/call/group.h), or
                           SS_MERGE_AUTO; 0: off */
    uint64_t hash;      /* of everything that must be equal on all ranks */

    /* Top-k with error feedback (MODE=topk). Registration and identity as core/tensor/tensor.h
     * says. */
    bool topk;
    double density;        /* share of the elements sent, 0 < density <= 1; or, with bucket > 0: */
    uint64_t k, bucket;    /* the k largest of each `bucket` elements (SparCML section 8.3) */
    uint64_t warmup_steps; /* density comes down to `density` over that many calls of a tensor */
    struct ss_tensor_settings tensors;
    enum ss_values values;       /* of streams (VALUE_TYPE) */
    enum ss_values quant;        /* of dsar's dense phase (QUANT_BITS), SS_VALUES_SAME: as values */
    bool quant_feedback;         /* nearest, errors into the residual; else stochastic */
    uint32_t quant_bucket;       /* values of one scale */
    uint64_t repartition_period; /* oktopk calls of a tensor between two partitions */
    enum ss_guard guard;
    uint64_t seed;
    struct ss_trace *trace; /* takes the events of calls; NULL: none; of this rank alone */
    bool series;            /* how lossy calls went is kept for a report; of this rank alone */

    /* Partial allreduces (core/quorum/rounds.h). */
    enum ss_quorum quorum;
    uint64_t quorum_period;    /* calls of a tensor, of which one is with all ranks; 1 or more */
    uint64_t quorum_staleness; /* results that wait for their calls, 1 or more */
};

/* Returns true if the costs are given or those of a table, so that none are measured. */
static inline bool ss_costs_fixed(const struct ss_settings *s)
{
    return s->reproducible || (s->alpha >= 0 && s->beta >= 0);
}

#endif
