/* The inside of gpu/queue/launch.h: how a kernel is put into a queue, over how many blocks, and
 * what its work area is made of. */
#ifndef GPU_LAUNCH_IMPL_H
#define GPU_LAUNCH_IMPL_H

#include "gpu/queue/launch.h"

/* The kernel of a pair for a type of 4 or 8 bytes. */
#define GPU_OF(type, name) ((enum gpu_kernel)(ss_type_size(type) == 4 ? (name) : (name) + 1))

enum { GPU_BLOCKS_MOST = 1024, GPU_ALIGNMENT = 16 };

static inline void gpu_start(struct gpu_queue *q, enum gpu_kernel kernel, size_t blocks,
                             void **params)
{
    if (q->error == 0 && blocks > 0)
        q->error = q->launch(q, kernel, (unsigned)blocks, params);
}

static inline void gpu_zero(struct gpu_queue *q, void *to, size_t bytes)
{
    if (q->error == 0 && bytes > 0)
        q->error = q->fill(q, to, 0, bytes / 4);
}

static inline size_t gpu_ceiling(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* Blocks that stride over n elements. */
static inline size_t gpu_strides(size_t n)
{
    size_t blocks = gpu_ceiling(n, GPU_THREADS);
    return blocks < 16 * GPU_BLOCKS_MOST ? blocks : 16 * GPU_BLOCKS_MOST;
}

/* The alignment of vectors within 16 bytes: gpu/kernels/tile.h. */
struct gpu_lie {
    unsigned skew, aligned;
};

static inline struct gpu_lie gpu_lie_of(enum ss_type type, const void *a, const void *b,
                                        const void *c)
{
    uintptr_t at = (uintptr_t)a % GPU_ALIGNMENT;
    bool alike = (uintptr_t)b % GPU_ALIGNMENT == at && (uintptr_t)c % GPU_ALIGNMENT == at;

    if (!alike || at % ss_type_size(type) != 0)
        return (struct gpu_lie){0, 0};
    return (struct gpu_lie){(unsigned)(at / ss_type_size(type)), 1};
}

static inline size_t gpu_tiles_of(enum ss_type type, size_t n, struct gpu_lie l)
{
    return gpu_ceiling(n + l.skew, GPU_TILE_BYTES / ss_type_size(type));
}

/* However it lies. */
static inline size_t gpu_tiles_most(enum ss_type type, size_t n)
{
    return gpu_ceiling(n + GPU_ALIGNMENT, GPU_TILE_BYTES / ss_type_size(type));
}

/* Arrays of a work area, one behind the other. */
static inline void *gpu_take(char **work, size_t bytes)
{
    void *at = *work;
    *work += gpu_ceiling(bytes, GPU_ALIGNMENT) * GPU_ALIGNMENT;
    return at;
}

/* Bytes of the numbers that are added, and of the sums of shares of them. */
static inline size_t gpu_sum_work(size_t count, unsigned ways)
{
    return ways * 8 * (count + gpu_ceiling(count, GPU_SUM_SHARE)) + 2 * GPU_ALIGNMENT;
}

/* from: `count` numbers of each of the ways. */
static inline void gpu_sum(struct gpu_queue *q, double *from, unsigned ways, size_t count,
                           double *shares, unsigned *done, double *to)
{
    unsigned all = (unsigned)count;
    void *params[] = {&from, &ways, &all, &shares, &done, &to};

    gpu_start(q, GPU_sum, gpu_ceiling(count, GPU_SUM_SHARE), params);
}

#endif
