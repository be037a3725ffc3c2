#include "gpu/staging.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/crossing.h"
#include "gpu/device_place_impl.h"
#include "gpu/places.h"

/* Images that are kept idle, and what the shortest is made for: pinning takes half a millisecond.
 */
enum { KEPT_MOST = 16, SHORTEST = 64 << 10 };

struct context {
    struct context *next;
    CUcontext context; /* NULL: of memory that belongs to the device at large */
    int ordinal;
    pthread_mutex_t opening; /* taken before the lock of all */
    bool open;
    struct gpu_device device;
    struct gpu_crossings crossings; /* there once an image is not pinned */
};

struct gpu_image {
    struct gpu_image *next; /* those used last come first */
    struct context *on;     /* NULL: its context is gone, and what was pinned there with it */
    void *host;
    unsigned long long number; /* gpu_allocation of it */
    size_t room;
    bool pinned, busy;
    bool lost;    /* not pinned, and its context is gone */
    bool behind;  /* the program's work */
    void *memory; /* of the device */
    size_t bytes;
    gpu_ticket ticket;
    bool crosses; /* through the slots of its context */
    struct gpu_crossing crossing;
};

static struct {
    pthread_mutex_t lock;
    struct gpu_driver driver;
    struct context *contexts;
    struct gpu_image *images;
    size_t pinned; /* bytes */
    unsigned idle;
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

/* Where the driver does not say, what the host cannot read is a device's. */
static bool on_device(const void *p)
{
    const struct gpu_where where = gpu_where(&the.driver, p);

    return where.device || (where.error != CUDA_SUCCESS && !is_readable(p));
}

/* ---- contexts ---- */

/* A reset has taken the context and all that was made there. */
static void forget(struct context *c)
{
    for (struct gpu_image **at = &the.images; *at;) {
        struct gpu_image *image = *at;
        if (image->on != c || !image->pinned) {
            image->lost = image->lost || image->on == c;
            image->crosses = image->crosses && image->on != c;
            at = &image->next;
            continue;
        }
        *at = image->next;
        the.pinned -= image->room;
        image->on = NULL;
        if (image->busy)
            continue;
        the.idle--;
        free(image);
    }
    c->crossings = (struct gpu_crossings){.memory = NULL};
    c->open = false;
}

static struct context *find(const struct gpu_where *where)
{
    struct context *c = the.contexts;

    while (c && (c->context != where->context || (!c->context && c->ordinal != where->ordinal)))
        c = c->next;
    if (c)
        return c;
    c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->context = where->context;
    c->ordinal = where->ordinal;
    (void)pthread_mutex_init(&c->opening, NULL);
    c->next = the.contexts;
    the.contexts = c;
    return c;
}

/* The context that the memory at p is of, as it was left. */
static struct context *find_open(const struct gpu_where *where, bool *open)
{
    struct context *c;

    (void)pthread_mutex_lock(&the.lock);
    c = find(where);
    if (c && c->open && !gpu_is_alive(&c->device))
        forget(c);
    *open = c && c->open;
    (void)pthread_mutex_unlock(&the.lock);
    return c;
}

/* Without the lock of all: making what it needs may wait for the device. */
static bool open_now(struct context *c, char *why)
{
    struct gpu_device fresh;
    bool open;

    (void)pthread_mutex_lock(&c->opening);
    (void)pthread_mutex_lock(&the.lock);
    open = c->open; /* by another thread */
    (void)pthread_mutex_unlock(&the.lock);
    if (!open && !gpu_device_open(&fresh, &the.driver, NULL, c->context, c->ordinal, why)) {
        (void)pthread_mutex_lock(&the.lock);
        c->device = fresh;
        open = c->open = true;
        (void)pthread_mutex_unlock(&the.lock);
    }
    (void)pthread_mutex_unlock(&c->opening);
    return open;
}

/* The state of the context that the memory at p is of. */
static struct context *open_context(const void *p, char *why)
{
    const struct gpu_where where = gpu_where(&the.driver, p);
    bool open = false;
    struct context *c = where.device ? find_open(&where, &open) : NULL;

    if (!c)
        (void)snprintf(why, GPU_STAGING_WHY, "%s",
                       where.device  ? "out of memory"
                       : where.error ? gpu_error_name(&the.driver, where.error)
                                     : "no memory of a device");
    return c && (open || open_now(c, why)) ? c : NULL;
}

/* Under the lock. */
static bool is_usable(const struct context *c, char *why)
{
    if (c->open && c->device.queue.error == 0)
        return true;
    (void)snprintf(why, GPU_STAGING_WHY, "%s",
                   c->open ? gpu_error_name(&the.driver, (CUresult)c->device.queue.error)
                           : "the context of the device is gone");
    return false;
}

/* ---- images ---- */

static void unlink_image(struct gpu_image *image)
{
    struct gpu_image **at = &the.images;

    while (*at != image)
        at = &(*at)->next;
    *at = image->next;
}

static void move_to(struct gpu_image **gone, struct gpu_image *image)
{
    unlink_image(image);
    the.pinned -= image->pinned ? image->room : 0;
    image->next = *gone;
    *gone = image;
}

/* Pinned memory; that of a context that is gone is gone with it. */
static void unpin(const struct gpu_image *image)
{
    unsigned long long number = image->number;
    int error;

    gpu_allocation(&the.driver, image->host, &number);
    if (number != image->number)
        return;
    error = gpu_pinned_free_beside(&image->on->device, image->host);
    (void)pthread_mutex_lock(&the.lock);
    gpu_note_beside(&image->on->device, error);
    (void)pthread_mutex_unlock(&the.lock);
}

/* Without the lock: that may wait for the device. */
static void free_images(struct gpu_image *gone)
{
    struct gpu_image *image;

    while ((image = gone) != NULL) {
        gone = image->next;
        if (image->pinned)
            unpin(image);
        else
            free(image->host);
        free(image);
    }
}

/* The idle one that was used longest ago. */
static bool drop_oldest(struct gpu_image **gone)
{
    struct gpu_image *oldest = NULL;

    for (struct gpu_image *image = the.images; image; image = image->next)
        if (!image->busy)
            oldest = image;
    if (!oldest)
        return false;
    move_to(gone, oldest);
    the.idle--;
    return true;
}

/* The shortest idle one with room that is not much too large. */
static struct gpu_image *reuse(const struct context *c, size_t bytes)
{
    struct gpu_image *best = NULL;

    for (struct gpu_image *image = the.images; image; image = image->next)
        if (!image->busy && image->on == c && image->room >= bytes &&
            (image->room == SHORTEST || image->room / 4 <= bytes) &&
            (!best || image->room < best->room))
            best = image;
    if (!best)
        return NULL;
    the.idle--;
    unlink_image(best);
    return best;
}

/* One without memory yet; *pin: which is to be pinned, and counts as that. */
static struct gpu_image *announce(struct context *c, size_t bytes, size_t limit, bool *pin,
                                  struct gpu_image **gone)
{
    struct gpu_image *image = calloc(1, sizeof *image);
    const size_t room = bytes < SHORTEST ? SHORTEST : bytes;

    if (!image)
        return NULL;
    *image = (struct gpu_image){.on = c, .room = room};
    while (the.pinned + room > limit && drop_oldest(gone))
        ;
    *pin = the.pinned + room <= limit;
    the.pinned += *pin ? room : 0;
    return image;
}

static void begin(struct gpu_image *image, const void *p, size_t bytes)
{
    image->next = the.images;
    the.images = image;
    image->busy = true;
    image->lost = image->behind = image->crosses = false;
    image->memory = (void *)(uintptr_t)p;
    image->bytes = bytes;
    image->ticket = 0;
}

static void remove_image(struct gpu_image *image)
{
    (void)pthread_mutex_lock(&the.lock);
    unlink_image(image);
    (void)pthread_mutex_unlock(&the.lock);
    free(image);
}

/* What unpinned images of the context cross in, made without the lock. Where there is no memory for
 * that their copies are the driver's, and wait for the device. */
static void furnish_crossings(struct context *c)
{
    void *memory = NULL, *taken = NULL;
    bool wanted;
    int error;

    (void)pthread_mutex_lock(&the.lock);
    wanted = c->open && !c->crossings.memory;
    (void)pthread_mutex_unlock(&the.lock);
    if (!wanted)
        return;
    error = gpu_pinned_make_beside(&c->device, (size_t)GPU_CROSSING_SLOTS * GPU_CROSSING_BYTES,
                                   &memory);
    (void)pthread_mutex_lock(&the.lock);
    if (c->open)
        gpu_note_beside(&c->device, error);
    if (c->open && !c->crossings.memory)
        c->crossings.memory = taken = memory;
    (void)pthread_mutex_unlock(&the.lock);
    if (memory && !taken) /* another thread was first */
        (void)gpu_pinned_free_beside(&c->device, memory);
}

/* Its memory, made without the lock, which pinning may hold for long; nobody else uses it. False:
 * there is none, nor the image any more. */
static bool furnish(struct gpu_image *image, bool pin, bool pinned)
{
    struct context *c = image->on;
    void *memory = NULL;
    int error = 0;

    if (pin)
        error = gpu_pinned_make_beside(&c->device, image->room, &memory);
    (void)pthread_mutex_lock(&the.lock);
    if (!image->lost)
        gpu_note_beside(&c->device, error);
    the.pinned -= pin && !memory ? image->room : 0;
    image->pinned = memory != NULL;
    image->host = memory;
    if (memory)
        gpu_allocation(&the.driver, memory, &image->number);
    (void)pthread_mutex_unlock(&the.lock);
    if (!image->host && !pinned) {
        image->host = malloc(image->room);
        furnish_crossings(c);
    }
    if (image->host)
        return true;
    remove_image(image);
    return false;
}

static struct gpu_image *take(const void *p, size_t bytes, size_t limit, bool pinned, char *why)
{
    struct gpu_image *image = NULL, *gone = NULL;
    struct context *c = open_context(p, why);
    bool usable, pin = false;

    if (!c)
        return NULL;
    (void)pthread_mutex_lock(&the.lock);
    usable = is_usable(c, why);
    if (usable)
        image = reuse(c, bytes);
    if (usable && !image)
        image = announce(c, bytes, limit, &pin, &gone);
    if (image)
        begin(image, p, bytes);
    (void)pthread_mutex_unlock(&the.lock);
    free_images(gone);
    if (!usable || (image && (image->host || furnish(image, pin, pinned))))
        return image;
    (void)snprintf(why, GPU_STAGING_WHY, "no memory on the host for %zu bytes of a device", bytes);
    return NULL;
}

static void *host(const struct gpu_image *image)
{
    return image->host;
}

static void give(struct gpu_image *image)
{
    struct gpu_image *gone = NULL;

    (void)pthread_mutex_lock(&the.lock);
    image->busy = false;
    if (image->crosses)
        gpu_crossing_leave(&image->crossing, &image->on->crossings);
    if (!image->on)
        free(image);
    else if (!image->pinned)
        move_to(&gone, image);
    else
        the.idle++;
    (void)pthread_mutex_unlock(&the.lock);
    free_images(gone);
}

static void trim(void)
{
    struct gpu_image *gone = NULL;

    (void)pthread_mutex_lock(&the.lock);
    while (the.idle > KEPT_MOST && drop_oldest(&gone))
        ;
    (void)pthread_mutex_unlock(&the.lock);
    free_images(gone);
    gpu_places_trim();
}

/* ---- places ---- */

/* Addresses that the program has put together itself (cuMemMap) may go on on another device. */
static bool spans_devices(const struct gpu_where *where, const void *p, size_t bytes)
{
    return bytes > 0 && where->device && !where->context &&
           gpu_where(&the.driver, (const char *)p + bytes - 1).ordinal != where->ordinal;
}

static struct ss_place *place(const void *a, size_t a_bytes, const void *b, size_t b_bytes,
                              char *why)
{
    const struct gpu_where first = gpu_where(&the.driver, a), second = gpu_where(&the.driver, b);

    why[0] = '\0';
    if (spans_devices(&first, a, a_bytes) || spans_devices(&second, b, b_bytes))
        return NULL;
    return gpu_places_find(&the.driver, &first, &second, why);
}

static bool lacked(struct ss_place *place)
{
    return gpu_place_lacked(gpu_place_of(place));
}

/* ---- copies ---- */

static void upload_ranges(struct gpu_device *d, const struct gpu_image *image,
                          const struct gpu_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        gpu_upload(d, (char *)image->memory + ranges[i].from,
                   (const char *)image->host + ranges[i].from, ranges[i].bytes);
}

static void queue_all(struct gpu_device *d, struct gpu_image *image, bool out,
                      const struct gpu_range *ranges, size_t count)
{
    const struct gpu_range whole = {0, image->bytes};

    if (out)
        upload_ranges(d, image, ranges ? ranges : &whole, ranges ? count : 1);
    else
        gpu_download(d, image->host, image->memory, image->bytes);
    image->ticket = gpu_mark(d);
}

/* ranges NULL: all of it. */
static void queue(struct gpu_image *image, bool out, const struct gpu_range *ranges, size_t count)
{
    (void)pthread_mutex_lock(&the.lock);
    struct gpu_device *d = image->on && !image->lost ? &image->on->device : NULL;
    if (d && gpu_device_enter(d) == CUDA_SUCCESS) {
        if (!image->behind)
            gpu_after_program(d);
        image->crosses = !image->pinned && image->on->crossings.memory;
        if (image->crosses) {
            gpu_crossing_begin(&image->crossing, out, image->host, image->memory, image->bytes,
                               ranges, count);
            image->crosses = gpu_crossing_step(&image->crossing, &image->on->crossings, d);
        } else {
            queue_all(d, image, out, ranges, count);
        }
        gpu_device_leave(d);
    }
    (void)pthread_mutex_unlock(&the.lock);
}

static void behind(struct gpu_image *image)
{
    (void)pthread_mutex_lock(&the.lock);
    struct gpu_device *d = image->on && !image->lost ? &image->on->device : NULL;
    if (d && gpu_device_enter(d) == CUDA_SUCCESS) {
        image->behind = gpu_after_program(d);
        gpu_device_leave(d);
    }
    (void)pthread_mutex_unlock(&the.lock);
}

static void aim(struct gpu_image *image, const void *p, size_t bytes)
{
    image->memory = (void *)(uintptr_t)p;
    image->bytes = bytes;
}

static void download(struct gpu_image *image)
{
    queue(image, false, NULL, 0);
}

static void upload(struct gpu_image *image, const struct gpu_range *ranges, size_t count)
{
    queue(image, true, count > 0 ? ranges : NULL, count);
}

/* Of all images, whoever looks: what has come makes room for others, and theirs may be what
 * somebody waits for before he looks at his own. */
static bool step_crossings(struct context *c)
{
    bool moved = false;

    for (struct gpu_image *image = the.images; image; image = image->next) {
        const size_t before = image->crossing.crossed;
        if (image->on != c || !image->crosses)
            continue;
        image->crosses = gpu_crossing_step(&image->crossing, &c->crossings, &c->device);
        moved = moved || image->crossing.crossed != before;
    }
    return moved;
}

static int look(struct gpu_image *image)
{
    struct gpu_device *d = image->on && !image->lost ? &image->on->device : NULL;
    bool passed = true, moved = false;

    if (d && d->queue.error == 0 && gpu_device_enter(d) == CUDA_SUCCESS) {
        if (image->crosses)
            moved = step_crossings(image->on);
        passed = !image->crosses && gpu_passed(d, image->ticket);
        gpu_device_leave(d);
    }
    return !d || d->queue.error != 0 ? -1 : passed ? 0 : 1 + moved;
}

/* Another thread in here may wait for the driver: then there is nothing to be told yet. */
static int poll(struct gpu_image *image)
{
    int status;

    if (pthread_mutex_trylock(&the.lock) != 0)
        return 1;
    status = look(image);
    (void)pthread_mutex_unlock(&the.lock);
    return status;
}

static const char *error(const struct gpu_image *image)
{
    return image->on && !image->lost
               ? gpu_error_name(&the.driver, (CUresult)image->on->device.queue.error)
               : "the context of the device is gone";
}

const struct gpu_staging sparseshim_cuda = {
    .version = GPU_STAGING_VERSION,
    .start = start,
    .on_device = on_device,
    .place = place,
    .lacked = lacked,
    .take = take,
    .host = host,
    .behind = behind,
    .aim = aim,
    .download = download,
    .upload = upload,
    .poll = poll,
    .error = error,
    .give = give,
    .trim = trim,
};
