/* Jobs in call order: what is queued of them, what waits for the device, and what comes to the
 * host. */
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/device_backend_impl.h"

struct gpu_gone {
    struct gpu_gone *next;
    void *memory;
    size_t bytes;
    gpu_ticket after;
};

void gpu_fail(struct gpu_backend *p)
{
    if (p->device.queue.error == 0)
        p->device.queue.error = CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- memory ---- */

void gpu_let_go(struct gpu_backend *p, void *memory, size_t bytes)
{
    struct gpu_gone *g = malloc(sizeof *g);

    if (!g) {
        gpu_fail(p);
        return;
    }
    *g = (struct gpu_gone){p->gone, memory, bytes, gpu_record(&p->device)};
    p->gone = g;
}

/* Takes memory that no work uses any more off the list; all memory if `all`. */
static struct gpu_gone *take_gone(struct gpu_backend *p, bool all)
{
    struct gpu_gone *g, *taken = NULL, **at = &p->gone;

    while ((g = *at) != NULL) {
        if (!all && !gpu_passed(&p->device, g->after)) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        g->next = taken;
        taken = g;
    }
    return taken;
}

/* Frees memory without the lock, since that may wait for the device. No other thread knows of this
 * memory. */
static void free_beside(struct gpu_backend *p, struct gpu_gone *gone)
{
    struct gpu_gone *g;

    while ((g = gone) != NULL) {
        const int error = gpu_memory_free_beside(&p->device, g->memory);

        pthread_mutex_lock(&p->lock);
        p->device.used -= g->bytes;
        gpu_note_beside(&p->device, error);
        pthread_mutex_unlock(&p->lock);
        gone = g->next;
        free(g);
    }
}

size_t gpu_aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* If the area was not reserved, allocates it here. The allocation may wait for the device, and
 * other threads then wait for the lock. */
void *gpu_area(struct gpu_backend *p, struct gpu_area *area, size_t bytes)
{
    const struct gpu_area old = *area;
    void *data;

    if (bytes <= area->bytes)
        return area->data;
    data = gpu_memory_make(&p->device, gpu_aligned(bytes));
    if (!data) {
        gpu_fail(p);
        return NULL;
    }
    *area = (struct gpu_area){data, gpu_aligned(bytes)};
    if (old.data)
        gpu_let_go(p, old.data, old.bytes);
    return data;
}

/* ---- slots ---- */

/* Takes the next slot of the ring. If that slot is in use, gives the slot of the uploads back,
 * since the ring may be waiting for it. */
static struct gpu_slot *take_slot(struct gpu_backend *p)
{
    struct gpu_device *d = &p->device;
    struct gpu_slot *slot = gpu_slot_take(d);

    if (!slot && p->open) {
        gpu_slot_give(p->open, gpu_record(d));
        p->open = NULL;
    }
    if (!slot && !d->slot[d->next_slot % GPU_SLOTS].data)
        gpu_fail(p); /* no pinned memory is left */
    return slot;
}

void *gpu_upload_room(struct gpu_backend *p, size_t bytes)
{
    char *at;

    bytes = (bytes + 63) / 64 * 64;
    if (p->open && p->open_used + bytes > GPU_SLOT_BYTES) {
        gpu_slot_give(p->open, gpu_record(&p->device));
        p->open = NULL;
    }
    if (!p->open) {
        p->open = take_slot(p);
        p->open_used = 0;
    }
    if (!p->open)
        return NULL;
    at = (char *)p->open->data + p->open_used;
    p->open_used += bytes;
    return at;
}

bool gpu_send_to_host(struct gpu_backend *p, struct gpu_job *j, void *to, const void *from,
                      size_t bytes)
{
    struct gpu_slot *slot = take_slot(p);
    struct gpu_parcel *parcel = slot ? malloc(sizeof *parcel) : NULL;

    if (!parcel) {
        if (slot) {
            gpu_slot_give(slot, 0);
            gpu_fail(p);
        }
        return false;
    }
    gpu_download(&p->device, slot->data, from, bytes);
    *parcel =
        (struct gpu_parcel){.slot = slot, .to = to, .bytes = bytes, .end = gpu_record(&p->device)};
    *j->parcels_end = parcel;
    j->parcels_end = &parcel->next;
    j->newest = parcel;
    return true;
}

void gpu_call_bitmap(struct gpu_job *j, uint32_t first, size_t bits)
{
    j->newest->first = first;
    j->newest->bits = bits;
}

bool gpu_send_all_to_host(struct gpu_backend *p, struct gpu_job *j, void *to, const void *from,
                          size_t bytes, size_t *sent)
{
    while (*sent < bytes) {
        size_t piece = bytes - *sent;
        if (piece > GPU_SLOT_BYTES)
            piece = GPU_SLOT_BYTES;
        if (!gpu_send_to_host(p, j, (char *)to + *sent, (const char *)from + *sent, piece))
            return false;
        *sent += piece;
    }
    return true;
}

static size_t indices(size_t room)
{
    return gpu_aligned(room * sizeof(uint32_t));
}

size_t gpu_list_bytes(size_t room, size_t size)
{
    return indices(room) + (room + 1) * size;
}

size_t gpu_list_room(const struct gpu_area *area, size_t room, size_t size)
{
    const size_t lost = size + gpu_aligned(1); /* at most, to alignment */
    const size_t fits = area->bytes > lost ? (area->bytes - lost) / (sizeof(uint32_t) + size) : 0;

    return gpu_list_bytes(room, size) <= area->bytes ? room : fits;
}

bool gpu_list_make(struct gpu_backend *p, struct gpu_area *area, struct gpu_list *list, size_t size)
{
    const size_t before = indices(list->room);
    char *data = gpu_area(p, area, gpu_list_bytes(list->room, size));

    if (!data)
        return false;
    list->idx = (uint32_t *)(void *)data;
    list->val = data + before;
    return true;
}

bool gpu_send_list_to_host(struct gpu_backend *p, struct gpu_job *j, const struct gpu_list *list,
                           uint32_t *idx, void *val, size_t count)
{
    if (idx && gpu_vector_of(p, idx)) {
        gpu_copy(&p->device, idx, list->idx, count * sizeof *idx);
        gpu_copy(&p->device, val, list->val, count * ss_type_size(j->type));
        return true;
    }
    return gpu_send_all_to_host(p, j, idx, list->idx, count * sizeof *idx, &j->sent[1]) &&
           gpu_send_all_to_host(p, j, val, list->val, count * ss_type_size(j->type), &j->sent[0]);
}

/* ---- jobs ---- */

static void hand_over_parcels(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_parcel *x;

    while ((x = j->parcels) != NULL && gpu_passed(&p->device, x->end) &&
           p->device.queue.error == 0) {
        if (j->arrive)
            j->arrive(j, x->slot->data);
        if (x->bits > 0)
            gpu_take_bitmap(j, x);
        else
            memcpy(x->to, x->slot->data, x->bytes);
        gpu_slot_give(x->slot, 0);
        j->parcels = x->next;
        free(x);
    }
    if (!j->parcels)
        j->parcels_end = &j->parcels;
}

static void free_job(struct gpu_job *j)
{
    for (struct gpu_parcel *x = j->parcels, *next; x; x = next) {
        next = x->next;
        free(x);
    }
    free(j->from.kept);
    free(j);
}

/* Copies results of jobs up to `asked` to the callers, and frees jobs that are done. */
static void settle(struct gpu_backend *p, ss_ticket asked)
{
    struct gpu_job *j, **at = &p->jobs;

    while ((j = *at) != NULL && p->device.queue.error == 0) {
        const bool mine = j->number <= asked;
        if (mine)
            hand_over_parcels(p, j);
        if (!j->queued || !gpu_arrived(p, j))
            break;
        if (j->parcels || (j->give && !mine)) {
            at = &j->next;
            continue;
        }
        if (j->give)
            j->give(j);
        *at = j->next;
        if (!*at)
            p->jobs_end = at;
        free_job(j);
    }
}

static void advance(struct gpu_backend *p, ss_ticket asked)
{
    struct gpu_job *j;

    settle(p, asked);
    while (p->device.queue.error == 0 && (j = p->front) != NULL && j->step(p, j)) {
        j->end = gpu_record(&p->device);
        j->queued = true;
        p->front = j->next;
    }
}

/* Appends a copy of the job. Returns NULL after an error. */
static struct gpu_job *job_at_end(struct gpu_backend *p, const struct gpu_job *as)
{
    struct gpu_job *j = p->device.queue.error == 0 ? malloc(sizeof *j) : NULL;

    p->handed++;
    p->follows = false;
    if (!j) {
        gpu_fail(p);
        free(as->from.kept);
        return NULL;
    }
    *j = *as;
    j->number = p->handed;
    j->from.there = j->from.idx && gpu_vector_of(p, j->from.idx);
    j->parcels_end = &j->parcels;
    *p->jobs_end = j;
    p->jobs_end = &j->next;
    if (!p->front)
        p->front = j;
    return j;
}

ss_ticket gpu_hand_over(struct ss_backend *backend, const struct gpu_job *as)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    struct gpu_job *j;
    ss_ticket number;

    pthread_mutex_lock(&p->lock);
    if (!p->front)
        gpu_see_whether_gone(&p->device);
    j = job_at_end(p, as);
    if (j && gpu_device_enter(&p->device) == CUDA_SUCCESS) {
        advance(p, 0);
        if (!j->queued && !gpu_source_keep(&j->from, j->type))
            gpu_fail(p);
        gpu_device_leave(&p->device);
    }
    number = p->handed;
    pthread_mutex_unlock(&p->lock);
    return number;
}

int gpu_poll(struct ss_backend *backend, ss_ticket ticket)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    int status = SS_OK;

    pthread_mutex_lock(&p->lock);
    if (p->jobs && p->device.queue.error == 0 && gpu_device_enter(&p->device) == CUDA_SUCCESS) {
        advance(p, ticket);
        gpu_device_leave(&p->device);
    }
    if (p->device.queue.error != 0)
        status = SS_ERR_DEVICE;
    else if (p->jobs && p->jobs->number <= ticket)
        status = SS_PENDING;
    pthread_mutex_unlock(&p->lock);
    return status;
}

static bool step_nothing(struct gpu_backend *p, struct gpu_job *j)
{
    (void)p, (void)j;
    return true;
}

/* Also waits for work of the program that the backend follows, since the backend is not idle
 * before. */
ss_ticket gpu_latest(struct ss_backend *backend)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    ss_ticket number;
    bool follows;

    pthread_mutex_lock(&p->lock);
    number = p->jobs || p->device.queue.error != 0 ? p->handed : 0;
    follows = number == 0 && p->follows;
    pthread_mutex_unlock(&p->lock);
    return follows ? gpu_hand_over(backend, &(struct gpu_job){.step = step_nothing}) : number;
}

/* ---- the end ---- */

bool gpu_has_gone(struct gpu_backend *p)
{
    bool has;

    pthread_mutex_lock(&p->lock);
    has = p->gone != NULL;
    pthread_mutex_unlock(&p->lock);
    return has;
}

void gpu_backend_trim(struct gpu_backend *p)
{
    struct gpu_gone *gone = NULL;

    pthread_mutex_lock(&p->lock);
    if (p->gone)
        gpu_see_whether_gone(&p->device);
    if (p->gone && p->device.queue.error == 0 && gpu_device_enter(&p->device) == CUDA_SUCCESS) {
        advance(p, 0);
        if (p->device.queue.error == 0)
            gone = take_gone(p, false);
        gpu_device_leave(&p->device);
    }
    pthread_mutex_unlock(&p->lock);
    free_beside(p, gone);
}

void gpu_free_gone(struct gpu_backend *p)
{
    free_beside(p, take_gone(p, true));
}

void gpu_forget_jobs(struct gpu_backend *p)
{
    for (struct gpu_job *j = p->jobs, *next; j; j = next) {
        next = j->next;
        free_job(j);
    }
    for (struct gpu_gone *g = p->gone, *next; g; g = next) {
        next = g->next;
        free(g);
    }
}
