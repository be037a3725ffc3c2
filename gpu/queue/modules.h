/* The kernels that are built into libsparseshim_cuda.so. */
#ifndef GPU_MODULES_H
#define GPU_MODULES_H

#include "gpu/queue/device.h"

extern const struct gpu_modules gpu_modules;

#endif
