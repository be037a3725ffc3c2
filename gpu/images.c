/* What nvcc made of the kernels, as data of this library: a fat binary for each file. */
#include "gpu/images.h"

#define IMAGES(X)                                                                                  \
    X(buckets) X(claim) X(coded) X(encode) X(exact) X(scan) X(stream) X(sums) X(vector)

#define EMBED(name)                                                                                \
    __asm__(".section .rodata\n.balign 64\ngpu_image_" #name ":\n.incbin \"" GPU_IMAGE_DIR         \
            "/" #name ".fatbin\"\n.previous\n");                                                   \
    extern const char gpu_image_##name[] __attribute__((visibility("hidden")));
IMAGES(EMBED)

#define ADDRESS(name) gpu_image_##name,
static const void *const images[] = {IMAGES(ADDRESS)};

const struct gpu_images gpu_images = {images, sizeof images / sizeof images[0], GPU_CUDA_VERSION};
