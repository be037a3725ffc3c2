#include "shim/device/memory.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/launcher.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

struct shim_memory shim_memory;

/* LEFT: the MPI library is CUDA-aware and gets calls with buffers in device memory. */
enum state { NO_DRIVER, ASKED, LEFT, IGNORED };

static struct {
    atomic_int state;
    _Atomic unsigned long long adds; /* number of libraries loaded, at the last look */
    pthread_mutex_t lock;
    pthread_once_t ranges;
    const struct gpu_door *part;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER, .ranges = PTHREAD_ONCE_INIT};

/* ---- stack and heap ---- */

/* Most bytes from the data of the program to its heap. The system draws the gap, at most a
 * gigabyte, and maps nothing in it. */
#define NEAR 0x80000000u

/* Most bytes of the heap. The system maps other memory further away. */
#define REACH ((uintptr_t)1 << 40)

/* Reads the bottom of the stack, the begin of the data and the begin of the heap: fields 28, 45 and
 * 47 of /proc/self/stat (proc(5)), 0 if the system keeps them secret. The name of the program,
 * field 2, may hold blanks and brackets. */
static void read_ranges(uintptr_t *stack, uintptr_t *heap)
{
    uintptr_t data = 0;
    char text[1024];
    const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    char *at;

    if (file >= 0)
        close(file);
    if (length <= 0)
        return;
    text[length] = '\0';
    at = strrchr(text, ')');
    for (int field = 3; at && (at = strchr(at, ' ')); field++) {
        at++;
        if (field == 28)
            *stack = (uintptr_t)strtoull(at, NULL, 10);
        if (field == 45)
            data = (uintptr_t)strtoull(at, NULL, 10);
        if (field == 47)
            *heap = (uintptr_t)strtoull(at, NULL, 10);
    }
    if (data != 0 && *heap - data < NEAR)
        *heap = data;
}

static void find_ranges(void)
{
    uintptr_t stack = 0, heap = 0;

    read_ranges(&stack, &heap);
    if (atomic_load(&the.state) >= LEFT)
        return;
    if (heap != 0)
        atomic_store(&shim_memory.heap, heap);
    if (stack > SHIM_STACK)
        atomic_store(&shim_memory.stack, stack - SHIM_STACK);
}

/* Reads the present end of the heap. Calls sbrk only for an address that may be in the heap, since
 * communication libraries put their own code before sbrk (UCX: 0.3 us). */
static void follow_heap(const void *p)
{
    const uintptr_t heap = atomic_load_explicit(&shim_memory.heap, memory_order_relaxed);
    uintptr_t size;

    if (heap == 0 || (uintptr_t)p - heap > REACH)
        return;
    size = (uintptr_t)sbrk(0) - heap;
    if (size <= REACH && size != atomic_load_explicit(&shim_memory.heap_size, memory_order_relaxed))
        atomic_store_explicit(&shim_memory.heap_size, size, memory_order_relaxed);
}

/* Makes every address plain, so that the shim stages no call. */
static void stage_nothing(enum state state)
{
    atomic_store(&the.state, (int)state);
    atomic_store(&shim_memory.heap_size, UINTPTR_MAX);
    atomic_store(&shim_memory.heap, 0);
}

void shim_memory_ignore(void)
{
    stage_nothing(IGNORED);
}

/* ---- the driver ---- */

static int count_adds(struct dl_phdr_info *info, size_t size, void *adds)
{
    (void)size;
    *(unsigned long long *)adds = info->dlpi_adds;
    return 1;
}

/* Copies the path of CUDA's driver, if it is loaded. Opens nothing, since dl_iterate_phdr holds the
 * loader's lock. */
static int find_driver(struct dl_phdr_info *info, size_t size, void *path)
{
    static const char name[] = "libcuda.so";
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash ? slash + 1 : info->dlpi_name;
    const size_t length = sizeof name - 1;

    (void)size;
    if (strncmp(file, name, length) != 0 || (file[length] != '.' && file[length] != '\0'))
        return 0;
    (void)snprintf(path, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

/* Opens libsparseshim_cuda.so in the directory of this library. Returns NULL on failure, with the
 * reason in `why`. */
static const struct gpu_door *open_part(char *why, size_t size)
{
    const struct gpu_door *part;
    char path[PATH_MAX];
    const char *slash;
    Dl_info info;
    void *library;

    if (dladdr(&shim, &info) == 0 || !info.dli_fname || !(slash = strrchr(info.dli_fname, '/'))) {
        (void)snprintf(why, size, "it is not known where this library lies");
        return NULL;
    }
    (void)snprintf(path, sizeof path, "%.*s/libsparseshim_cuda.so", (int)(slash - info.dli_fname),
                   info.dli_fname);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *text = dlerror();
        (void)snprintf(why, size, "%s", text ? text : path);
        return NULL;
    }
    part = dlsym(library, "sparseshim_cuda");
    if (part && part->version == GPU_DOOR_VERSION)
        return part;
    (void)snprintf(why, size, "%s belongs to another version of this library", path);
    return NULL;
}

static const struct gpu_door *start_part(const char *driver, char *why, size_t size)
{
    void *library = dlopen(driver, RTLD_LAZY | RTLD_NOLOAD);
    const struct gpu_door *part = library ? open_part(why, size) : NULL;
    const char *lacking = part ? part->start(library) : NULL;

    if (!library)
        (void)snprintf(why, size, "%s cannot be opened", driver);
    if (lacking)
        (void)snprintf(why, size, "%s lacks %s", driver, lacking);
    return lacking ? NULL : part;
}

/* Returns true if the MPI library gets calls with buffers in device memory. Partial sums need
 * copies of the buffers in any case. */
static bool leaves_devices(void)
{
    return shim.options.device != CFG_DEVICE_CUDA && shim.settings.quorum == SS_QUORUM_ALL &&
           shim_real_is_cuda_aware();
}

static void tell_left(void)
{
    if (ss_launcher_rank() <= 0)
        shim_say(CFG_DEBUG_INFO,
                 "the MPI library is CUDA-aware: it gets buffers in device memory as they are");
}

/* Decides who serves device memory, once CUDA's driver is loaded: the shim, or a CUDA-aware MPI
 * library. Without the part that asks the driver, a CUDA-aware library gets every call. */
static void settle(const char *driver)
{
    const bool leaves = leaves_devices();
    char why[PATH_MAX + 100];

    the.part = start_part(driver, why, sizeof why);
    if (!the.part)
        shim_say(CFG_DEBUG_WARN, "the program uses CUDA, but %s; the MPI library gets %s", why,
                 leaves ? "all calls" : "buffers in device memory as they are");
    else if (leaves)
        tell_left();
    if (the.part && !leaves)
        atomic_store(&the.state, ASKED);
    else
        stage_nothing(leaves ? LEFT : IGNORED);
}

static bool look_again(unsigned long long adds)
{
    char driver[PATH_MAX] = "";

    (void)pthread_mutex_lock(&the.lock);
    if (atomic_load(&the.state) == NO_DRIVER) {
        (void)dl_iterate_phdr(find_driver, driver);
        if (driver[0])
            settle(driver);
        else
            atomic_store(&the.adds, adds);
    }
    (void)pthread_mutex_unlock(&the.lock);
    return atomic_load(&the.state) == ASKED;
}

static bool driver_is_there(void)
{
    const int state = atomic_load_explicit(&the.state, memory_order_acquire);
    unsigned long long adds = 0;

    if (state != NO_DRIVER)
        return state == ASKED;
    (void)dl_iterate_phdr(count_adds, &adds);
    return adds != atomic_load_explicit(&the.adds, memory_order_relaxed) && look_again(adds);
}

/* ---- the question ---- */

/* Returns true if only the driver can tell where an address lies. NULL and MPI_IN_PLACE, which is
 * -1 or 1, are no addresses. */
static bool is_open(const void *p)
{
    if ((uintptr_t)p + 1 <= 2 || shim_is_plain(p))
        return false;
    follow_heap(p);
    return !shim_is_plain(p);
}

void shim_memory_find(void)
{
    (void)pthread_once(&the.ranges, find_ranges);
}

bool shim_is_device(const void *a, const void *b)
{
    if (atomic_load_explicit(&shim_memory.stack, memory_order_relaxed) == 0)
        shim_memory_find();
    if (atomic_load_explicit(&the.state, memory_order_relaxed) >= LEFT)
        return false;
    const bool ask_a = is_open(a), ask_b = b != a && is_open(b);
    return (ask_a || ask_b) && driver_is_there() &&
           ((ask_a && the.part->on_device(a)) || (ask_b && the.part->on_device(b)));
}

static bool is_left(const void *p)
{
    return (uintptr_t)p + 1 > 1 && (!the.part || the.part->on_device(p));
}

bool shim_leaves(const void *a, const void *b)
{
    return atomic_load_explicit(&the.state, memory_order_acquire) == LEFT &&
           (is_left(a) || (b != a && is_left(b)));
}

bool shim_asks_devices(void)
{
    return driver_is_there();
}

const struct gpu_door *shim_door(void)
{
    return the.part;
}
