/* The place of a trial: works like the host's own, except for vectors that it does not store. */
#include "core/trial/unkept.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ss_unkept *of(struct ss_place *p)
{
    return (struct ss_unkept *)p;
}

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93ULL;
    return h ^ h >> 32;
}

void ss_digest_add(struct ss_digest *d, uint64_t idx, float val)
{
    uint32_t bits;

    memcpy(&bits, &val, sizeof bits);
    if (bits << 1 == 0)
        return;
    d->sum += mix(mix(idx + 1) ^ bits);
    d->nnz++;
}

/* ---- the input ---- */

static void draw(const struct ss_unkept *u, size_t first, size_t n, uint32_t base, uint32_t *idx,
                 float *val, size_t capacity, struct ss_scan *out)
{
    struct ss_entries_cursor c;
    uint32_t at;
    float value;

    *out = (struct ss_scan){.stop = n};
    ss_entries_start(&c, u->entries, u->call, u->rank);
    while (ss_entries_next(&c, &at, &value)) {
        if (at < first || at >= first + n)
            continue;
        if (out->stored < capacity) {
            idx[out->stored] = base + (uint32_t)(at - first);
            val[out->stored++] = value;
        } else if (out->nnz == capacity) {
            out->stop = at - first;
        }
        out->nnz++;
    }
}

static void scan_input(const struct ss_unkept *u, size_t first, size_t n, uint32_t base,
                       uint32_t *idx, float *val, size_t capacity, struct ss_scan *out)
{
    if (u->sim)
        ss_sim_aside(u->sim, u->rank, true);
    draw(u, first, n, base, idx, val, capacity, out);
    if (u->sim)
        ss_sim_aside(u->sim, u->rank, false);
}

static bool in_input(const struct ss_unkept *u, const void *v)
{
    const float *at = v;

    return at >= u->in && at < u->in + u->entries->n;
}

static ss_ticket scan(struct ss_place *p, enum ss_type type, enum ss_op op, const void *src,
                      size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                      struct ss_scan *out)
{
    const struct ss_unkept *u = of(p);

    if (!in_input(u, src))
        return ss_host.ops->scan(p, type, op, src, n, base, idx, val, capacity, out);
    scan_input(u, (size_t)((const float *)src - u->in), n, base, idx, val, capacity, out);
    return 0;
}

static ss_ticket claim(struct ss_place *p, struct ss_threshold *t, enum ss_type type, const void *g,
                       void *r, size_t n, uint32_t base, size_t k, uint32_t *idx, void *val,
                       struct ss_selection *out, bool *few)
{
    struct ss_scan seen;
    size_t first = (size_t)((const float *)g - of(p)->in);

    (void)r, (void)type, (void)t;
    scan_input(of(p), first, n, base, idx, val, ss_claim_limit(k), &seen);
    double square = ss_vector_square(SS_F32, val, seen.stored);
    *out = (struct ss_selection){
        .claimed = seen.stored, .stop = n, .input_square = square, .sum_square = square};
    *few = false;
    return 0;
}

static int make(struct ss_place *p, struct ss_mem *mem, struct ss_buf *buf, size_t bytes)
{
    (void)mem;
    of(p)->residual = bytes;
    *buf = (struct ss_buf){.data = (void *)(uintptr_t)of(p)->in, .size = bytes};
    return SS_OK;
}

static void drop(struct ss_place *p, struct ss_buf *buf)
{
    (void)p;
    *buf = (struct ss_buf){0};
}

static void forget_at(struct ss_place *p, enum ss_type type, void *r, uint32_t base,
                      const uint32_t *idx, const void *val, size_t count)
{
    (void)p, (void)type, (void)r, (void)base, (void)idx, (void)val, (void)count;
}

/* ---- the result ---- */

static size_t page_elements(void)
{
    return (size_t)sysconf(_SC_PAGESIZE) / sizeof(float);
}

static size_t whole_pages(size_t n)
{
    return (n + page_elements() - 1) / page_elements() * page_elements();
}

/* Clears a range before values are added to it; its old values belong to another call. */
static void clear(struct ss_place *p, enum ss_type type, void *v, size_t n)
{
    struct ss_unkept *u = of(p);
    size_t first = (size_t)((float *)v - u->out), end = first + n;

    if (in_input(u, v) || !u->dirty) /* a residual, or pages that are still zero */
        return;
    if (end == u->entries->n)
        end = whole_pages(end);
    if (first % page_elements() != 0 || end % page_elements() != 0 ||
        madvise(v, (end - first) * sizeof(float), MADV_DONTNEED) != 0)
        ss_vector_clear(type, v, n);
}

static void note(struct ss_unkept *u, size_t first, size_t end)
{
    if (u->added == u->end || first < u->added)
        u->added = first;
    if (end > u->end)
        u->end = end;
    u->dirty = true;
}

static void accumulate(struct ss_place *p, enum ss_type type, enum ss_op op, void *dst,
                       uint32_t base, const uint32_t *idx, const void *val, size_t nnz)
{
    if (nnz == 0)
        return;
    note(of(p), idx[0] - base, idx[nnz - 1] - base + 1);
    ss_host.ops->accumulate(p, type, op, dst, base, idx, val, nnz);
}

static void reduce(struct ss_place *p, enum ss_type type, enum ss_op op, void *dst,
                   const void *from, size_t n)
{
    size_t first = (size_t)((float *)dst - of(p)->out);

    note(of(p), first, first + n);
    ss_host.ops->reduce(p, type, op, dst, from, n);
}

/* Writes a value; replaces a sum if one was added up there. */
static void put(struct ss_unkept *u, size_t at, float val)
{
    if (at >= u->added && at < u->end)
        u->out[at] = val;
    else
        ss_digest_add(&u->seen, at, val);
}

static void scatter(struct ss_place *p, enum ss_type type, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz)
{
    size_t first = (size_t)((float *)dst - of(p)->out) - base;

    (void)type;
    for (size_t i = 0; i < nnz; i++)
        put(of(p), first + idx[i], ((const float *)val)[i]);
}

static void write_to(struct ss_place *p, enum ss_type type, void *dst, const void *from, size_t n)
{
    size_t first = (size_t)((float *)dst - of(p)->out);

    (void)type;
    for (size_t i = 0; i < n; i++)
        put(of(p), first + i, ((const float *)from)[i]);
}

struct ss_digest ss_unkept_result(const struct ss_unkept *u)
{
    struct ss_digest d = u->seen;

    for (size_t i = u->added; i < u->end; i++)
        ss_digest_add(&d, i, u->out[i]);
    return d;
}

/* ---- one place for each rank ---- */

static struct ss_place_ops ops;

static void init_ops(void)
{
    ops = *ss_host.ops;
    ops.name = "unkept";
    ops.make = make;
    ops.drop = drop;
    ops.clear = clear;
    ops.scatter = scatter;
    ops.accumulate = accumulate;
    ops.reduce = reduce;
    ops.write = write_to;
    ops.scan = scan;
    ops.claim = claim;
    ops.add_at = forget_at;
}

static size_t stride(const struct ss_entries *e)
{
    return whole_pages((size_t)e->n) * sizeof(float);
}

/* Reserves the input's addresses first, without access, then a result for each rank. */
struct ss_unkept *ss_unkept_create(const struct ss_entries *entries, int ranks)
{
    struct ss_unkept *u = calloc((size_t)ranks, sizeof *u);
    size_t each = stride(entries);
    char *at = mmap(NULL, ((size_t)ranks + 1) * each, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!u || at == MAP_FAILED || mprotect(at, each, PROT_NONE) != 0) {
        if (at != MAP_FAILED)
            munmap(at, ((size_t)ranks + 1) * each);
        free(u);
        return NULL;
    }
    init_ops();
    for (int r = 0; r < ranks; r++)
        u[r] = (struct ss_unkept){.place = {&ops},
                                  .entries = entries,
                                  .rank = r,
                                  .in = (const float *)(const void *)at,
                                  .out = (float *)(void *)(at + ((size_t)r + 1) * each)};
    return u;
}

void ss_unkept_free(struct ss_unkept *ranks, int count)
{
    if (!ranks)
        return;
    munmap((void *)(uintptr_t)ranks[0].in, ((size_t)count + 1) * stride(ranks[0].entries));
    free(ranks);
}

void ss_unkept_start(struct ss_unkept *u, uint64_t call)
{
    u->call = call;
    u->added = u->end = 0;
    u->seen = (struct ss_digest){0};
}
