/* Numbers of core/wire that kernels know, too. C and CUDA C++; gpu/backend/device_coded.c and
 * gpu/backend/device_encode.c hold one to the other. */
#ifndef GPU_CODES_H
#define GPU_CODES_H

/* Rice codes: gaps of a run, length of an escape, and runs of a message at most; what begins to
 * have runs, the largest parameter, entries of a message. */
enum { GPU_RUN = 240, GPU_ESCAPE = 32, GPU_RUNS = 256 };
enum { GPU_LONG = 2048, GPU_PARAMETER_MOST = 31, GPU_ENTRIES = 32768 };

/* Representations, and what is asked for. */
enum { GPU_REP_U32, GPU_REP_PACKED, GPU_REP_BITMAP, GPU_REP_DENSE };
enum { GPU_CODING_AUTO, GPU_CODING_U32, GPU_CODING_PACKED, GPU_CODING_BITMAP };

/* Values, and buckets of rounded ones, of which a message has so many at most. */
enum { GPU_SAME, GPU_BF16, GPU_Q8 };
enum { GPU_AS_IT_IS, GPU_CODED, GPU_ZEROS };
enum { GPU_BUCKETS = 512, GPU_LEVELS = 127 };

#endif
