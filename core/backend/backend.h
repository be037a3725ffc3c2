/* A backend is memory for dense vectors together with its operations. Inputs, results and residuals
 * lie in a backend, and only its functions touch their elements. Streams, messages and decisions
 * are on the host. The host is a backend too (ss_host), which does all work at once; a device is
 * another one.
 *
 * A function hands work over, and the backend does the work in the order of the calls. The function
 * reads arrays of the host before it returns. The results come to the host's memory later:
 * they are there when poll returns SS_OK for the ticket that the function returned. Work on vectors
 * of the backend needs no ticket, unless code outside of the backend uses the vectors next.
 *
 * Parameters:
 *
 * - v, g, r, src, dst and out are vectors in the backend, of n elements of `type`. The type is
 * SS_F32 or SS_F64 unless a comment says otherwise.
 * - idx, val and the results are arrays of the host. The entries of a claim or a scan may instead
 *   stay in the backend, in vectors of make. The functions that take entries accept these vectors.
 *
 * The functions of the host define the results: core/compute/kernels.h, core/compute/select.h,
 * core/compute/vector.h, core/select/threshold.h.
 */
#ifndef CORE_BACKEND_BACKEND_H
#define CORE_BACKEND_BACKEND_H

#include <stdatomic.h>

#include "core/base/mem.h"
#include "core/compute/kernels.h"
#include "core/compute/vector.h"
#include "core/select/threshold.h"
#include "core/wire/wire.h"

struct ss_backend {
    const struct ss_backend_ops *ops;
};
struct ss_backend_record;

/* A range of entries in the backend that becomes a stream of its own. */
struct ss_part {
    size_t first, count;
};
struct ss_leaving {
    struct ss_wire_key key;
    enum ss_coding coding;
    /* rounding of val, in place: SS_VALUES_SAME, or bf16 or q8 to nearest */
    struct ss_rounding how;
    const uint32_t *idx;
    void *val, *error; /* error: vector for the differences that the rounding leaves; NULL: none */
    const struct ss_part *parts;
    size_t count;
};

/* Sums over the entries of one range of indices. */
struct ss_share {
    double square;      /* sum of squares */
    uint64_t first;     /* entries before the range */
    uint64_t count;     /* entries that are not zero */
    uint64_t unbounded; /* entries whose square is not finite, and which are in no other number */
};

/* Needs of later calls on n elements: the k of a claim, its `bucket` (0: by threshold), and the
 * most entries that the claim may give back. 0: none. */
struct ss_backend_need {
    size_t n, entries, k, bucket;
};

/* Number of the work handed over so far. 0: all work is done. */
typedef uint64_t ss_ticket;

struct ss_backend_ops {
    bool remote; /* the host cannot touch the elements: open needs room */

    /* Returns the record of the backend's costs (core/backend/backend_costs.h). NULL: the costs are
     * the host's. */
    struct ss_backend_record *(*record)(struct ss_backend *p);

    /* Returns SS_OK if the work of a ticket is done, SS_PENDING, or SS_ERR_DEVICE if it will never
     * be done. Never waits. */
    int (*poll)(struct ss_backend *p, ss_ticket ticket);
    ss_ticket (*latest)(struct ss_backend *p); /* returns the ticket of all work */
    /* true: the backend has lost all its vectors; NULL: never */
    bool (*lost)(struct ss_backend *p);

    /* Staging, in bytes (core/backend/staged.h). A backend may have NULL for all functions after
     * these. */
    /* Returns room on the host, or NULL without memory. */
    void *(*stage)(struct ss_backend *p, size_t bytes);
    void (*unstage)(struct ss_backend *p, void *staged);
    /* Copy between the backend and that room. The host leaves the room alone until the ticket is
     * done. */
    ss_ticket (*fetch)(struct ss_backend *p, const void *from, size_t bytes, void *staged);
    ss_ticket (*store)(struct ss_backend *p, void *to, const void *staged, size_t bytes);

    /* Makes room for later calls on n elements. Returns SS_OK or SS_ERR_MEMORY. Without the room,
     * the backend may fail for good if memory is short. */
    int (*reserve)(struct ss_backend *p, enum ss_type type, const struct ss_backend_need *need);

    /* Makes a vector of zeros, for which buf->data stands. Returns SS_OK or SS_ERR_MEMORY. */
    int (*make)(struct ss_backend *p, struct ss_mem *mem, struct ss_buf *buf, size_t bytes);
    /* Frees the vector. */
    void (*drop)(struct ss_backend *p, struct ss_buf *buf);

    /* Functions for any type. clear_at sets dst[idx[j] - base] to zero; write copies from the
     * host. */
    void (*clear)(struct ss_backend *p, enum ss_type type, void *v, size_t n);
    void (*clear_at)(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                     const uint32_t *idx, size_t nnz);
    void (*copy)(struct ss_backend *p, enum ss_type type, void *dst, const void *src, size_t n);
    void (*write)(struct ss_backend *p, enum ss_type type, void *dst, const void *from, size_t n);
    void (*scatter)(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz);
    void (*accumulate)(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                       uint32_t base, const uint32_t *idx, const void *val, size_t nnz);
    void (*reduce)(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                   const void *from, size_t n); /* `from` is the host's */

    /* Scatters the entries of a message, or accumulates them by *op unless op is NULL. Reads the
     * message before it returns. If the code of the entries is malformed, does nothing and sets
     * *refused to coded->sender + 1 until the ticket is done. NULL: the host decodes messages. */
    ss_ticket (*decode)(struct ss_backend *p, enum ss_type type, const enum ss_op *op, void *dst,
                        uint32_t base, const struct ss_coded *coded, atomic_int *refused);

    /* Encodes entries that have stayed in the backend: the messages of one part after the other,
     * each on a multiple of 64 bytes of `to`. The room at `to` is ss_wire_bound of each message and
     * 64 bytes more. Sets ends[i] to the bytes up to the end of part i. NULL: the host encodes. */
    ss_ticket (*encode)(struct ss_backend *p, enum ss_type type, const struct ss_leaving *what,
                        void *to, size_t *ends);
    /* Sums up entries that have stayed in the backend, in `count` ranges of indices from cuts[i] to
     * cuts[i + 1]. */
    ss_ticket (*survey)(struct ss_backend *p, enum ss_type type, const uint32_t *idx,
                        const void *val, size_t nnz, const uint32_t *cuts, size_t count,
                        struct ss_share *out);

    /* Functions for any type that copy to the host. runs copies the elements of one run after the
     * other. */
    ss_ticket (*read)(struct ss_backend *p, enum ss_type type, const void *src, size_t n, void *to);
    ss_ticket (*runs)(struct ss_backend *p, enum ss_type type, const void *v,
                      const struct ss_run *runs, size_t count, void *to);
    /* Gives n elements to the host to read and write: sets *at to v itself, or to `room` with a
     * copy. */
    ss_ticket (*open)(struct ss_backend *p, enum ss_type type, void *v, size_t n, void *room,
                      void **at);
    /* Takes the elements of open back. */
    void (*close)(struct ss_backend *p, enum ss_type type, void *v, size_t n, const void *opened);
    ss_ticket (*scan)(struct ss_backend *p, enum ss_type type, enum ss_op op, const void *src,
                      size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                      struct ss_scan *out);

    /* Computes the squared norm; 0 only if all elements are zero. */
    ss_ticket (*square)(struct ss_backend *p, enum ss_type type, const void *v, size_t n,
                        double *out);
    ss_ticket (*not_finite)(struct ss_backend *p, enum ss_type type, const void *g, const void *r,
                            size_t n, size_t *out);
    /* Computes signed sums of the elements in SS_SKETCH_BUCKETS buckets. */
    ss_ticket (*sketch)(struct ss_backend *p, enum ss_type type, const void *v, size_t n,
                        double *sketch);

    /* Selection. Claims about k entries by the threshold t, which belongs to the backend until the
     * ticket is done. Sets *few if a new threshold should be asked for (ss_threshold_select). */
    ss_ticket (*claim)(struct ss_backend *p, struct ss_threshold *t, enum ss_type type,
                       const void *g, void *r, size_t n, uint32_t base, size_t k, uint32_t *idx,
                       void *val, struct ss_selection *out, bool *few);
    ss_ticket (*claim_buckets)(struct ss_backend *p, enum ss_type type, const void *g, void *r,
                               size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                               void *val, struct ss_selection *out);
    void (*undo)(struct ss_backend *p, enum ss_type type, const void *g, void *r, size_t n,
                 uint32_t base, const uint32_t *idx, const void *val, size_t claimed);

    /* Functions for residuals. */
    void (*add_at)(struct ss_backend *p, enum ss_type type, void *r, uint32_t base,
                   const uint32_t *idx, const void *val, size_t count);
    void (*add_dense)(struct ss_backend *p, enum ss_type type, void *r, const void *from, size_t n);
    void (*add)(struct ss_backend *p, enum ss_type type, void *r, const void *src, size_t n);
    void (*join)(struct ss_backend *p, enum ss_type type, const void *in, const void *r, void *out,
                 size_t n, double share);
    void (*leave)(struct ss_backend *p, enum ss_type type, void *r, size_t n, double share);
    void (*scale)(struct ss_backend *p, enum ss_type type, void *r, size_t n, double factor);
};

enum { SS_SKETCH_BUCKETS = 2048 };

/* The backend of the host. */
extern struct ss_backend ss_host;

/* The functions poll, latest and reserve of a backend that does all work at once. */
static inline int ss_backend_poll_done(struct ss_backend *p, ss_ticket ticket)
{
    (void)p, (void)ticket;
    return SS_OK;
}

static inline ss_ticket ss_backend_latest_done(struct ss_backend *p)
{
    (void)p;
    return 0;
}

static inline int ss_backend_reserve_nothing(struct ss_backend *p, enum ss_type type,
                                             const struct ss_backend_need *need)
{
    (void)p, (void)type, (void)need;
    return SS_OK;
}

/* Waits for a ticket. Used only when a residual changes its backend, never during a call. */
static inline int ss_backend_wait(struct ss_backend *p, ss_ticket ticket)
{
    int status = SS_OK;

    while (ticket != 0 && (status = p->ops->poll(p, ticket)) == SS_PENDING)
        ;
    return status;
}

#endif
