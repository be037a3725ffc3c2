/* Received chunks: copied to the device with their codes, and decoded there. */
#include <string.h>

#include "core/wire/rice.h"
#include "core/wire/value_buckets.h"
#include "gpu/backend/device_backend_impl.h"
#include "gpu/kernels/codes.h"

_Static_assert((int)GPU_RUN == (int)SS_RICE_RUN && (int)GPU_ESCAPE == (int)SS_RICE_ESCAPE,
               "one code for all backends");
_Static_assert((SS_CHUNK_ENTRIES + GPU_RUN - 2) / GPU_RUN <= GPU_RUNS, "runs of the longest");
_Static_assert((int)GPU_AS_IT_IS == (int)SS_BUCKET_AS_IT_IS &&
                   (int)GPU_CODED == (int)SS_BUCKET_CODED && (int)GPU_ZEROS == (int)SS_BUCKET_ZEROS,
               "one form of buckets for all backends");

enum { BEHIND = 16 }; /* bytes behind the payload that a kernel may read */

/* Takes a free word. Returns NULL if jobs have all words. */
static struct gpu_word *take_word(struct gpu_backend *p)
{
    for (size_t i = 0; i < GPU_WORDS; i++)
        if (!p->word[i].taken) {
            p->word[i].taken = true;
            *p->word[i].at = 0;
            return &p->word[i];
        }
    return NULL;
}

static void give_word(struct gpu_job *j)
{
    if (*(volatile uint32_t *)j->coded.word->at != 0)
        *j->coded.refused = j->coded.what.sender + 1;
    j->coded.word->taken = false;
}

/* Addresses on the device: the payload, with bytes behind it that kernels may read, and the offsets
 * of the buckets of rounded values. */
struct sent {
    const char *payload;
    const uint32_t *offsets;
};

static size_t aligned(size_t bytes)
{
    return (bytes + BEHIND - 1) / BEHIND * BEHIND;
}

/* Uploads the payload. Returns false if there is no room now. */
static bool send_payload(struct gpu_backend *p, const struct gpu_job *j, struct sent *sent)
{
    const struct ss_coded *c = &j->coded.what;
    const size_t before = aligned(c->bytes + BEHIND);
    const size_t buckets =
        c->how == SS_VALUES_SAME ? 0 : c->nnz / ss_values_bucket(j->from.val) + 1;
    char *far = gpu_area(p, &p->crossing, GPU_SLOT_BYTES);
    char *near = far ? gpu_upload_room(p, before + 4 * buckets) : NULL;

    if (!near)
        return false;
    memcpy(near, j->from.val, c->bytes);
    memset(near + c->bytes, 0, before - c->bytes);
    if (buckets > 0)
        (void)ss_values_look(j->type, c->how, near, c->values, (uint32_t *)(void *)(near + before),
                             c->nnz);
    gpu_upload(&p->device, far, near, before + 4 * buckets);
    *sent = (struct sent){far, (const uint32_t *)(const void *)(far + before)};
    return true;
}

/* Layout of the area with the decoded entries. */
enum { IDX = 0, REFUSED = 4 * SS_CHUNK_ENTRIES, VALUES = 2 * REFUSED };

static bool step(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_queue *q = &p->device.queue;
    const struct ss_coded *c = &j->coded.what;
    char *room = gpu_area(p, &p->picked, GPU_SLOT_BYTES);
    struct sent sent;

    if (!j->coded.word)
        j->coded.word = take_word(p);
    if (!room || !j->coded.word || !send_payload(p, j, &sent))
        return false;
    uint32_t *idx = (uint32_t *)(void *)(room + IDX),
             *refused = (uint32_t *)(void *)(room + REFUSED);
    const void *val = sent.payload;
    gpu_unpack(q,
               &(struct gpu_code){.words = sent.payload,
                                  .runs = (uint32_t)c->runs,
                                  .code = (uint32_t)c->code,
                                  .parameter = c->parameter,
                                  .first = c->first,
                                  .last = c->last,
                                  .nnz = c->nnz},
               idx, refused, j->coded.word->at);
    if (c->how != SS_VALUES_SAME) {
        val = room + VALUES;
        gpu_widen(q, j->type,
                  &(struct gpu_rounded){.from = sent.payload,
                                        .offsets = sent.offsets,
                                        .bucket = ss_values_bucket(j->from.val),
                                        .nnz = c->nnz,
                                        .bf16 = c->how == SS_VALUES_BF16},
                  room + VALUES, refused, j->coded.word->at);
    }
    if (j->coded.set)
        gpu_scatter(q, j->type, j->v, j->base, idx, val, c->nnz, refused);
    else
        gpu_accumulate(q, j->type, j->op, j->v, j->base, idx, val, c->nnz, refused);
    j->from.done = j->from.count;
    return true;
}

ss_ticket gpu_decode(struct ss_backend *p, enum ss_type type, const enum ss_op *op, void *dst,
                     uint32_t base, const struct ss_coded *coded, atomic_int *refused)
{
    return gpu_hand_over(
        p, &(struct gpu_job){.step = step,
                             .give = give_word,
                             .type = type,
                             .op = op ? *op : SS_SUM,
                             .v = dst,
                             .base = base,
                             .from = {.val = coded->payload, .each = coded->bytes, .count = 1},
                             .coded = {.what = *coded, .set = !op, .refused = refused}});
}

bool gpu_words_make(struct gpu_backend *p)
{
    p->words = gpu_pinned_make(&p->device, GPU_WORDS * sizeof *p->words);
    for (size_t i = 0; p->words && i < GPU_WORDS; i++)
        p->word[i] = (struct gpu_word){.at = &p->words[i]};
    return p->words != NULL;
}
