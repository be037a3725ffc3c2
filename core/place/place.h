/* Where dense vectors are: inputs, results and residuals lie in a place, and nothing but its
 * functions touches their elements. Streams, messages and decisions are the host's. There is the
 * host's own place; a device is another one.
 *
 * v, g, r, src, dst and out are in the place, n elements of `type`, SS_F32 or SS_F64 unless said
 * otherwise; idx, val and what is given back are the host's. What a function does is said where the
 * host's is: core/compute/kernels.h, core/compute/select.h, core/compute/vector.h,
 * core/select/threshold.h. */
#ifndef CORE_PLACE_PLACE_H
#define CORE_PLACE_PLACE_H

#include "core/base/mem.h"
#include "core/compute/kernels.h"
#include "core/compute/vector.h"
#include "core/select/threshold.h"

struct ss_place {
    const struct ss_place_ops *ops;
};

struct ss_place_ops {
    const char *name;
    bool remote; /* the host cannot touch its elements: open needs room */

    /* A vector of zeros: SS_OK or SS_ERR_MEMORY, `buf` being what stands for it. Let go. */
    int (*make)(struct ss_place *p, struct ss_mem *mem, struct ss_buf *buf, size_t bytes);
    void (*drop)(struct ss_place *p, struct ss_buf *buf);

    /* Any type. write: from the host, read: to the host. clear_at: zeros at dst[idx[j] - base]. */
    void (*clear)(struct ss_place *p, enum ss_type type, void *v, size_t n);
    void (*clear_at)(struct ss_place *p, enum ss_type type, void *dst, uint32_t base,
                     const uint32_t *idx, size_t nnz);
    void (*copy)(struct ss_place *p, enum ss_type type, void *dst, const void *src, size_t n);
    void (*write)(struct ss_place *p, enum ss_type type, void *dst, const void *from, size_t n);
    void (*read)(struct ss_place *p, enum ss_type type, const void *src, size_t n, void *to);
    /* Elements that the host reads and writes: where it finds them, `room` or v itself; and that it
     * is done with them. */
    void *(*open)(struct ss_place *p, enum ss_type type, void *v, size_t n, void *room);
    void (*close)(struct ss_place *p, enum ss_type type, void *v, size_t n, const void *opened);
    void (*scan)(struct ss_place *p, enum ss_type type, enum ss_op op, const void *src, size_t n,
                 uint32_t base, uint32_t *idx, void *val, size_t capacity, struct ss_scan *out);
    void (*scatter)(struct ss_place *p, enum ss_type type, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz);
    void (*accumulate)(struct ss_place *p, enum ss_type type, enum ss_op op, void *dst,
                       uint32_t base, const uint32_t *idx, const void *val, size_t nnz);
    void (*reduce)(struct ss_place *p, enum ss_type type, enum ss_op op, void *dst,
                   const void *from, size_t n); /* `from` is the host's */

    /* Norms and samples. load: `count` elements from `first` on as doubles. sketch: of a vector, in
     * SS_SKETCH_BUCKETS sums. */
    double (*square)(struct ss_place *p, enum ss_type type, const void *v, size_t n);
    double (*square_sample)(struct ss_place *p, enum ss_type type, const void *v, size_t n,
                            size_t most);
    size_t (*not_finite)(struct ss_place *p, enum ss_type type, const void *g, const void *r,
                         size_t n);
    bool (*is_clear)(struct ss_place *p, enum ss_type type, const void *v, size_t n);
    void (*load)(struct ss_place *p, enum ss_type type, const void *v, size_t first, size_t count,
                 double *to);
    void (*sketch)(struct ss_place *p, enum ss_type type, const void *v, size_t n, double *sketch);

    /* Residuals. */
    bool (*claim)(struct ss_place *p, struct ss_threshold *t, enum ss_type type, const void *g,
                  void *r, size_t n, uint32_t base, size_t k, uint32_t *idx, void *val,
                  struct ss_selection *out);
    void (*claim_buckets)(struct ss_place *p, enum ss_type type, const void *g, void *r, size_t n,
                          uint32_t base, size_t k, size_t bucket, uint32_t *idx, void *val,
                          struct ss_selection *out);
    void (*undo)(struct ss_place *p, enum ss_type type, const void *g, void *r, size_t n,
                 uint32_t base, const uint32_t *idx, const void *val, size_t claimed);
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

#endif
