/* Shared by the files of oktopk. */
#ifndef CORE_COLL_OKTOPK_IMPL_H
#define CORE_COLL_OKTOPK_IMPL_H

#include "core/coll/coll.h"

/* The search for the k-th largest reduced entry: digit by digit from the top of the bits of its
 * magnitude. */
struct ss_radix {
    unsigned shift;      /* shift of the current digit */
    ss_magnitude prefix; /* digits above the current one */
    uint64_t above;      /* entries of all ranks that are larger than any with this prefix */
    /* all entries with this prefix belong to the k largest: only the least of them is searched */
    bool last;
};

struct ss_oktopk_state {
    struct ss_split split;
    struct ss_gather gather;
    int stage;
    struct ss_word_exchange exchange;
    uint64_t *words; /* words of word exchanges */
    struct ss_cuts cuts;
    struct ss_compact compact;
    bool compacted;           /* extracted a second time, after a lack of room */
    struct ss_stream reduced; /* own part: all entries, then those in the global set */
    struct ss_radix radix;
    int selecting;      /* kind of word exchange that the selection waits for */
    bool exact;         /* the threshold was found in this call */
    bool all;           /* every reduced entry is in the global set */
    uint64_t total;     /* entries in the global set, of all ranks */
    ss_magnitude above; /* entries below it and not below the threshold may be cut: ties, mostly */
    bool cut;           /* too many entries may be cut: the first ones are in the set */
    uint64_t spared;    /* number of this rank's entries that may be cut and are in the set */
    bool uneven;        /* a rank has far more of the global set than others */
    struct ss_stream share; /* part of the global set that this rank sends to all */
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

/* core/coll/oktopk_select.c: finds the global set. */
void ss_oktopk_compact_start(struct ss_coll *c);
/* Extracts the entries of the reduced part. Returns SS_PENDING or SS_OK. */
int ss_oktopk_compact_step(struct ss_coll *c);
/* Starts the selection. */
void ss_oktopk_select_start(struct ss_coll *c);
/* Goes on after a word exchange has ended. Returns true if another word exchange follows. If it
 * returns false, `share` is this rank's part of the global set, and, if `uneven`, words[p] is the
 * number of entries of rank p. */
bool ss_oktopk_select_next(struct ss_coll *c);

/* core/coll/oktopk_balance.c: balances the global set. Returns true if `largest` entries on one
 * rank are too many of `total`. */
bool ss_oktopk_uneven(const struct ss_coll *c, uint64_t largest);
/* Starts balancing. words[p] is the number of entries of rank p in the global set, `reduced` holds
 * this rank's. */
void ss_oktopk_balance_start(struct ss_coll *c);
/* Returns SS_PENDING, or SS_OK if `share` is ready to be sent to all. */
int ss_oktopk_balance_step(struct ss_coll *c);

#endif
