/* Vectors that a backend has made: residuals, and entries that stay in the backend. */
#include <stdlib.h>

#include "gpu/backend/device_backend_impl.h"

enum { ALIGNED = 256 };

struct gpu_vector *gpu_vector_of(struct gpu_backend *p, const void *v)
{
    struct gpu_vector *x = p->vectors;

    while (x && ((const char *)v < x->data || (const char *)v >= x->data + x->bytes))
        x = x->next;
    return x;
}

uint32_t *gpu_vector_overflows(const struct gpu_vector *x)
{
    return (uint32_t *)(void *)(x->data + (x->bytes + ALIGNED - 1) / ALIGNED * ALIGNED);
}

static struct gpu_vector *new_vector(size_t bytes)
{
    struct gpu_vector *x = calloc(1, sizeof *x);
    const size_t bits = (bytes / 4 + 31) / 32 * 4 + 4;

    if (!x)
        return NULL;
    x->bytes = bytes > 0 ? bytes : 1;
    x->all = (x->bytes + ALIGNED - 1) / ALIGNED * ALIGNED + bits;
    return x;
}

/* Counts the memory of a vector before it is allocated without the lock. Returns false if the limit
 * does not allow it. */
static bool count_vector(struct gpu_backend *p, const struct gpu_vector *x)
{
    bool within;

    pthread_mutex_lock(&p->lock);
    within = p->device.queue.error == 0 && gpu_is_within(&p->device, x->all);
    p->device.used += within ? x->all : 0;
    pthread_mutex_unlock(&p->lock);
    return within;
}

/* Adds a vector to the backend unless its allocation gave an error. Returns true if it was added.
 */
static bool add_vector(struct gpu_backend *p, struct gpu_vector *x, int error)
{
    bool there = false;

    pthread_mutex_lock(&p->lock);
    gpu_note_beside(&p->device, error);
    if (error != CUDA_SUCCESS) {
        p->device.used -= x->all;
    } else if (p->device.queue.error == 0 && gpu_device_enter(&p->device) == CUDA_SUCCESS) {
        gpu_clear(&p->device.queue, SS_F32, x->data, x->all / 4);
        x->next = p->vectors;
        p->vectors = x;
        there = true;
        gpu_device_leave(&p->device);
    }
    pthread_mutex_unlock(&p->lock);
    return there;
}

static int make(struct gpu_backend *p, struct ss_buf *buf, size_t bytes)
{
    struct gpu_vector *x = new_vector(bytes);
    void *memory = NULL;

    *buf = (struct ss_buf){.data = NULL};
    if (x && count_vector(p, x)) {
        const int error = gpu_memory_make_beside(&p->device, x->all, &memory);
        x->data = memory;
        if (add_vector(p, x, error)) {
            *buf = (struct ss_buf){.data = x->data, .size = bytes};
            return SS_OK;
        }
    }
    free(x);
    return SS_ERR_MEMORY;
}

int gpu_vector_make(struct ss_backend *backend, struct ss_mem *mem, struct ss_buf *buf,
                    size_t bytes)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    int status = make(p, buf, bytes);

    (void)mem; /* device memory has a limit of its own */
    if (status != SS_OK && gpu_has_gone(p)) {
        gpu_backend_trim(p);
        status = make(p, buf, bytes);
    }
    return status;
}

static bool step_drop(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_vector *x, **at = &p->vectors;

    while ((x = *at) != NULL && x->data != j->v)
        at = &x->next;
    if (!x)
        return true;
    *at = x->next;
    gpu_let_go(p, x->data, x->all);
    free(x);
    return true;
}

/* Hands the vector over to be freed. A thread may do so long after the last call in the backend,
 * when the context may be gone. */
void gpu_vector_drop(struct ss_backend *backend, struct ss_buf *buf)
{
    struct gpu_backend *p = gpu_backend_of(backend);

    pthread_mutex_lock(&p->lock);
    if (buf->data && !p->front)
        gpu_see_whether_gone(&p->device);
    pthread_mutex_unlock(&p->lock);
    if (buf->data)
        gpu_hand_over(backend, &(struct gpu_job){.step = step_drop, .v = buf->data});
    *buf = (struct ss_buf){.data = NULL};
}
