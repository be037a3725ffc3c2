/* A device for programs that look at real ones: the driver that is installed, or GPU_LIBCUDA, and
 * the kernels of the library beside. */
#ifndef TESTS_GPU_REAL_DEVICE_H
#define TESTS_GPU_REAL_DEVICE_H

#include "gpu/queue/modules.h"
#include "tests/gpu/emulated.h"

struct real_device {
    void *libcuda;
    struct gpu_driver driver;
    struct gpu_device device;
};

static inline bool real_failed(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why ? why : "unknown");
    return false;
}

/* The driver for tests takes any. */
static inline const struct gpu_modules *real_modules(void *libcuda)
{
    static const unsigned fat_binary[] = {0xba55ed50u, 0, 0, 0};
    static const void *const image[] = {fat_binary};
    static const struct gpu_modules none = {image, 1, 13000, NULL};
    void *library;

    if (dlsym(libcuda, "test_driver"))
        return &none;
    library = dlopen(beside_me("../../libsparseshim_cuda.so"), RTLD_NOW);
    return library ? (const struct gpu_modules *)emulated_symbol(library, "gpu_modules") : NULL;
}

static inline bool real_open(struct real_device *r)
{
    const char *path = getenv("GPU_LIBCUDA"), *text;
    CUresult (*initialise)(unsigned);
    static char why[200];

    r->libcuda = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    if (!r->libcuda)
        return real_failed("the driver", dlerror());
    text = gpu_driver_find(&r->driver, r->libcuda);
    if (text)
        return real_failed("the driver lacks", text);
    *(void **)(void *)&initialise = emulated_symbol(r->libcuda, "cuInit");
    if (initialise(0) != CUDA_SUCCESS)
        return real_failed("cuInit", "no device");
    const struct gpu_modules *modules = real_modules(r->libcuda);
    if (!modules)
        return real_failed("libsparseshim_cuda.so", dlerror());
    text = gpu_device_open(&r->device, &r->driver, modules, NULL, 0, why);
    if (text)
        return real_failed("the device", text);
    return gpu_device_enter(&r->device) == CUDA_SUCCESS;
}

static inline void real_check(const struct real_device *r, CUresult error)
{
    if (error == CUDA_SUCCESS)
        return;
    (void)real_failed("the driver", gpu_error_name(&r->driver, error));
    exit(1);
}

static inline void real_close(struct real_device *r)
{
    gpu_device_leave(&r->device);
    gpu_device_close(&r->device);
}

#endif
