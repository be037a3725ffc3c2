/* A CUDA driver for tests (libcuda.so.1): two devices whose memory the host may not touch. Device
 * addresses are a reserved range without access; what they hold lies at other addresses that only
 * this library knows. Work in streams waits until somebody asks for it or synchronises; streams
 * take turns in a drawn order, and the rules of the legacy stream are kept. Addresses are never
 * used again; what is freed, foreign or of another device aborts with a word. Kernels are the
 * emulated ones.
 *
 * TEST_CUDA_KERNELS  library of emulated kernels; those that are watched hear of memory, too
 * TEST_CUDA_SEED     of all orders
 * TEST_CUDA_MEMORY   bytes of each device
 * TEST_CUDA_VERSION  what cuDriverGetVersion says
 * TEST_CUDA_DEVICES  how many there are; 0: cuInit fails
 * TEST_CUDA_FAIL     NAME:N:ERROR: call N of that function returns the error; from 700 on it stays;
 *                    +N: the N-th from where the variable was set
 */
#include "tests/gpu/libcuda_impl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Serves exit handlers, too, as the stack of each thread: nothing of them is destroyed before. */
driver &the = *new driver();

void die(const char *what, const void *p)
{
    fprintf(stderr, "test driver: %s: %p\n", what, p);
    abort();
}

void may_wait(const char *function)
{
    static int (*const locks)() = (int (*)())dlsym(RTLD_DEFAULT, "test_locks_held");

    if (locks && locks() > 0)
        die((std::string(function) + " under a lock").c_str(), nullptr);
}

/* For tests to look around while the driver is at work that may take long. */
static void (*watcher)(const char *function);

EXPORT void test_cuda_watch(void (*watch)(const char *))
{
    watcher = watch;
}

void takes_long(const char *function)
{
    may_wait(function);
    if (watcher)
        watcher(function);
}

unsigned draw(unsigned n)
{
    the.seed = the.seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(the.seed >> 33) % n;
}

CUresult planned_fault(const char *name)
{
    const char *text = getenv("TEST_CUDA_FAIL");
    const std::string plan = text ? text : "";
    char which[64];
    unsigned number;
    int error;

    if (plan != the.plan) {
        the.plan = plan;
        the.before = the.calls;
    }
    const unsigned call = ++the.calls[name];
    if (sscanf(plan.c_str(), "%63[^:]:+%u:%d", which, &number, &error) == 3)
        number += the.before[which];
    else if (sscanf(plan.c_str(), "%63[^:]:%u:%d", which, &number, &error) != 3)
        return CUDA_SUCCESS;
    if (strcmp(which, name) != 0 || number != call)
        return CUDA_SUCCESS;
    if (error >= STICKY && !stack.empty())
        stack.back()->error = error;
    return error;
}

/* ---- driver, devices ---- */

static size_t number_from(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 0) : otherwise;
}

static void new_context(int device)
{
    the.context[device].device = device;
    the.context[device].destroyed = false;
    the.context[device].id = ++the.ids;
    the.context[device].alive = false;
    the.context[device].error = CUDA_SUCCESS;
}

static bool open_kernels(void)
{
    const char *path = getenv("TEST_CUDA_KERNELS");

    if (the.kernels)
        return true;
    the.kernels = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!the.kernels) {
        fprintf(stderr, "test driver: TEST_CUDA_KERNELS: %s\n", path ? dlerror() : "not set");
        return false;
    }
    the.launch = (launcher *)dlsym(the.kernels, "emulated_launch");
    watcher_of_memory &w = the.watcher;
    w.arena = (decltype(w.arena))dlsym(the.kernels, "emulated_arena");
    w.allocated = (decltype(w.allocated))dlsym(the.kernels, "emulated_allocated");
    w.freed = (decltype(w.freed))dlsym(the.kernels, "emulated_freed");
    w.written = (decltype(w.written))dlsym(the.kernels, "emulated_written");
    if (w.arena)
        w.arena(the.host_base, ARENA);
    return true;
}

EXPORT CUresult cuInit(unsigned)
{
    std::lock_guard<std::recursive_mutex> guard(the.lock);
    int file;

    if (the.ready)
        return CUDA_SUCCESS;
    the.devices = (int)number_from("TEST_CUDA_DEVICES", DEVICES_MOST);
    if (the.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    file = memfd_create("device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)ARENA) != 0)
        return CUDA_ERROR_UNKNOWN;
    the.device_base =
        (char *)mmap(nullptr, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    the.host_base =
        (char *)mmap(nullptr, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (the.device_base == MAP_FAILED || the.host_base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    the.seed = number_from("TEST_CUDA_SEED", 1);
    the.limit = number_from("TEST_CUDA_MEMORY", MEMORY);
    the.legacy.blocking = true;
    for (int i = 0; i < the.devices; i++)
        new_context(i);
    if (getenv("TEST_CUDA_KERNELS"))
        (void)open_kernels();
    the.ready = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = (int)number_from("TEST_CUDA_VERSION", VERSION);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
    static const std::map<CUresult, const char *> names = {
        {CUDA_SUCCESS, "CUDA_SUCCESS"},
        {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    };
    auto it = names.find(error);
    *name = it == names.end() ? nullptr : it->second;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    ENTER;
    *count = the.devices;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER;
    *device = ordinal;
    return ordinal >= 0 && ordinal < the.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice)
{
    ENTER;
    *bytes = the.limit;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    ENTER;
    snprintf(name, (size_t)room, "test device %d", device);
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER;
    the.context[device].alive = true;
    *context = &the.context[device];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice)
{
    ENTER;
    return CUDA_SUCCESS;
}

/* All that was made in it. */
static void clear_context(CUcontext gone)
{
    for (CUstream s : the.streams)
        if (s->context == gone)
            s->operations.clear();
    for (auto it = the.live.begin(); it != the.live.end();) {
        if (it->second.context == gone)
            the.taken[gone->device] -= it->second.size;
        it = it->second.context == gone ? the.live.erase(it) : ++it;
    }
    for (auto it = the.pinned.begin(); it != the.pinned.end();) {
        if (it->second.context == gone) {
            the.pinned_bytes -= it->second.size;
            (void)mprotect(it->first, it->second.size, PROT_NONE);
        }
        it = it->second.context == gone ? the.pinned.erase(it) : ++it;
    }
}

/* All of the device is gone; the next one retained has the same address and another id. */
EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    ENTER;
    clear_context(&the.context[device]);
    new_context(device);
    return CUDA_SUCCESS;
}

static void still_there(CUcontext context)
{
    if (context && context->destroyed)
        die("a context that was destroyed", context);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned, CUdevice device)
{
    ENTER;
    *context = new CUctx_st{device, true, false, ++the.ids, CUDA_SUCCESS};
    stack.push_back(*context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER;
    still_there(context);
    clear_context(context);
    if (!stack.empty() && stack.back() == context)
        stack.pop_back();
    context->destroyed = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER;
    *context = stack.empty() ? nullptr : stack.back();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER;
    still_there(context);
    if (!stack.empty())
        stack.pop_back();
    if (context)
        stack.push_back(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER;
    still_there(context);
    stack.push_back(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER;
    if (stack.empty())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void)
{
    may_wait(__func__);
    CONTEXT;
    run_all();
    return CUDA_SUCCESS;
}

/* ---- kernels ---- */

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    takes_long("cuModuleLoadData");
    CONTEXT;
    if (*(const unsigned *)image != 0xba55ed50u) /* a fat binary */
        return CUDA_ERROR_INVALID_IMAGE;
    if (!open_kernels())
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *module = new CUmod_st{context, {}};
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    may_wait(__func__);
    CONTEXT;
    delete module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
    CONTEXT;
    auto kernel =
        (const emulated_kernel *)dlsym(the.kernels, (std::string("emulated_") + name).c_str());
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    module->functions.push_back({kernel, module->context});
    *f = &module->functions.back();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, CUstream s, void **params,
                               void **extra)
{
    CONTEXT;
    if (gx == 0 || gy != 1 || gz != 1 || by != 1 || bz != 1 || bx > THREADS_MOST || extra || shared)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->context != context || (s && s != CU_STREAM_LEGACY && s->context != context))
        return CUDA_ERROR_INVALID_HANDLE;
    const emulated_kernel *k = f->kernel;
    std::vector<std::string> kept;
    for (unsigned i = 0; i < k->params; i++)
        kept.emplace_back((const char *)params[i], k->sizes[i]);
    uint64_t order = the.seed;
    (void)draw(2);
    return add(s, [=]() mutable {
        std::vector<void *> p;
        for (auto &x : kept)
            p.push_back((void *)x.data());
        the.launch(k->run, p.data(), gx, bx, 1 + (unsigned)(order % 4), order, place_argument);
    });
}
