/* Selection of gpu/queue/launch.h: claims, the search for a threshold, and both in about one
 * reading. */
#include "gpu/queue/launch_impl.h"

_Static_assert(offsetof(struct gpu_exact, claimed) % GPU_ALIGNMENT == 0, "what a claim works in");

/* ---- claims ---- */

static size_t selection_work(size_t tiles)
{
    return sizeof(struct gpu_claimed) + tiles * 8 + GPU_ALIGNMENT + gpu_sum_work(tiles, 2);
}

size_t gpu_claim_work(enum ss_type type, size_t n)
{
    return selection_work(gpu_tiles_most(type, n));
}

/* The areas of a selection; up to `cleared` they have to be zero. */
struct selection {
    struct gpu_claimed *claimed;
    uint64_t *tiles;
    char *cleared;
    double *squares, *shares;
};

static struct selection selection_in(void *work, size_t tiles)
{
    char *at = work;
    struct selection s;

    s.claimed = gpu_take(&at, sizeof *s.claimed);
    s.tiles = gpu_take(&at, tiles * sizeof *s.tiles);
    s.cleared = at;
    s.squares = gpu_take(&at, 2 * tiles * sizeof *s.squares);
    s.shares = (double *)(void *)at;
    return s;
}

static struct selection start_selection(struct gpu_queue *q, void *work, size_t tiles)
{
    const struct selection s = selection_in(work, tiles);

    gpu_zero(q, work, (size_t)(s.cleared - (char *)work));
    return s;
}

static void sum_selection(struct gpu_queue *q, const struct selection *s, size_t tiles)
{
    gpu_sum(q, s->squares, 2, tiles, s->shares, &s->claimed->done, &s->claimed->input_square);
}

static struct gpu_lie lie_of(const struct gpu_input *in)
{
    const void *first = in->g ? in->g : in->r, *second = in->r ? in->r : in->g;

    return gpu_lie_of(in->type, first, second, first);
}

static size_t tiles_of(const struct gpu_input *in)
{
    return gpu_tiles_of(in->type, in->n, lie_of(in));
}

static void claim(struct gpu_queue *q, const struct gpu_input *in, uint64_t threshold,
                  const uint64_t *found, const struct gpu_list *to, struct selection s)
{
    struct gpu_lie l = lie_of(in);
    enum gpu_kernel kernel = in->g && in->r ? GPU_claim_f32
                             : in->g        ? GPU_claim_input_f32
                                            : GPU_claim_residual_f32;
    struct gpu_input i = *in;
    struct gpu_list list = *to;
    unsigned n = (unsigned)in->n, capacity = (unsigned)to->room;
    void *params[] = {&i.g,      &i.r,       &n,       &l.skew,    &l.aligned,
                      &i.base,   &threshold, &found,   &list.idx,  &list.val,
                      &capacity, &s.claimed, &s.tiles, &s.squares, &i.overflows};

    gpu_start(q, GPU_OF(in->type, kernel), tiles_of(in), params);
    sum_selection(q, &s, tiles_of(in));
}

void gpu_claim(struct gpu_queue *q, const struct gpu_input *in, uint64_t threshold,
               const uint64_t *found, const struct gpu_list *to, void *work)
{
    claim(q, in, threshold, found, to, start_selection(q, work, tiles_of(in)));
}

void gpu_undo(struct gpu_queue *q, const struct gpu_input *in, const struct gpu_list *claims,
              size_t claimed, bool overflowed)
{
    uint32_t *overflows = overflowed ? in->overflows : NULL;
    struct gpu_input i = *in;
    unsigned n = (unsigned)in->n;
    void *params[] = {&i.r, &i.g, &n, &overflows};

    gpu_add_at(q, in->type, in->r, in->base, claims->idx, claims->val, claimed);
    gpu_start(q, GPU_OF(in->type, GPU_subtract_f32), gpu_strides(in->n), params);
    if (overflows)
        gpu_zero(q, overflows, gpu_ceiling(in->n, 32) * 4);
}

/* Buckets are taken eight at a time, or long ones alone. */
static size_t bucket_tiles(size_t n, size_t bucket)
{
    size_t buckets = gpu_ceiling(n, bucket);
    return bucket <= GPU_BUCKET_MOST ? gpu_ceiling(buckets, GPU_WARPS) : buckets;
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

    gpu_start(q,
              GPU_OF(in->type, bucket <= GPU_BUCKET_MOST ? GPU_buckets_f32 : GPU_wide_buckets_f32),
              tiles, params);
    sum_selection(q, &s, tiles);
}

/* ---- thresholds ---- */

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
    gpu_zero(q, s, sizeof *s);
    gpu_zero(q, bins, GPU_BINS * sizeof *bins);
}

/* counted: in device memory how many there are, n at most; or NULL. found and bins are zero, and
 * bins are that again afterwards. */
static void search(struct gpu_queue *q, const struct gpu_input *in, const uint64_t *counted,
                   size_t k, struct gpu_search *found, uint32_t *bins)
{
    struct gpu_lie l = lie_of(in);
    size_t blocks = tiles_of(in), passes;
    struct gpu_input i = *in;
    unsigned n = (unsigned)in->n;

    (void)digit_at(in->type, 0, &passes);
    for (size_t pass = 0; pass < passes; pass++) {
        struct digit d = *digit_at(in->type, pass, &passes);
        uint64_t wanted = pass == 0 ? k : 0;
        unsigned last = pass == passes - 1;
        void *params[] = {&i.g,    &i.r,     &n,       &l.skew, &l.aligned, &counted,
                          &wanted, &d.shift, &d.width, &last,   &found,     &bins};
        gpu_start(q, GPU_OF(in->type, GPU_search_f32),
                  blocks < GPU_BLOCKS_MOST ? blocks : GPU_BLOCKS_MOST, params);
    }
}

void gpu_find(struct gpu_queue *q, const struct gpu_input *in, size_t k, struct gpu_search *found,
              uint32_t *bins)
{
    start_search(q, found, bins);
    search(q, in, NULL, k, found, bins);
}

static size_t sample_blocks(size_t n, size_t step)
{
    size_t blocks = gpu_ceiling(gpu_ceiling(n, step), GPU_WARPS);
    return blocks < GPU_BLOCKS_MOST ? blocks : GPU_BLOCKS_MOST;
}

/* The first `passes` digits, or with 0 all; found and bins as above. */
static void search_sample(struct gpu_queue *q, const struct gpu_input *in, size_t step, size_t k,
                          size_t passes, struct gpu_search *found, uint32_t *bins)
{
    struct gpu_input i = *in;
    unsigned n = (unsigned)in->n, apart = (unsigned)step;
    size_t all;

    (void)digit_at(in->type, 0, &all);
    if (passes == 0)
        passes = all;
    for (size_t pass = 0; pass < passes; pass++) {
        struct digit d = *digit_at(in->type, pass, &all);
        uint64_t wanted = pass == 0 ? k : 0;
        unsigned last = pass == all - 1;
        void *params[] = {&i.g,     &i.r,     &n,    &apart, &wanted,
                          &d.shift, &d.width, &last, &found, &bins};
        gpu_start(q, GPU_OF(in->type, GPU_search_sample_f32), sample_blocks(in->n, step), params);
    }
}

void gpu_find_sampled(struct gpu_queue *q, const struct gpu_input *in, size_t step, size_t k,
                      struct gpu_search *found, uint32_t *bins)
{
    start_search(q, found, bins);
    search_sample(q, in, step, k, 0, found, bins);
}

void gpu_reach_sampled(struct gpu_queue *q, const struct gpu_input *in, size_t step,
                       uint64_t threshold, uint64_t *count)
{
    struct gpu_input i = *in;
    unsigned n = (unsigned)in->n, apart = (unsigned)step;
    void *params[] = {&i.g, &i.r, &n, &apart, &threshold, &count};

    gpu_zero(q, count, sizeof *count);
    gpu_start(q, GPU_OF(in->type, GPU_reach_sample_f32), sample_blocks(in->n, step), params);
}

/* ---- both ---- */

/* The sample that bounds the threshold: so many elements of each so many. */
enum { PIECE = 64, PIECE_STEP = 4096 };

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
    return gpu_ceiling(room, GPU_KEEP_TILE);
}

size_t gpu_exact_work(enum ss_type type, size_t n, size_t k)
{
    return sizeof(struct gpu_exact) + GPU_BINS * 4 + keep_tiles(gpu_exact_room(n, k)) * 8 +
           4 * GPU_ALIGNMENT + gpu_claim_work(type, n);
}

/* kept and tiles are zero. */
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

    gpu_start(q, GPU_OF(in->type, GPU_keep_f32), keep_tiles(between->room), params);
}

void gpu_claim_exact(struct gpu_queue *q, const struct gpu_input *in, size_t k,
                     const struct gpu_list *between, const struct gpu_list *to, void *work)
{
    char *at = work;
    struct gpu_exact *x = gpu_take(&at, offsetof(struct gpu_exact, claimed));
    const struct selection s =
        selection_in(gpu_take(&at, gpu_claim_work(in->type, in->n)), tiles_of(in));
    uint32_t *bins = gpu_take(&at, GPU_BINS * sizeof *bins);
    uint64_t *tiles = gpu_take(&at, keep_tiles(between->room) * sizeof *tiles);
    const struct gpu_input list = {
        .type = in->type, .g = between->val, .n = between->room, .base = in->base};

    gpu_zero(q, x, (size_t)(s.cleared - (char *)x));
    gpu_zero(q, bins, (size_t)(at - (char *)bins));
    search_sample(q, in, PIECE_STEP, sample_rank(k), 2, &x->bound, bins);
    claim(q, in, 0, (const uint64_t *)&x->bound.low, between, s);
    search(q, &list, (const uint64_t *)&s.claimed->reached, k, &x->found, bins);
    keep(q, in, k, x, between, to, tiles);
}
