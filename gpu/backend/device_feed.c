/* Copies the host's arrays to the device: in pieces that fit a slot, each followed by the launch
 * that uses it. */
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/device_backend_impl.h"

enum { ALIGNED = 16 };

/* ---- copies of arrays ---- */

bool gpu_source_keep(struct gpu_source *s, enum ss_type type)
{
    const size_t each = !s->val ? 0 : s->each ? s->each : ss_type_size(type);
    const size_t values = s->count * each, entries = s->idx ? s->count * sizeof *s->idx : 0,
                 runs = s->runs ? s->count * sizeof *s->runs : 0;
    char *kept;

    if (s->kept || s->there || s->done == s->count)
        return true;
    kept = malloc(values + entries + runs + 1);
    if (!kept)
        return false;
    if (values > 0)
        s->val = memcpy(kept, s->val, values);
    if (entries > 0)
        s->idx = memcpy(kept + values, s->idx, entries);
    if (runs > 0)
        s->runs = memcpy(kept, s->runs, runs);
    s->kept = kept;
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static bool ascends(const uint32_t *idx, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (idx[i] <= idx[i - 1])
            return false;
    return true;
}

/* Takes the entries in passes: each pass takes the first entry left of each index. Each element
 * thus gets its values in their original order. keys: index and position, ascending. */
static void take_passes(uint64_t *keys, size_t count, const char *from, size_t size, char *val,
                        uint32_t *idx)
{
    while (count > 0) {
        size_t left = 0;
        uint32_t last = 0;
        for (size_t i = 0; i < count; i++) {
            const uint32_t at = (uint32_t)(keys[i] >> 32);
            if (i > 0 && at == last) {
                keys[left++] = keys[i];
                continue;
            }
            last = *idx++ = at;
            memcpy(val, from + (keys[i] & UINT32_MAX) * size, size);
            val += size;
        }
        count = left;
    }
}

bool gpu_source_order(struct gpu_source *s, enum ss_type type)
{
    const size_t size = ss_type_size(type);
    uint64_t *keys;
    char *kept;

    if (ascends(s->idx, s->count))
        return true;
    keys = malloc(s->count * sizeof *keys);
    kept = malloc(s->count * (size + sizeof *s->idx));
    if (keys && kept) {
        uint32_t *idx = (uint32_t *)(void *)(kept + s->count * size);
        for (size_t i = 0; i < s->count; i++)
            keys[i] = (uint64_t)s->idx[i] << 32 | i;
        qsort(keys, s->count, sizeof *keys, compare_keys);
        take_passes(keys, s->count, s->val, size, kept, idx);
        *s = (struct gpu_source){.idx = idx, .val = kept, .count = s->count, .kept = kept};
    } else {
        free(kept);
    }
    free(keys);
    return s->kept != NULL;
}

/* ---- entries and elements ---- */

/* Applies a piece of entries or elements that is on the device. */
typedef void apply(struct gpu_backend *p, struct gpu_job *j, const uint32_t *idx, const void *val,
                   size_t count);

/* Returns the length of the next piece, in which no index comes twice. */
static size_t entries_of(const struct gpu_source *s, size_t each)
{
    const size_t most = (GPU_SLOT_BYTES - 2 * ALIGNED) / each, left = s->count - s->done;
    size_t m = 1;

    if (!s->idx)
        return left < most ? left : most;
    while (m < left && m < most && s->idx[s->done + m] > s->idx[s->done + m - 1])
        m++;
    return m;
}

/* Uploads the source piece by piece and applies each piece. Elements get the same alignment within
 * 16 bytes as the vector. */
static bool feed(struct gpu_backend *p, struct gpu_job *j, apply *f)
{
    struct gpu_source *s = &j->from;
    const size_t size = ss_type_size(j->type), entry = s->idx ? sizeof *s->idx : 0,
                 value = s->val ? size : 0;

    if (s->there) {
        f(p, j, s->idx, s->val, s->count);
        s->done = s->count;
    }
    while (s->done < s->count) {
        const size_t m = entries_of(s, entry + value);
        const size_t skew = s->idx ? 0 : ((uintptr_t)j->v + s->done * size) % ALIGNED;
        const size_t before = (m * entry + ALIGNED - 1) / ALIGNED * ALIGNED + skew;
        char *far = gpu_area(p, &p->crossing, GPU_SLOT_BYTES), *near;
        if (!far || !(near = gpu_upload_room(p, before + m * value)))
            return false;
        if (entry > 0)
            memcpy(near, s->idx + s->done, m * entry);
        if (value > 0)
            memcpy(near + before, (const char *)s->val + s->done * size, m * value);
        gpu_upload(&p->device, far, near, before + m * value);
        f(p, j, (const uint32_t *)(const void *)far, far + before, m);
        s->done += m;
    }
    return true;
}

static void apply_clear(struct gpu_backend *p, struct gpu_job *j, const uint32_t *idx,
                        const void *val, size_t count)
{
    (void)val;
    gpu_clear_at(&p->device.queue, j->type, j->v, j->base, idx, count);
}

bool gpu_step_clear_at(struct gpu_backend *p, struct gpu_job *j)
{
    return feed(p, j, apply_clear);
}

static void apply_scatter(struct gpu_backend *p, struct gpu_job *j, const uint32_t *idx,
                          const void *val, size_t count)
{
    gpu_scatter(&p->device.queue, j->type, j->v, j->base, idx, val, count, NULL);
}

bool gpu_step_scatter(struct gpu_backend *p, struct gpu_job *j)
{
    return feed(p, j, apply_scatter);
}

static void apply_accumulate(struct gpu_backend *p, struct gpu_job *j, const uint32_t *idx,
                             const void *val, size_t count)
{
    gpu_accumulate(&p->device.queue, j->type, j->op, j->v, j->base, idx, val, count, NULL);
}

bool gpu_step_accumulate(struct gpu_backend *p, struct gpu_job *j)
{
    return feed(p, j, apply_accumulate);
}

static void apply_add_at(struct gpu_backend *p, struct gpu_job *j, const uint32_t *idx,
                         const void *val, size_t count)
{
    gpu_add_at(&p->device.queue, j->type, j->v, j->base, idx, val, count);
}

bool gpu_step_add_at(struct gpu_backend *p, struct gpu_job *j)
{
    return feed(p, j, apply_add_at);
}

static void *next_of(const struct gpu_job *j)
{
    return (char *)j->v + j->from.done * ss_type_size(j->type);
}

static void apply_reduce(struct gpu_backend *p, struct gpu_job *j, const uint32_t *idx,
                         const void *val, size_t count)
{
    (void)idx;
    gpu_reduce(&p->device.queue, j->type, j->op, next_of(j), val, count);
}

bool gpu_step_reduce(struct gpu_backend *p, struct gpu_job *j)
{
    return feed(p, j, apply_reduce);
}

static void apply_add(struct gpu_backend *p, struct gpu_job *j, const uint32_t *idx,
                      const void *val, size_t count)
{
    (void)idx;
    gpu_add(&p->device.queue, j->type, next_of(j), val, count);
}

bool gpu_step_add_dense(struct gpu_backend *p, struct gpu_job *j)
{
    return feed(p, j, apply_add);
}

bool gpu_step_write(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_source *s = &j->from;
    const size_t size = ss_type_size(j->type);

    while (s->done < s->count) {
        const size_t m = entries_of(s, size);
        char *near = gpu_upload_room(p, m * size);
        if (!near)
            return false;
        memcpy(near, (const char *)s->val + s->done * size, m * size);
        gpu_upload(&p->device, next_of(j), near, m * size);
        s->done += m;
    }
    return true;
}

/* ---- runs ---- */

/* Returns the number of elements from the position of `s` on, at most `most`. */
static size_t elements_ahead(const struct gpu_source *s, size_t most)
{
    size_t m = 0, within = s->within;

    for (size_t i = s->done; i < s->count && m < most; i++, within = 0)
        m += s->runs[i].count - within;
    return m < most ? m : most;
}

static void list_positions(struct gpu_source *s, uint32_t *indices, size_t m)
{
    size_t listed = 0;

    while (s->done < s->count) {
        const struct ss_run run = s->runs[s->done];
        while (s->within < run.count && listed < m)
            indices[listed++] = (uint32_t)(run.first + s->within++);
        if (s->within < run.count)
            return;
        s->done++;
        s->within = 0;
    }
}

bool gpu_step_runs(struct gpu_backend *p, struct gpu_job *j)
{
    const size_t size = ss_type_size(j->type), most = GPU_SLOT_BYTES / size;
    size_t m;

    while ((m = elements_ahead(&j->from, most)) > 0) {
        struct gpu_source next = j->from;
        uint32_t *far = gpu_area(p, &p->crossing, GPU_SLOT_BYTES), *near;
        void *picked = gpu_area(p, &p->picked, GPU_SLOT_BYTES);
        if (!far || !picked || !(near = gpu_upload_room(p, m * sizeof *near)))
            return false;
        list_positions(&next, near, m);
        gpu_upload(&p->device, far, near, m * sizeof *near);
        gpu_pick(&p->device.queue, j->type, j->g, far, m, picked);
        if (!gpu_send_to_host(p, j, (char *)j->to + j->sent[0], picked, m * size))
            return false;
        j->sent[0] += m * size;
        j->from = next;
    }
    j->from.done = j->from.count;
    return true;
}
