/* Entries that have stayed on the device: encoded there, so that only messages cross the link, and
 * looked at. Messages are encoded in batches, and sent to the host once their lengths are known. */
#include <stdlib.h>
#include <string.h>

#include "core/wire/rice.h"
#include "core/wire/value_buckets.h"
#include "gpu/backend/device_backend_impl.h"
#include "gpu/kernels/codes.h"

_Static_assert((int)GPU_LONG == (int)SS_RICE_LONG && (int)GPU_ENTRIES == (int)SS_CHUNK_ENTRIES &&
                   (int)GPU_PARAMETER_MOST == (int)SS_RICE_MAX,
               "one code for all backends");
_Static_assert((int)GPU_REP_U32 == (int)SS_REP_U32 && (int)GPU_REP_PACKED == (int)SS_REP_PACKED &&
                   (int)GPU_REP_BITMAP == (int)SS_REP_BITMAP &&
                   (int)GPU_REP_DENSE == (int)SS_REP_DENSE,
               "representations");
_Static_assert((int)GPU_CODING_AUTO == (int)SS_CODING_AUTO &&
                   (int)GPU_CODING_U32 == (int)SS_CODING_U32 &&
                   (int)GPU_CODING_PACKED == (int)SS_CODING_PACKED &&
                   (int)GPU_CODING_BITMAP == (int)SS_CODING_BITMAP,
               "codings");
_Static_assert((int)GPU_SAME == (int)SS_VALUES_SAME && (int)GPU_BF16 == (int)SS_VALUES_BF16 &&
                   (int)GPU_Q8 == (int)SS_VALUES_Q8 &&
                   GPU_BUCKETS * SS_BUCKET_LEAST >= SS_CHUNK_ENTRIES,
               "values");
_Static_assert(sizeof(struct ss_share) == sizeof(struct gpu_share), "one form for all backends");

enum { BATCH = GPU_COUNTS / sizeof(uint32_t), ROOM = 8 << 20, ALIGNED = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static size_t message_room(enum ss_type type, size_t entries)
{
    return aligned(ss_wire_bound(type, (uint32_t)entries));
}

size_t gpu_messages_room(enum ss_type type, size_t n)
{
    const size_t whole = n / SS_CHUNK_ENTRIES * message_room(type, SS_CHUNK_ENTRIES);

    return least(whole + message_room(type, n % SS_CHUNK_ENTRIES) + BATCH * message_room(type, 0),
                 ROOM);
}

static bool step_lack_memory(struct gpu_backend *p, struct gpu_job *j)
{
    (void)j;
    gpu_fail(p);
    return false;
}

/* ---- a batch ---- */

/* The next message; false: there is none. */
static bool next_message(struct gpu_leaving_job *l, struct gpu_message *m)
{
    const struct ss_part *part = &l->what.parts[l->part];

    if (l->part == l->what.count)
        return false;
    const size_t left = part->count - l->within, count = least(left, SS_CHUNK_ENTRIES);
    *m = (struct gpu_message){.first = (unsigned)(part->first + l->within),
                              .count = (unsigned)count,
                              .last = count == left};
    return true;
}

static void pass(struct gpu_leaving_job *l, const struct gpu_message *m)
{
    l->within += m->count;
    if (m->last) {
        l->part++;
        l->within = 0;
    }
}

/* As many messages as there is room for. */
static void make_table(struct gpu_job *j, size_t room)
{
    struct gpu_leaving_job *l = &j->leaving;
    struct gpu_message m;
    size_t at = 0;

    l->messages = l->sent = 0;
    while (l->messages < BATCH && next_message(l, &m)) {
        const size_t bytes = message_room(j->type, m.count);
        if (at + bytes > room)
            return;
        m.at = (unsigned)at;
        l->table[l->messages++] = m;
        at += bytes;
        pass(l, &m);
    }
}

static bool start_batch(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_leaving_job *l = &j->leaving;
    const size_t room = least(gpu_messages_room(j->type, j->n), ROOM);
    void *area = gpu_area(p, &p->messages, room),
         *table = gpu_area(p, &p->crossing, GPU_SLOT_BYTES);
    uint32_t *lengths = gpu_area(p, &p->work, GPU_COUNTS);
    void *near = area && table && lengths ? gpu_upload_room(p, BATCH * sizeof *l->table) : NULL;

    if (!near)
        return false;
    l->area = area;
    make_table(j, room);
    memcpy(near, l->table, l->messages * sizeof *l->table);
    gpu_upload(&p->device, table, near, l->messages * sizeof *l->table);
    gpu_encode(&p->device.queue,
               &(struct gpu_outgoing){.type = j->type,
                                      .idx = l->what.idx,
                                      .val = l->what.val,
                                      .error = l->what.error,
                                      .table = table,
                                      .messages = l->messages,
                                      .head = gpu_wire_head(&l->what.key, l->what.how.values),
                                      .call = l->what.key.call,
                                      .coding = (uint32_t)l->what.coding,
                                      .bucket = l->what.how.bucket},
               area, lengths);
    gpu_download(&p->device, p->counts, lengths, l->messages * sizeof *lengths);
    j->end = gpu_record(&p->device);
    return true;
}

/* The lengths have come: they take the place of the counts. */
static void see_lengths(struct gpu_backend *p, struct gpu_leaving_job *l)
{
    const uint32_t *lengths = p->counts;

    for (size_t i = 0; i < l->messages; i++)
        l->table[i].count = lengths[i];
}

static bool send_messages(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_leaving_job *l = &j->leaving;
    size_t part = l->part;

    for (size_t i = l->messages; i > l->sent; i--) /* of those that are left: which part's */
        part -= l->table[i - 1].last;
    for (; l->sent < l->messages; l->sent++) {
        const struct gpu_message *m = &l->table[l->sent];
        if (!gpu_send_to_host(p, j, l->to + l->at, l->area + m->at, m->count))
            return false;
        l->at += aligned(m->count);
        if (m->last)
            l->ends[part++] = l->at;
    }
    return true;
}

enum { START, ENCODING, SENDING };

static bool step_encode(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_leaving_job *l = &j->leaving;

    while (j->phase != START || l->part < l->what.count) {
        if (j->phase == START) {
            if (start_batch(p, j))
                j->phase = ENCODING;
            return false;
        }
        if (j->phase == ENCODING) {
            if (!gpu_arrived(p, j))
                return false;
            see_lengths(p, l);
            j->phase = SENDING;
        }
        if (!send_messages(p, j))
            return false;
        j->phase = START;
    }
    return true;
}

static void give_ends(struct gpu_job *j)
{
    memcpy(j->leaving.ends_to, j->leaving.ends, j->leaving.what.count * sizeof *j->leaving.ends);
}

ss_ticket gpu_encode_parts(struct ss_backend *p, enum ss_type type, const struct ss_leaving *what,
                           void *to, size_t *ends)
{
    const size_t parts = what->count * sizeof *what->parts, bytes = what->count * sizeof *ends;
    char *kept = malloc(parts + bytes + BATCH * sizeof(struct gpu_message));
    struct gpu_job j = {.step = step_encode,
                        .give = give_ends,
                        .type = type,
                        .from = {.kept = kept},
                        .leaving = {.what = *what, .to = to, .ends_to = ends}};

    if (!kept)
        return gpu_hand_over(p, &(struct gpu_job){.step = step_lack_memory});
    memcpy(kept, what->parts, parts);
    j.leaving.what.parts = (const struct ss_part *)(const void *)kept;
    j.leaving.ends = (size_t *)(void *)(kept + parts);
    j.leaving.table = (struct gpu_message *)(void *)(kept + parts + bytes);
    for (size_t i = 0; i < what->count; i++)
        j.n += what->parts[i].count;
    return gpu_hand_over(p, &j);
}

/* ---- a look at them ---- */

static bool step_survey(struct gpu_backend *p, struct gpu_job *j)
{
    const struct gpu_survey_job *s = &j->survey;
    const size_t bytes = (s->count + 1) * sizeof *s->cuts;
    uint32_t *cuts = gpu_area(p, &p->crossing, GPU_SLOT_BYTES), *near;
    struct gpu_share *shares = gpu_area(p, &p->picked, GPU_SLOT_BYTES);

    if (!cuts || !shares)
        return false;
    if (j->phase == 0) {
        near = gpu_upload_room(p, bytes);
        if (!near)
            return false;
        memcpy(near, s->cuts, bytes);
        gpu_upload(&p->device, cuts, near, bytes);
        gpu_survey(&p->device.queue, j->type, s->idx, j->g, j->n, cuts, s->count, shares);
        j->phase++;
    }
    return gpu_send_to_host(p, j, s->to, shares, s->count * sizeof *shares);
}

ss_ticket gpu_survey_parts(struct ss_backend *p, enum ss_type type, const uint32_t *idx,
                           const void *val, size_t nnz, const uint32_t *cuts, size_t count,
                           struct ss_share *out)
{
    const size_t bytes = (count + 1) * sizeof *cuts;
    uint32_t *kept = malloc(bytes);

    if (!kept || count * sizeof *out > GPU_SLOT_BYTES) {
        free(kept);
        return gpu_hand_over(p, &(struct gpu_job){.step = step_lack_memory});
    }
    memcpy(kept, cuts, bytes);
    return gpu_hand_over(p, &(struct gpu_job){.step = step_survey,
                                              .type = type,
                                              .g = val,
                                              .n = nnz,
                                              .from = {.kept = kept},
                                              .survey = {idx, kept, count, out}});
}
