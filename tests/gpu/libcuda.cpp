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
#include "gpu/queue/driver.h"
#include "tests/gpu/emulate.h"

#include <atomic>
#include <deque>
#include <dlfcn.h>
#include <fcntl.h>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

static const size_t ARENA = 1ull << 38, GRAIN = 2u << 20;
enum { DEVICES_MOST = 2, CONTEXTS_MOST = 64, VERSION = 13000, THREADS_MOST = 1024, STICKY = 700 };
static const size_t MEMORY = 1ull << 34;

/* A device has a primary context; a reset puts another in its place. What is given others that have
 * been destroyed, which only a program's own can be, reads memory that is gone. */
struct CUctx_st {
    int device;
    bool alive, destroyed;
    unsigned long long id;
    CUresult error;
};
struct CUevent_st {
    CUcontext context;
    unsigned long long of; /* the id of that */
    bool done;
    unsigned long long turn, passed; /* recorded so often; the last that has come by */
};
struct operation {
    std::function<void()> run;
    CUevent wait;
    unsigned long long turn;
    CUcontext context;                       /* whose it is, as the legacy stream is one for all */
    const std::atomic<int> *until = nullptr; /* it ends once that is not 0 */
};
struct CUstream_st {
    CUcontext context;
    unsigned long long of;
    bool blocking, capturing;
    std::deque<operation> operations;
};
struct CUfunc_st {
    const emulated_kernel *kernel;
    CUcontext context;
};
struct CUmod_st {
    CUcontext context;
    std::deque<CUfunc_st> functions;
};
struct allocation {
    size_t size;
    CUcontext context;
    bool pool;
    unsigned long long id;
};
struct pinning {
    size_t size;
    CUcontext context;
    unsigned long long id;
};
typedef void launcher(void (*)(void **), void **, unsigned, unsigned, unsigned, uint64_t,
                      void *(*)(const void *));

/* Of kernels that are watched (tests/gpu/hazards.cpp); else nobody. */
struct watcher_of_memory {
    void (*arena)(const char *begin, size_t size);
    void (*allocated)(const char *p, size_t size, bool written);
    void (*freed)(const char *p);
    void (*written)(const char *p, size_t size);
};

struct driver {
    std::recursive_mutex lock;
    bool ready;
    char *device_base, *host_base; /* ARENA bytes each */
    size_t used, taken[DEVICES_MOST], limit;
    std::map<size_t, allocation> live;
    std::map<char *, pinning> pinned;
    CUctx_st context[DEVICES_MOST];
    std::set<CUstream> streams;
    CUstream_st legacy;
    unsigned long long seed, ids, allocations;
    void *kernels;
    launcher *launch;
    watcher_of_memory watcher;
    std::map<std::string, unsigned> calls, before; /* before the plan of a fault */
    std::string plan;
    int devices;
    unsigned long long crossed[2]; /* bytes to the host and from it */
    std::string order;             /* of long copies, as they were asked for */
    size_t pinned_bytes, pinned_most;
};

/* Contexts of a thread, the current one last. */
struct contexts {
    CUcontext of[CONTEXTS_MOST];
    size_t size;
    bool empty() const
    {
        return size == 0;
    }
    CUcontext &back()
    {
        return of[size - 1];
    }
    void pop_back()
    {
        size--;
    }
    void push_back(CUcontext context)
    {
        if (size == CONTEXTS_MOST)
            abort();
        of[size++] = context;
    }
};

/* Both serve exit handlers, too: nothing of them is destroyed before. */
static driver &the = *new driver();
static thread_local contexts stack;
static thread_local CUstreamCaptureMode capture_mode; /* 0: global */
static thread_local CUcontext running;                /* whose kernel or copy it is */

static void die(const char *what, const void *p)
{
    fprintf(stderr, "test driver: %s: %p\n", what, p);
    abort();
}

/* Nobody holds a lock of ours meanwhile, where those are counted (tests/preload/locks.c). Not said
 * of device memory that is made: the first call of a size makes it where it starts. */
static void may_wait(const char *function)
{
    static int (*const locks)() = (int (*)())dlsym(RTLD_DEFAULT, "test_locks_held");

    if (locks && locks() > 0)
        die((std::string(function) + " under a lock").c_str(), nullptr);
}

static unsigned draw(unsigned n)
{
    the.seed = the.seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(the.seed >> 33) % n;
}

/* ---- faults ---- */

static CUresult planned_fault(const char *name)
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

/* Begins every function; CONTEXT those that need one. */
#define ENTER                                                                                      \
    std::lock_guard<std::recursive_mutex> guard(the.lock);                                         \
    if (!the.ready)                                                                                \
        return CUDA_ERROR_NOT_INITIALIZED;                                                         \
    if (CUresult fault = planned_fault(__func__))                                                  \
    return fault
#define CONTEXT                                                                                    \
    ENTER;                                                                                         \
    if (stack.empty())                                                                             \
        return CUDA_ERROR_INVALID_CONTEXT;                                                         \
    CUcontext context = stack.back();                                                              \
    if (!context->alive)                                                                           \
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;                                                    \
    if (context->error != CUDA_SUCCESS)                                                            \
    return context->error

/* What a capture in global mode forbids. */
static bool forbidden(void)
{
    bool capturing = false;
    for (CUstream s : the.streams)
        capturing |= s->capturing;
    return capturing && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
}

/* ---- memory ---- */

static bool is_device(const void *p)
{
    return (char *)p >= the.device_base && (char *)p < the.device_base + ARENA;
}

static bool is_managed(const void *p)
{
    return (char *)p >= the.host_base && (char *)p < the.host_base + ARENA;
}

static const allocation *find(const void *p, size_t *left)
{
    if (!is_device(p) && !is_managed(p))
        return nullptr;
    size_t at = (size_t)((char *)p - (is_device(p) ? the.device_base : the.host_base));
    auto it = the.live.upper_bound(at);
    if (it == the.live.begin())
        return nullptr;
    --it;
    if (at - it->first >= it->second.size)
        return nullptr;
    if (left)
        *left = it->second.size - (at - it->first);
    return &it->second;
}

static const pinning *find_pinned(const void *p)
{
    auto it = the.pinned.upper_bound((char *)p);
    return it != the.pinned.begin() && (char *)p < (--it)->first + it->second.size ? &it->second
                                                                                   : nullptr;
}

static bool is_pinned(const void *p)
{
    return find_pinned(p) != nullptr;
}

/* Where a kernel or a copy of a context finds `size` bytes at p. */
static void *place(const void *p, size_t size)
{
    size_t left = 0;
    const allocation *a = find(p, &left);

    if (!p)
        return nullptr;
    if (is_pinned(p))
        return (void *)p;
    if (!is_device(p) && !is_managed(p))
        die("a kernel was given host memory that is not pinned", p);
    if (!a || left < size)
        die("a device address out of any allocation", p);
    if (running && a->context->device != running->device)
        die("an address of another device", p);
    return is_managed(p) ? (void *)p : the.host_base + ((char *)p - the.device_base);
}

/* Of nothing at all a kernel may be given the end of what lies before. */
static void *place_argument(const void *p)
{
    size_t left = 0;

    if (p && !is_pinned(p) && !find(p, &left) && find((const char *)p - 1, &left))
        return (char *)place((const char *)p - 1, 1) + 1;
    return place(p, 1);
}

static void *end_of_copy(const void *p, size_t size)
{
    return is_device(p) ? place(p, size) : (void *)p;
}

static void note_written(const void *p, size_t size)
{
    if (the.watcher.written && p >= the.host_base && p < the.host_base + ARENA)
        the.watcher.written((const char *)p, size);
}

static void copy_now(const void *to, const void *from, size_t size)
{
    void *at = end_of_copy(to, size);

    memcpy(at, end_of_copy(from, size), size);
    note_written(at, size);
}

/* ---- work ---- */

static bool run_one(CUstream s)
{
    if (s->operations.empty())
        return false;
    operation &o = s->operations.front();
    if ((o.wait && o.wait->passed < o.turn) || (o.until && *o.until == 0))
        return false;
    auto run = std::move(o.run);
    running = o.context;
    s->operations.pop_front();
    if (run)
        run();
    running = nullptr;
    return true;
}

static bool run_any(void)
{
    std::vector<CUstream> all(the.streams.begin(), the.streams.end());
    all.push_back(&the.legacy);
    for (size_t i = all.size(); i > 1; i--)
        std::swap(all[i - 1], all[draw((unsigned)i)]);
    for (CUstream s : all)
        if (run_one(s))
            return true;
    return false;
}

static void run_all(void)
{
    while (run_any())
        ;
}

static void drain(CUstream s)
{
    while (!s->operations.empty())
        if (!run_any())
            die("a stream waits for an event that nobody records", s);
}

/* What was made in a context is gone with it: a driver reads memory that is. */
template <class T> static void still_known(T *handle)
{
    if (handle->context->destroyed || handle->context->id != handle->of)
        die("a stream or an event of a context that is gone", handle);
}

/* The legacy stream comes after what blocking streams hold, and before what they get. */
static CUstream begin_work(CUstream s)
{
    if (s == nullptr || s == CU_STREAM_LEGACY) {
        for (CUstream x : the.streams)
            if (x->blocking)
                drain(x);
        the.legacy.context = stack.empty() ? nullptr : stack.back();
        return &the.legacy;
    }
    if (!the.streams.count(s))
        die("a stream that is not there", s);
    still_known(s);
    if (s->blocking)
        drain(&the.legacy);
    return s;
}

/* The legacy stream would become part of a capture of a stream that waits for it. */
static CUresult add(CUstream s, std::function<void()> run, CUevent wait = nullptr,
                    unsigned long long turn = 0)
{
    bool legacy = s == nullptr || s == CU_STREAM_LEGACY;
    for (CUstream x : the.streams)
        if (legacy && x->capturing && x->blocking)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    CUstream in = begin_work(s);
    in->operations.push_back({std::move(run), wait, turn, in->context});
    return CUDA_SUCCESS;
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

/* ---- memory ---- */

static CUresult allocate(CUdeviceptr *p, size_t size, CUcontext context, bool pool, bool managed)
{
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pool && forbidden())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (the.taken[context->device] + size > the.limit)
        return CUDA_ERROR_OUT_OF_MEMORY;
    the.taken[context->device] += size;
    the.live[the.used] = {size, context, pool, ++the.allocations};
    *p = (CUdeviceptr)(the.device_base + the.used);
    memset(the.host_base + the.used, 0xa5, size < GRAIN ? size : GRAIN);
    if (the.watcher.allocated)
        the.watcher.allocated(the.host_base + the.used, size, managed);
    the.used += (size + GRAIN - 1) / GRAIN * GRAIN + GRAIN;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t size)
{
    CONTEXT;
    return allocate(p, size, context, false, false);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *p, size_t size, CUstream)
{
    CONTEXT;
    return allocate(p, size, context, true, false);
}

/* One address for host and device. */
EXPORT CUresult cuMemAllocManaged(CUdeviceptr *p, size_t size, unsigned)
{
    CONTEXT;
    CUresult result = allocate(p, size, context, false, true);
    if (result == CUDA_SUCCESS)
        *p = (CUdeviceptr)(the.host_base + (*p - (CUdeviceptr)the.device_base));
    return result;
}

/* Tells a test whose driver it has. */
EXPORT const char test_driver[] = "test driver";

/* From where a test may look at device memory to the address of that memory. */
EXPORT ptrdiff_t test_driver_far(void)
{
    return the.device_base - the.host_base;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr p)
{
    may_wait(__func__);
    CONTEXT;
    if (forbidden())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    run_all();
    auto it = the.live.find(
        (size_t)((char *)p - (is_managed((void *)p) ? the.host_base : the.device_base)));
    if (it == the.live.end())
        die("freed, but not allocated", (void *)p);
    the.taken[it->second.context->device] -= it->second.size;
    (void)madvise(the.host_base + it->first, (it->second.size + GRAIN - 1) / GRAIN * GRAIN,
                  MADV_REMOVE);
    if (the.watcher.freed)
        the.watcher.freed(the.host_base + it->first);
    the.live.erase(it);
    return CUDA_SUCCESS;
}

/* For tests to look around while the driver is at work that may take long. */
static void (*watcher)(const char *function);

EXPORT void test_cuda_watch(void (*watch)(const char *))
{
    watcher = watch;
}

static void takes_long(const char *function)
{
    may_wait(function);
    if (watcher)
        watcher(function);
}

EXPORT CUresult cuMemHostAlloc(void **p, size_t size, unsigned)
{
    takes_long("cuMemHostAlloc");
    CONTEXT;
    if (forbidden())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    the.pinned[(char *)*p] = {size, context, ++the.allocations};
    the.pinned_bytes += size;
    if (the.pinned_bytes > the.pinned_most)
        the.pinned_most = the.pinned_bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeHost(void *p)
{
    takes_long("cuMemFreeHost");
    CONTEXT;
    auto it = the.pinned.find((char *)p);
    if (it == the.pinned.end())
        die("freed, but not pinned", p);
    run_all();
    the.pinned_bytes -= it->second.size;
    munmap(p, it->second.size);
    the.pinned.erase(it);
    return CUDA_SUCCESS;
}

/* Checked when it is asked for and again when it runs. Memory that is not pinned is copied at
 * once: from there now, to there behind all that is before it. */
static CUresult copy(void *to, const void *from, size_t size, CUstream s)
{
    (void)end_of_copy(to, size);
    (void)end_of_copy(from, size);
    if (!is_device(from) && !is_managed(from) && !is_pinned(from)) {
        may_wait("a copy from memory that is not pinned");
        std::string kept((const char *)from, size);
        return add(s, [=] { copy_now(to, kept.data(), size); });
    }
    CUresult result = add(s, [=] { copy_now(to, from, size); });
    if (result == CUDA_SUCCESS && !is_device(to) && !is_managed(to) && !is_pinned(to)) {
        may_wait("a copy to memory that is not pinned");
        drain(begin_work(s));
    }
    return result;
}

/* A kernel in the legacy stream that ends once the host has set the flag. */
EXPORT void test_cuda_hold(const std::atomic<int> *until)
{
    std::lock_guard<std::recursive_mutex> guard(the.lock);
    begin_work(nullptr)->operations.push_back({nullptr, nullptr, 0, the.legacy.context, until});
}

/* Bytes that asynchronous copies have brought to the host, and from it. */
EXPORT void test_cuda_crossed(unsigned long long *to_host, unsigned long long *from_host)
{
    *to_host = the.crossed[0];
    *from_host = the.crossed[1];
}

/* Of copies of 256 KiB and more in streams other than the legacy one since it was asked last: D to
 * the host, U from it; and the most bytes that were pinned since then. */
EXPORT void test_cuda_order(char *text, size_t room, size_t *pinned)
{
    std::lock_guard<std::recursive_mutex> guard(the.lock);
    snprintf(text, room, "%s", the.order.c_str());
    *pinned = the.pinned_most;
    the.order.clear();
    the.pinned_most = the.pinned_bytes;
}

static void note_order(char which, size_t n, CUstream s)
{
    if (n >= 256u << 10 && s != nullptr && s != CU_STREAM_LEGACY)
        the.order += which;
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
    CONTEXT;
    note_order('U', n, s);
    the.crossed[1] += n;
    return copy((void *)to, from, n, s);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
    CONTEXT;
    note_order('D', n, s);
    the.crossed[0] += n;
    return copy(to, (void *)from, n, s);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    CONTEXT;
    return copy((void *)to, (void *)from, n, s);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
    may_wait(__func__);
    CONTEXT;
    CUresult result = copy((void *)to, from, n, nullptr);
    drain(&the.legacy);
    return result;
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
    may_wait(__func__);
    CONTEXT;
    CUresult result = copy(to, (void *)from, n, nullptr);
    drain(&the.legacy);
    return result;
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned word, size_t n, CUstream s)
{
    CONTEXT;
    if (to % 4 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    running = context;
    (void)place((void *)to, 4 * n);
    running = nullptr;
    return add(s, [=] {
        unsigned *at = (unsigned *)place((void *)to, 4 * n);
        for (size_t i = 0; i < n; i++)
            at[i] = word;
        note_written(at, 4 * n);
    });
}

EXPORT CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *which, void **to,
                                       CUdeviceptr p)
{
    ENTER;
    const allocation *a = find((void *)p, nullptr);

    /* It may say what has gone wrong before. */
    if (!stack.empty() && stack.back()->error != CUDA_SUCCESS)
        return stack.back()->error;
    if (a && a->context->error != CUDA_SUCCESS)
        return a->context->error;
    for (unsigned i = 0; i < n; i++)
        switch (which[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)to[i] = a                      ? CU_MEMORYTYPE_DEVICE
                                 : is_pinned((void *)p) ? CU_MEMORYTYPE_HOST
                                                        : 0;
            break;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            *(CUcontext *)to[i] = a && !a->pool ? a->context : nullptr;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)to[i] = a ? a->context->device : -2;
            break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            *(unsigned long long *)to[i] = a                      ? a->id
                                           : is_pinned((void *)p) ? find_pinned((void *)p)->id
                                                                  : 0;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_SUCCESS;
}

/* ---- streams and events ---- */

EXPORT CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
    CONTEXT;
    *s = new CUstream_st{context, context->id, !(flags & CU_STREAM_NON_BLOCKING), false, {}};
    the.streams.insert(*s);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream s)
{
    may_wait(__func__);
    CONTEXT;
    drain(begin_work(s));
    the.streams.erase(s);
    delete s;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream s)
{
    may_wait(__func__);
    CONTEXT;
    drain(begin_work(s));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode)
{
    CONTEXT;
    s->capturing = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream s, void **graph)
{
    CONTEXT;
    s->capturing = false;
    *graph = nullptr;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
    CONTEXT;
    *status = 0;
    if (s != nullptr && s != CU_STREAM_LEGACY) {
        *status = s->capturing;
        return CUDA_SUCCESS;
    }
    for (CUstream x : the.streams)
        if (x->capturing && x->blocking)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER;
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *e, unsigned)
{
    CONTEXT;
    *e = new CUevent_st{context, context->id, true, 0, 0};
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent e)
{
    CONTEXT;
    still_known(e);
    while (!e->done && run_any())
        ;
    delete e;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream s)
{
    CONTEXT;
    still_known(e);
    if (e->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    unsigned long long turn = ++e->turn;
    e->done = false;
    return add(s, [=] {
        e->passed = turn > e->passed ? turn : e->passed;
        e->done = e->passed == e->turn;
    });
}

EXPORT CUresult cuEventQuery(CUevent e)
{
    CONTEXT;
    still_known(e);
    if (!e->done)
        run_any();
    return e->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* It keeps no time. */
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent, CUevent)
{
    CONTEXT;
    *ms = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent e)
{
    may_wait(__func__);
    CONTEXT;
    still_known(e);
    while (!e->done)
        if (!run_any())
            die("an event that cannot come", e);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned)
{
    CONTEXT;
    still_known(e);
    return e->done ? CUDA_SUCCESS : add(s, nullptr, e, e->turn);
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
