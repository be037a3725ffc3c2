/* A place whose vectors are not kept, so that thousands of ranks fit in one process. The input is
 * drawn while it is looked at (core/trial/entries.h). Of the result only what is added up lies in
 * memory, page by page; what is written once and for all goes into a sum of hashes, that of the
 * whole result in the end. There is no residual: what returns to it is forgotten, and claims are
 * the entries drawn for the call. Sums of SS_F32 only. */
#ifndef CORE_TRIAL_UNKEPT_H
#define CORE_TRIAL_UNKEPT_H

#include "core/place/place.h"
#include "core/sim/sim.h"
#include "core/trial/entries.h"

/* What two results that are equal have in common. */
struct ss_digest {
    uint64_t sum; /* of the hashes of index and bits */
    uint64_t nnz;
};
void ss_digest_add(struct ss_digest *d, uint64_t idx, float val);

struct ss_unkept {
    struct ss_place place;
    const struct ss_entries *entries;
    int rank;
    uint64_t call;
    const float *in;       /* an address, nothing can be read there */
    float *out;            /* pages of zeros until something is added */
    bool dirty;            /* some may hold what an earlier call added */
    size_t added, end;     /* elements added up in this call lie between */
    size_t residual;       /* bytes that it would take */
    struct ss_digest seen; /* of what was written */
    struct ss_sim *sim;    /* that is not to count the drawing, NULL: none */
};

/* Of `ranks` ranks; NULL where there is no address space for them. Frees: NULL is allowed. */
struct ss_unkept *ss_unkept_create(const struct ss_entries *entries, int ranks);
void ss_unkept_free(struct ss_unkept *ranks, int count);

/* Before a call; its result, once it is over. */
void ss_unkept_start(struct ss_unkept *u, uint64_t call);
struct ss_digest ss_unkept_result(const struct ss_unkept *u);

#endif
