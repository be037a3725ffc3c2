/* Streams and dense vectors of gpu/queue/launch.h. */
#include "gpu/queue/launch.h"

#include "gpu/queue/launch_impl.h"

/* ---- streams ---- */

size_t gpu_scan_work(enum ss_type type, size_t n)
{
    return sizeof(struct gpu_scanned) + gpu_tiles_most(type, n) * 8 + 2 * GPU_ALIGNMENT;
}

void gpu_scan(struct gpu_queue *q, enum ss_type type, enum ss_op op, const void *src, size_t n,
              uint32_t base, const struct gpu_list *to, void *work)
{
    const bool narrow = ss_type_size(type) == 4;
    struct gpu_lie l = gpu_lie_of(type, src, src, src);
    size_t tiles = gpu_tiles_of(type, n, l);
    char *at = work;
    struct gpu_scanned *scanned = gpu_take(&at, sizeof *scanned);
    uint64_t *states = gpu_take(&at, tiles * sizeof *states);
    struct gpu_list list = *to;
    unsigned count = (unsigned)n, capacity = (unsigned)to->room;
    unsigned logical = op == SS_LOR || op == SS_LXOR;
    uint32_t mask_32 = ss_type_is_float(type) ? INT32_MAX : UINT32_MAX;
    uint64_t mask_64 = ss_type_is_float(type) ? INT64_MAX : UINT64_MAX;
    void *mask = narrow ? (void *)&mask_32 : (void *)&mask_64;
    void *params[] = {&src,      &count,    &l.skew,   &base,    mask,   &logical,
                      &list.idx, &list.val, &capacity, &scanned, &states};

    gpu_zero(q, work, (size_t)(at - (char *)work));
    gpu_start(q, GPU_OF(type, GPU_scan_b32), tiles, params);
}

void gpu_unpack(struct gpu_queue *q, const struct gpu_code *code, uint32_t *idx, uint32_t *refused,
                uint32_t *told)
{
    struct gpu_code c = *code;
    void *params[] = {&c.words, &c.runs, &c.code, &c.parameter, &c.first,
                      &c.last,  &c.nnz,  &idx,    &refused,     &told};

    gpu_start(q, GPU_unpack, 1, params);
}

void gpu_bitmap(struct gpu_queue *q, const uint32_t *idx, size_t nnz, uint32_t first, size_t bits,
                uint32_t *words)
{
    unsigned count = (unsigned)nnz, range = (unsigned)bits;
    void *params[] = {&idx, &count, &first, &range, &words};

    gpu_zero(q, words, (bits + 31) / 32 * 4);
    gpu_start(q, GPU_bitmap, gpu_strides(nnz), params);
}

void gpu_widen(struct gpu_queue *q, enum ss_type type, const struct gpu_rounded *values, void *to,
               uint32_t *refused, uint32_t *told)
{
    struct gpu_rounded v = *values;
    unsigned bf16 = v.bf16;
    void *params[] = {&v.from, &v.offsets, &v.bucket, &bf16, &v.nnz, &to, &refused, &told};

    gpu_start(q, GPU_OF(type, GPU_widen_b32), gpu_strides(v.nnz), params);
}

uint32_t gpu_wire_head(const struct ss_wire_key *key, enum ss_values values)
{
    return SS_WIRE_MAGIC | (uint32_t)(SS_WIRE_VERSION << 4 | (int)key->type) << 8 |
           (uint32_t)values << 20 | (uint32_t)key->phase << 24;
}

void gpu_encode(struct gpu_queue *q, const struct gpu_outgoing *out, void *area, uint32_t *lengths)
{
    struct gpu_outgoing o = *out;
    void *params[] = {&o.idx,  &o.val,    &o.error,  &o.table, &o.head,
                      &o.call, &o.coding, &o.bucket, &area,    &lengths};

    gpu_start(q, GPU_OF(o.type, GPU_encode_b32), o.messages, params);
}

/* Entries of a mean range below which each range has a warp. */
enum { SURVEY_FEW = 1024 };

void gpu_survey(struct gpu_queue *q, enum ss_type type, const uint32_t *idx, const void *val,
                size_t nnz, const uint32_t *cuts, size_t count, struct gpu_share *shares)
{
    unsigned entries = (unsigned)nnz, ranges = (unsigned)count;
    void *params[] = {&idx, &val, &entries, &cuts, &ranges, &shares};
    const bool few = nnz / count < SURVEY_FEW;

    gpu_start(q, GPU_OF(type, GPU_survey_f32), few ? gpu_ceiling(count, GPU_WARPS) : count, params);
}

void gpu_scatter(struct gpu_queue *q, enum ss_type type, void *dst, uint32_t base,
                 const uint32_t *idx, const void *val, size_t nnz, const uint32_t *refused)
{
    unsigned count = (unsigned)nnz;
    void *params[] = {&dst, &base, &idx, &val, &count, &refused};

    gpu_start(q, GPU_OF(type, GPU_scatter_b32), gpu_strides(nnz), params);
}

void gpu_clear_at(struct gpu_queue *q, enum ss_type type, void *dst, uint32_t base,
                  const uint32_t *idx, size_t nnz)
{
    unsigned count = (unsigned)nnz;
    void *params[] = {&dst, &base, &idx, &count};

    gpu_start(q, GPU_OF(type, GPU_clear_at_b32), gpu_strides(nnz), params);
}

void gpu_accumulate(struct gpu_queue *q, enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz, const uint32_t *refused)
{
    unsigned count = (unsigned)nnz, code = (unsigned)op;
    void *floats[] = {&dst, &base, &idx, &val, &count, &refused};
    void *words[] = {&code, &dst, &base, &idx, &val, &count, &refused};

    if (ss_type_is_float(type))
        gpu_start(q, GPU_OF(type, GPU_accumulate_f32), gpu_strides(nnz), floats);
    else
        gpu_start(q, GPU_OF(type, GPU_accumulate_u32), gpu_strides(nnz), words);
}

void gpu_add_at(struct gpu_queue *q, enum ss_type type, void *r, uint32_t base, const uint32_t *idx,
                const void *val, size_t count)
{
    unsigned all = (unsigned)count;
    const uint32_t *refused = NULL;
    void *params[] = {&r, &base, &idx, &val, &all, &refused};

    gpu_start(q, GPU_OF(type, GPU_add_at_f32), gpu_strides(count), params);
}

void gpu_pick(struct gpu_queue *q, enum ss_type type, const void *v, const uint32_t *indices,
              size_t count, void *to)
{
    unsigned all = (unsigned)count;
    void *params[] = {&v, &indices, &all, &to};

    gpu_start(q, GPU_OF(type, GPU_pick_b32), gpu_strides(count), params);
}

/* ---- dense vectors ---- */

void gpu_clear(struct gpu_queue *q, enum ss_type type, void *v, size_t n)
{
    gpu_zero(q, v, n * ss_type_size(type));
}

void gpu_reduce(struct gpu_queue *q, enum ss_type type, enum ss_op op, void *dst, const void *src,
                size_t n)
{
    struct gpu_lie l = gpu_lie_of(type, dst, src, dst);
    unsigned count = (unsigned)n, code = (unsigned)op;
    void *floats[] = {&dst, &src, &count, &l.skew, &l.aligned};
    void *words[] = {&code, &dst, &src, &count, &l.skew, &l.aligned};

    if (ss_type_is_float(type))
        gpu_start(q, GPU_OF(type, GPU_reduce_f32), gpu_tiles_of(type, n, l), floats);
    else
        gpu_start(q, GPU_OF(type, GPU_reduce_u32), gpu_tiles_of(type, n, l), words);
}

void gpu_add(struct gpu_queue *q, enum ss_type type, void *r, const void *val, size_t n)
{
    struct gpu_lie l = gpu_lie_of(type, r, val, r);
    unsigned count = (unsigned)n;
    void *params[] = {&r, &val, &count, &l.skew, &l.aligned};

    gpu_start(q, GPU_OF(type, GPU_add_f32), gpu_tiles_of(type, n, l), params);
}

void gpu_join(struct gpu_queue *q, enum ss_type type, const void *in, const void *r, void *out,
              size_t n, double share)
{
    struct gpu_lie l = gpu_lie_of(type, in, r, out);
    unsigned count = (unsigned)n;
    float share_32 = (float)share;
    void *as = type == SS_F32 ? (void *)&share_32 : (void *)&share;
    void *params[] = {&in, &r, &out, &count, &l.skew, &l.aligned, as};

    gpu_start(q, GPU_OF(type, GPU_join_f32), gpu_tiles_of(type, n, l), params);
}

void gpu_leave(struct gpu_queue *q, enum ss_type type, void *r, size_t n, double share)
{
    struct gpu_lie l = gpu_lie_of(type, r, r, r);
    unsigned count = (unsigned)n;
    float share_32 = (float)share;
    void *as = type == SS_F32 ? (void *)&share_32 : (void *)&share;
    void *params[] = {&r, &count, &l.skew, as};

    gpu_start(q, GPU_OF(type, GPU_leave_f32), gpu_tiles_of(type, n, l), params);
}

void gpu_scale(struct gpu_queue *q, enum ss_type type, void *r, size_t n, double factor)
{
    struct gpu_lie l = gpu_lie_of(type, r, r, r);
    unsigned count = (unsigned)n;
    void *params[] = {&r, &count, &l.skew, &factor};

    gpu_start(q, GPU_OF(type, GPU_scale_f32), gpu_tiles_of(type, n, l), params);
}

/* The sum, the count of blocks that are done, then the parts. */
struct squares {
    double sum;
    unsigned done, unused;
};

size_t gpu_square_work(enum ss_type type, size_t n)
{
    return sizeof(struct squares) + gpu_sum_work(gpu_tiles_most(type, n), 1);
}

void gpu_square(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, void *work)
{
    struct gpu_lie l = gpu_lie_of(type, v, v, v);
    const size_t tiles = gpu_tiles_of(type, n, l);
    char *at = work;
    struct squares *s = gpu_take(&at, sizeof *s);
    double *parts = (double *)(void *)at;
    unsigned count = (unsigned)n;
    void *params[] = {&v, &count, &l.skew, &parts};

    gpu_zero(q, s, sizeof *s);
    gpu_start(q, GPU_OF(type, GPU_square_f32), tiles, params);
    gpu_sum(q, parts, 1, tiles, parts + tiles, &s->done, &s->sum);
}

void gpu_not_finite(struct gpu_queue *q, enum ss_type type, const void *g, const void *r, size_t n,
                    uint64_t *count)
{
    const void *first = g ? g : r, *second = r ? r : g;
    struct gpu_lie l = gpu_lie_of(type, first, second, first);
    unsigned all = (unsigned)n;
    void *params[] = {&g, &r, &all, &l.skew, &l.aligned, &count};

    gpu_zero(q, count, sizeof *count);
    gpu_start(q, GPU_OF(type, GPU_not_finite_f32), gpu_tiles_of(type, n, l), params);
}

/* Launches a kernel that gathers `bytes` bytes from all tiles of a vector. */
static void gather_tiles(struct gpu_queue *q, enum ss_type type, enum gpu_kernel kernel,
                         const void *v, size_t n, void *to, size_t bytes)
{
    struct gpu_lie l = gpu_lie_of(type, v, v, v);
    unsigned all = (unsigned)n;
    void *params[] = {&v, &all, &l.skew, &to};

    gpu_zero(q, to, bytes);
    gpu_start(q, kernel, gpu_tiles_of(type, n, l), params);
}

void gpu_any_bit(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, uint32_t *any)
{
    gather_tiles(q, type, GPU_OF(type, GPU_any_bit_b32), v, n, any, sizeof *any);
}

void gpu_largest(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, uint64_t *largest)
{
    gather_tiles(q, type, GPU_OF(type, GPU_largest_f32), v, n, largest, sizeof *largest);
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
    size_t blocks = gpu_strides(n);
    void *params[] = {&v, &all, &shift, &sums};

    gpu_zero(q, sums, GPU_SKETCH * sizeof *sums);
    gpu_start(q, GPU_OF(type, GPU_sketch_f32), blocks < GPU_BLOCKS_MOST ? blocks : GPU_BLOCKS_MOST,
              params);
}
