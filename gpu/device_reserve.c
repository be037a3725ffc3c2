/* Room for calls to come: areas of device memory that grow with what is reserved, and that shrink
 * again once memory has run out and calls have needed less for long. */
#include "gpu/device_place_impl.h"

enum { ALIGNED = 256, LIST_LEAST = 1 << 20 };

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Of all functions: claims are of floats. */
static size_t work_of(enum ss_type type, const struct ss_place_need *need)
{
    size_t bytes = most(gpu_scan_work(type, need->n), GPU_SKETCH * sizeof(int64_t));

    bytes = most(bytes, (1 + GPU_BINS) * sizeof(struct gpu_search));
    if (!ss_type_is_float(type))
        return bytes;
    bytes = most(bytes, gpu_place_square_work(type, need->n));
    if (need->bucket > 0)
        return most(bytes, gpu_buckets_work(need->n, need->bucket));
    return most(bytes, gpu_exact_work(type, need->n, need->k));
}

/* Entries in the device's list: claims all at once, a scan goes by pieces where it has to. */
static size_t listed(const struct ss_place_need *need)
{
    const size_t piece = need->n < LIST_LEAST ? need->n : LIST_LEAST;

    return need->k > 0 ? most(need->entries, piece) : piece;
}

/* The areas that hang on the size of calls. */
static struct gpu_area *sized(struct gpu_place *p, int i)
{
    struct gpu_area *const areas[GPU_SIZED] = {&p->work, &p->list, &p->between, &p->messages};

    return areas[i];
}

static void needs_of(enum ss_type type, const struct ss_place_need *need, size_t bytes[GPU_SIZED])
{
    const size_t size = ss_type_size(type),
                 room = need->k > 0 && need->bucket == 0 ? gpu_exact_room(need->n, need->k) : 0;

    bytes[0] = work_of(type, need);
    bytes[1] = gpu_list_bytes(listed(need), size);
    bytes[2] = room > 0 ? gpu_list_bytes(room, size) : 0;
    bytes[3] = need->k > 0 ? gpu_messages_room(type, need->n) : 0;
}

/* What was there goes to `old`. */
static bool reserve_areas(struct gpu_place *p, const size_t bytes[GPU_SIZED], struct gpu_area *old)
{
    bool there = gpu_area_reserve(p, &p->crossing, GPU_SLOT_BYTES, &old[GPU_SIZED]) &&
                 gpu_area_reserve(p, &p->picked, GPU_SLOT_BYTES, &old[GPU_SIZED + 1]);

    for (int i = 0; i < GPU_SIZED && there; i++)
        there = gpu_area_reserve(p, sized(p, i), bytes[i], &old[i]);
    return there;
}

/* ---- less ---- */

static void note(struct gpu_needs *needs, const size_t bytes[GPU_SIZED])
{
    for (int i = 0; i < GPU_SIZED; i++)
        needs->bytes[needs->next][i] = bytes[i];
    needs->next = (needs->next + 1) % GPU_NEEDS;
}

static size_t needed_lately(const struct gpu_needs *needs, int i)
{
    size_t bytes = 0;

    for (size_t c = 0; c < GPU_NEEDS; c++)
        bytes = most(bytes, needs->bytes[c][i]);
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Areas that are twice as large as any of the last calls needed. What is under way has reserved no
 * more than those. The smaller one is made first: it may pass the limit until the other is let go.
 */
static void shrink(struct gpu_place *p, struct gpu_area *old)
{
    for (int i = 0; i < GPU_SIZED; i++) {
        struct gpu_area *area = sized(p, i);
        const size_t bytes = needed_lately(&p->needs, i);
        void *data;

        if (old[i].data || area->bytes < 2 * bytes || area->bytes == 0)
            continue;
        data = bytes > 0 ? gpu_memory_make(&p->device, bytes) : NULL;
        if (bytes > 0 && !data)
            continue;
        old[i] = *area;
        *area = (struct gpu_area){data, bytes};
        p->needs.ran_out = false;
    }
}

static bool step_let_go(struct gpu_place *p, struct gpu_job *j)
{
    gpu_let_go(p, j->v, j->n);
    return true;
}

int gpu_reserve(struct ss_place *place, enum ss_type type, const struct ss_place_need *need)
{
    struct gpu_place *p = gpu_place_of(place);
    struct gpu_area old[GPU_SIZED + 2] = {0};
    size_t bytes[GPU_SIZED];
    bool there = false;

    needs_of(type, need, bytes);
    pthread_mutex_lock(&p->lock);
    if (p->device.queue.error == 0 && gpu_device_enter(&p->device) == CUDA_SUCCESS) {
        there = reserve_areas(p, bytes, old);
        if (there)
            note(&p->needs, bytes);
        p->needs.ran_out = p->needs.ran_out || !there;
        if (p->needs.ran_out)
            shrink(p, old);
        gpu_device_leave(&p->device);
    }
    if (p->device.queue.error != 0) /* the next poll says so */
        there = true;
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < GPU_SIZED + 2; i++)
        if (old[i].data)
            gpu_hand_over(
                place, &(struct gpu_job){.step = step_let_go, .v = old[i].data, .n = old[i].bytes});
    return there ? SS_OK : SS_ERR_MEMORY;
}
