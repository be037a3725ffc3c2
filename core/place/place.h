/* Where dense vectors are: inputs, results and residuals lie in a place, and nothing but its
 * functions touches their elements. Streams, messages and decisions are the host's. There is the
 * host's own place, where everything is done at once; a device is another one.
 *
 * A function hands over work, which a place does in the order of the calls. The host's arrays that
 * it is given to read are read before it returns. What it gives back, into the host's memory, is
 * there once poll has said so of the ticket that it returned; what it does to vectors of the place
 * needs no waiting for but before somebody else looks at them.
 *
 * v, g, r, src, dst and out are in the place, n elements of `type`, SS_F32 or SS_F64 unless said
 * otherwise; idx, val and what is given back are the host's. The entries that a claim or a scan
 * gives back may stay in the place, in vectors of make, and idx and val of what takes entries may
 * be these. What a function does is said where the host's is: core/compute/kernels.h,
 * core/compute/select.h, core/compute/vector.h, core/select/threshold.h. */
#ifndef CORE_PLACE_PLACE_H
#define CORE_PLACE_PLACE_H

#include <stdatomic.h>

#include "core/base/mem.h"
#include "core/compute/kernels.h"
#include "core/compute/vector.h"
#include "core/select/threshold.h"
#include "core/wire/wire.h"

struct ss_place {
    const struct ss_place_ops *ops;
};
struct ss_place_record;

/* Entries in the place on their way out: each part of the list becomes a stream of its own. */
struct ss_part {
    size_t first, count;
};
struct ss_leaving {
    struct ss_wire_key key;
    enum ss_coding coding;
    struct ss_rounding
        how; /* SS_VALUES_SAME, or bf16 or q8, nearest: then val is rounded in place, */
    const uint32_t *idx;
    void *val, *error; /* and what that takes away goes to `error`; NULL: nowhere */
    const struct ss_part *parts;
    size_t count;
};

/* Of the entries from an index up to the next one: those before them, their squares where these are
 * finite, and how many of them are not zero. */
struct ss_share {
    double square;
    uint64_t first;
    uint64_t count;
    uint64_t unbounded; /* whose square is not finite; in no other number */
};

/* What is to come on n elements: of a claim k, `bucket` where it is by buckets, and the entries
 * that it may give back; 0: none. */
struct ss_place_need {
    size_t n, entries, k, bucket;
};

/* Work handed over so far; 0: all of it is done. */
typedef uint64_t ss_ticket;

struct ss_place_ops {
    const char *name;
    bool remote; /* the host cannot touch its elements: open needs room */

    /* Of its costs (core/place/place_costs.h); NULL: they are the host's. */
    struct ss_place_record *(*record)(struct ss_place *p);

    /* Of a ticket: SS_OK, SS_PENDING, or SS_ERR_DEVICE: it will never be done. Never waits. */
    int (*poll)(struct ss_place *p, ss_ticket ticket);
    ss_ticket (*mark)(struct ss_place *p); /* of all that was handed over */
    bool (*lost)(struct ss_place *p);      /* and with it all that lies there; NULL: it never is */

    /* Staging (core/place/staged.h), in bytes. stage: room on the host, NULL if there is no memory.
     * fetch and store copy between the place and that room, which the host leaves alone until the
     * ticket has passed. A place that can do no more has NULL for all that follows. */
    void *(*stage)(struct ss_place *p, size_t bytes);
    void (*unstage)(struct ss_place *p, void *staged);
    ss_ticket (*fetch)(struct ss_place *p, const void *from, size_t bytes, void *staged);
    ss_ticket (*store)(struct ss_place *p, void *to, const void *staged, size_t bytes);

    /* Room for what follows on n elements: SS_OK or SS_ERR_MEMORY. Without it the place may fail
     * for good where memory is short. */
    int (*reserve)(struct ss_place *p, enum ss_type type, const struct ss_place_need *need);

    /* A vector of zeros: SS_OK or SS_ERR_MEMORY, `buf` being what stands for it. Let go. */
    int (*make)(struct ss_place *p, struct ss_mem *mem, struct ss_buf *buf, size_t bytes);
    void (*drop)(struct ss_place *p, struct ss_buf *buf);

    /* Any type. write: from the host. clear_at: zeros at dst[idx[j] - base]. */
    void (*clear)(struct ss_place *p, enum ss_type type, void *v, size_t n);
    void (*clear_at)(struct ss_place *p, enum ss_type type, void *dst, uint32_t base,
                     const uint32_t *idx, size_t nnz);
    void (*copy)(struct ss_place *p, enum ss_type type, void *dst, const void *src, size_t n);
    void (*write)(struct ss_place *p, enum ss_type type, void *dst, const void *from, size_t n);
    void (*scatter)(struct ss_place *p, enum ss_type type, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz);
    void (*accumulate)(struct ss_place *p, enum ss_type type, enum ss_op op, void *dst,
                       uint32_t base, const uint32_t *idx, const void *val, size_t nnz);
    void (*reduce)(struct ss_place *p, enum ss_type type, enum ss_op op, void *dst,
                   const void *from, size_t n); /* `from` is the host's */

    /* Entries as they came, whose payload is read before it returns: scattered, or accumulated by
     * *op where it is not NULL. *refused, whichever thread polls, becomes coded->sender + 1 where
     * their code is malformed, and nothing is done then. NULL: the host decodes what comes. */
    ss_ticket (*decode)(struct ss_place *p, enum ss_type type, const enum ss_op *op, void *dst,
                        uint32_t base, const struct ss_coded *coded, atomic_int *refused);

    /* Entries that have stayed in the place. encode: the messages of one part after the other, each
     * on a multiple of 64 bytes of `to`, which has room for ss_wire_bound of each and 64 bytes
     * more; ends[i]: the bytes up to the last one of part i. NULL: the host encodes. survey: of
     * `count` ranges of indices, cuts[i] to cuts[i + 1]. */
    ss_ticket (*encode)(struct ss_place *p, enum ss_type type, const struct ss_leaving *what,
                        void *to, size_t *ends);
    ss_ticket (*survey)(struct ss_place *p, enum ss_type type, const uint32_t *idx, const void *val,
                        size_t nnz, const uint32_t *cuts, size_t count, struct ss_share *out);

    /* Any type, to the host. runs: their elements, one run after the other. open: elements that the
     * host reads and writes; *at is where it finds them, `room` or v itself; close: it is done with
     * them. */
    ss_ticket (*read)(struct ss_place *p, enum ss_type type, const void *src, size_t n, void *to);
    ss_ticket (*runs)(struct ss_place *p, enum ss_type type, const void *v,
                      const struct ss_run *runs, size_t count, void *to);
    ss_ticket (*open)(struct ss_place *p, enum ss_type type, void *v, size_t n, void *room,
                      void **at);
    void (*close)(struct ss_place *p, enum ss_type type, void *v, size_t n, const void *opened);
    ss_ticket (*scan)(struct ss_place *p, enum ss_type type, enum ss_op op, const void *src,
                      size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                      struct ss_scan *out);

    /* square: the squared norm, 0 only where all elements are zero. sketch: in SS_SKETCH_BUCKETS
     * sums. */
    ss_ticket (*square)(struct ss_place *p, enum ss_type type, const void *v, size_t n,
                        double *out);
    ss_ticket (*not_finite)(struct ss_place *p, enum ss_type type, const void *g, const void *r,
                            size_t n, size_t *out);
    ss_ticket (*sketch)(struct ss_place *p, enum ss_type type, const void *v, size_t n,
                        double *sketch);

    /* Selection. claim: about k entries by the threshold t, which is the place's until it is done;
     * *few: too few, ask for a new threshold (ss_threshold_select). */
    ss_ticket (*claim)(struct ss_place *p, struct ss_threshold *t, enum ss_type type, const void *g,
                       void *r, size_t n, uint32_t base, size_t k, uint32_t *idx, void *val,
                       struct ss_selection *out, bool *few);
    ss_ticket (*claim_buckets)(struct ss_place *p, enum ss_type type, const void *g, void *r,
                               size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                               void *val, struct ss_selection *out);
    void (*undo)(struct ss_place *p, enum ss_type type, const void *g, void *r, size_t n,
                 uint32_t base, const uint32_t *idx, const void *val, size_t claimed);

    /* Residuals. */
    void (*add_at)(struct ss_place *p, enum ss_type type, void *r, uint32_t base,
                   const uint32_t *idx, const void *val, size_t count);
    void (*add_dense)(struct ss_place *p, enum ss_type type, void *r, const void *from, size_t n);
    void (*add)(struct ss_place *p, enum ss_type type, void *r, const void *src, size_t n);
    void (*join)(struct ss_place *p, enum ss_type type, const void *in, const void *r, void *out,
                 size_t n, double share);
    void (*leave)(struct ss_place *p, enum ss_type type, void *r, size_t n, double share);
    void (*scale)(struct ss_place *p, enum ss_type type, void *r, size_t n, double factor);
};

enum { SS_SKETCH_BUCKETS = 2048 };

/* The host's own. */
extern struct ss_place ss_host;

/* poll, mark and reserve of a place that does everything at once. */
static inline int ss_place_poll_done(struct ss_place *p, ss_ticket ticket)
{
    (void)p, (void)ticket;
    return SS_OK;
}

static inline ss_ticket ss_place_mark_done(struct ss_place *p)
{
    (void)p;
    return 0;
}

static inline int ss_place_reserve_nothing(struct ss_place *p, enum ss_type type,
                                           const struct ss_place_need *need)
{
    (void)p, (void)type, (void)need;
    return SS_OK;
}

/* Waits for it: not within a call, but where a residual changes places. */
static inline int ss_place_wait(struct ss_place *p, ss_ticket ticket)
{
    int status = SS_OK;

    while (ticket != 0 && (status = p->ops->poll(p, ticket)) == SS_PENDING)
        ;
    return status;
}

#endif
