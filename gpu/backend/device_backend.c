#include "gpu/backend/device_backend.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/backend/device_backend_impl.h"

enum { COUNTS = GPU_COUNTS };

static bool is_lost(struct ss_backend *backend)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    bool lost;

    pthread_mutex_lock(&p->lock);
    gpu_see_whether_gone(&p->device);
    gpu_look_for_error(&p->device);
    lost = p->device.queue.error != 0;
    pthread_mutex_unlock(&p->lock);
    return lost;
}

/* ---- staging ---- */

static bool is_stage(const struct gpu_backend *p, const void *host)
{
    return (uintptr_t)host - (uintptr_t)p->stages < (size_t)GPU_STAGES * GPU_STAGE_BYTES;
}

/* A pinned block if one is free, else memory that crosses through the slots of the device. */
static void *stage(struct ss_backend *backend, size_t bytes)
{
    struct gpu_backend *p = gpu_backend_of(backend);
    int i = bytes <= GPU_STAGE_BYTES ? 0 : GPU_STAGES;

    pthread_mutex_lock(&p->lock);
    while (i < GPU_STAGES && p->staged[i])
        i++;
    if (i < GPU_STAGES)
        p->staged[i] = true;
    pthread_mutex_unlock(&p->lock);
    return i < GPU_STAGES ? p->stages + (size_t)i * GPU_STAGE_BYTES : malloc(bytes);
}

static void unstage(struct ss_backend *backend, void *staged)
{
    struct gpu_backend *p = gpu_backend_of(backend);

    if (!is_stage(p, staged)) {
        free(staged);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->staged[((char *)staged - p->stages) / GPU_STAGE_BYTES] = false;
    pthread_mutex_unlock(&p->lock);
}

static bool step_fetch(struct gpu_backend *p, struct gpu_job *j)
{
    if (!is_stage(p, j->to))
        return gpu_send_all_to_host(p, j, j->to, j->g, j->n, &j->sent[0]);
    gpu_download(&p->device, j->to, j->g, j->n);
    return true;
}

static ss_ticket fetch(struct ss_backend *p, const void *from, size_t bytes, void *staged)
{
    return gpu_hand_over(
        p, &(struct gpu_job){.step = step_fetch, .g = from, .n = bytes, .to = staged});
}

static bool step_store(struct gpu_backend *p, struct gpu_job *j)
{
    const bool direct = is_stage(p, j->g);

    while (j->sent[0] < j->n) {
        const size_t at = j->sent[0], left = j->n - at,
                     bytes = direct || left < GPU_SLOT_BYTES ? left : GPU_SLOT_BYTES;
        const char *from = (const char *)j->g + at;
        void *room = direct ? NULL : gpu_upload_room(p, bytes);

        if (!direct && !room)
            return false;
        gpu_upload(&p->device, (char *)j->v + at, room ? memcpy(room, from, bytes) : from, bytes);
        j->sent[0] += bytes;
    }
    return true;
}

static ss_ticket store(struct ss_backend *p, void *to, const void *staged, size_t bytes)
{
    return gpu_hand_over(p,
                         &(struct gpu_job){.step = step_store, .g = staged, .n = bytes, .v = to});
}

/* ---- within the device ---- */

static bool step_clear(struct gpu_backend *p, struct gpu_job *j)
{
    gpu_clear(&p->device.queue, j->type, j->v, j->n);
    return true;
}

static void clear(struct ss_backend *p, enum ss_type type, void *v, size_t n)
{
    gpu_hand_over(p, &(struct gpu_job){.step = step_clear, .type = type, .v = v, .n = n});
}

static bool step_copy(struct gpu_backend *p, struct gpu_job *j)
{
    gpu_copy(&p->device, j->v, j->g, j->n * ss_type_size(j->type));
    return true;
}

static void copy(struct ss_backend *p, enum ss_type type, void *dst, const void *src, size_t n)
{
    gpu_hand_over(p,
                  &(struct gpu_job){.step = step_copy, .type = type, .v = dst, .g = src, .n = n});
}

static bool step_add(struct gpu_backend *p, struct gpu_job *j)
{
    gpu_add(&p->device.queue, j->type, j->v, j->g, j->n);
    return true;
}

static void add(struct ss_backend *p, enum ss_type type, void *r, const void *src, size_t n)
{
    if (n > 0)
        gpu_hand_over(p,
                      &(struct gpu_job){.step = step_add, .type = type, .v = r, .g = src, .n = n});
}

static bool step_join(struct gpu_backend *p, struct gpu_job *j)
{
    gpu_join(&p->device.queue, j->type, j->g, j->w, j->v, j->n, j->factor);
    return true;
}

static void join(struct ss_backend *p, enum ss_type type, const void *in, const void *r, void *out,
                 size_t n, double share)
{
    if (n > 0)
        gpu_hand_over(p, &(struct gpu_job){.step = step_join,
                                           .type = type,
                                           .g = in,
                                           .w = r,
                                           .v = out,
                                           .n = n,
                                           .factor = share});
}

static bool step_leave(struct gpu_backend *p, struct gpu_job *j)
{
    gpu_leave(&p->device.queue, j->type, j->v, j->n, j->factor);
    return true;
}

static bool step_scale(struct gpu_backend *p, struct gpu_job *j)
{
    gpu_scale(&p->device.queue, j->type, j->v, j->n, j->factor);
    return true;
}

static void multiply(struct ss_backend *p, gpu_step *step, enum ss_type type, void *r, size_t n,
                     double factor)
{
    if (n > 0)
        gpu_hand_over(
            p, &(struct gpu_job){.step = step, .type = type, .v = r, .n = n, .factor = factor});
}

static void leave(struct ss_backend *p, enum ss_type type, void *r, size_t n, double share)
{
    multiply(p, step_leave, type, r, n, share);
}

static void scale(struct ss_backend *p, enum ss_type type, void *r, size_t n, double factor)
{
    multiply(p, step_scale, type, r, n, factor);
}

/* ---- from the host ---- */

/* Hands over a job for entries of the host. */
static void put(struct ss_backend *p, gpu_step *step, enum ss_type type, enum ss_op op, void *dst,
                uint32_t base, const uint32_t *idx, const void *val, size_t nnz)
{
    if (nnz > 0)
        gpu_hand_over(p, &(struct gpu_job){.step = step,
                                           .type = type,
                                           .op = op,
                                           .v = dst,
                                           .base = base,
                                           .from = {.idx = idx, .val = val, .count = nnz}});
}

static void clear_at(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                     const uint32_t *idx, size_t nnz)
{
    put(p, gpu_step_clear_at, type, SS_SUM, dst, base, idx, NULL, nnz);
}

static void scatter(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz)
{
    put(p, gpu_step_scatter, type, SS_SUM, dst, base, idx, val, nnz);
}

static void accumulate(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                       uint32_t base, const uint32_t *idx, const void *val, size_t nnz)
{
    put(p, gpu_step_accumulate, type, op, dst, base, idx, val, nnz);
}

static void lack_memory(struct gpu_backend *p)
{
    pthread_mutex_lock(&p->lock);
    gpu_fail(p);
    pthread_mutex_unlock(&p->lock);
}

static bool is_there(struct gpu_backend *p, const void *entries)
{
    bool there;

    pthread_mutex_lock(&p->lock);
    there = gpu_vector_of(p, entries) != NULL;
    pthread_mutex_unlock(&p->lock);
    return there;
}

static void add_at(struct ss_backend *p, enum ss_type type, void *r, uint32_t base,
                   const uint32_t *idx, const void *val, size_t count)
{
    struct gpu_job j = {.step = gpu_step_add_at,
                        .type = type,
                        .v = r,
                        .base = base,
                        .from = {.idx = idx, .val = val, .count = count}};

    if (count == 0)
        return;
    if (!is_there(gpu_backend_of(p), idx) && !gpu_source_order(&j.from, type))
        lack_memory(gpu_backend_of(p));
    else
        gpu_hand_over(p, &j);
}

/* Hands over a job for elements of the host. */
static void put_dense(struct ss_backend *p, gpu_step *step, enum ss_type type, enum ss_op op,
                      void *dst, const void *from, size_t n)
{
    put(p, step, type, op, dst, 0, NULL, from, n);
}

static void write_to(struct ss_backend *p, enum ss_type type, void *dst, const void *from, size_t n)
{
    put_dense(p, gpu_step_write, type, SS_SUM, dst, from, n);
}

static void reduce(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                   const void *from, size_t n)
{
    put_dense(p, gpu_step_reduce, type, op, dst, from, n);
}

static void add_dense(struct ss_backend *p, enum ss_type type, void *r, const void *from, size_t n)
{
    put_dense(p, gpu_step_add_dense, type, SS_SUM, r, from, n);
}

/* ---- to the host ---- */

static bool step_read(struct gpu_backend *p, struct gpu_job *j)
{
    return gpu_send_all_to_host(p, j, j->to, j->g, j->n * ss_type_size(j->type), &j->sent[0]);
}

static ss_ticket read_to(struct ss_backend *p, enum ss_type type, const void *src, size_t n,
                         void *to)
{
    return gpu_hand_over(
        p, &(struct gpu_job){.step = step_read, .type = type, .g = src, .n = n, .to = to});
}

static ss_ticket runs_to(struct ss_backend *p, enum ss_type type, const void *v,
                         const struct ss_run *runs, size_t count, void *to)
{
    return gpu_hand_over(p, &(struct gpu_job){.step = gpu_step_runs,
                                              .type = type,
                                              .g = v,
                                              .from = {.runs = runs, .count = count},
                                              .to = to});
}

static ss_ticket open_room(struct ss_backend *p, enum ss_type type, void *v, size_t n, void *room,
                           void **at)
{
    *at = room;
    return read_to(p, type, v, n, room);
}

static void close_room(struct ss_backend *p, enum ss_type type, void *v, size_t n,
                       const void *opened)
{
    write_to(p, type, v, opened, n);
}

static ss_ticket scan(struct ss_backend *p, enum ss_type type, enum ss_op op, const void *src,
                      size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                      struct ss_scan *out)
{
    if (capacity > 0)
        gpu_reserve_list(p, type, n < capacity ? n : capacity);
    return gpu_hand_over(
        p,
        &(struct gpu_job){.step = gpu_step_scan,
                          .give = gpu_give_scan,
                          .type = type,
                          .op = op,
                          .g = src,
                          .n = n,
                          .base = base,
                          .scan = {.out_to = out, .idx = idx, .val = val, .capacity = capacity}});
}

/* Hands over a job that answers with a number of v, or of v and w. */
static ss_ticket ask(struct ss_backend *p, gpu_step *step, gpu_give *give, enum ss_type type,
                     const void *v, const void *w, size_t n, void *out)
{
    return gpu_hand_over(
        p, &(struct gpu_job){
               .step = step, .give = give, .type = type, .g = v, .w = w, .n = n, .to = out});
}

static ss_ticket square(struct ss_backend *p, enum ss_type type, const void *v, size_t n,
                        double *out)
{
    return ask(p, gpu_step_square, gpu_give_square, type, v, NULL, n, out);
}

static ss_ticket not_finite(struct ss_backend *p, enum ss_type type, const void *g, const void *r,
                            size_t n, size_t *out)
{
    return ask(p, gpu_step_not_finite, gpu_give_count, type, g, r, n, out);
}

static ss_ticket sketch(struct ss_backend *p, enum ss_type type, const void *v, size_t n,
                        double *sketch)
{
    return gpu_hand_over(p, &(struct gpu_job){.step = gpu_step_sketch,
                                              .arrive = gpu_arrive_sketch,
                                              .type = type,
                                              .g = v,
                                              .n = n,
                                              .to = sketch});
}

/* ---- selection ---- */

static ss_ticket claim(struct ss_backend *p, struct ss_threshold *t, enum ss_type type,
                       const void *g, void *r, size_t n, uint32_t base, size_t k, uint32_t *idx,
                       void *val, struct ss_selection *out, bool *few)
{
    return gpu_hand_over(p, &(struct gpu_job){.step = gpu_step_claim,
                                              .give = gpu_give_selection,
                                              .type = type,
                                              .g = g,
                                              .v = r,
                                              .n = n,
                                              .base = base,
                                              .select = {.threshold = *t,
                                                         .threshold_to = t,
                                                         .out_to = out,
                                                         .few_to = few,
                                                         .k = k,
                                                         .idx = idx,
                                                         .val = val}});
}

static ss_ticket claim_buckets(struct ss_backend *p, enum ss_type type, const void *g, void *r,
                               size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                               void *val, struct ss_selection *out)
{
    return gpu_hand_over(
        p, &(struct gpu_job){
               .step = gpu_step_claim_buckets,
               .give = gpu_give_selection,
               .type = type,
               .g = g,
               .v = r,
               .n = n,
               .base = base,
               .select = {.out_to = out, .k = k, .bucket = bucket, .idx = idx, .val = val}});
}

static void undo(struct ss_backend *p, enum ss_type type, const void *g, void *r, size_t n,
                 uint32_t base, const uint32_t *idx, const void *val, size_t claimed)
{
    if (n > 0)
        gpu_hand_over(p, &(struct gpu_job){.step = gpu_step_undo,
                                           .type = type,
                                           .g = g,
                                           .v = r,
                                           .n = n,
                                           .base = base,
                                           .from = {.idx = idx, .val = val, .count = claimed}});
}

/* ---- the backend ---- */

_Static_assert(sizeof(struct gpu_exact) <= COUNTS, "what a job waits for");

static struct ss_backend_record *record(struct ss_backend *p)
{
    return &gpu_backend_of(p)->record;
}

/* Costs until they are measured. A launch takes 3 us; a message needs three launches, and each
 * piece that is cleared one. The link has 20 GB/s (that of an H200 about 50), and a core copies 10
 * GB/s to the buffer of the link. An entry takes 5 bytes in a message and 8 in a vector. */
static const struct ss_backend_costs expected = {.encode = 1e-9,
                                                 .decode = 1e-9,
                                                 .put = 1.5e-9,
                                                 .fill = 1.2e-11,
                                                 .cross = 1.5e-10,
                                                 .message = 1e-5,
                                                 .wait = 2e-5};

/* The operations of a backend without modules, which can only copy. */
#define COPIES                                                                                     \
    .remote = true, .poll = gpu_poll, .latest = gpu_latest, .lost = is_lost, .stage = stage,       \
    .unstage = unstage, .fetch = fetch, .store = store

static const struct ss_backend_ops copies = {COPIES};

static const struct ss_backend_ops ops = {
    COPIES,
    .record = record,
    .reserve = gpu_reserve,
    .make = gpu_vector_make,
    .drop = gpu_vector_drop,
    .clear = clear,
    .clear_at = clear_at,
    .copy = copy,
    .write = write_to,
    .scatter = scatter,
    .accumulate = accumulate,
    .decode = gpu_decode,
    .encode = gpu_encode_parts,
    .survey = gpu_survey_parts,
    .reduce = reduce,
    .read = read_to,
    .runs = runs_to,
    .open = open_room,
    .close = close_room,
    .scan = scan,
    .square = square,
    .not_finite = not_finite,
    .sketch = sketch,
    .claim = claim,
    .claim_buckets = claim_buckets,
    .undo = undo,
    .add_at = add_at,
    .add_dense = add_dense,
    .add = add,
    .join = join,
    .leave = leave,
    .scale = scale,
};

const char *gpu_backend_open(struct gpu_backend *p, const struct gpu_driver *driver,
                             const struct gpu_modules *modules, CUcontext context, int ordinal,
                             char *why)
{
    const char *text;
    bool pinned = false;

    *p = (struct gpu_backend){.backend = {modules ? &ops : &copies},
                              .record = {.expected = expected}};
    p->jobs_end = &p->jobs;
    text = gpu_device_open(&p->device, driver, modules, context, ordinal, why);
    if (text)
        return text;
    if (gpu_device_enter(&p->device) == CUDA_SUCCESS) {
        p->counts = gpu_pinned_make(&p->device, COUNTS);
        p->stages = gpu_pinned_make(&p->device, (size_t)GPU_STAGES * GPU_STAGE_BYTES);
        pinned = p->counts && p->stages && gpu_words_make(p) && gpu_slots_make(&p->device);
        gpu_device_leave(&p->device);
    }
    pthread_mutex_init(&p->lock, NULL);
    if (pinned)
        return NULL;
    gpu_backend_close(p);
    return "no pinned memory";
}

static void free_device_memory(struct gpu_backend *p)
{
    struct gpu_area *const areas[] = {&p->crossing, &p->picked,  &p->work,
                                      &p->list,     &p->between, &p->messages};

    gpu_free_gone(p);
    for (size_t i = 0; i < sizeof areas / sizeof areas[0]; i++)
        gpu_memory_free(&p->device, areas[i]->data, areas[i]->bytes);
    for (struct gpu_vector *x = p->vectors; x; x = x->next)
        gpu_memory_free(&p->device, x->data, x->all);
    gpu_pinned_free(&p->device, p->counts);
    gpu_pinned_free(&p->device, p->words);
    gpu_pinned_free(&p->device, p->stages);
}

void gpu_backend_close(struct gpu_backend *p)
{
    gpu_see_whether_gone(&p->device);
    if (p->device.queue.error != CUDA_ERROR_CONTEXT_IS_DESTROYED &&
        gpu_device_enter(&p->device) == CUDA_SUCCESS) {
        (void)p->device.driver->stream_finish(p->device.stream);
        free_device_memory(p);
        gpu_device_leave(&p->device);
    }
    gpu_device_close(&p->device);
    gpu_forget_jobs(p);
    for (struct gpu_vector *x = p->vectors, *next; x; x = next) {
        next = x->next;
        free(x);
    }
    pthread_mutex_destroy(&p->lock);
    *p = (struct gpu_backend){.backend = {&ops}};
}

void gpu_backend_after_program(struct gpu_backend *p)
{
    pthread_mutex_lock(&p->lock);
    gpu_see_whether_gone(&p->device);
    if (p->device.queue.error == 0 && gpu_device_enter(&p->device) == CUDA_SUCCESS) {
        gpu_after_program(&p->device);
        p->follows = true;
        gpu_device_leave(&p->device);
    }
    pthread_mutex_unlock(&p->lock);
}

int gpu_backend_error(struct gpu_backend *p)
{
    int error;

    pthread_mutex_lock(&p->lock);
    error = p->device.queue.error;
    pthread_mutex_unlock(&p->lock);
    return error;
}
