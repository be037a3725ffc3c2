/* Numbers of core/wire that kernels know, too. C and CUDA C++; gpu/device_coded.c holds one to the
 * other. */
#ifndef GPU_CODES_H
#define GPU_CODES_H

/* Rice codes: gaps of a run, length of an escape, and runs of a message at most. */
enum { GPU_RUN = 240, GPU_ESCAPE = 32, GPU_RUNS = 256 };

/* Buckets of rounded values. */
enum { GPU_AS_IT_IS, GPU_CODED, GPU_ZEROS };

#endif
