#include "shim/device/held.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/device/memory.h"

struct shim_held {
    struct shim_held *next;
    pthread_t thread;
    uintptr_t frame;
    struct shim_bounce what; /* but for what lay on the stack */
};

static struct {
    pthread_mutex_t lock;
    struct shim_held *list;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct shim_held *shim_hold(const struct shim_bounce *b, const void *frame)
{
    struct shim_held *h = b->send || b->recv ? malloc(sizeof *h) : NULL;

    if (!h)
        return NULL;
    *h = (struct shim_held){.thread = pthread_self(), .frame = (uintptr_t)frame, .what = *b};
    (void)pthread_mutex_lock(&held.lock);
    h->next = held.list;
    held.list = h;
    (void)pthread_mutex_unlock(&held.lock);
    return h;
}

void shim_unhold(struct shim_held *h)
{
    struct shim_held **at = &held.list;

    if (!h)
        return;
    (void)pthread_mutex_lock(&held.lock);
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    (void)pthread_mutex_unlock(&held.lock);
    free(h);
}

/* Whether both lie on the stack that the system gave this thread: there calls end in the reverse
 * order of their beginning. Elsewhere (fibers) only an address that is used again tells. */
static bool on_own_stack(uintptr_t a, uintptr_t b)
{
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0;

    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return false;
    if (pthread_attr_getstack(&attributes, &lowest, &size) != 0)
        size = 0;
    (void)pthread_attr_destroy(&attributes);
    return a - (uintptr_t)lowest < size && b - (uintptr_t)lowest < size;
}

static bool is_gone(const struct shim_held *h, uintptr_t frame)
{
    return pthread_equal(h->thread, pthread_self()) &&
           (h->frame == frame || (h->frame < frame && on_own_stack(h->frame, frame)));
}

void shim_give_abandoned(const void *frame)
{
    struct shim_held *gone = NULL, *h, **at = &held.list;

    (void)pthread_mutex_lock(&held.lock);
    while ((h = *at)) {
        if (!is_gone(h, (uintptr_t)frame)) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        h->next = gone;
        gone = h;
    }
    (void)pthread_mutex_unlock(&held.lock);
    while ((h = gone)) {
        gone = h->next;
        (void)shim_bounce_finish(&h->what);
        shim_bounce_give(&h->what);
        shim_staging()->trim();
        free(h);
    }
}
