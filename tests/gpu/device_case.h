/* A test of a device is a process of its own, as a program is for a driver: with the driver for
 * tests, what an application calls of it, and one device. */
#ifndef TESTS_GPU_DEVICE_CASE_H
#define TESTS_GPU_DEVICE_CASE_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "gpu/queue/device.h"
#include "tests/gpu/emulated.h"

/* What an application calls. */
#define APPLICATION(X)                                                                             \
    X(cuInit, (unsigned))                                                                          \
    X(cuCtxGetCurrent, (CUcontext *))                                                              \
    X(cuCtxSetCurrent, (CUcontext))                                                                \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                           \
    X(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                      \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                      \
    X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                                          \
    X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned))                                        \
    X(cuMemFree_v2, (CUdeviceptr))                                                                 \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                 \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                         \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                              \
    X(cuStreamCreate, (CUstream *, unsigned))                                                      \
    X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                    \
    X(cuStreamEndCapture, (CUstream, void **))

static struct {
#define MEMBER(name, parameters) CUresult(*name) parameters;
    APPLICATION(MEMBER)
#undef MEMBER
} app;
static void *libcuda;
static struct gpu_driver driver;
static struct gpu_device device;
static char why[200];

static const unsigned fat_binary[] = {0xba55ed50u, 0, 0, 0};
static const void *const good_image[] = {fat_binary};
static const struct gpu_modules modules = {good_image, 1, 13000, NULL};

/* cmocka's do not work in a child. */
#define SAME(a, b)                                                                                 \
    do {                                                                                           \
        const long long a_ = (long long)(a), b_ = (long long)(b);                                  \
        if (a_ != b_) {                                                                            \
            fprintf(stderr, "line %d: %s is %lld, not %lld\n", __LINE__, #a, a_, b_);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define HOLDS(condition) SAME(!!(condition), 1)
#define DONE(call)       SAME(call, CUDA_SUCCESS)

static inline void open_driver(void)
{
    char path[4096];

    (void)setenv("TEST_CUDA_KERNELS", emulated_kernels(), 1);
    (void)snprintf(path, sizeof path, "%s", beside_me("driver/libcuda.so.1"));
    libcuda = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    HOLDS(libcuda);
    HOLDS(gpu_driver_find(&driver, libcuda) == NULL);
#define FIND(name, parameters) *(void **)(void *)&app.name = emulated_symbol(libcuda, #name);
    APPLICATION(FIND)
#undef FIND
}

/* Runs what it is given with a variable set ("NAME=VALUE" or NULL). The status of the process. */
static inline int in_child(void (*run)(void), const char *variable)
{
    int status = 0;
    pid_t child = fork();

    assert_int_not_equal(child, -1);
    if (child == 0) {
        for (int signal = 1; signal < 32; signal++)
            (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        (void)alarm(120);
        if (variable)
            (void)putenv((char *)(uintptr_t)variable);
        open_driver();
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static inline void passes(void (*run)(void), const char *variable)
{
    assert_int_equal(in_child(run, variable), 0);
}

static inline void open_device(int ordinal)
{
    const char *text;

    DONE(app.cuInit(0));
    text = gpu_device_open(&device, &driver, &modules, NULL, ordinal, why);
    if (text) {
        fprintf(stderr, "%s\n", text);
        _exit(1);
    }
    DONE(gpu_device_enter(&device));
}

static inline void finish(void)
{
    gpu_ticket all = gpu_record(&device);

    while (!gpu_passed(&device, all))
        ;
    SAME(device.queue.error, 0);
    gpu_device_leave(&device);
    gpu_device_close(&device);
}

#endif
