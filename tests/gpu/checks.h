/* Kernels against what core computes on the host, bit for bit: each check makes up some cases and
 * returns NULL or what differs. Arrays end where memory that can be read ends. */
#ifndef TESTS_GPU_CHECKS_H
#define TESTS_GPU_CHECKS_H

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "core/compute/kernels.h"
#include "core/compute/vector.h"
#include "core/place/place.h"
#include "core/select/threshold.h"
#include "tests/gpu/emulated.h"

/* ---- chance ---- */

static uint64_t chance_state = 88172645463325252u;

static uint64_t chance(void)
{
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return chance_state * 0x2545f4914f6cdd1du;
}

static size_t below(size_t n)
{
    return (size_t)(chance() >> 16) % n;
}

static double unit(void)
{
    return (double)(chance() >> 11) * 0x1p-53;
}

static const char *complaint(const char *format, ...)
{
    static char text[400];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return text;
}

/* ---- memory ---- */

enum { ROOM = 1 << 20, ARRAYS = 24 };

static void *guarded(size_t bytes)
{
    char *map =
        mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED || mprotect(map + bytes, 4096, PROT_NONE) != 0)
        abort();
    return map;
}

/* Where arrays are: before a page that faults, or in memory of another kind. */
static void *(*array_memory)(size_t bytes) = guarded;

/* An array is at the end of its memory, and good until arrays_end. */
static struct {
    char *end[ARRAYS];
    size_t used;
} arrays;

static void *array(size_t bytes)
{
    if (arrays.used == ARRAYS || bytes > ROOM)
        abort();
    char **end = &arrays.end[arrays.used++];
    if (!*end)
        *end = (char *)array_memory(ROOM) + ROOM;
    return memset(*end - bytes, 0x5a, bytes);
}

/* n elements, with up to three more behind them. */
static void *vector(enum ss_type type, size_t n, size_t behind)
{
    return array((n + behind) * ss_type_size(type));
}

/* For a kernel to work in, aligned; `garbage` before, as memory of a device is. */
static void *work_area(size_t bytes)
{
    return array((bytes + 63) / 64 * 64);
}

static void *copied(const void *from, size_t bytes)
{
    return memcpy(array(bytes), from, bytes);
}

static void arrays_end(void)
{
    arrays.used = 0;
}

/* ---- numbers ---- */

enum kind { NORMAL, SPARSE, TIES, SUBNORMAL, WIDE, ZEROS, SIGNED_ZEROS, KINDS };

static double number_like(enum ss_type type, enum kind kind)
{
    double x = unit() - 0.5, least = type == SS_F32 ? 0x1p-149 : 0x1p-1074;

    switch (kind) {
    case SPARSE:
        return below(20) == 0 ? x : 0;
    case TIES:
        return (double)(int)(x * 6);
    case SUBNORMAL:
        return least * (double)(int)(x * 3000);
    case WIDE:
        return ldexp(x, (int)below(60) - 30);
    case ZEROS:
        return 0;
    case SIGNED_ZEROS:
        return below(3) ? -0.0 : x;
    default:
        return x;
    }
}

static void put(enum ss_type type, void *v, size_t i, double x)
{
    if (type == SS_F32)
        ((float *)v)[i] = (float)x;
    else
        ((double *)v)[i] = x;
}

static double get(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

static void *numbers(enum ss_type type, size_t n, enum kind kind, size_t behind)
{
    void *v = vector(type, n, behind);

    for (size_t i = 0; i < n; i++)
        put(type, v, i, number_like(type, kind));
    return v;
}

static void spoil(enum ss_type type, void *v, size_t n, size_t times)
{
    static const double bad[] = {INFINITY, -INFINITY, NAN};

    for (; times > 0; times--)
        put(type, v, below(n), bad[below(3)]);
}

/* About an edge of tiles, or anywhere. */
static size_t length(enum ss_type type)
{
    const size_t tile = GPU_TILE_BYTES / ss_type_size(type), edge = tile * (1 + below(3));

    switch (below(5)) {
    case 0:
        return 1 + below(40);
    case 1:
        return edge - 3 + below(7);
    case 2:
        return edge;
    default:
        return 1 + below(3 * tile);
    }
}

static size_t bytes_of(enum ss_type type, size_t n)
{
    return n * ss_type_size(type);
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 0x1p-40 * fabs(b);
}

static const struct ss_selectors *plain_selectors(void)
{
    const struct ss_selectors *plain = NULL;

    for (size_t i = 0; ss_selectors_at(i); i++)
        plain = ss_selectors_at(i);
    return plain;
}

static void shuffle_machine(struct emulated *e)
{
    e->resident = 1 + (unsigned)below(5);
    e->seed = below(3) ? chance() | 1 : 0;
}

static enum ss_type any_float(void)
{
    return below(2) ? SS_F32 : SS_F64;
}

static enum ss_type any_type(enum ss_op *op)
{
    enum ss_type type = (enum ss_type)below(SS_TYPES);

    *op = ss_type_is_float(type) ? SS_SUM : (enum ss_op)below(SS_OPS);
    return type;
}

/* ---- selection ---- */

struct selection_case {
    struct gpu_input in;
    struct gpu_list list;
    void *r; /* what the residual was */
    uint64_t threshold;
};

static struct selection_case selection_case(enum ss_type type, size_t n, size_t room)
{
    const size_t source = below(4), behind = below(4);
    const enum kind kind = (enum kind)below(KINDS);
    struct selection_case c = {.in = {.type = type, .n = n, .base = (uint32_t)below(1000)}};
    const void *pick;

    if (source != 0)
        c.in.g = numbers(type, n, kind, behind);
    if (source != 1) {
        c.in.r = numbers(type, n, (enum kind)below(KINDS), below(3) ? behind : below(4));
        c.r = copied(c.in.r, bytes_of(type, n));
    }
    pick = c.in.g ? c.in.g : c.in.r;
    c.threshold = ss_magnitude_at(type, pick, below(n));
    if (c.threshold == 0 || below(8) == 0)
        c.threshold = SS_LEAST_MAGNITUDE;
    if (c.in.g && below(4) == 0)
        spoil(type, (void *)(uintptr_t)c.in.g, n, 1 + below(3));
    c.in.overflows = array((n + 31) / 32 * 4);
    memset(c.in.overflows, 0, (n + 31) / 32 * 4);
    c.list = (struct gpu_list){array(room * 4), array(bytes_of(type, room)), room};
    return c;
}

/* What the host makes of the same. */
struct wanted {
    struct ss_selection out;
    uint32_t *idx;
    void *val, *r;
};

static struct wanted wanted_arrays(const struct selection_case *c)
{
    const size_t room = c->list.room, most = room > c->in.n ? room : c->in.n;

    return (struct wanted){
        .idx = array(4 * (most + 64)),
        .val = array(bytes_of(c->in.type, most + 64)),
        .r = c->r ? copied(c->r, bytes_of(c->in.type, c->in.n)) : NULL,
    };
}

static const char *compare_lists(enum ss_type type, const struct gpu_list *list,
                                 const struct wanted *w)
{
    if (memcmp(list->idx, w->idx, 4 * w->out.claimed) != 0)
        return "indices differ";
    if (memcmp(list->val, w->val, bytes_of(type, w->out.claimed)) != 0)
        return "values differ";
    return NULL;
}

static const char *compare_selection(const struct selection_case *c, const struct wanted *w,
                                     const struct gpu_claimed *found)
{
    const size_t claimed = found->reached < c->list.room ? found->reached : c->list.room;

    if (claimed != w->out.claimed || found->reached - claimed != w->out.over)
        return complaint("%llu reached, %zu + %zu wanted", found->reached, w->out.claimed,
                         w->out.over);
    if (found->not_finite != w->out.not_finite || found->largest != w->out.largest ||
        (found->any_input == 0) != w->out.zero_input)
        return "counts differ";
    if (!close_to(found->input_square, w->out.input_square) ||
        !close_to(found->sum_square, w->out.sum_square))
        return complaint("sums %g %g, wanted %g %g", found->input_square, found->sum_square,
                         w->out.input_square, w->out.sum_square);
    if (c->in.r && memcmp(c->in.r, w->r, bytes_of(c->in.type, c->in.n)) != 0)
        return "residuals differ";
    return compare_lists(c->in.type, &c->list, w);
}

static const char *check_claim(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type), room = below(2) ? n : below(n + 1);
    struct selection_case c = selection_case(type, n, room);
    struct wanted w = wanted_arrays(&c);
    struct gpu_claimed *found = work_area(gpu_claim_work(type, n));
    const char *text;

    shuffle_machine(e);
    plain_selectors()->select(type, c.in.g, w.r, n, c.in.base, c.threshold, w.idx, w.val, room,
                              &w.out);
    gpu_claim(&e->q, &c.in, c.threshold, NULL, &c.list, found);
    text = compare_selection(&c, &w, found);
    if (text || !c.in.g || !c.in.r)
        return text;
    plain_selectors()->undo(type, c.in.g, w.r, w.out.stop, c.in.base, w.idx, w.val, w.out.claimed);
    gpu_undo(&e->q, &c.in, &c.list, w.out.claimed, found->overflowed > 0);
    return memcmp(c.in.r, w.r, bytes_of(type, n)) == 0 ? NULL : "an undone claim differs";
}

/* Some g + r overflow. They are left alone, and undo leaves them alone. */
static const char *check_overflow(struct emulated *e)
{
    const enum ss_type type = any_float();
    const double most = type == SS_F32 ? (double)FLT_MAX : DBL_MAX,
                 epsilon = type == SS_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    const size_t n = length(type), many = 1 + below(5);
    struct selection_case c = selection_case(type, n, n);
    struct gpu_claimed *found = work_area(gpu_claim_work(type, n));
    size_t overflows = 0;

    if (!c.in.g || !c.in.r)
        return NULL;
    shuffle_machine(e);
    for (size_t j = 0; j < many; j++) {
        const size_t i = below(n);
        put(type, (void *)(uintptr_t)c.in.g, i, most);
        put(type, c.in.r, i, most);
        put(type, c.r, i, most);
    }
    for (size_t i = 0; i < n; i++)
        overflows += get(type, c.in.g, i) == most && get(type, c.in.r, i) == most;
    gpu_claim(&e->q, &c.in, c.threshold, NULL, &c.list, found);
    if (found->overflowed != overflows)
        return complaint("%llu overflowed, wanted %zu", found->overflowed, overflows);
    for (size_t i = 0; i < n; i++)
        if ((c.in.overflows[i / 32] >> i % 32 & 1) !=
            (get(type, c.in.g, i) == most && get(type, c.r, i) == most))
            return complaint("overflow of %zu", i);
    gpu_undo(&e->q, &c.in, &c.list, found->reached, true);
    for (size_t i = 0; i < n; i++) {
        const double g = get(type, c.in.g, i), was = get(type, c.r, i), is = get(type, c.in.r, i);
        const bool alone = !isfinite(g) || (g == most && was == most);
        if (alone ? is != was : fabs(is - was) > epsilon * (fabs(g) + fabs(was)))
            return complaint("undone, %zu is %g, was %g", i, is, was);
        if (c.in.overflows[i / 32] != 0)
            return "marks stay behind";
    }
    return NULL;
}

static size_t any_k(size_t n)
{
    return 1 + below(below(2) ? n : n / 20 + 1);
}

static const char *compare_search(const struct gpu_search *found, const struct ss_exact *want)
{
    const uint64_t threshold = found->low > 0 ? found->low : SS_LEAST_MAGNITUDE;

    if (threshold != want->threshold || found->above != want->above || found->count != want->count)
        return complaint("threshold %llx, above %llu, count %llu; wanted %llx %zu %zu", found->low,
                         found->above, found->count, (unsigned long long)want->threshold,
                         want->above, want->count);
    return (found->count == 0) == want->all_zero ? NULL : "all zero?";
}

static const char *check_find(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type), k = any_k(n);
    struct selection_case c = selection_case(type, n, 1);
    struct gpu_search *found = work_area(sizeof *found);
    struct ss_exact want;

    shuffle_machine(e);
    ss_exact_threshold(plain_selectors(), type, c.in.g, c.in.r, n, k, &want);
    gpu_find(&e->q, &c.in, k, found, work_area(GPU_BINS * 4));
    return compare_search(found, &want);
}

/* The sample element by element. */
static const char *check_sample(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type), step = 64 + below(500);
    struct selection_case c = selection_case(type, n, 1);
    struct gpu_search *found = work_area(sizeof *found);
    uint64_t *count = work_area(sizeof *count), reached = 0;
    ss_magnitude *list = array(8 * (n + 1));
    struct ss_exact want = {.threshold = SS_LEAST_MAGNITUDE};
    size_t sampled = 0;

    for (size_t at = 0; at < n; at += step)
        sampled += plain_selectors()->gather(
            type, c.in.g ? (const char *)c.in.g + bytes_of(type, at) : NULL,
            c.in.r ? (char *)c.in.r + bytes_of(type, at) : NULL, n - at < 64 ? n - at : 64,
            SS_LEAST_MAGNITUDE, ss_magnitude_none(type) - 1, list + sampled, 64);
    const size_t k = 1 + below(sampled + 2);
    for (size_t i = 0; i < sampled; i++)
        reached += list[i] >= c.threshold;
    if (k <= sampled)
        want.threshold = ss_kth_largest(list, sampled, k);
    for (size_t i = 0; i < sampled; i++) {
        want.above += list[i] > want.threshold;
        want.count += list[i] >= want.threshold;
    }
    want.all_zero = sampled == 0;
    shuffle_machine(e);
    gpu_reach_sampled(&e->q, &c.in, step, c.threshold, count);
    if (*count != reached)
        return complaint("%llu of the sample, wanted %llu", (unsigned long long)*count,
                         (unsigned long long)reached);
    gpu_find_sampled(&e->q, &c.in, step, k, found, work_area(GPU_BINS * 4));
    return compare_search(found, &want);
}

/* Nothing is claimed of what is to be undone. */
static const char *compare_put_back(const struct selection_case *c)
{
    const enum ss_type type = c->in.type;

    for (size_t i = 0; c->in.r && i < c->in.n; i++) {
        const double g = c->in.g ? get(type, c->in.g, i) : 0, r = get(type, c->r, i);
        const double sum = type == SS_F32 ? (double)((float)g + (float)r) : g + r;
        if (get(type, c->in.r, i) != (isfinite(g) ? sum : r))
            return complaint("put back, %zu is %g", i, get(type, c->in.r, i));
    }
    return NULL;
}

/* A list that was too short has been put back: found and claimed again, of the residual. */
static void claim_again(struct emulated *e, const struct selection_case *c, size_t k,
                        struct gpu_exact *x)
{
    struct gpu_input again = c->in;
    struct gpu_search *found = work_area(sizeof *found);
    struct gpu_claimed *second = work_area(gpu_claim_work(c->in.type, c->in.n));

    if (again.r)
        again.g = NULL;
    gpu_find(&e->q, &again, k, found, work_area(GPU_BINS * 4));
    gpu_claim(&e->q, &again, 0, (const uint64_t *)&found->low, &c->list, second);
    x->kept.kept = second->reached;
}

static const char *check_claim_exact(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = below(4) ? 10000 + below(20000) : length(type), k = any_k(n),
                 room = ss_claim_limit(k);
    struct selection_case c = selection_case(type, n, room);
    struct wanted w = wanted_arrays(&c);
    const size_t middle = below(8) ? gpu_exact_room(n, k) : 1 + below(k);
    struct gpu_list between = {array(middle * 4), array(bytes_of(type, middle)), middle};
    struct gpu_exact *x = work_area(gpu_exact_work(type, n, k));
    struct ss_exact want;

    shuffle_machine(e);
    ss_exact_threshold(plain_selectors(), type, c.in.g, c.in.r, n, k, &want);
    plain_selectors()->select(type, c.in.g, w.r, n, c.in.base, want.threshold, w.idx, w.val, room,
                              &w.out);
    gpu_claim_exact(&e->q, &c.in, k, &between, &c.list, x);
    struct gpu_claimed seen = x->claimed;
    if (x->kept.missed && seen.not_finite > 0)
        return compare_put_back(&c);
    if (x->kept.missed)
        claim_again(e, &c, k, x);
    else if (compare_search(&x->found, &want))
        return compare_search(&x->found, &want);
    seen.reached = x->kept.kept;
    return compare_selection(&c, &w, &seen);
}

static const char *check_buckets(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type);
    const size_t bucket = below(2) ? 1 + below(GPU_BUCKET_MOST) : 1 + below(3000);
    const size_t k = 1 + below(below(2) ? bucket : bucket / 20 + 1);
    const size_t room = k * ((n + bucket - 1) / bucket);
    struct selection_case c = selection_case(type, n, room);
    struct wanted w = wanted_arrays(&c);
    struct gpu_claimed *found = work_area(gpu_buckets_work(n, bucket));

    shuffle_machine(e);
    ss_select_buckets(plain_selectors(), type, c.in.g, w.r, n, c.in.base, k, bucket, w.idx, w.val,
                      &w.out);
    gpu_claim_buckets(&e->q, &c.in, k, bucket, &c.list, found);
    return compare_selection(&c, &w, found);
}

/* ---- streams ---- */

static void *words(enum ss_type type, size_t n, size_t behind)
{
    void *v = vector(type, n, behind);
    const enum kind kind = (enum kind)below(KINDS);

    if (ss_type_is_float(type))
        for (size_t i = 0; i < n; i++)
            put(type, v, i, number_like(type, kind));
    else
        for (size_t i = 0; i < n; i++) {
            uint64_t x = below(3) ? 0 : below(2) ? 1 : chance();
            memcpy((char *)v + bytes_of(type, i), &x, ss_type_size(type));
        }
    return v;
}

static const char *check_scan(struct emulated *e)
{
    enum ss_op op;
    const enum ss_type type = any_type(&op);
    const size_t n = length(type), room = below(2) ? n : below(n + 1);
    void *src = words(type, n, below(4));
    struct gpu_list list = {array(room * 4), array(bytes_of(type, room)), room};
    uint32_t *idx = array(4 * (n + 1));
    void *val = array(bytes_of(type, n + 1));
    struct gpu_scanned *found = work_area(gpu_scan_work(type, n));
    struct ss_scan want;

    if (ss_type_is_float(type) && below(3) == 0)
        spoil(type, src, n, 1);
    shuffle_machine(e);
    ss_kernels()->scan(type, op, src, n, 7, idx, val, room, &want);
    gpu_scan(&e->q, type, op, src, n, 7, &list, found);
    if (found->nnz != want.nnz || (want.nnz > room && found->stop != want.stop))
        return complaint("%llu entries, stop %llu; wanted %zu, %zu", found->nnz, found->stop,
                         want.nnz, want.stop);
    if (ss_type_is_float(type) && ((found->negative_zero != 0) != want.negative_zero ||
                                   (found->not_finite != 0) != want.not_finite))
        return "flags differ";
    if (memcmp(list.idx, idx, 4 * want.stored) != 0 ||
        memcmp(list.val, val, bytes_of(type, want.stored)) != 0)
        return "entries differ";
    return NULL;
}

/* Some of n indices, ascending or not. */
static uint32_t *some_of(size_t n, size_t *count, uint32_t base, bool ascending)
{
    uint32_t *idx = array(4 * n);

    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (below(7) == 0)
            idx[(*count)++] = base + (uint32_t)i;
    for (size_t i = *count; !ascending && i > 1; i--) {
        const size_t j = below(i);
        const uint32_t x = idx[j];
        idx[j] = idx[i - 1];
        idx[i - 1] = x;
    }
    return idx;
}

static const char *check_entries(struct emulated *e)
{
    enum ss_op op;
    const enum ss_type type = any_type(&op);
    const size_t n = length(type), bytes = bytes_of(type, n);
    size_t count;
    uint32_t *idx = some_of(n, &count, 5, true);
    void *val = words(type, n, below(4)), *dst = words(type, n, below(4)),
         *want = copied(dst, bytes);
    const struct ss_place_ops *host = ss_host.ops;

    shuffle_machine(e);
    gpu_accumulate(&e->q, type, op, dst, 5, idx, val, count);
    ss_kernels()->accumulate(type, op, want, 5, idx, val, count);
    if (memcmp(dst, want, bytes) != 0)
        return complaint("accumulate of %s by %s", ss_type_name(type), ss_op_name(op));
    gpu_scatter(&e->q, type, dst, 5, idx, val, count);
    ss_kernels()->scatter(type, want, 5, idx, val, count);
    if (memcmp(dst, want, bytes) != 0)
        return "scatter";
    if (ss_type_is_float(type)) {
        size_t some;
        uint32_t *mixed = some_of(n, &some, 5, false);
        put(type, dst, 0, type == SS_F32 ? (double)FLT_MAX : DBL_MAX);
        put(type, want, 0, type == SS_F32 ? (double)FLT_MAX : DBL_MAX);
        put(type, val, 0, type == SS_F32 ? (double)FLT_MAX : DBL_MAX);
        gpu_add_at(&e->q, type, dst, 5, mixed, val, some);
        ss_vector_add_at(type, want, 5, mixed, val, some);
        if (memcmp(dst, want, bytes) != 0)
            return "add_at";
    }
    gpu_clear_at(&e->q, type, dst, 5, idx, count);
    host->clear_at(&ss_host, type, want, 5, idx, count);
    if (memcmp(dst, want, bytes) != 0)
        return "clear_at";
    for (size_t j = 0; j < count; j++)
        idx[j] -= 5;
    gpu_pick(&e->q, type, dst, idx, count, val);
    for (size_t j = 0; j < count; j++)
        if (memcmp((char *)val + bytes_of(type, j), (char *)dst + bytes_of(type, idx[j]),
                   ss_type_size(type)) != 0)
            return "pick";
    return NULL;
}

/* ---- dense vectors ---- */

static const char *check_reduce(struct emulated *e)
{
    enum ss_op op;
    const enum ss_type type = any_type(&op);
    const size_t n = length(type), behind = below(4);
    void *dst = words(type, n, behind), *src = words(type, n, below(2) ? behind : below(4)),
         *want = copied(dst, bytes_of(type, n));

    shuffle_machine(e);
    gpu_reduce(&e->q, type, op, dst, src, n);
    ss_kernels()->reduce(type, op, want, src, n);
    return memcmp(dst, want, bytes_of(type, n)) == 0
               ? NULL
               : complaint("reduce of %s by %s", ss_type_name(type), ss_op_name(op));
}

static const char *check_dense(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type), bytes = bytes_of(type, n), behind = below(4);
    void *r = numbers(type, n, (enum kind)below(KINDS), behind),
         *val = numbers(type, n, (enum kind)below(KINDS), below(2) ? behind : below(4)),
         *out = vector(type, n, below(2) ? behind : below(4)), *want = copied(r, bytes),
         *joined = array(bytes);
    const double share = unit(), most = type == SS_F32 ? (double)FLT_MAX : DBL_MAX;
    static const double factors[] = {0.5, 2, 0.3, 0, 1e-45, 1e300};
    const double factor = factors[below(6)];

    shuffle_machine(e);
    gpu_join(&e->q, type, val, r, out, n, share);
    ss_vector_join(type, val, want, joined, n, share);
    if (memcmp(out, joined, bytes) != 0)
        return "join";
    gpu_leave(&e->q, type, r, n, share);
    ss_vector_leave(type, want, n, share);
    if (memcmp(r, want, bytes) != 0)
        return "leave";
    spoil(type, val, n, below(3));
    put(type, val, n / 2, -most);
    put(type, r, n / 2, -most);
    put(type, want, n / 2, -most);
    gpu_add(&e->q, type, r, val, n);
    ss_vector_add(type, want, val, n);
    if (memcmp(r, want, bytes) != 0)
        return "add";
    gpu_scale(&e->q, type, r, n, factor);
    ss_vector_scale(type, want, n, factor);
    if (memcmp(r, want, bytes) != 0)
        return complaint("scale by %g", factor);
    gpu_clear(&e->q, type, r, n);
    return ss_vector_is_clear(type, r, n) ? NULL : "clear";
}

/* The squared norm by a sample. */
static double square_of_runs(enum ss_type type, const void *v, size_t n, size_t most)
{
    struct ss_run *runs = calloc(most / SS_SAMPLE_RUN, sizeof *runs);
    const char *from = v;
    const size_t count = ss_sample_runs(n, most, runs);
    double sum = 0;

    for (size_t j = 0; j < count; j++)
        sum += ss_vector_square(type, from + runs[j].first * ss_type_size(type), runs[j].count);
    free(runs);
    return sum * (double)n / (double)most;
}

static const char *check_squares(struct emulated *e)
{
    const enum ss_type type = any_float();
    /* Sometimes with so many runs that their sums are added by more than one block. */
    const size_t runs = below(8) ? 1 + below(20) : GPU_SUM_SHARE + below(100);
    const size_t most = SS_SAMPLE_RUN * runs;
    const size_t n = runs > 20 ? most + 1 + below(5000) : length(type);
    void *v = numbers(type, n, (enum kind)below(KINDS), below(4));
    double *sum = work_area(gpu_square_work(type, n)), first,
           *sample = work_area(gpu_square_runs_work(most / SS_SAMPLE_RUN));

    shuffle_machine(e);
    gpu_square(&e->q, type, v, n, sum);
    first = *sum;
    if (!close_to(first, ss_vector_square(type, v, n)))
        return complaint("square %g, wanted %g", first, ss_vector_square(type, v, n));
    shuffle_machine(e);
    gpu_square(&e->q, type, v, n, sum);
    if (memcmp(sum, &first, sizeof first) != 0)
        return "the same square twice differs";
    if (n <= most)
        return NULL;
    gpu_square_runs(&e->q, type, v, n, most / SS_SAMPLE_RUN, SS_SAMPLE_RUN, sample);
    *sample *= (double)n / (double)most;
    return close_to(*sample, square_of_runs(type, v, n, most)) ? NULL : "sampled square";
}

static const char *check_questions(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type), behind = below(4), source = below(3);
    void *g = numbers(type, n, (enum kind)below(KINDS), behind),
         *r = numbers(type, n, (enum kind)below(KINDS), below(2) ? behind : below(4));
    uint64_t *count = work_area(8), *largest = work_area(8), most = 0;
    uint32_t *any = work_area(4);

    spoil(type, g, n, below(4));
    if (source == 0)
        g = NULL;
    if (source == 1)
        r = NULL;
    shuffle_machine(e);
    gpu_not_finite(&e->q, type, g, r, n, count);
    if (*count != ss_vector_not_finite(type, g, r, n))
        return "not finite";
    void *v = g ? g : r;
    gpu_any_bit(&e->q, type, v, n, any);
    if ((*any == 0) != ss_vector_is_clear(type, v, n))
        return "is clear";
    gpu_largest(&e->q, type, v, n, largest);
    for (size_t i = 0; i < n; i++)
        if (ss_magnitude_at(type, v, i) < ss_magnitude_none(type) &&
            ss_magnitude_at(type, v, i) > most)
            most = ss_magnitude_at(type, v, i);
    return *largest == most ? NULL : "largest";
}

static const char *check_sketch(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type);
    void *v = numbers(type, n, (enum kind)below(ZEROS), below(4));
    uint64_t *largest = work_area(8);
    int64_t *sums = work_area(8 * GPU_SKETCH);
    static double want[SS_SKETCH_BUCKETS];

    _Static_assert((int)GPU_SKETCH == (int)SS_SKETCH_BUCKETS, "the same buckets");
    shuffle_machine(e);
    gpu_largest(&e->q, type, v, n, largest);
    const int shift = gpu_sketch_shift(type, *largest, n);
    const double allowed = ldexp((double)n, -shift);
    gpu_sketch(&e->q, type, v, n, shift, sums);
    ss_host.ops->sketch(&ss_host, type, v, n, want);
    for (size_t i = 0; i < SS_SKETCH_BUCKETS; i++)
        if (fabs(ldexp((double)sums[i], -shift) - want[i]) > allowed + 0x1p-45 * fabs(want[i]))
            return complaint("bucket %zu: %g, wanted %g", i, ldexp((double)sums[i], -shift),
                             want[i]);
    return NULL;
}

static const struct check {
    const char *name;
    const char *(*run)(struct emulated *e);
    unsigned cases;
} checks[] = {
    {"claim", check_claim, 300},
    {"overflow", check_overflow, 60},
    {"find", check_find, 120},
    {"sample", check_sample, 100},
    {"claim_exact", check_claim_exact, 120},
    {"buckets", check_buckets, 160},
    {"scan", check_scan, 200},
    {"entries", check_entries, 120},
    {"reduce", check_reduce, 80},
    {"dense", check_dense, 80},
    {"squares", check_squares, 60},
    {"questions", check_questions, 80},
    {"sketch", check_sketch, 40},
};
enum { CHECKS = sizeof checks / sizeof checks[0] };

/* `cases` of it, or its own number of them. */
static inline const char *run_check(const struct check *check, struct emulated *e, unsigned cases)
{
    const char *text = NULL;

    for (unsigned i = 0; i < (cases ? cases : check->cases) && !text; i++) {
        text = check->run(e);
        arrays_end();
    }
    return text;
}

#endif
