/* What the files of oktopk share. */
#ifndef CORE_COLL_OKTOPK_IMPL_H
#define CORE_COLL_OKTOPK_IMPL_H

#include "core/coll/coll.h"

/* The search for the k-th largest of all reduced entries, digit by digit from the top of the bits
 * of its magnitude. */
struct ss_radix {
    unsigned shift;      /* of the digit under way */
    ss_magnitude prefix; /* the digits before it */
    uint64_t above;      /* entries of all ranks that are larger than any with this prefix */
    bool last;           /* no entry with this prefix is too many: only the least is wanted */
};

struct ss_oktopk_state {
    struct ss_split split;
    struct ss_gather gather;
    int place;
    struct ss_agree agree;
    uint64_t *words; /* of agreements */
    struct ss_cuts cuts;
    struct ss_harvest harvest;
    bool harvested;           /* once: there was not room for all */
    struct ss_stream reduced; /* own region: all entries, then those in the global set */
    struct ss_radix radix;
    int selecting;      /* the agreement that the selection waits for */
    bool exact;         /* the threshold was found in this call */
    bool all;           /* every reduced entry is in the global set */
    uint64_t total;     /* entries in the global set, of all ranks */
    ss_magnitude above; /* entries below it, not below the threshold, may be cut: ties, mostly */
    bool cut;           /* too many of these: the first ones are in the set */
    uint64_t spared;    /* of these, this rank's that are in the set */
    bool uneven;        /* of the set some rank has far more than others */
    struct ss_stream share; /* of the global set: what this rank sends to all */
    struct {
        struct ss_out out;
        struct ss_in in;
        int dst;
    } balance;
};

static inline struct ss_oktopk_state *ss_oktopk_of(const struct ss_coll *c)
{
    return c->state;
}

/* core/coll/oktopk_select.c: takes the reduced region in: SS_PENDING or SS_OK; begins; called when
 * an agreement has ended, whether another one follows. When none does, share is this rank's part of
 * the global set, and, where uneven, words[p] what rank p has of it. */
void ss_oktopk_harvest_start(struct ss_coll *c);
int ss_oktopk_harvest_step(struct ss_coll *c);
void ss_oktopk_select_start(struct ss_coll *c);
bool ss_oktopk_select_next(struct ss_coll *c);

/* core/coll/oktopk_balance.c: whether `largest` entries on one rank are too many of total;
 * begins, words[p] being what rank p has of the global set, reduced this rank's;
 * SS_PENDING or SS_OK with share to be sent to all. */
bool ss_oktopk_uneven(const struct ss_coll *c, uint64_t largest);
void ss_oktopk_balance_start(struct ss_coll *c);
int ss_oktopk_balance_step(struct ss_coll *c);

#endif
