/* The kernels by name: ss_NAME in the image that nvcc makes of gpu/kernels/FILE.cu. */
#ifndef GPU_KERNEL_LIST_H
#define GPU_KERNEL_LIST_H

#define GPU_FILES(X)                                                                               \
    X(buckets) X(claim) X(coded) X(encode) X(exact) X(scan) X(stream) X(sums) X(vector)

/* Kernels for two types, the 4-byte one first. */
#define GPU_FLOATS(X, file, name) X(file, name##_f32) X(file, name##_f64)
#define GPU_WORDS(X, file, name)  X(file, name##_u32) X(file, name##_u64)
#define GPU_BITS(X, file, name)   X(file, name##_b32) X(file, name##_b64)

/* X(file, name) */
#define GPU_KERNELS(X)                                                                             \
    GPU_FLOATS(X, claim, claim)                                                                    \
    GPU_FLOATS(X, claim, claim_input)                                                              \
    GPU_FLOATS(X, claim, claim_residual)                                                           \
    GPU_FLOATS(X, claim, subtract)                                                                 \
    GPU_FLOATS(X, buckets, buckets)                                                                \
    GPU_FLOATS(X, buckets, wide_buckets)                                                           \
    GPU_FLOATS(X, exact, search)                                                                   \
    GPU_FLOATS(X, exact, search_sample)                                                            \
    GPU_FLOATS(X, exact, reach_sample)                                                             \
    GPU_FLOATS(X, exact, keep)                                                                     \
    GPU_BITS(X, scan, scan)                                                                        \
    X(stream, bitmap)                                                                              \
    X(coded, unpack)                                                                               \
    GPU_BITS(X, coded, widen)                                                                      \
    GPU_FLOATS(X, encode, survey)                                                                  \
    GPU_BITS(X, encode, encode)                                                                    \
    GPU_BITS(X, stream, scatter)                                                                   \
    GPU_BITS(X, stream, clear_at)                                                                  \
    GPU_BITS(X, stream, pick)                                                                      \
    GPU_FLOATS(X, stream, accumulate)                                                              \
    GPU_WORDS(X, stream, accumulate)                                                               \
    GPU_FLOATS(X, stream, add_at)                                                                  \
    GPU_FLOATS(X, vector, add)                                                                     \
    GPU_FLOATS(X, vector, reduce)                                                                  \
    GPU_WORDS(X, vector, reduce)                                                                   \
    GPU_FLOATS(X, vector, join)                                                                    \
    GPU_FLOATS(X, vector, leave)                                                                   \
    GPU_FLOATS(X, vector, scale)                                                                   \
    GPU_FLOATS(X, sums, square)                                                                    \
    X(sums, sum)                                                                                   \
    GPU_FLOATS(X, sums, not_finite)                                                                \
    GPU_BITS(X, sums, any_bit)                                                                     \
    GPU_FLOATS(X, sums, largest)                                                                   \
    GPU_FLOATS(X, sums, sketch)

#define GPU_KERNEL_ID(file, name) GPU_##name,
enum gpu_kernel { GPU_KERNELS(GPU_KERNEL_ID) GPU_KERNELS_ALL };
#undef GPU_KERNEL_ID
#define GPU_FILE_ID(file) GPU_IN_##file,
enum gpu_file { GPU_FILES(GPU_FILE_ID) GPU_FILES_ALL };
#undef GPU_FILE_ID

/* How kernels are launched, and what a block takes: gpu/kernels/subset.h, gpu/kernels/tile.h and
 * the kernels. */
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
