/* The kernels that are built into libsparseshim_cuda.so. */
#ifndef GPU_IMAGES_H
#define GPU_IMAGES_H

#include "gpu/device.h"

extern const struct gpu_images gpu_images;

#endif
