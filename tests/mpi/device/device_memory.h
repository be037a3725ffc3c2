/* Device memory for programs under test, from the driver that LD_LIBRARY_PATH finds. */
#ifndef TESTS_MPI_DEVICE_MEMORY_H
#define TESTS_MPI_DEVICE_MEMORY_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/queue/driver.h"

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuInit, (unsigned))                                                                          \
    X(cuDeviceGetCount, (int *))                                                                   \
    X(cuCtxGetCurrent, (CUcontext *))                                                              \
    X(cuCtxSetCurrent, (CUcontext))                                                                \
    X(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice))                                           \
    X(cuCtxDestroy_v2, (CUcontext))                                                                \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                           \
    X(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                      \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                      \
    X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                                          \
    X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned))                                        \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                 \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                         \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                              \
    X(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream))

/* Functions of the driver for tests. */
typedef void cuda_crossed_fn(unsigned long long *to_host, unsigned long long *from_host);
typedef void cuda_hold_fn(atomic_int *until);
typedef void cuda_order_fn(char *text, size_t room, size_t *pinned);

static struct {
    void *library;
#define CUDA_MEMBER(name, parameters) CUresult(*name) parameters;
    CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
    CUcontext context[2];
    cuda_crossed_fn *crossed;
    cuda_hold_fn *hold;
    cuda_order_fn *order;
} cuda;

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        const int result_ = (int)cuda.call;                                                        \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, result_);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Finds two devices, or the first one twice if there is only one. A context of the first is current
 * afterwards. */
static inline void cuda_open(void)
{
    int devices = 0;

    cuda.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda.library) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
#define CUDA_FIND(name, parameters) *(void **)(void *)&cuda.name = dlsym(cuda.library, #name);
    CUDA_FUNCTIONS(CUDA_FIND)
#undef CUDA_FIND
    *(void **)(void *)&cuda.crossed = dlsym(cuda.library, "test_cuda_crossed");
    *(void **)(void *)&cuda.hold = dlsym(cuda.library, "test_cuda_hold");
    *(void **)(void *)&cuda.order = dlsym(cuda.library, "test_cuda_order");
    CUDA(cuInit(0));
    CUDA(cuDeviceGetCount(&devices));
    for (int i = 0; i < 2; i++)
        CUDA(cuDevicePrimaryCtxRetain(&cuda.context[i], i < devices ? i : 0));
    CUDA(cuCtxSetCurrent(cuda.context[0]));
}

enum kind { HOST, DEVICE, SECOND, POOL, PINNED, MANAGED, KINDS };
static const char *const kind_names[KINDS] = {"host", "device", "second device",
                                              "pool", "pinned", "managed"};

static inline bool host_touches(enum kind kind)
{
    return kind == HOST || kind == PINNED;
}

/* Enters a context that is not the thread's own, until cuda_leave. */
static inline CUcontext cuda_enter(enum kind kind)
{
    CUcontext before;

    CUDA(cuCtxGetCurrent(&before));
    CUDA(cuCtxSetCurrent(cuda.context[kind == SECOND]));
    return before;
}

static inline char *cuda_memory(enum kind kind, size_t bytes)
{
    CUcontext before = cuda_enter(kind);
    CUdeviceptr p = 0;
    void *host = NULL;

    if (kind == HOST)
        host = malloc(bytes);
    else if (kind == PINNED)
        CUDA(cuMemHostAlloc(&host, bytes, 0));
    else if (kind == POOL)
        CUDA(cuMemAllocAsync(&p, bytes, NULL));
    else if (kind == MANAGED)
        CUDA(cuMemAllocManaged(&p, bytes, 1));
    else
        CUDA(cuMemAlloc_v2(&p, bytes));
    CUDA(cuCtxSetCurrent(before));
    return host ? host : (char *)(uintptr_t)p;
}

/* Leaves work in flight in the legacy stream. */
static inline void cuda_write(enum kind kind, char *to, const void *from, size_t bytes)
{
    CUcontext before;

    if (host_touches(kind)) {
        memcpy(to, from, bytes);
        return;
    }
    before = cuda_enter(kind);
    CUDA(cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)to, from, bytes, CU_STREAM_LEGACY));
    CUDA(cuCtxSetCurrent(before));
}

static inline void cuda_read(enum kind kind, void *to, const char *from, size_t bytes)
{
    CUcontext before;

    if (host_touches(kind)) {
        memcpy(to, from, bytes);
        return;
    }
    before = cuda_enter(kind);
    CUDA(cuMemcpyDtoH_v2(to, (CUdeviceptr)(uintptr_t)from, bytes));
    CUDA(cuCtxSetCurrent(before));
}

#endif
