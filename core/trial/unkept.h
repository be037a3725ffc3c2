/* A place whose vectors are not stored, so that thousands of ranks fit in one process. The input is
 * drawn while it is read (core/trial/entries.h). Elements of the result that are added up lie in
 * memory, page by page. Elements that are written once go into a sum of hashes, from which the
 * digest of the whole result is made. There is no residual: values that return to it are forgotten,
 * and claims are the entries drawn for the call. Sums of SS_F32 only. */
#ifndef CORE_TRIAL_UNKEPT_H
#define CORE_TRIAL_UNKEPT_H

#include "core/place/place.h"
#include "core/sim/sim.h"
#include "core/trial/entries.h"

/* A digest: two equal results have equal digests. */
struct ss_digest {
    uint64_t sum; /* sum of the hashes of index and bits */
    uint64_t nnz;
};
void ss_digest_add(struct ss_digest *d, uint64_t idx, float val);

struct ss_unkept {
    struct ss_place place;
    const struct ss_entries *entries;
    int rank;
    uint64_t call;
    const float *in;       /* an address that nothing can be read from */
    float *out;            /* pages of zeros until a value is added */
    bool dirty;            /* some pages may hold values of an earlier call */
    size_t added, end;     /* range of elements added up in this call */
    size_t residual;       /* bytes that the residual would take */
    struct ss_digest seen; /* digest of the values written so far */
    struct ss_sim *sim;    /* simulator that must not count the time of drawing, NULL: none */
};

/* Creates the places of `ranks` ranks; NULL if there is no address space for them. */
struct ss_unkept *ss_unkept_create(const struct ss_entries *entries, int ranks);
/* Frees the places; NULL is allowed. */
void ss_unkept_free(struct ss_unkept *ranks, int count);

/* Prepares a place for a call. */
void ss_unkept_start(struct ss_unkept *u, uint64_t call);
/* Returns the digest of the result after the call. */
struct ss_digest ss_unkept_result(const struct ss_unkept *u);

#endif
