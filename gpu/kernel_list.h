/* The kernels by name: ss_NAME in the image that nvcc makes of gpu/(*).cu. */
#ifndef GPU_KERNEL_LIST_H
#define GPU_KERNEL_LIST_H

/* Of the 4-byte type first, then the 8-byte one. */
#define GPU_FLOATS(X, name) X(name##_f32) X(name##_f64)
#define GPU_WORDS(X, name)  X(name##_u32) X(name##_u64)
#define GPU_BITS(X, name)   X(name##_b32) X(name##_b64)

#define GPU_KERNELS(X)                                                                             \
    GPU_FLOATS(X, claim)                                                                           \
    GPU_FLOATS(X, claim_input)                                                                     \
    GPU_FLOATS(X, claim_residual)                                                                  \
    GPU_FLOATS(X, subtract)                                                                        \
    GPU_FLOATS(X, buckets)                                                                         \
    GPU_FLOATS(X, wide_buckets)                                                                    \
    GPU_FLOATS(X, search)                                                                          \
    GPU_FLOATS(X, search_sample)                                                                   \
    GPU_FLOATS(X, reach_sample)                                                                    \
    GPU_FLOATS(X, keep)                                                                            \
    GPU_BITS(X, scan)                                                                              \
    X(bitmap)                                                                                      \
    X(unpack)                                                                                      \
    GPU_BITS(X, widen)                                                                             \
    GPU_FLOATS(X, survey)                                                                          \
    GPU_BITS(X, encode)                                                                            \
    GPU_BITS(X, scatter)                                                                           \
    GPU_BITS(X, clear_at)                                                                          \
    GPU_BITS(X, pick)                                                                              \
    GPU_FLOATS(X, accumulate)                                                                      \
    GPU_WORDS(X, accumulate)                                                                       \
    GPU_FLOATS(X, add_at)                                                                          \
    GPU_FLOATS(X, add)                                                                             \
    GPU_FLOATS(X, reduce)                                                                          \
    GPU_WORDS(X, reduce)                                                                           \
    GPU_FLOATS(X, join)                                                                            \
    GPU_FLOATS(X, leave)                                                                           \
    GPU_FLOATS(X, scale)                                                                           \
    GPU_FLOATS(X, square)                                                                          \
    GPU_FLOATS(X, square_runs)                                                                     \
    X(sum)                                                                                         \
    GPU_FLOATS(X, not_finite)                                                                      \
    GPU_BITS(X, any_bit)                                                                           \
    GPU_FLOATS(X, largest)                                                                         \
    GPU_FLOATS(X, sketch)

#define GPU_KERNEL_ID(name) GPU_##name,
enum gpu_kernel { GPU_KERNELS(GPU_KERNEL_ID) GPU_KERNELS_ALL };
#undef GPU_KERNEL_ID

/* How kernels are launched, and what a block takes: gpu/subset.h, gpu/tile.h and the kernels. */
enum {
    GPU_THREADS = 256,
    GPU_TILE_BYTES = GPU_THREADS * 4 * 16, /* of a vector */
    GPU_SUM_SHARE = 4 * GPU_THREADS,
    GPU_KEEP_TILE = 4 * GPU_THREADS,
    GPU_WARPS = GPU_THREADS / 32,
    GPU_BINS = 2048,
    GPU_SKETCH = 2048,
    GPU_BUCKET_MOST = 512 /* elements that a warp takes of a bucket */
};

#endif
