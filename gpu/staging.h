/* What libsparseshim_cuda.so gives the library that is preloaded: one symbol, sparseshim_cuda.
 *
 * An image is memory of the host that stands for a range of device memory while somebody looks at
 * it who knows the host alone. Images are pinned and kept for later calls, up to a limit. Work
 * comes after what the program has in its default stream; its contexts are left as they were found.
 * Any thread may call. */
#ifndef GPU_STAGING_H
#define GPU_STAGING_H

#include <stdbool.h>
#include <stddef.h>

struct ss_place;

enum { GPU_STAGING_VERSION = 7, GPU_STAGING_WHY = 200 };

struct gpu_image;

/* Bytes of an image. */
struct gpu_range {
    size_t from, bytes;
};

struct gpu_staging {
    unsigned version;

    /* Once, before all else. library: a handle of the libcuda that the program has loaded. NULL, or
     * the name of a function that it lacks. */
    const char *(*start)(void *library);

    /* Device memory, or memory that host and device share and move to and fro. */
    bool (*on_device)(const void *p);

    /* The place (core/place/place.h) of two buffers of so many bytes, of one device;
     * what it is asked for from here on comes after what the program has queued. It lasts as long
     * as the process. NULL: there is none (*why 0), or it cannot be used from here on: why, which
     * is said once for each. */
    struct ss_place *(*place)(const void *a, size_t a_bytes, const void *b, size_t b_bytes,
                              char *why);

    /* Whether the place has had no device memory for a call, since this was asked last. */
    bool (*lacked)(struct ss_place *place);

    /* An image of `bytes` bytes of the device at p, not filled. `limit`: bytes that may be pinned
     * in all; what goes beyond is not, unless `pinned` says that it must: it crosses through a few
     * slots that are, 1 MiB for each context, and where not even those are to be had its copies
     * wait for the device. Whoever holds a lock does not ask: the driver may wait. NULL, and why
     * has the reason (GPU_STAGING_WHY bytes). */
    struct gpu_image *(*take)(const void *p, size_t bytes, size_t limit, bool pinned, char *why);
    void *(*host)(const struct gpu_image *image);

    /* Once: what is queued for the image from here on comes after what the program has queued by
     * now, not by then; and after what other images were queued behind in the same context. */
    void (*behind)(struct gpu_image *image);
    /* From here on it is of these bytes of the same memory, no more than it was taken for. */
    void (*aim)(struct gpu_image *image, const void *p, size_t bytes);

    /* Queued, where what was queued for the image before has passed: from the device; to the
     * device, these ranges of it alone (NULL: all of it), which stay as they are until it is done.
     */
    void (*download)(struct gpu_image *image);
    void (*upload)(struct gpu_image *image, const struct gpu_range *ranges, size_t count);
    /* Of what was queued last: > 0 it is under way, 2 where some of it has moved since; 0 it is
     * done, < 0 it has failed. Never waits. */
    int (*poll)(struct gpu_image *image);
    /* The driver's name for what failed. */
    const char *(*error)(const struct gpu_image *image);

    /* Nothing is under way. Never waits. */
    void (*give)(struct gpu_image *image);

    /* A call has ended: images that are idle are freed, but for some, and device memory that was
     * let go. May wait: nobody calls it who holds a lock. */
    void (*trim)(void);
};

extern const struct gpu_staging sparseshim_cuda;

#endif
