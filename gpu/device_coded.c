/* Received chunks as they came: across the link with their codes, and decoded on the device. */
#include <string.h>

#include "gpu/device_place_impl.h"

enum { BEHIND = 16 }; /* bytes that a kernel may read */

/* A word that is nobody's; NULL: jobs have all of them. */
static struct gpu_word *take_word(struct gpu_place *p)
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

/* The payload on the device, with what may be read behind it; NULL: not now. */
static char *send_payload(struct gpu_place *p, const struct gpu_job *j)
{
    const size_t bytes = j->coded.what.bytes;
    char *far = gpu_area(p, &p->crossing, GPU_SLOT_BYTES);
    char *near = far ? gpu_upload_room(p, bytes + BEHIND) : NULL;

    if (!near)
        return NULL;
    memcpy(near, j->from.val, bytes);
    memset(near + bytes, 0, BEHIND);
    gpu_upload(&p->device, far, near, bytes + BEHIND);
    return far;
}

static bool step(struct gpu_place *p, struct gpu_job *j)
{
    struct gpu_queue *q = &p->device.queue;
    const struct ss_coded *c = &j->coded.what;
    uint32_t *idx = gpu_area(p, &p->picked, GPU_SLOT_BYTES);
    uint32_t *refused = idx + SS_CHUNK_ENTRIES;

    if (!j->coded.word)
        j->coded.word = take_word(p);
    if (!idx || !j->coded.word)
        return false;
    const char *far = send_payload(p, j);
    if (!far)
        return false;
    gpu_unpack(q,
               &(struct gpu_code){.words = far,
                                  .runs = (uint32_t)c->runs,
                                  .code = (uint32_t)c->code,
                                  .parameter = c->parameter,
                                  .first = c->first,
                                  .last = c->last,
                                  .nnz = c->nnz},
               idx, refused, j->coded.word->at);
    if (j->coded.set)
        gpu_scatter(q, j->type, j->v, j->base, idx, far, c->nnz, refused);
    else
        gpu_accumulate(q, j->type, j->op, j->v, j->base, idx, far, c->nnz, refused);
    j->from.done = j->from.count;
    return true;
}

ss_ticket gpu_decode(struct ss_place *p, enum ss_type type, const enum ss_op *op, void *dst,
                     uint32_t base, const struct ss_coded *coded, int *refused)
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

bool gpu_words_make(struct gpu_place *p)
{
    p->words = gpu_pinned_make(&p->device, GPU_WORDS * sizeof *p->words);
    for (size_t i = 0; p->words && i < GPU_WORDS; i++)
        p->word[i] = (struct gpu_word){.at = &p->words[i]};
    return p->words != NULL;
}
