/* Room for later calls: areas of device memory that grow with each reservation. */
#include "gpu/backend/device_backend_impl.h"

enum { LIST_LEAST = 1 << 20 };

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Returns the work area that all functions on n elements need. Only floats are claimed. */
static size_t work_of(enum ss_type type, const struct ss_backend_need *need)
{
    size_t bytes = most(gpu_scan_work(type, need->n), GPU_SKETCH * sizeof(int64_t));

    bytes = most(bytes, (1 + GPU_BINS) * sizeof(struct gpu_search));
    if (!ss_type_is_float(type))
        return bytes;
    bytes = most(bytes, gpu_backend_square_work(type, need->n));
    if (need->bucket > 0)
        return most(bytes, gpu_buckets_work(need->n, need->bucket));
    return most(bytes, gpu_exact_work(type, need->n, need->k));
}

/* Returns the entries of the device's list. A claim needs room for all its entries; a scan may go
 * by pieces. */
static size_t listed(const struct ss_backend_need *need)
{
    const size_t piece = need->n < LIST_LEAST ? need->n : LIST_LEAST;

    return need->k > 0 ? most(need->entries, piece) : piece;
}

enum { WORK, LIST, BETWEEN, MESSAGES, CROSSING, PICKED, AREAS };

static struct gpu_area *area_of(struct gpu_backend *p, int i)
{
    struct gpu_area *const areas[AREAS] = {&p->work,     &p->list,     &p->between,
                                           &p->messages, &p->crossing, &p->picked};

    return areas[i];
}

static void needs_of(enum ss_type type, const struct ss_backend_need *need, size_t bytes[AREAS])
{
    const size_t size = ss_type_size(type),
                 room = need->k > 0 && need->bucket == 0 ? gpu_exact_room(need->n, need->k) : 0;

    bytes[WORK] = work_of(type, need);
    bytes[LIST] = gpu_list_bytes(listed(need), size);
    bytes[BETWEEN] = room > 0 ? gpu_list_bytes(room, size) : 0;
    bytes[MESSAGES] = need->k > 0 ? gpu_messages_room(type, need->n) : 0;
    bytes[CROSSING] = bytes[PICKED] = GPU_SLOT_BYTES;
}

/* ---- memory of areas; allocated without the lock, since that may wait for the device ---- */

struct order {
    size_t bytes[AREAS]; /* bytes to allocate, counted as used; 0: none */
    void *data[AREAS];
};

/* Orders memory for an area, half as much again as before if the limit allows that. */
static bool order_area(struct gpu_backend *p, int i, size_t bytes, struct order *o)
{
    const struct gpu_area *area = area_of(p, i);
    const size_t more = area->bytes + area->bytes / 2;

    if (bytes <= area->bytes)
        return true;
    o->bytes[i] = gpu_aligned(most(bytes, more));
    if (!gpu_is_within(&p->device, o->bytes[i]))
        o->bytes[i] = gpu_aligned(bytes);
    if (!gpu_is_within(&p->device, o->bytes[i])) {
        o->bytes[i] = 0;
        return false;
    }
    p->device.used += o->bytes[i];
    return true;
}

static bool order_areas(struct gpu_backend *p, const size_t bytes[AREAS], struct order *o)
{
    bool all = true;

    for (int i = 0; i < AREAS && all; i++)
        all = order_area(p, i, bytes[i], o);
    for (int i = 0; i < AREAS && !all; i++) {
        p->device.used -= o->bytes[i];
        o->bytes[i] = 0;
    }
    return all;
}

static int make_ordered(struct gpu_backend *p, struct order *o)
{
    int first = CUDA_SUCCESS;

    for (int i = 0; i < AREAS; i++) {
        const int error = o->bytes[i] > 0
                              ? gpu_memory_make_beside(&p->device, o->bytes[i], &o->data[i])
                              : CUDA_SUCCESS;
        if (first == CUDA_SUCCESS)
            first = error;
    }
    return first;
}

/* Puts the memory into the areas. Leaves in the order the memory to free: the area's old memory, or
 * the new memory if another thread has made a larger area meanwhile. */
static void lay_out_areas(struct gpu_backend *p, struct order *o)
{
    for (int i = 0; i < AREAS; i++) {
        struct gpu_area *area = area_of(p, i);
        const struct gpu_area before = *area;

        if (!o->data[i]) {
            p->device.used -= o->bytes[i];
        } else if (o->bytes[i] > before.bytes) {
            *area = (struct gpu_area){o->data[i], o->bytes[i]};
            o->data[i] = before.data;
            o->bytes[i] = before.bytes;
        }
    }
}

static bool step_let_go(struct gpu_backend *p, struct gpu_job *j)
{
    gpu_let_go(p, j->v, j->n);
    return true;
}

/* Frees that memory in jobs of its own, since jobs handed over before may use it. */
static void let_go(struct ss_backend *backend, const struct order *o)
{
    for (int i = 0; i < AREAS; i++)
        if (o->data[i])
            gpu_hand_over(
                backend, &(struct gpu_job){.step = step_let_go, .v = o->data[i], .n = o->bytes[i]});
}

static bool has_all(struct gpu_backend *p, const size_t bytes[AREAS])
{
    bool all = true;

    for (int i = 0; i < AREAS; i++)
        all = all && area_of(p, i)->bytes >= bytes[i];
    return all;
}

static bool is_empty(const struct order *o)
{
    bool empty = true;

    for (int i = 0; i < AREAS; i++)
        empty = empty && o->bytes[i] == 0;
    return empty;
}

/* Allocates the ordered memory and puts it into the areas. */
static void deliver(struct ss_backend *backend, struct order *o)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    int error;

    if (is_empty(o))
        return;
    error = make_ordered(p, o);
    pthread_mutex_lock(&p->lock);
    gpu_note_beside(&p->device, error);
    lay_out_areas(p, o);
    pthread_mutex_unlock(&p->lock);
    let_go(backend, o);
}

static bool reserve(struct ss_backend *backend, const size_t bytes[AREAS])
{
    struct gpu_backend *p = gpu_backend_of(backend);
    struct order o = {{0}, {NULL}};
    bool there;

    pthread_mutex_lock(&p->lock);
    if (p->device.queue.error == 0)
        (void)order_areas(p, bytes, &o);
    pthread_mutex_unlock(&p->lock);
    deliver(backend, &o);
    pthread_mutex_lock(&p->lock);
    there = has_all(p, bytes) || p->device.queue.error != 0; /* the next poll returns the error */
    pthread_mutex_unlock(&p->lock);
    return there;
}

int gpu_reserve(struct ss_backend *backend, enum ss_type type, const struct ss_backend_need *need)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    size_t bytes[AREAS];
    bool there;

    needs_of(type, need, bytes);
    there = reserve(backend, bytes);
    if (!there && gpu_has_gone(p)) {
        gpu_backend_trim(p);
        there = reserve(backend, bytes);
    }
    return there ? SS_OK : SS_ERR_MEMORY;
}

void gpu_reserve_list(struct ss_backend *backend, enum ss_type type, size_t entries)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    struct order o = {{0}, {NULL}};

    pthread_mutex_lock(&p->lock);
    if (p->device.queue.error == 0)
        (void)order_area(p, LIST, gpu_list_bytes(entries, ss_type_size(type)), &o);
    pthread_mutex_unlock(&p->lock);
    deliver(backend, &o);
}
