/* A backend for each context whose memory was met. A residual points to the backend that it lies
 * in: backends are never freed. The backend of a context that is gone fails all that it is asked
 * for. */
#include "gpu/door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/backend/device_backend.h"
#include "gpu/queue/modules.h"

enum { DEVICES_MOST = 64 };

struct known {
    struct known *next;
    CUcontext context;
    pthread_mutex_t lock; /* of what follows; held while the backend is opened */
    bool tried;
    char failed[GPU_WHY]; /* why it cannot be opened */
    _Atomic bool opened;
    struct gpu_backend backend;
};

static struct {
    struct gpu_driver driver;
    pthread_mutex_t lock;
    struct known *list;
    CUcontext primary[DEVICES_MOST]; /* retained, by ordinal */
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *start(void *library)
{
    return gpu_driver_find(&the.driver, library);
}

/* The kernel reads eight bytes there before it finds that they cannot be used as asked. */
static bool is_readable(const void *p)
{
    enum { NO_WAY = -1, SET = 8 };
    const int before = errno;
    const void *word = (const void *)((uintptr_t)p / SET * SET);
    const bool readable =
        syscall(SYS_rt_sigprocmask, (long)NO_WAY, word, NULL, (size_t)SET) == 0 || errno != EFAULT;

    errno = before;
    return readable;
}

/* If the driver does not say, what the host cannot read is a device's. */
static bool on_device(const void *p)
{
    const struct gpu_where where = gpu_where(&the.driver, p);

    return where.device || (where.error != CUDA_SUCCESS && !is_readable(p));
}

/* Memory of a pool belongs to the primary context of its device. */
static CUcontext context_of(const struct gpu_where *where)
{
    CUcontext *primary;
    CUdevice device;

    if (!where->device || where->context)
        return where->context;
    if (where->ordinal < 0 || where->ordinal >= DEVICES_MOST)
        return NULL;
    primary = &the.primary[where->ordinal];
    if (!*primary && the.driver.device(&device, where->ordinal) == CUDA_SUCCESS)
        (void)the.driver.primary_retain(primary, device);
    return *primary;
}

static struct known *find(CUcontext context)
{
    struct known *k = the.list;

    while (k && k->context != context)
        k = k->next;
    if (k || !(k = calloc(1, sizeof *k)))
        return k;
    k->context = context;
    pthread_mutex_init(&k->lock, NULL);
    k->next = the.list;
    the.list = k;
    return k;
}

/* Opening loads kernels and pins memory: threads that want another backend do not wait for it. A
 * device that the kernels are not for, or that is too full for them, still copies. */
static bool open_once(struct known *k, char *why)
{
    pthread_mutex_lock(&k->lock);
    if (!k->tried) {
        const char *lacks =
            gpu_backend_open(&k->backend, &the.driver, &gpu_modules, k->context, -1, k->failed);
        if (lacks) {
            (void)snprintf(why, GPU_WHY, "%s", lacks);
            lacks = gpu_backend_open(&k->backend, &the.driver, NULL, k->context, -1, k->failed);
        }
        if (lacks && lacks != k->failed)
            (void)snprintf(k->failed, sizeof k->failed, "%s", lacks);
        k->opened = !lacks;
        k->tried = true;
    }
    if (!k->opened)
        (void)snprintf(why, GPU_WHY, "%s", k->failed);
    pthread_mutex_unlock(&k->lock);
    return k->opened;
}

static const char *error(struct ss_backend *backend)
{
    return gpu_error_name(&the.driver, (CUresult)gpu_backend_error(gpu_backend_of(backend)));
}

static struct ss_backend *backend(const void *a, const void *b, char *why)
{
    const struct gpu_where first = gpu_where(&the.driver, a), second = gpu_where(&the.driver, b);
    const CUresult unknown = first.error ? first.error : second.error;
    struct known *k = NULL;
    CUcontext context;

    why[0] = '\0';
    pthread_mutex_lock(&the.lock);
    context = context_of(&first);
    if (context && context == context_of(&second))
        k = find(context);
    pthread_mutex_unlock(&the.lock);
    if (unknown)
        (void)snprintf(why, GPU_WHY, "%s", gpu_error_name(&the.driver, unknown));
    else if (!context)
        (void)snprintf(why, GPU_WHY, "no context of a device");
    if (unknown || !k || !open_once(k, why))
        return NULL;
    gpu_backend_trim(&k->backend);
    gpu_backend_after_program(&k->backend);
    if (gpu_backend_error(&k->backend) == 0)
        return &k->backend.backend;
    (void)snprintf(why, GPU_WHY, "%s", error(&k->backend.backend));
    return NULL;
}

const struct gpu_door sparseshim_cuda = {
    .version = GPU_DOOR_VERSION,
    .start = start,
    .on_device = on_device,
    .backend = backend,
    .error = error,
};
