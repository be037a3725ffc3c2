/* A backend that the host cannot access: its addresses lead to unreadable pages, FAR bytes behind
 * the memory that its functions work on, so that a direct access crashes. The backend is late as
 * well: results are rubbish until poll has said that they are there. */
#ifndef TESTS_UNIT_FAR_BACKEND_H
#define TESTS_UNIT_FAR_BACKEND_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/backend/backend.h"

enum { FAR = 1 << 28 };

struct far_debt {
    struct ss_backend *backend;
    void *to, *value;
    size_t bytes;
    ss_ticket ticket;
};

static struct {
    char *near; /* FAR bytes, then FAR bytes without access */
    /* bytes used from the front, for the test; from the end, for vectors of make */
    size_t used, vectors;
    uint64_t calls, decoded, encoded, most_decoding, cleared;
    struct far_debt debts[256]; /* results to be delivered, oldest first */
    size_t owed;
    ss_ticket handed, written,
        done; /* last piece of work, last that wrote in the backend, last done */
    unsigned polls;
    struct ss_backend *at_work; /* backend that worked last */
} far_memory;

/* A backend of this kind. From piece of work number fails_at on it fails, 0: never. */
struct far_backend {
    struct ss_backend backend;
    uint64_t works, fails_at;
    uint64_t decoding; /* chunks to decode since the last poll */
    unsigned stalls;   /* number of polls that answer "not done yet" */
    uint64_t reserved,
        lacks_at; /* from that time on it has no room for what is to come, 0 = never */
    size_t lacks_from, lacks_to; /* range of bytes of vectors that it has no room for */
};

static inline void far_room(size_t bytes)
{
    if (!far_memory.near) {
        far_memory.near = mmap(NULL, 2 * (size_t)FAR, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (far_memory.near == MAP_FAILED ||
            mprotect(far_memory.near, FAR, PROT_READ | PROT_WRITE) != 0)
            abort();
    }
    if (far_memory.used + far_memory.vectors + bytes + 128 > FAR)
        abort();
}

/* Returns memory in the backend as the test sees it. */
static inline void *far_make(size_t bytes)
{
    far_room(bytes);
    size_t at = far_memory.used;
    far_memory.used += (bytes + 127) / 64 * 64;
    return memset(far_memory.near + at, 0, bytes);
}

static inline void far_pay(ss_ticket upto)
{
    size_t kept = 0;

    for (size_t i = 0; i < far_memory.owed; i++) {
        struct far_debt *d = &far_memory.debts[i];
        if (d->ticket > upto) {
            far_memory.debts[kept++] = *d;
            continue;
        }
        memcpy(d->to, d->value, d->bytes);
        free(d->value);
    }
    far_memory.owed = kept;
    far_memory.done = upto > far_memory.done ? upto : far_memory.done;
}

/* Drops results that nobody has waited for. */
static inline void far_forget_all(void)
{
    for (size_t i = 0; i < far_memory.owed; i++)
        free(far_memory.debts[i].value);
    far_memory.owed = 0;
    far_memory.used = far_memory.vectors = 0;
}

/* Drops the results of a backend that has failed. */
static inline void far_default(const struct ss_backend *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < far_memory.owed; i++)
        if (far_memory.debts[i].backend == p)
            free(far_memory.debts[i].value);
        else
            far_memory.debts[kept++] = far_memory.debts[i];
    far_memory.owed = kept;
}

/* Returns true for entries that stay in the backend and are there at once; false for the host's. */
static inline bool far_is_there(const void *entries)
{
    const char *at = entries;

    return far_memory.near && at >= far_memory.near + FAR && at < far_memory.near + 2 * (size_t)FAR;
}

/* Takes a result for the host back, and delivers it later. */
static inline void far_owe(void *to, size_t bytes)
{
    if (!to || bytes == 0 || far_is_there(to))
        return;
    if (far_memory.owed == sizeof far_memory.debts / sizeof far_memory.debts[0])
        abort();
    struct far_debt *d = &far_memory.debts[far_memory.owed++];
    *d = (struct far_debt){far_memory.at_work, to, malloc(bytes), bytes, far_memory.handed};
    memcpy(d->value, to, bytes);
    memset(to, 0xa5, bytes);
}

static inline ss_ticket far_work(struct ss_backend *p)
{
    ((struct far_backend *)p)->works++;
    far_memory.at_work = p;
    return ++far_memory.handed;
}
/* Records a write, except into vectors of make, which no other user reads. */
static inline void far_write_work(struct ss_backend *p, const void *far)
{
    ss_ticket ticket = far_work(p);

    if ((const char *)far < far_memory.near + 2 * (size_t)FAR - far_memory.vectors)
        far_memory.written = ticket;
}
/* Returns true if all writes in the backend are done, as far as polls have asked. */
static inline bool far_all_written(void)
{
    return far_memory.written <= far_memory.done;
}

static bool far_lost(struct ss_backend *p)
{
    const struct far_backend *far = (struct far_backend *)p;

    return far->fails_at > 0 && far->works >= far->fails_at;
}
static int far_poll(struct ss_backend *p, ss_ticket ticket)
{
    struct far_backend *far = (struct far_backend *)p;

    if (far->stalls > 0) {
        far->stalls--;
        return SS_PENDING;
    }
    if (far->fails_at > 0 && far->works >= far->fails_at) {
        far_default(p);
        return SS_ERR_DEVICE;
    }
    if (ticket > far_memory.done && far_memory.polls++ % 3 != 2)
        return SS_PENDING;
    far_pay(ticket);
    far->decoding = 0;
    return SS_OK;
}
static ss_ticket far_latest(struct ss_backend *p)
{
    (void)p;
    return far_memory.handed;
}

static inline void *far_near(const void *far)
{
    far_memory.calls++;
    return far ? (char *)(uintptr_t)far - FAR : NULL;
}

static inline void *far_entries(const void *entries)
{
    return far_is_there(entries) ? far_near(entries) : (void *)(uintptr_t)entries;
}

#define HOST ss_host.ops

static int far_reserve(struct ss_backend *p, enum ss_type type, const struct ss_backend_need *need)
{
    struct far_backend *far = (struct far_backend *)p;

    (void)type, (void)need;
    far->reserved++;
    return far->lacks_at > 0 && far->reserved >= far->lacks_at ? SS_ERR_MEMORY : SS_OK;
}
static int far_vector(struct ss_backend *p, struct ss_mem *mem, struct ss_buf *buf, size_t bytes)
{
    const struct far_backend *far = (struct far_backend *)p;

    (void)mem;
    *buf = (struct ss_buf){.size = 0};
    if (bytes >= far->lacks_from && bytes < far->lacks_to)
        return SS_ERR_MEMORY;
    far_room(bytes);
    far_memory.vectors += (bytes + 127) / 64 * 64;
    buf->data = far_memory.near + 2 * (size_t)FAR - far_memory.vectors;
    memset(far_near(buf->data), 0, bytes);
    buf->size = bytes;
    return SS_OK;
}
static void far_drop(struct ss_backend *p, struct ss_buf *buf)
{
    (void)p;
    *buf = (struct ss_buf){.size = 0};
}
static void far_clear(struct ss_backend *p, enum ss_type type, void *v, size_t n)
{
    far_memory.cleared++;
    far_write_work(p, v);
    HOST->clear(p, type, far_near(v), n);
}
static void far_clear_at(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                         const uint32_t *idx, size_t nnz)
{
    far_write_work(p, dst);
    HOST->clear_at(p, type, far_near(dst), base, far_entries(idx), nnz);
}
static void far_copy(struct ss_backend *p, enum ss_type type, void *dst, const void *src, size_t n)
{
    far_write_work(p, dst);
    HOST->copy(p, type, far_near(dst), far_near(src), n);
}
static void far_write(struct ss_backend *p, enum ss_type type, void *dst, const void *from,
                      size_t n)
{
    far_write_work(p, dst);
    HOST->write(p, type, far_near(dst), from, n);
}
static void far_scatter(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                        const uint32_t *idx, const void *val, size_t nnz)
{
    far_write_work(p, dst);
    HOST->scatter(p, type, far_near(dst), base, far_entries(idx), far_entries(val), nnz);
}
static void far_accumulate(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                           uint32_t base, const uint32_t *idx, const void *val, size_t nnz)
{
    far_write_work(p, dst);
    HOST->accumulate(p, type, op, far_near(dst), base, far_entries(idx), far_entries(val), nnz);
}
static void far_reduce(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                       const void *from, size_t n)
{
    far_write_work(p, dst);
    HOST->reduce(p, type, op, far_near(dst), from, n);
}
static ss_ticket far_decode(struct ss_backend *p, enum ss_type type, const enum ss_op *op,
                            void *dst, uint32_t base, const struct ss_coded *coded,
                            atomic_int *refused)
{
    int before = *refused;

    far_write_work(p, dst);
    far_memory.decoded++;
    if (++((struct far_backend *)p)->decoding > far_memory.most_decoding)
        far_memory.most_decoding = ((struct far_backend *)p)->decoding;
    HOST->decode(p, type, op, far_near(dst), base, coded, refused);
    if (*refused != before) {
        far_owe((void *)refused, sizeof *refused);
        *refused = before;
    }
    return far_memory.handed;
}
static ss_ticket far_encode(struct ss_backend *p, enum ss_type type, const struct ss_leaving *what,
                            void *to, size_t *ends)
{
    ss_ticket ticket = far_work(p);
    struct ss_leaving near = *what;

    near.idx = far_near(what->idx);
    near.val = far_near(what->val);
    near.error = far_near(what->error);
    far_memory.encoded++;
    HOST->encode(p, type, &near, to, ends);
    far_owe(to, what->count > 0 ? ends[what->count - 1] : 0);
    far_owe(ends, what->count * sizeof *ends);
    return ticket;
}
static ss_ticket far_survey(struct ss_backend *p, enum ss_type type, const uint32_t *idx,
                            const void *val, size_t nnz, const uint32_t *cuts, size_t count,
                            struct ss_share *out)
{
    ss_ticket ticket = far_work(p);

    HOST->survey(p, type, far_near(idx), far_near(val), nnz, cuts, count, out);
    far_owe(out, count * sizeof *out);
    return ticket;
}
static ss_ticket far_read(struct ss_backend *p, enum ss_type type, const void *src, size_t n,
                          void *to)
{
    ss_ticket ticket = far_work(p);

    HOST->read(p, type, far_near(src), n, to);
    far_owe(to, n * ss_type_size(type));
    return ticket;
}
static ss_ticket far_runs(struct ss_backend *p, enum ss_type type, const void *v,
                          const struct ss_run *runs, size_t count, void *to)
{
    ss_ticket ticket = far_work(p);
    size_t n = 0;

    HOST->runs(p, type, far_near(v), runs, count, to);
    for (size_t j = 0; j < count; j++)
        n += runs[j].count;
    far_owe(to, n * ss_type_size(type));
    return ticket;
}
static ss_ticket far_open(struct ss_backend *p, enum ss_type type, void *v, size_t n, void *room,
                          void **at)
{
    *at = room;
    return far_read(p, type, v, n, room);
}
static void far_close(struct ss_backend *p, enum ss_type type, void *v, size_t n,
                      const void *opened)
{
    far_write(p, type, v, opened, n);
}
static ss_ticket far_scan(struct ss_backend *p, enum ss_type type, enum ss_op op, const void *src,
                          size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                          struct ss_scan *out)
{
    ss_ticket ticket = far_work(p);

    HOST->scan(p, type, op, far_near(src), n, base, far_entries(idx), far_entries(val), capacity,
               out);
    far_owe(idx, out->stored * sizeof *idx);
    far_owe(val, out->stored * ss_type_size(type));
    far_owe(out, sizeof *out);
    return ticket;
}
static ss_ticket far_square(struct ss_backend *p, enum ss_type type, const void *v, size_t n,
                            double *out)
{
    ss_ticket ticket = far_work(p);

    HOST->square(p, type, far_near(v), n, out);
    far_owe(out, sizeof *out);
    return ticket;
}
static ss_ticket far_not_finite(struct ss_backend *p, enum ss_type type, const void *g,
                                const void *r, size_t n, size_t *out)
{
    ss_ticket ticket = far_work(p);

    HOST->not_finite(p, type, far_near(g), far_near(r), n, out);
    far_owe(out, sizeof *out);
    return ticket;
}
static ss_ticket far_sketch(struct ss_backend *p, enum ss_type type, const void *v, size_t n,
                            double *sketch)
{
    ss_ticket ticket = far_work(p);

    HOST->sketch(p, type, far_near(v), n, sketch);
    far_owe(sketch, SS_SKETCH_BUCKETS * sizeof *sketch);
    return ticket;
}
static ss_ticket far_claim(struct ss_backend *p, struct ss_threshold *t, enum ss_type type,
                           const void *g, void *r, size_t n, uint32_t base, size_t k, uint32_t *idx,
                           void *val, struct ss_selection *out, bool *few)
{
    ss_ticket ticket = far_work(p);

    HOST->claim(p, t, type, far_near(g), far_near(r), n, base, k, far_entries(idx),
                far_entries(val), out, few);
    far_owe(idx, out->claimed * sizeof *idx);
    far_owe(val, out->claimed * ss_type_size(type));
    far_owe(out, sizeof *out);
    far_owe(few, sizeof *few);
    far_owe(t, sizeof *t);
    return ticket;
}
static ss_ticket far_claim_buckets(struct ss_backend *p, enum ss_type type, const void *g, void *r,
                                   size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                                   void *val, struct ss_selection *out)
{
    ss_ticket ticket = far_work(p);

    HOST->claim_buckets(p, type, far_near(g), far_near(r), n, base, k, bucket, far_entries(idx),
                        far_entries(val), out);
    far_owe(idx, out->claimed * sizeof *idx);
    far_owe(val, out->claimed * ss_type_size(type));
    far_owe(out, sizeof *out);
    return ticket;
}
static void far_undo(struct ss_backend *p, enum ss_type type, const void *g, void *r, size_t n,
                     uint32_t base, const uint32_t *idx, const void *val, size_t claimed)
{
    far_work(p);
    HOST->undo(p, type, far_near(g), far_near(r), n, base, far_entries(idx), far_entries(val),
               claimed);
}
static void far_add_at(struct ss_backend *p, enum ss_type type, void *r, uint32_t base,
                       const uint32_t *idx, const void *val, size_t count)
{
    far_work(p);
    HOST->add_at(p, type, far_near(r), base, far_entries(idx), far_entries(val), count);
}
static void far_add_dense(struct ss_backend *p, enum ss_type type, void *r, const void *from,
                          size_t n)
{
    far_work(p);
    HOST->add_dense(p, type, far_near(r), from, n);
}
static void far_add(struct ss_backend *p, enum ss_type type, void *r, const void *src, size_t n)
{
    far_work(p);
    HOST->add(p, type, far_near(r), far_near(src), n);
}
static void far_join(struct ss_backend *p, enum ss_type type, const void *in, const void *r,
                     void *out, size_t n, double share)
{
    far_write_work(p, out);
    HOST->join(p, type, far_near(in), far_near(r), far_near(out), n, share);
}
static void far_leave(struct ss_backend *p, enum ss_type type, void *r, size_t n, double share)
{
    far_work(p);
    HOST->leave(p, type, far_near(r), n, share);
}
static void far_scale(struct ss_backend *p, enum ss_type type, void *r, size_t n, double factor)
{
    far_work(p);
    HOST->scale(p, type, far_near(r), n, factor);
}

static const struct ss_backend_ops far_ops = {
    .remote = true,
    .poll = far_poll,
    .latest = far_latest,
    .lost = far_lost,
    .reserve = far_reserve,
    .make = far_vector,
    .drop = far_drop,
    .clear = far_clear,
    .clear_at = far_clear_at,
    .copy = far_copy,
    .write = far_write,
    .read = far_read,
    .runs = far_runs,
    .open = far_open,
    .close = far_close,
    .scan = far_scan,
    .scatter = far_scatter,
    .accumulate = far_accumulate,
    .reduce = far_reduce,
    .decode = far_decode,
    .encode = far_encode,
    .survey = far_survey,
    .square = far_square,
    .not_finite = far_not_finite,
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
static struct far_backend far_backends[8];

static inline struct ss_backend *far_backend_of(int rank)
{
    far_backends[rank] = (struct far_backend){.backend = {&far_ops}};
    return &far_backends[rank].backend;
}

#endif
