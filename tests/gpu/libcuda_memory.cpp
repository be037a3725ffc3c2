/* Memory of the driver for tests: where it lies, who has it, copies. */
#include "tests/gpu/libcuda_impl.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ---- where it lies ---- */

static bool is_device(const void *p)
{
    return (char *)p >= the.device_base && (char *)p < the.device_base + ARENA;
}

static bool is_managed(const void *p)
{
    return (char *)p >= the.host_base && (char *)p < the.host_base + ARENA;
}

const allocation *find(const void *p, size_t *left)
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

void *place(const void *p, size_t size)
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

void *place_argument(const void *p)
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

/* ---- allocations ---- */

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

/* ---- copies ---- */

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
