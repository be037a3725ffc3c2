/* A place that the host cannot touch: its addresses lead to pages without access, FAR bytes behind
 * the memory that its functions work on. What goes past them is a crash with a name. */
#ifndef TESTS_UNIT_FAR_PLACE_H
#define TESTS_UNIT_FAR_PLACE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/place/place.h"

enum { FAR = 1 << 28 };

static struct {
    char *near; /* FAR bytes, then FAR bytes without access */
    size_t used;
    uint64_t calls;
} far_memory;

/* Memory in the place, where the test can see it; its address there. */
static inline void *far_make(size_t bytes)
{
    if (!far_memory.near) {
        far_memory.near = mmap(NULL, 2 * (size_t)FAR, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (far_memory.near == MAP_FAILED ||
            mprotect(far_memory.near, FAR, PROT_READ | PROT_WRITE) != 0)
            abort();
    }
    size_t at = far_memory.used;
    far_memory.used += (bytes + 127) / 64 * 64;
    if (far_memory.used > FAR)
        abort();
    return memset(far_memory.near + at, 0, bytes);
}
static inline void far_forget_all(void)
{
    far_memory.used = 0;
}

static inline void *far_near(const void *far)
{
    far_memory.calls++;
    return far ? (char *)(uintptr_t)far - FAR : NULL;
}

#define HOST ss_host.ops

static int far_vector(struct ss_place *p, struct ss_mem *mem, struct ss_buf *buf, size_t bytes)
{
    (void)p, (void)mem;
    buf->data = (char *)far_make(bytes) + FAR;
    buf->size = bytes;
    return SS_OK;
}
static void far_drop(struct ss_place *p, struct ss_buf *buf)
{
    (void)p;
    *buf = (struct ss_buf){.size = 0};
}
static void far_clear(struct ss_place *p, enum ss_type type, void *v, size_t n)
{
    HOST->clear(p, type, far_near(v), n);
}
static void far_clear_at(struct ss_place *p, enum ss_type type, void *dst, uint32_t base,
                         const uint32_t *idx, size_t nnz)
{
    HOST->clear_at(p, type, far_near(dst), base, idx, nnz);
}
static void far_copy(struct ss_place *p, enum ss_type type, void *dst, const void *src, size_t n)
{
    HOST->copy(p, type, far_near(dst), far_near(src), n);
}
static void far_write(struct ss_place *p, enum ss_type type, void *dst, const void *from, size_t n)
{
    HOST->write(p, type, far_near(dst), from, n);
}
static void far_read(struct ss_place *p, enum ss_type type, const void *src, size_t n, void *to)
{
    HOST->read(p, type, far_near(src), n, to);
}
static void *far_open(struct ss_place *p, enum ss_type type, void *v, size_t n, void *room)
{
    HOST->read(p, type, far_near(v), n, room);
    return room;
}
static void far_close(struct ss_place *p, enum ss_type type, void *v, size_t n, const void *opened)
{
    HOST->write(p, type, far_near(v), opened, n);
}
static void far_scan(struct ss_place *p, enum ss_type type, enum ss_op op, const void *src,
                     size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                     struct ss_scan *out)
{
    HOST->scan(p, type, op, far_near(src), n, base, idx, val, capacity, out);
}
static void far_scatter(struct ss_place *p, enum ss_type type, void *dst, uint32_t base,
                        const uint32_t *idx, const void *val, size_t nnz)
{
    HOST->scatter(p, type, far_near(dst), base, idx, val, nnz);
}
static void far_accumulate(struct ss_place *p, enum ss_type type, enum ss_op op, void *dst,
                           uint32_t base, const uint32_t *idx, const void *val, size_t nnz)
{
    HOST->accumulate(p, type, op, far_near(dst), base, idx, val, nnz);
}
static void far_reduce(struct ss_place *p, enum ss_type type, enum ss_op op, void *dst,
                       const void *from, size_t n)
{
    HOST->reduce(p, type, op, far_near(dst), from, n);
}
static double far_square(struct ss_place *p, enum ss_type type, const void *v, size_t n)
{
    return HOST->square(p, type, far_near(v), n);
}
static double far_square_sample(struct ss_place *p, enum ss_type type, const void *v, size_t n,
                                size_t most)
{
    return HOST->square_sample(p, type, far_near(v), n, most);
}
static size_t far_not_finite(struct ss_place *p, enum ss_type type, const void *g, const void *r,
                             size_t n)
{
    return HOST->not_finite(p, type, far_near(g), far_near(r), n);
}
static bool far_is_clear(struct ss_place *p, enum ss_type type, const void *v, size_t n)
{
    return HOST->is_clear(p, type, far_near(v), n);
}
static void far_load(struct ss_place *p, enum ss_type type, const void *v, size_t first,
                     size_t count, double *to)
{
    HOST->load(p, type, far_near(v), first, count, to);
}
static void far_sketch(struct ss_place *p, enum ss_type type, const void *v, size_t n,
                       double *sketch)
{
    HOST->sketch(p, type, far_near(v), n, sketch);
}
static bool far_claim(struct ss_place *p, struct ss_threshold *t, enum ss_type type, const void *g,
                      void *r, size_t n, uint32_t base, size_t k, uint32_t *idx, void *val,
                      struct ss_selection *out)
{
    return HOST->claim(p, t, type, far_near(g), far_near(r), n, base, k, idx, val, out);
}
static void far_claim_buckets(struct ss_place *p, enum ss_type type, const void *g, void *r,
                              size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                              void *val, struct ss_selection *out)
{
    HOST->claim_buckets(p, type, far_near(g), far_near(r), n, base, k, bucket, idx, val, out);
}
static void far_undo(struct ss_place *p, enum ss_type type, const void *g, void *r, size_t n,
                     uint32_t base, const uint32_t *idx, const void *val, size_t claimed)
{
    HOST->undo(p, type, far_near(g), far_near(r), n, base, idx, val, claimed);
}
static void far_add_at(struct ss_place *p, enum ss_type type, void *r, uint32_t base,
                       const uint32_t *idx, const void *val, size_t count)
{
    HOST->add_at(p, type, far_near(r), base, idx, val, count);
}
static void far_add_dense(struct ss_place *p, enum ss_type type, void *r, const void *from,
                          size_t n)
{
    HOST->add_dense(p, type, far_near(r), from, n);
}
static void far_add(struct ss_place *p, enum ss_type type, void *r, const void *src, size_t n)
{
    HOST->add(p, type, far_near(r), far_near(src), n);
}
static void far_join(struct ss_place *p, enum ss_type type, const void *in, const void *r,
                     void *out, size_t n, double share)
{
    HOST->join(p, type, far_near(in), far_near(r), far_near(out), n, share);
}
static void far_leave(struct ss_place *p, enum ss_type type, void *r, size_t n, double share)
{
    HOST->leave(p, type, far_near(r), n, share);
}
static void far_scale(struct ss_place *p, enum ss_type type, void *r, size_t n, double factor)
{
    HOST->scale(p, type, far_near(r), n, factor);
}

static const struct ss_place_ops far_ops = {
    .name = "far",
    .remote = true,
    .make = far_vector,
    .drop = far_drop,
    .clear = far_clear,
    .clear_at = far_clear_at,
    .copy = far_copy,
    .write = far_write,
    .read = far_read,
    .open = far_open,
    .close = far_close,
    .scan = far_scan,
    .scatter = far_scatter,
    .accumulate = far_accumulate,
    .reduce = far_reduce,
    .square = far_square,
    .square_sample = far_square_sample,
    .not_finite = far_not_finite,
    .is_clear = far_is_clear,
    .load = far_load,
    .sketch = far_sketch,
    .claim = far_claim,
    .claim_buckets = far_claim_buckets,
    .undo = far_undo,
    .add_at = far_add_at,
    .add_dense = far_add_dense,
    .add = far_add,
    .join = far_join,
    .leave = far_leave,
    .scale = far_scale,
};
static struct ss_place far_place = {&far_ops};

#endif
