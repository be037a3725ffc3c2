#include "gpu/crossing.h"

#include <string.h>

void gpu_crossing_begin(struct gpu_crossing *x, bool out, void *host, void *memory, size_t bytes,
                        const struct gpu_range *ranges, size_t count)
{
    *x = (struct gpu_crossing){.host = host,
                               .memory = memory,
                               .out = out,
                               .ranges = ranges,
                               .count = ranges ? count : 1,
                               .whole = {0, bytes}};
}

/* ---- slots ---- */

static char *slot_at(const struct gpu_crossings *all, unsigned slot)
{
    return all->memory + (size_t)slot * GPU_CROSSING_BYTES;
}

static bool take_slot(struct gpu_crossings *all, struct gpu_device *d, unsigned *slot)
{
    for (unsigned i = 0; i < GPU_CROSSING_SLOTS; i++)
        if (!all->taken[i] && gpu_passed(d, all->busy[i])) {
            *slot = i;
            return true;
        }
    return false;
}

static void free_slot(struct gpu_crossings *all, unsigned slot, gpu_ticket busy)
{
    all->taken[slot] = false;
    all->busy[slot] = busy;
}

/* ---- parts ---- */

/* The next that fits a slot; 0 bytes: there is none. */
static struct gpu_range next_part(struct gpu_crossing *x)
{
    while (x->range < x->count) {
        const struct gpu_range *r = x->ranges ? &x->ranges[x->range] : &x->whole;
        const size_t left = r->bytes - x->done;
        if (left > 0)
            return (struct gpu_range){r->from + x->done,
                                      left < GPU_CROSSING_BYTES ? left : GPU_CROSSING_BYTES};
        x->range++;
        x->done = 0;
    }
    return (struct gpu_range){0, 0};
}

static void queue_part(struct gpu_crossing *x, struct gpu_crossings *all, struct gpu_device *d,
                       struct gpu_range part, unsigned slot)
{
    char *through = slot_at(all, slot);

    if (x->out) {
        memcpy(through, x->host + part.from, part.bytes);
        gpu_upload(d, x->memory + part.from, through, part.bytes);
        x->ticket = gpu_mark(d);
        free_slot(all, slot, x->ticket);
    } else {
        gpu_download(d, through, x->memory + part.from, part.bytes);
        x->ticket = gpu_mark(d);
        all->taken[slot] = true;
        x->part[x->parts++] = (struct gpu_crossing_part){slot, part.from, part.bytes, x->ticket};
    }
    x->done += part.bytes;
    x->crossed += part.bytes;
}

/* What has come. */
static void bring(struct gpu_crossing *x, struct gpu_crossings *all, struct gpu_device *d)
{
    size_t n = 0;

    while (n < x->parts && gpu_passed(d, x->part[n].ticket) && d->queue.error == 0) {
        const struct gpu_crossing_part *p = &x->part[n++];
        memcpy(x->host + p->from, slot_at(all, p->slot), p->bytes);
        free_slot(all, p->slot, 0);
        x->crossed += p->bytes;
    }
    x->parts -= n;
    memmove(x->part, x->part + n, x->parts * sizeof *x->part);
}

bool gpu_crossing_step(struct gpu_crossing *x, struct gpu_crossings *all, struct gpu_device *d)
{
    struct gpu_range part;
    unsigned slot;

    bring(x, all, d);
    while ((part = next_part(x)).bytes > 0 && take_slot(all, d, &slot) && d->queue.error == 0)
        queue_part(x, all, d, part, slot);
    return d->queue.error == 0 && (part.bytes > 0 || x->parts > 0 || !gpu_passed(d, x->ticket));
}

void gpu_crossing_leave(struct gpu_crossing *x, struct gpu_crossings *all)
{
    for (size_t i = 0; i < x->parts; i++)
        free_slot(all, x->part[i].slot, x->part[i].ticket);
    x->parts = 0;
    x->range = x->count;
}
