#include "gpu/launch.h"

#include <string.h>

/* The kernel of a pair for a type of 4 or 8 bytes. */
#define OF(type, name) ((enum gpu_kernel)(ss_type_size(type) == 4 ? (name) : (name) + 1))

enum { BLOCKS_MOST = 1024, ALIGNMENT = 16, PIECE = 64, PIECE_STEP = 4096 };

static void launch(struct gpu_queue *q, enum gpu_kernel kernel, size_t blocks, void **params)
{
    if (q->error == 0 && blocks > 0)
        q->error = q->launch(q, kernel, (unsigned)blocks, params);
}

static void clear(struct gpu_queue *q, void *to, size_t bytes)
{
    if (q->error == 0 && bytes > 0)
        q->error = q->fill(q, to, 0, bytes / 4);
}

static size_t ceiling(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* Blocks that stride over n elements. */
static size_t strides(size_t n)
{
    size_t blocks = ceiling(n, GPU_THREADS);
    return blocks < 16 * BLOCKS_MOST ? blocks : 16 * BLOCKS_MOST;
}

/* Where vectors lie within 16 bytes: gpu/tile.h. */
struct lie {
    unsigned skew, aligned;
};

static struct lie lie_of(enum ss_type type, const void *a, const void *b, const void *c)
{
    uintptr_t at = (uintptr_t)a % ALIGNMENT;
    bool alike = (uintptr_t)b % ALIGNMENT == at && (uintptr_t)c % ALIGNMENT == at;

    if (!alike || at % ss_type_size(type) != 0)
        return (struct lie){0, 0};
    return (struct lie){(unsigned)(at / ss_type_size(type)), 1};
}

static size_t tiles_of(enum ss_type type, size_t n, struct lie l)
{
    return ceiling(n + l.skew, GPU_TILE_BYTES / ss_type_size(type));
}

/* However it lies. */
static size_t tiles_most(enum ss_type type, size_t n)
{
    return ceiling(n + ALIGNMENT, GPU_TILE_BYTES / ss_type_size(type));
}

/* Arrays of a work area, one behind the other. */
static void *take(char **work, size_t bytes)
{
    void *at = *work;
    *work += ceiling(bytes, ALIGNMENT) * ALIGNMENT;
    return at;
}

_Static_assert(offsetof(struct gpu_exact, claimed) % ALIGNMENT == 0, "what a claim works in");

/* ---- sums ---- */

static size_t sum_work(size_t count, unsigned ways)
{
    return ways * 8 * (count + ceiling(count, GPU_SUM_SHARE)) + 2 * ALIGNMENT;
}

/* from: `count` numbers of each of the ways. */
static void sum(struct gpu_queue *q, double *from, unsigned ways, size_t count, double *shares,
                unsigned *done, double *to)
{
    unsigned all = (unsigned)count;
    void *params[] = {&from, &ways, &all, &shares, &done, &to};

    launch(q, GPU_sum, ceiling(count, GPU_SUM_SHARE), params);
}

/* ---- selection ---- */

static size_t selection_work(size_t tiles)
{
    return sizeof(struct gpu_claimed) + tiles * 8 + ALIGNMENT + sum_work(tiles, 2);
}

size_t gpu_claim_work(enum ss_type type, size_t n)
{
    return selection_work(tiles_most(type, n));
}

/* The areas of a selection, cleared as far as they have to be. */
struct selection {
    struct gpu_claimed *claimed;
    uint64_t *tiles;
    double *squares, *shares;
};

static struct selection start_selection(struct gpu_queue *q, void *work, size_t tiles)
{
    char *at = work;
    struct selection s;

    s.claimed = take(&at, sizeof *s.claimed);
    s.tiles = take(&at, tiles * sizeof *s.tiles);
    clear(q, work, (size_t)(at - (char *)work));
    s.squares = take(&at, 2 * tiles * sizeof *s.squares);
    s.shares = (double *)(void *)at;
    return s;
}

static void sum_selection(struct gpu_queue *q, const struct selection *s, size_t tiles)
{
    sum(q, s->squares, 2, tiles, s->shares, &s->claimed->done, &s->claimed->input_square);
}

void gpu_claim(struct gpu_queue *q, const struct gpu_input *in, uint64_t threshold,
               const uint64_t *found, const struct gpu_list *to, void *work)
{
    const void *first = in->g ? in->g : in->r, *second = in->r ? in->r : in->g;
    struct lie l = lie_of(in->type, first, second, first);
    size_t tiles = tiles_of(in->type, in->n, l);
    enum gpu_kernel kernel = in->g && in->r ? GPU_claim_f32
                             : in->g        ? GPU_claim_input_f32
                                            : GPU_claim_residual_f32;
    struct selection s = start_selection(q, work, tiles);
    struct gpu_input i = *in;
    struct gpu_list list = *to;
    unsigned n = (unsigned)in->n, capacity = (unsigned)to->room;
    void *params[] = {&i.g,      &i.r,       &n,       &l.skew,    &l.aligned,
                      &i.base,   &threshold, &found,   &list.idx,  &list.val,
                      &capacity, &s.claimed, &s.tiles, &s.squares, &i.overflows};

    launch(q, OF(in->type, kernel), tiles, params);
    sum_selection(q, &s, tiles);
}

void gpu_undo(struct gpu_queue *q, const struct gpu_input *in, const struct gpu_list *claims,
              size_t claimed, bool overflowed)
{
    uint32_t *overflows = overflowed ? in->overflows : NULL;
    struct gpu_input i = *in;
    unsigned n = (unsigned)in->n;
    void *params[] = {&i.r, &i.g, &n, &overflows};

    gpu_add_at(q, in->type, in->r, in->base, claims->idx, claims->val, claimed);
    launch(q, OF(in->type, GPU_subtract_f32), strides(in->n), params);
    if (overflows)
        clear(q, overflows, ceiling(in->n, 32) * 4);
}

/* Buckets are taken eight at a time, or long ones alone. */
static size_t bucket_tiles(size_t n, size_t bucket)
{
    size_t buckets = ceiling(n, bucket);
    return bucket <= GPU_BUCKET_MOST ? ceiling(buckets, GPU_WARPS) : buckets;
}

size_t gpu_buckets_work(size_t n, size_t bucket)
{
    return selection_work(bucket_tiles(n, bucket));
}

void gpu_claim_buckets(struct gpu_queue *q, const struct gpu_input *in, size_t k, size_t bucket,
                       const struct gpu_list *to, void *work)
{
    size_t tiles = bucket_tiles(in->n, bucket);
    struct selection s = start_selection(q, work, tiles);
    struct gpu_input i = *in;
    struct gpu_list list = *to;
    unsigned n = (unsigned)in->n;
    unsigned length = (unsigned)(bucket < in->n ? bucket : in->n);
    unsigned most = (unsigned)(k < length ? k : length);
    void *params[] = {&i.g,      &i.r,      &n,         &i.base,  &most,      &length,
                      &list.idx, &list.val, &s.claimed, &s.tiles, &s.squares, &i.overflows};

    launch(q, OF(in->type, bucket <= GPU_BUCKET_MOST ? GPU_buckets_f32 : GPU_wide_buckets_f32),
           tiles, params);
    sum_selection(q, &s, tiles);
}

/* Bits of a magnitude from above: 31 or 63. */
static const struct digit {
    unsigned shift, width;
} digits_32[] = {{20, 11}, {10, 10}, {0, 10}},
  digits_64[] = {{52, 11}, {41, 11}, {30, 11}, {20, 10}, {10, 10}, {0, 10}};

static const struct digit *digit_at(enum ss_type type, size_t pass, size_t *passes)
{
    *passes = type == SS_F32 ? sizeof digits_32 / sizeof *digits_32
                             : sizeof digits_64 / sizeof *digits_64;
    return type == SS_F32 ? &digits_32[pass] : &digits_64[pass];
}

static void start_search(struct gpu_queue *q, struct gpu_search *s, uint32_t *bins)
{
    clear(q, s, sizeof *s);
    clear(q, bins, GPU_BINS * sizeof *bins);
}

/* counted: in device memory how many there are, n at most; or NULL. */
static void search(struct gpu_queue *q, const struct gpu_input *in, const uint64_t *counted,
                   size_t k, struct gpu_search *found, uint32_t *bins)
{
    const void *first = in->g ? in->g : in->r, *second = in->r ? in->r : in->g;
    struct lie l = lie_of(in->type, first, second, first);
    size_t blocks = tiles_of(in->type, in->n, l), passes;
    struct gpu_input i = *in;
    unsigned n = (unsigned)in->n;

    start_search(q, found, bins);
    (void)digit_at(in->type, 0, &passes);
    for (size_t pass = 0; pass < passes; pass++) {
        struct digit d = *digit_at(in->type, pass, &passes);
        uint64_t wanted = pass == 0 ? k : 0;
        unsigned last = pass == passes - 1;
        void *params[] = {&i.g,    &i.r,     &n,       &l.skew, &l.aligned, &counted,
                          &wanted, &d.shift, &d.width, &last,   &found,     &bins};
        launch(q, OF(in->type, GPU_search_f32), blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST,
               params);
    }
}

void gpu_find(struct gpu_queue *q, const struct gpu_input *in, size_t k, struct gpu_search *found,
              uint32_t *bins)
{
    search(q, in, NULL, k, found, bins);
}

static size_t sample_blocks(size_t n, size_t step)
{
    size_t blocks = ceiling(ceiling(n, step), GPU_WARPS);
    return blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST;
}

/* The first `passes` digits, or with 0 all. */
static void search_sample(struct gpu_queue *q, const struct gpu_input *in, size_t step, size_t k,
                          size_t passes, struct gpu_search *found, uint32_t *bins)
{
    struct gpu_input i = *in;
    unsigned n = (unsigned)in->n, apart = (unsigned)step;
    size_t all;

    start_search(q, found, bins);
    (void)digit_at(in->type, 0, &all);
    if (passes == 0)
        passes = all;
    for (size_t pass = 0; pass < passes; pass++) {
        struct digit d = *digit_at(in->type, pass, &all);
        uint64_t wanted = pass == 0 ? k : 0;
        unsigned last = pass == all - 1;
        void *params[] = {&i.g,     &i.r,     &n,    &apart, &wanted,
                          &d.shift, &d.width, &last, &found, &bins};
        launch(q, OF(in->type, GPU_search_sample_f32), sample_blocks(in->n, step), params);
    }
}

void gpu_find_sampled(struct gpu_queue *q, const struct gpu_input *in, size_t step, size_t k,
                      struct gpu_search *found, uint32_t *bins)
{
    search_sample(q, in, step, k, 0, found, bins);
}

void gpu_reach_sampled(struct gpu_queue *q, const struct gpu_input *in, size_t step,
                       uint64_t threshold, uint64_t *count)
{
    struct gpu_input i = *in;
    unsigned n = (unsigned)in->n, apart = (unsigned)step;
    void *params[] = {&i.g, &i.r, &n, &apart, &threshold, &count};

    clear(q, count, sizeof *count);
    launch(q, OF(in->type, GPU_reach_sample_f32), sample_blocks(in->n, step), params);
}

static size_t root_above(size_t k)
{
    size_t root = 1;
    while (root * root < k)
        root++;
    return root;
}

/* Rank within the sample, four standard deviations and some below that of the k-th of all. */
static size_t sample_rank(size_t k)
{
    const size_t rank = k / (PIECE_STEP / PIECE);
    return rank + 4 * root_above(rank) + 16;
}

/* Twice as far above k as the bound aims at. */
size_t gpu_exact_room(size_t n, size_t k)
{
    const size_t share = PIECE_STEP / PIECE;
    const size_t room = k + 2 * share * (sample_rank(k) - k / share);

    return room < n ? room : n;
}

static size_t keep_tiles(size_t room)
{
    return ceiling(room, GPU_KEEP_TILE);
}

size_t gpu_exact_work(enum ss_type type, size_t n, size_t k)
{
    return sizeof(struct gpu_exact) + GPU_BINS * 4 + keep_tiles(gpu_exact_room(n, k)) * 8 +
           4 * ALIGNMENT + gpu_claim_work(type, n);
}

static void keep(struct gpu_queue *q, const struct gpu_input *in, size_t k, struct gpu_exact *x,
                 const struct gpu_list *between, const struct gpu_list *to, uint64_t *tiles)
{
    struct gpu_input i = *in;
    struct gpu_list from = *between, list = *to;
    unsigned room = (unsigned)between->room, capacity = (unsigned)to->room;
    uint64_t wanted = k;
    const struct gpu_search *bound = &x->bound, *found = &x->found;
    const struct gpu_claimed *claimed = &x->claimed;
    struct gpu_kept *kept = &x->kept;
    void *params[] = {&from.idx, &from.val, &room,     &wanted,   &claimed,  &bound, &found,
                      &i.base,   &i.r,      &list.idx, &list.val, &capacity, &kept,  &tiles};

    clear(q, kept, sizeof *kept);
    clear(q, tiles, keep_tiles(between->room) * sizeof *tiles);
    launch(q, OF(in->type, GPU_keep_f32), keep_tiles(between->room), params);
}

void gpu_claim_exact(struct gpu_queue *q, const struct gpu_input *in, size_t k,
                     const struct gpu_list *between, const struct gpu_list *to, void *work)
{
    char *at = work;
    struct gpu_exact *x = take(&at, offsetof(struct gpu_exact, claimed));
    struct gpu_claimed *claimed = take(&at, gpu_claim_work(in->type, in->n));
    uint32_t *bins = take(&at, GPU_BINS * sizeof *bins);
    uint64_t *tiles = take(&at, keep_tiles(between->room) * sizeof *tiles);
    const struct gpu_input list = {
        .type = in->type, .g = between->val, .n = between->room, .base = in->base};

    search_sample(q, in, PIECE_STEP, sample_rank(k), 2, &x->bound, bins);
    gpu_claim(q, in, 0, (const uint64_t *)&x->bound.low, between, claimed);
    search(q, &list, (const uint64_t *)&claimed->reached, k, &x->found, bins);
    keep(q, in, k, x, between, to, tiles);
}

/* ---- streams ---- */

size_t gpu_scan_work(enum ss_type type, size_t n)
{
    return sizeof(struct gpu_scanned) + tiles_most(type, n) * 8 + 2 * ALIGNMENT;
}

void gpu_scan(struct gpu_queue *q, enum ss_type type, enum ss_op op, const void *src, size_t n,
              uint32_t base, const struct gpu_list *to, void *work)
{
    const bool narrow = ss_type_size(type) == 4;
    struct lie l = lie_of(type, src, src, src);
    size_t tiles = tiles_of(type, n, l);
    char *at = work;
    struct gpu_scanned *scanned = take(&at, sizeof *scanned);
    uint64_t *states = take(&at, tiles * sizeof *states);
    struct gpu_list list = *to;
    unsigned count = (unsigned)n, capacity = (unsigned)to->room;
    unsigned logical = op == SS_LOR || op == SS_LXOR;
    uint32_t mask_32 = ss_type_is_float(type) ? INT32_MAX : UINT32_MAX;
    uint64_t mask_64 = ss_type_is_float(type) ? INT64_MAX : UINT64_MAX;
    void *mask = narrow ? (void *)&mask_32 : (void *)&mask_64;
    void *params[] = {&src,      &count,    &l.skew,   &base,    mask,   &logical,
                      &list.idx, &list.val, &capacity, &scanned, &states};

    clear(q, work, (size_t)(at - (char *)work));
    launch(q, OF(type, GPU_scan_b32), tiles, params);
}

void gpu_scatter(struct gpu_queue *q, enum ss_type type, void *dst, uint32_t base,
                 const uint32_t *idx, const void *val, size_t nnz)
{
    unsigned count = (unsigned)nnz;
    void *params[] = {&dst, &base, &idx, &val, &count};

    launch(q, OF(type, GPU_scatter_b32), strides(nnz), params);
}

void gpu_clear_at(struct gpu_queue *q, enum ss_type type, void *dst, uint32_t base,
                  const uint32_t *idx, size_t nnz)
{
    unsigned count = (unsigned)nnz;
    void *params[] = {&dst, &base, &idx, &count};

    launch(q, OF(type, GPU_clear_at_b32), strides(nnz), params);
}

void gpu_accumulate(struct gpu_queue *q, enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz)
{
    unsigned count = (unsigned)nnz, code = (unsigned)op;
    void *floats[] = {&dst, &base, &idx, &val, &count};
    void *words[] = {&code, &dst, &base, &idx, &val, &count};

    if (ss_type_is_float(type))
        launch(q, OF(type, GPU_accumulate_f32), strides(nnz), floats);
    else
        launch(q, OF(type, GPU_accumulate_u32), strides(nnz), words);
}

void gpu_add_at(struct gpu_queue *q, enum ss_type type, void *r, uint32_t base, const uint32_t *idx,
                const void *val, size_t count)
{
    unsigned all = (unsigned)count;
    void *params[] = {&r, &base, &idx, &val, &all};

    launch(q, OF(type, GPU_add_at_f32), strides(count), params);
}

void gpu_pick(struct gpu_queue *q, enum ss_type type, const void *v, const uint32_t *places,
              size_t count, void *to)
{
    unsigned all = (unsigned)count;
    void *params[] = {&v, &places, &all, &to};

    launch(q, OF(type, GPU_pick_b32), strides(count), params);
}

/* ---- dense vectors ---- */

void gpu_clear(struct gpu_queue *q, enum ss_type type, void *v, size_t n)
{
    clear(q, v, n * ss_type_size(type));
}

void gpu_reduce(struct gpu_queue *q, enum ss_type type, enum ss_op op, void *dst, const void *src,
                size_t n)
{
    struct lie l = lie_of(type, dst, src, dst);
    unsigned count = (unsigned)n, code = (unsigned)op;
    void *floats[] = {&dst, &src, &count, &l.skew, &l.aligned};
    void *words[] = {&code, &dst, &src, &count, &l.skew, &l.aligned};

    if (ss_type_is_float(type))
        launch(q, OF(type, GPU_reduce_f32), tiles_of(type, n, l), floats);
    else
        launch(q, OF(type, GPU_reduce_u32), tiles_of(type, n, l), words);
}

void gpu_add(struct gpu_queue *q, enum ss_type type, void *r, const void *val, size_t n)
{
    struct lie l = lie_of(type, r, val, r);
    unsigned count = (unsigned)n;
    void *params[] = {&r, &val, &count, &l.skew, &l.aligned};

    launch(q, OF(type, GPU_add_f32), tiles_of(type, n, l), params);
}

void gpu_join(struct gpu_queue *q, enum ss_type type, const void *in, const void *r, void *out,
              size_t n, double share)
{
    struct lie l = lie_of(type, in, r, out);
    unsigned count = (unsigned)n;
    float share_32 = (float)share;
    void *as = type == SS_F32 ? (void *)&share_32 : (void *)&share;
    void *params[] = {&in, &r, &out, &count, &l.skew, &l.aligned, as};

    launch(q, OF(type, GPU_join_f32), tiles_of(type, n, l), params);
}

void gpu_leave(struct gpu_queue *q, enum ss_type type, void *r, size_t n, double share)
{
    struct lie l = lie_of(type, r, r, r);
    unsigned count = (unsigned)n;
    float share_32 = (float)share;
    void *as = type == SS_F32 ? (void *)&share_32 : (void *)&share;
    void *params[] = {&r, &count, &l.skew, as};

    launch(q, OF(type, GPU_leave_f32), tiles_of(type, n, l), params);
}

void gpu_scale(struct gpu_queue *q, enum ss_type type, void *r, size_t n, double factor)
{
    struct lie l = lie_of(type, r, r, r);
    unsigned count = (unsigned)n;
    void *params[] = {&r, &count, &l.skew, &factor};

    launch(q, OF(type, GPU_scale_f32), tiles_of(type, n, l), params);
}

/* The sum, the count of blocks that are done, then the parts. */
struct squares {
    double sum;
    unsigned done, unused;
};

size_t gpu_square_work(enum ss_type type, size_t n)
{
    return sizeof(struct squares) + sum_work(tiles_most(type, n), 1);
}

size_t gpu_square_runs_work(size_t runs)
{
    return sizeof(struct squares) + sum_work(runs, 1);
}

static double *start_squares(struct gpu_queue *q, char **work)
{
    struct squares *s = take(work, sizeof *s);

    clear(q, s, sizeof *s);
    return (double *)(void *)*work;
}

static void sum_squares(struct gpu_queue *q, void *work, double *parts, size_t count)
{
    struct squares *s = work;
    sum(q, parts, 1, count, parts + count, &s->done, &s->sum);
}

void gpu_square(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, void *work)
{
    struct lie l = lie_of(type, v, v, v);
    char *at = work;
    double *parts = start_squares(q, &at);
    unsigned count = (unsigned)n;
    void *params[] = {&v, &count, &l.skew, &parts};

    launch(q, OF(type, GPU_square_f32), tiles_of(type, n, l), params);
    sum_squares(q, work, parts, tiles_of(type, n, l));
}

void gpu_square_runs(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, size_t runs,
                     size_t run, void *work)
{
    char *at = work;
    double *parts = start_squares(q, &at);
    unsigned count = (unsigned)n, all = (unsigned)runs, length = (unsigned)run;
    void *params[] = {&v, &count, &all, &length, &parts};

    launch(q, OF(type, GPU_square_runs_f32), ceiling(runs, GPU_WARPS), params);
    sum_squares(q, work, parts, runs);
}

void gpu_not_finite(struct gpu_queue *q, enum ss_type type, const void *g, const void *r, size_t n,
                    uint64_t *count)
{
    const void *first = g ? g : r, *second = r ? r : g;
    struct lie l = lie_of(type, first, second, first);
    unsigned all = (unsigned)n;
    void *params[] = {&g, &r, &all, &l.skew, &l.aligned, &count};

    clear(q, count, sizeof *count);
    launch(q, OF(type, GPU_not_finite_f32), tiles_of(type, n, l), params);
}

void gpu_any_bit(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, uint32_t *any)
{
    struct lie l = lie_of(type, v, v, v);
    unsigned all = (unsigned)n;
    void *params[] = {&v, &all, &l.skew, &any};

    clear(q, any, sizeof *any);
    launch(q, OF(type, GPU_any_bit_b32), tiles_of(type, n, l), params);
}

void gpu_largest(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, uint64_t *largest)
{
    struct lie l = lie_of(type, v, v, v);
    unsigned all = (unsigned)n;
    void *params[] = {&v, &all, &l.skew, &largest};

    clear(q, largest, sizeof *largest);
    launch(q, OF(type, GPU_largest_f32), tiles_of(type, n, l), params);
}

/* Exponent of the power of two above a magnitude. */
static int exponent_above(enum ss_type type, uint64_t m)
{
    const int bias = type == SS_F32 ? 127 : 1023, mantissa = type == SS_F32 ? 23 : 52;
    const int field = (int)(m >> mantissa);

    return (field > 0 ? field : 1) - bias + 1;
}

int gpu_sketch_shift(enum ss_type type, uint64_t largest, size_t n)
{
    int bits = 0;
    while (n >> bits > 0)
        bits++;
    return 62 - bits - exponent_above(type, largest);
}

void gpu_sketch(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, int shift,
                int64_t *sums)
{
    unsigned all = (unsigned)n;
    size_t blocks = strides(n);
    void *params[] = {&v, &all, &shift, &sums};

    clear(q, sums, GPU_SKETCH * sizeof *sums);
    launch(q, OF(type, GPU_sketch_f32), blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST, params);
}
