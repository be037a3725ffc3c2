/* Backends on the devices of the driver for tests, one for each rank, in turn on two of them where
 * there are so many, and memory beside them that the test can see. With GPU_LIBCUDA, on those of
 * that driver, all memory managed: a real one's memory is else out of a test's sight. */
#ifndef TESTS_GPU_RANKS_H
#define TESTS_GPU_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/backend/device_backend.h"
#include "tests/gpu/real_device.h"

enum { GPU_RANKS = 8 };

static struct {
    struct gpu_driver driver;
    struct gpu_backend backend[GPU_RANKS];
    bool opened[GPU_RANKS];
    const struct gpu_modules *modules;
    ptrdiff_t far; /* from where the test sees memory to its address */
    CUresult (*init)(unsigned);
    int devices;
    CUresult (*set_current)(CUcontext);
    CUresult (*make)(CUdeviceptr *, size_t);
    CUresult (*make_managed)(CUdeviceptr *, size_t, unsigned);
    CUresult (*free)(CUdeviceptr);
    ptrdiff_t (*ask_far)(void);
    void (*crossed)(unsigned long long *to_host, unsigned long long *from_host); /* bytes */
    struct {
        void *near;
        int rank;
    } memory[256];
    size_t used;
} gpu_ranks;

static inline CUresult gpu_ranks_managed(CUdeviceptr *p, size_t bytes)
{
    enum { EVERYWHERE = 1 };

    return gpu_ranks.make_managed(p, bytes, EVERYWHERE);
}

/* What only the driver for tests can do is left out on others. */
static inline bool gpu_ranks_can_fail(void)
{
    return gpu_ranks.crossed != NULL;
}

static inline void gpu_ranks_driver(void)
{
    const char *other = getenv("GPU_LIBCUDA");
    CUresult (*count)(int *);
    void *libcuda;

    if (gpu_ranks.init)
        return;
    (void)setenv("TEST_CUDA_KERNELS", emulated_kernels(), 1);
    libcuda = dlopen(other ? other : beside_me("driver/libcuda.so.1"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(libcuda);
    assert_null(gpu_driver_find(&gpu_ranks.driver, libcuda));
    *(void **)&gpu_ranks.init = emulated_symbol(libcuda, "cuInit");
    *(void **)&gpu_ranks.set_current = emulated_symbol(libcuda, "cuCtxSetCurrent");
    *(void **)&gpu_ranks.make = emulated_symbol(libcuda, "cuMemAlloc_v2");
    *(void **)&gpu_ranks.free = emulated_symbol(libcuda, "cuMemFree_v2");
    *(void **)&gpu_ranks.make_managed = emulated_symbol(libcuda, "cuMemAllocManaged");
    gpu_ranks.modules = real_modules(libcuda);
    assert_non_null(gpu_ranks.modules);
    assert_int_equal(gpu_ranks.init(0), CUDA_SUCCESS);
    *(void **)&count = emulated_symbol(libcuda, "cuDeviceGetCount");
    assert_int_equal(count(&gpu_ranks.devices), CUDA_SUCCESS);
    *(void **)&gpu_ranks.crossed = dlsym(libcuda, "test_cuda_crossed");
    if (other) {
        gpu_ranks.make = gpu_ranks.driver.memory_make = gpu_ranks_managed;
        return;
    }
    *(void **)&gpu_ranks.ask_far = emulated_symbol(libcuda, "test_driver_far");
    gpu_ranks.far = gpu_ranks.ask_far();
}

static inline struct gpu_backend *gpu_rank(int rank)
{
    char why[200];

    gpu_ranks_driver();
    if (!gpu_ranks.opened[rank])
        assert_null(gpu_backend_open(&gpu_ranks.backend[rank], &gpu_ranks.driver, gpu_ranks.modules,
                                     NULL, rank % (gpu_ranks.devices > 1 ? 2 : 1), why));
    gpu_ranks.opened[rank] = true;
    return &gpu_ranks.backend[rank];
}

/* On the rank's device, as the test sees it. */
static inline void *gpu_rank_make(int rank, size_t bytes)
{
    const size_t i = gpu_ranks.used++;
    CUdeviceptr far = 0;

    assert_true(i < sizeof gpu_ranks.memory / sizeof gpu_ranks.memory[0]);
    gpu_ranks.set_current(gpu_rank(rank)->device.context);
    assert_int_equal(gpu_ranks.make(&far, bytes), CUDA_SUCCESS);
    gpu_ranks.set_current(NULL);
    gpu_ranks.memory[i].near = (char *)(uintptr_t)far - gpu_ranks.far;
    gpu_ranks.memory[i].rank = rank;
    return memset(gpu_ranks.memory[i].near, 0, bytes);
}

static inline void *gpu_far(const void *near)
{
    return (char *)(uintptr_t)near + gpu_ranks.far;
}

static inline void gpu_ranks_finish(void)
{
    for (int r = 0; r < GPU_RANKS; r++) {
        struct ss_backend *p = &gpu_ranks.backend[r].backend;
        if (gpu_ranks.opened[r])
            assert_int_equal(ss_backend_wait(p, p->ops->latest(p)), SS_OK);
        if (gpu_ranks.opened[r])
            gpu_backend_trim(&gpu_ranks.backend[r]);
    }
}

/* Backends are closed, memory is let go: all that there was. */
static inline void gpu_ranks_end(void)
{
    for (size_t i = 0; i < gpu_ranks.used; i++) {
        gpu_ranks.set_current(gpu_ranks.backend[gpu_ranks.memory[i].rank].device.context);
        gpu_ranks.free((CUdeviceptr)(uintptr_t)gpu_far(gpu_ranks.memory[i].near));
    }
    gpu_ranks.set_current(NULL);
    gpu_ranks.used = 0;
    for (int r = 0; r < GPU_RANKS; r++)
        if (gpu_ranks.opened[r])
            gpu_backend_close(&gpu_ranks.backend[r]);
    memset(gpu_ranks.opened, 0, sizeof gpu_ranks.opened);
}

#endif
