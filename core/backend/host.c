/* The backend of the host: the kernels of this processor do all work at once. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/backend.h"

static void *stage(struct ss_backend *p, size_t bytes)
{
    (void)p;
    return malloc(bytes);
}

static void unstage(struct ss_backend *p, void *staged)
{
    (void)p;
    free(staged);
}

static ss_ticket fetch(struct ss_backend *p, const void *from, size_t bytes, void *staged)
{
    (void)p;
    memcpy(staged, from, bytes);
    return 0;
}

static ss_ticket store(struct ss_backend *p, void *to, const void *staged, size_t bytes)
{
    (void)p;
    memcpy(to, staged, bytes);
    return 0;
}

static int make(struct ss_backend *p, struct ss_mem *mem, struct ss_buf *buf, size_t bytes)
{
    (void)p;
    int status = ss_buf_reserve(buf, mem, bytes);
    if (status == SS_OK)
        memset(buf->data, 0, bytes);
    return status;
}

static void drop(struct ss_backend *p, struct ss_buf *buf)
{
    (void)p;
    ss_buf_free(buf);
}

static void clear(struct ss_backend *p, enum ss_type type, void *v, size_t n)
{
    (void)p;
    ss_vector_clear(type, v, n);
}

static void clear_at(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                     const uint32_t *idx, size_t nnz)
{
    unsigned char *to = dst;

    (void)p;
    if (ss_type_size(type) == 4)
        for (size_t i = 0; i < nnz; i++)
            memset(to + (size_t)(idx[i] - base) * 4, 0, 4);
    else
        for (size_t i = 0; i < nnz; i++)
            memset(to + (size_t)(idx[i] - base) * 8, 0, 8);
}

static void copy(struct ss_backend *p, enum ss_type type, void *dst, const void *src, size_t n)
{
    (void)p;
    memcpy(dst, src, n * ss_type_size(type));
}

static ss_ticket read_to(struct ss_backend *p, enum ss_type type, const void *src, size_t n,
                         void *to)
{
    copy(p, type, to, src, n);
    return 0;
}

/* Prefetches a run. Runs lie pages apart, so that no processor prefetches them of itself. */
static void fetch_run(const char *run, size_t bytes)
{
    enum { LINE = 64 };
    for (size_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch(run + at);
}

static ss_ticket runs_to(struct ss_backend *p, enum ss_type type, const void *v,
                         const struct ss_run *runs, size_t count, void *to)
{
    enum { AHEAD = 8, SHORT = 64 };
    const size_t size = ss_type_size(type);
    const char *from = v;
    char *next = to;

    (void)p;
    for (size_t j = 0; j < count; j++) {
        if (j + AHEAD < count && runs[j + AHEAD].count <= SHORT)
            fetch_run(from + runs[j + AHEAD].first * size, runs[j + AHEAD].count * size);
        memcpy(next, from + runs[j].first * size, runs[j].count * size);
        next += runs[j].count * size;
    }
    return 0;
}

static ss_ticket open_here(struct ss_backend *p, enum ss_type type, void *v, size_t n, void *room,
                           void **at)
{
    (void)p, (void)type, (void)n, (void)room;
    *at = v;
    return 0;
}

static void close_here(struct ss_backend *p, enum ss_type type, void *v, size_t n,
                       const void *opened)
{
    (void)p, (void)type, (void)v, (void)n, (void)opened;
}

static ss_ticket scan(struct ss_backend *p, enum ss_type type, enum ss_op op, const void *src,
                      size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                      struct ss_scan *out)
{
    (void)p;
    ss_kernels()->scan(type, op, src, n, base, idx, val, capacity, out);
    return 0;
}

static void scatter(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz)
{
    (void)p;
    ss_kernels()->scatter(type, dst, base, idx, val, nnz);
}

static void accumulate(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                       uint32_t base, const uint32_t *idx, const void *val, size_t nnz)
{
    (void)p;
    ss_kernels()->accumulate(type, op, dst, base, idx, val, nnz);
}

static void reduce(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                   const void *from, size_t n)
{
    (void)p;
    ss_kernels()->reduce(type, op, dst, from, n);
}

static ss_ticket decode(struct ss_backend *p, enum ss_type type, const enum ss_op *op, void *dst,
                        uint32_t base, const struct ss_coded *coded, atomic_int *refused)
{
    const void *val;

    if (ss_wire_decode_coded(coded, type, &val) != SS_OK)
        *refused = coded->sender + 1;
    else if (op)
        accumulate(p, type, *op, dst, base, coded->idx, val, coded->nnz);
    else
        scatter(p, type, dst, base, coded->idx, val, coded->nnz);
    return 0;
}

/* Encodes a part, whose first message begins at the end of the part before it. */
static size_t encode_part(enum ss_type type, const struct ss_leaving *what,
                          const struct ss_part *part, unsigned char *to, size_t at)
{
    const size_t size = ss_type_size(type);
    size_t done = 0;
    bool last;

    do {
        const size_t first = part->first + done, left = part->count - done;
        const uint32_t entries = left < SS_CHUNK_ENTRIES ? (uint32_t)left : SS_CHUNK_ENTRIES;
        char *val = (char *)what->val + first * size;
        const struct ss_wire_rounding rounding = {
            .how = &what->how,
            .val = val,
            .error = what->error ? (char *)what->error + first * size : NULL,
            .position = done};
        last = entries == left;
        at += (ss_wire_encode(to + at, &what->key, what->coding, what->idx + first, val, entries,
                              last, what->how.values != SS_VALUES_SAME ? &rounding : NULL) +
               63) /
              64 * 64;
        done += entries;
    } while (!last);
    return at;
}

static ss_ticket encode(struct ss_backend *p, enum ss_type type, const struct ss_leaving *what,
                        void *to, size_t *ends)
{
    size_t at = 0;

    (void)p;
    for (size_t i = 0; i < what->count; i++)
        ends[i] = at = encode_part(type, what, &what->parts[i], to, at);
    return 0;
}

static void add_square(struct ss_share *to, double x)
{
    const double square = x * x;

    if (!(square <= DBL_MAX)) {
        to->unbounded++;
        return;
    }
    to->square += square;
    to->count += x != 0;
}

static ss_ticket survey(struct ss_backend *p, enum ss_type type, const uint32_t *idx,
                        const void *val, size_t nnz, const uint32_t *cuts, size_t count,
                        struct ss_share *out)
{
    (void)p;
    for (size_t i = 0; i < count; i++) {
        size_t j = ss_lower_bound(idx, nnz, cuts[i]);
        out[i] = (struct ss_share){.first = j};
        for (; j < nnz && idx[j] < cuts[i + 1]; j++)
            add_square(&out[i],
                       type == SS_F32 ? (double)((const float *)val)[j] : ((const double *)val)[j]);
    }
    return 0;
}

static ss_ticket square(struct ss_backend *p, enum ss_type type, const void *v, size_t n,
                        double *out)
{
    (void)p;
    *out = ss_vector_square(type, v, n);
    if (*out == 0 && !ss_vector_is_clear(type, v, n)) /* squares may be too small */
        *out = DBL_TRUE_MIN;
    return 0;
}

static ss_ticket not_finite(struct ss_backend *p, enum ss_type type, const void *g, const void *r,
                            size_t n, size_t *out)
{
    (void)p;
    *out = ss_vector_not_finite(type, g, r, n);
    return 0;
}

static void add_to_sketch(double *sketch, uint64_t i, double x)
{
    uint64_t h = (i + 1) * 0x9e3779b97f4a7c15ULL;

    h = (h ^ h >> 32) * 0xd6e8feb86659fd93ULL;
    sketch[h >> 53] += h & (1u << 20) ? x : -x;
}

static ss_ticket sketch_of(struct ss_backend *p, enum ss_type type, const void *v, size_t n,
                           double *sketch)
{
    (void)p;
    memset(sketch, 0, SS_SKETCH_BUCKETS * sizeof *sketch);
    for (size_t i = 0; i < n; i++) {
        double x = type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
        if (x != 0)
            add_to_sketch(sketch, i, x);
    }
    return 0;
}

static ss_ticket claim(struct ss_backend *p, struct ss_threshold *t, enum ss_type type,
                       const void *g, void *r, size_t n, uint32_t base, size_t k, uint32_t *idx,
                       void *val, struct ss_selection *out, bool *few)
{
    (void)p;
    *few = ss_threshold_select(t, ss_selectors(), type, g, r, n, base, k, idx, val, out);
    return 0;
}

static ss_ticket claim_buckets(struct ss_backend *p, enum ss_type type, const void *g, void *r,
                               size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                               void *val, struct ss_selection *out)
{
    (void)p;
    ss_select_buckets(ss_selectors(), type, g, r, n, base, k, bucket, idx, val, out);
    return 0;
}

static void undo(struct ss_backend *p, enum ss_type type, const void *g, void *r, size_t n,
                 uint32_t base, const uint32_t *idx, const void *val, size_t claimed)
{
    (void)p;
    ss_selectors()->undo(type, g, r, n, base, idx, val, claimed);
}

static void add_at(struct ss_backend *p, enum ss_type type, void *r, uint32_t base,
                   const uint32_t *idx, const void *val, size_t count)
{
    (void)p;
    ss_vector_add_at(type, r, base, idx, val, count);
}

static void add(struct ss_backend *p, enum ss_type type, void *r, const void *src, size_t n)
{
    (void)p;
    ss_vector_add(type, r, src, n);
}

static void join(struct ss_backend *p, enum ss_type type, const void *in, const void *r, void *out,
                 size_t n, double share)
{
    (void)p;
    ss_vector_join(type, in, r, out, n, share);
}

static void leave(struct ss_backend *p, enum ss_type type, void *r, size_t n, double share)
{
    (void)p;
    ss_vector_leave(type, r, n, share);
}

static void scale(struct ss_backend *p, enum ss_type type, void *r, size_t n, double factor)
{
    (void)p;
    ss_vector_scale(type, r, n, factor);
}

static const struct ss_backend_ops ops = {
    .poll = ss_backend_poll_done,
    .latest = ss_backend_latest_done,
    .stage = stage,
    .unstage = unstage,
    .fetch = fetch,
    .store = store,
    .reserve = ss_backend_reserve_nothing,
    .make = make,
    .drop = drop,
    .clear = clear,
    .clear_at = clear_at,
    .copy = copy,
    .write = copy,
    .read = read_to,
    .runs = runs_to,
    .open = open_here,
    .close = close_here,
    .scan = scan,
    .scatter = scatter,
    .accumulate = accumulate,
    .reduce = reduce,
    .decode = decode,
    .encode = encode,
    .survey = survey,
    .square = square,
    .not_finite = not_finite,
    .sketch = sketch_of,
    .claim = claim,
    .claim_buckets = claim_buckets,
    .undo = undo,
    .add_at = add_at,
    .add_dense = add,
    .add = add,
    .join = join,
    .leave = leave,
    .scale = scale,
};

struct ss_backend ss_host = {&ops};
