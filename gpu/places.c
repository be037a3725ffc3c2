/* A residual points to the place that it lies in for as long as its tensor is known: places are
 * never freed. That of a context which a reset has put another in place of stays behind, and says
 * of all that it is asked for that it will not be done. */
#include "gpu/places.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu/device_place.h"
#include "gpu/images.h"

enum { WHY = 200 };

struct known {
    struct known *next;
    CUcontext context;
    pthread_mutex_t lock; /* of what follows; held while the place is opened */
    bool tried, told;
    unsigned long long id; /* of the context that it was last tried in */
    _Atomic bool opened;
    struct gpu_place place;
};

struct primary {
    struct primary *next;
    int ordinal;
    CUcontext context;
};

static struct {
    pthread_mutex_t lock;
    struct known *list; /* the newest first */
    struct primary *primaries;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Memory of a pool belongs to the device at large: to its primary context, which is held from here
 * on, once; after a reset it is another one. */
static CUcontext primary_of(const struct gpu_driver *driver, int ordinal)
{
    struct primary *p = the.primaries;
    CUcontext context;
    CUdevice device;

    if (driver->device(&device, ordinal) != CUDA_SUCCESS ||
        driver->primary_retain(&context, device) != CUDA_SUCCESS)
        return NULL;
    while (p && (p->ordinal != ordinal || p->context != context))
        p = p->next;
    if (p)
        (void)driver->primary_release(device);
    if (p || !(p = malloc(sizeof *p)))
        return context;
    *p = (struct primary){the.primaries, ordinal, context};
    the.primaries = p;
    return context;
}

static CUcontext context_of(const struct gpu_driver *driver, const struct gpu_where *where)
{
    if (!where->device || where->managed)
        return NULL;
    return where->context ? where->context : primary_of(driver, where->ordinal);
}

static struct known *find(CUcontext context)
{
    struct known *k = the.list;

    while (k && k->context != context)
        k = k->next;
    return k;
}

static struct known *meet(CUcontext context)
{
    struct known *k = calloc(1, sizeof *k);

    if (!k)
        return NULL;
    k->context = context;
    pthread_mutex_init(&k->lock, NULL);
    k->next = the.list;
    the.list = k;
    return k;
}

/* The first one loads kernels and pins memory: who wants another place does not wait for that. One
 * that could not be opened is tried again in a context that has taken the place of its own. */
static void open_once(struct known *k, const struct gpu_driver *driver, char *why)
{
    unsigned long long id = 0;
    char text[WHY] = "";
    const char *lacking;

    if (k->opened)
        return;
    (void)driver->context_id(k->context, &id); /* 0 where it does not say */
    if (k->tried && id == k->id)
        return;
    k->id = id;
    lacking = gpu_place_open(&k->place, driver, &gpu_images, k->context, -1, text);
    if (lacking)
        (void)snprintf(why, WHY, "%s", lacking);
    k->told = lacking != NULL;
    k->opened = !lacking;
    k->tried = true;
}

static bool is_usable(struct known *k, const struct gpu_driver *driver, char *why)
{
    const int error = k->opened ? gpu_place_error(&k->place) : 0;

    if (error != 0 && !k->told) {
        (void)snprintf(why, WHY, "%s", gpu_error_name(driver, (CUresult)error));
        k->told = true;
    }
    return k->opened && error == 0;
}

static struct known *known(const struct gpu_driver *driver, const struct gpu_where *a,
                           const struct gpu_where *b)
{
    CUcontext context;
    struct known *k = NULL;

    pthread_mutex_lock(&the.lock);
    context = context_of(driver, a);
    if (context && context == context_of(driver, b)) {
        k = find(context);
        if (!k || (k->opened && gpu_place_is_replaced(&k->place)))
            k = meet(context);
    }
    pthread_mutex_unlock(&the.lock);
    return k;
}

struct ss_place *gpu_places_find(const struct gpu_driver *driver, const struct gpu_where *a,
                                 const struct gpu_where *b, char *why)
{
    struct known *k = known(driver, a, b);
    bool usable;

    if (!k)
        return NULL;
    pthread_mutex_lock(&k->lock);
    open_once(k, driver, why);
    usable = is_usable(k, driver, why);
    pthread_mutex_unlock(&k->lock);
    if (!usable)
        return NULL;
    gpu_place_after_program(&k->place);
    return &k->place.place;
}

void gpu_places_trim(void)
{
    pthread_mutex_lock(&the.lock);
    struct known *k = the.list;
    pthread_mutex_unlock(&the.lock);
    for (; k; k = k->next)
        if (k->opened)
            gpu_place_trim(&k->place);
}
