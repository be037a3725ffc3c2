/* Checks of the kernels that select: claims, what undoes them, thresholds. */
#ifndef TESTS_GPU_CHECK_SELECT_H
#define TESTS_GPU_CHECK_SELECT_H

#include <float.h>

#include "core/select/threshold.h"
#include "tests/gpu/check_cases.h"

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
            return "overflow bits are left";
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

#endif
