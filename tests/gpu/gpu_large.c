/* Vectors as long as those of models, in memory of a device, against what core computes on the
 * host, bit for bit: what gpu_check cannot show, with thousands of blocks under way and long
 * indices. usage: gpu_large [elements of 4 bytes]... */
#include "core/compute/kernels.h"
#include "core/select/threshold.h"
#include "tests/gpu/real_device.h"

enum { CROSSING = 64 << 20 };

static struct real_device real;
static void *crossing; /* pinned */
static int checks, differ;

/* One vector on both sides; the device's begins `skew` elements behind an aligned address. */
struct both {
    char *near, *far;
    char *all; /* the device's memory */
};

struct large {
    enum ss_type type;
    size_t n, bytes, k, room;
    struct both g, r;
    struct gpu_list list, between;
    void *work;
    uint32_t *idx;
    void *val; /* of the host */
};

static void tell(const struct large *l, bool same, const char *what)
{
    differ += !same;
    printf("%s %d - %zu of %s: %s\n", same ? "ok" : "not ok", ++checks, l->n, ss_type_name(l->type),
           what);
    (void)fflush(stdout);
}

/* ---- memory ---- */

static void *near_memory(size_t bytes)
{
    void *p = malloc(bytes + 64);

    if (!p)
        abort();
    return p;
}

static void *far_memory(size_t bytes)
{
    void *p = gpu_memory_make(&real.device, bytes);

    if (!p)
        abort();
    return p;
}

static void finish(void)
{
    real_check(&real, (CUresult)real.device.queue.error);
    real_check(&real, real.driver.stream_finish(real.device.stream));
}

static size_t piece(size_t bytes, size_t at)
{
    return bytes - at < CROSSING ? bytes - at : CROSSING;
}

static void upload(char *far, const char *near, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CROSSING) {
        memcpy(crossing, near + at, piece(bytes, at));
        gpu_upload(&real.device, far + at, crossing, piece(bytes, at));
        finish();
    }
}

static bool same(const void *far, const void *near, size_t bytes)
{
    bool all = true;

    for (size_t at = 0; at < bytes && all; at += CROSSING) {
        gpu_download(&real.device, crossing, (const char *)far + at, piece(bytes, at));
        finish();
        all = memcmp(crossing, (const char *)near + at, piece(bytes, at)) == 0;
    }
    return all;
}

static void download(void *near, const void *far, size_t bytes)
{
    gpu_download(&real.device, crossing, far, bytes);
    finish();
    memcpy(near, crossing, bytes);
}

/* ---- data ---- */

/* Numbers of some forty octaves, the larger the rarer; of every `each` one, the others zero. */
static void draw(const struct large *l, char *to, uint64_t seed, uint64_t each)
{
    uint64_t x = seed;

    for (size_t i = 0; i < l->n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const uint64_t high = x >> 20, octave = 127 - (uint64_t)__builtin_ctzll(high | 1ull << 40);
        const bool is = (x >> 33) % each == 0;
        if (l->type == SS_F32)
            ((uint32_t *)(void *)to)[i] =
                is ? (uint32_t)(x >> 63 << 31 | octave << 23 | (x >> 32 & 0x7fffff)) : 0;
        else
            ((uint64_t *)(void *)to)[i] =
                is ? x >> 63 << 63 | (octave + 896) << 52 | (x >> 12 & 0xfffffffffffff) : 0;
    }
}

static struct both vector(const struct large *l, size_t skew, uint64_t seed)
{
    struct both v = {near_memory(l->bytes), NULL, far_memory(l->bytes + 64)};

    v.far = v.all + skew * ss_type_size(l->type);
    draw(l, v.near, seed, 1);
    upload(v.far, v.near, l->bytes);
    return v;
}

static void drop(const struct large *l, struct both v)
{
    free(v.near);
    gpu_memory_free(&real.device, v.all, l->bytes + 64);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t work_bytes(const struct large *l)
{
    return larger(gpu_exact_work(l->type, l->n, l->k), gpu_scan_work(l->type, l->n));
}

static struct large open_large(enum ss_type type, size_t n, size_t skew_g, size_t skew_r)
{
    struct large l = {.type = type, .n = n, .bytes = n * ss_type_size(type), .k = n / 100 + 1};
    const size_t size = ss_type_size(type);

    l.room = ss_claim_limit(l.k);
    l.between.room = gpu_exact_room(n, l.k);
    l.g = vector(&l, skew_g, 1);
    l.r = vector(&l, skew_r, 2);
    l.list = (struct gpu_list){far_memory(4 * l.room), far_memory(size * l.room), l.room};
    l.between.idx = far_memory(4 * l.between.room);
    l.between.val = far_memory(size * l.between.room);
    l.work = far_memory(work_bytes(&l));
    l.idx = near_memory(4 * l.room);
    l.val = near_memory(size * l.room);
    return l;
}

static void close_large(const struct large *l)
{
    const size_t size = ss_type_size(l->type);

    finish();
    drop(l, l->g);
    drop(l, l->r);
    gpu_memory_free(&real.device, l->list.idx, 4 * l->room);
    gpu_memory_free(&real.device, l->list.val, size * l->room);
    gpu_memory_free(&real.device, l->between.idx, 4 * l->between.room);
    gpu_memory_free(&real.device, l->between.val, size * l->between.room);
    gpu_memory_free(&real.device, l->work, work_bytes(l));
    free(l->idx);
    free(l->val);
}

/* ---- checks ---- */

static bool same_list(const struct large *l, size_t count)
{
    return same(l->list.idx, l->idx, 4 * count) &&
           same(l->list.val, l->val, ss_type_size(l->type) * count);
}

static struct gpu_input input(const struct large *l)
{
    return (struct gpu_input){.type = l->type, .g = l->g.far, .r = l->r.far, .n = l->n, .base = 3};
}

/* The threshold in one reading, where the sample was good for that, and by radix. */
static void exact(struct large *l, struct ss_exact *want)
{
    const struct gpu_input in = input(l);
    struct ss_selection out;
    struct gpu_exact x;

    ss_exact_threshold(ss_selectors(), l->type, l->g.near, l->r.near, l->n, l->k, want);
    gpu_find(&real.device.queue, &in, l->k, l->work,
             (uint32_t *)(void *)((char *)l->work + sizeof(struct gpu_search)));
    download(&x.found, l->work, sizeof x.found);
    tell(l,
         x.found.low == want->threshold && x.found.above == want->above &&
             x.found.count == want->count,
         "the threshold by radix");
    gpu_claim_exact(&real.device.queue, &in, l->k, &l->between, &l->list, l->work);
    download(&x, l->work, sizeof x);
    ss_selectors()->select(l->type, l->g.near, l->r.near, l->n, 3, want->threshold, l->idx, l->val,
                           l->room, &out);
    tell(l, x.kept.missed == 0 && x.found.low == want->threshold, "the threshold in one reading");
    tell(l, x.kept.kept == out.claimed && same_list(l, out.claimed), "what is claimed by it");
    tell(l, same(l->r.far, l->r.near, l->bytes), "and what stays behind");
}

/* A second step, by the same threshold; with room for half of it. And back. */
static void claim(struct large *l, uint64_t threshold)
{
    const struct gpu_input in = input(l);
    struct gpu_list half = l->list;
    struct gpu_claimed seen;
    struct ss_selection out;

    half.room /= 2;
    gpu_claim(&real.device.queue, &in, threshold, NULL, &half, l->work);
    download(&seen, l->work, sizeof seen);
    ss_selectors()->select(l->type, l->g.near, l->r.near, l->n, 3, threshold, l->idx, l->val,
                           half.room, &out);
    tell(l,
         seen.reached == out.claimed + out.over && seen.not_finite == 0 &&
             seen.largest == out.largest && same_list(l, out.claimed),
         "what is claimed by a threshold");
    tell(l, same(l->r.far, l->r.near, l->bytes), "and what stays behind, there being no room");
    gpu_undo(&real.device.queue, &in, &half, out.claimed, false);
    ss_selectors()->undo(l->type, l->g.near, l->r.near, l->n, 3, l->idx, l->val, out.claimed);
    tell(l, same(l->r.far, l->r.near, l->bytes), "what is taken back");
}

static void scan(struct large *l)
{
    struct gpu_scanned seen;
    struct ss_scan out;

    draw(l, l->g.near, 5, 128);
    upload(l->g.far, l->g.near, l->bytes);
    gpu_scan(&real.device.queue, l->type, SS_SUM, l->g.far, l->n, 3, &l->list, l->work);
    download(&seen, l->work, sizeof seen);
    ss_kernels()->scan(l->type, SS_SUM, l->g.near, l->n, 3, l->idx, l->val, l->room, &out);
    tell(l, seen.nnz == out.nnz && same_list(l, out.stored), "what is not zero");
    gpu_scatter(&real.device.queue, l->type, l->r.far, 3, l->list.idx, l->list.val, out.stored,
                NULL);
    ss_kernels()->scatter(l->type, l->r.near, 3, l->idx, l->val, out.stored);
    tell(l, same(l->r.far, l->r.near, l->bytes), "and that into another one");
    gpu_reduce(&real.device.queue, l->type, SS_SUM, l->r.far, l->g.far, l->n);
    ss_kernels()->reduce(l->type, SS_SUM, l->r.near, l->g.near, l->n);
    tell(l, same(l->r.far, l->r.near, l->bytes), "their sum");
}

static void check(enum ss_type type, size_t n, size_t skew_g, size_t skew_r)
{
    struct large l = open_large(type, n, skew_g, skew_r);
    struct ss_exact want;

    exact(&l, &want);
    claim(&l, want.threshold);
    scan(&l);
    close_large(&l);
}

int main(int argc, char **argv)
{
    static char *ordinary[] = {(char *)(uintptr_t) "", (char *)(uintptr_t) "67108869",
                               (char *)(uintptr_t) "1073741824"};

    if (!real_open(&real))
        return 1;
    real.device.limit = (size_t)-1;
    crossing = gpu_pinned_make(&real.device, CROSSING);
    if (argc < 2) {
        argc = 3;
        argv = ordinary;
    }
    for (int i = 1; i < argc; i++) {
        const size_t n = strtoull(argv[i], NULL, 0), skew = n % 2;
        check(SS_F32, n, skew, skew);
        check(SS_F64, n / 4 + 1, skew, skew);
        check(SS_F32, n / 16 + 1, 1, 2);
    }
    printf("1..%d\n", checks);
    gpu_pinned_free(&real.device, crossing);
    real_close(&real);
    return differ > 0;
}
