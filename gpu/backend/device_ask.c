/* Scans, sums, counts and sketches of a vector. The device counts first; when the counts have
 * arrived, the job knows what to copy. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "gpu/backend/device_backend_impl.h"

_Static_assert((int)SS_SKETCH_BUCKETS == (int)GPU_SKETCH, "one sketch for all backends");

/* Downloads counts and waits for them before the job's next part. */
static bool wait_for(struct gpu_backend *p, struct gpu_job *j, const void *counts, size_t bytes)
{
    gpu_download(&p->device, p->counts, counts, bytes);
    j->end = gpu_record(&p->device);
    j->phase++;
    return false;
}

/* ---- scan ---- */

enum { BITMAP = 1 << 21 }; /* elements of a bitmap */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Starts the scan of the next piece. */
static bool start_scan(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_scan_job *s = &j->scan;
    const size_t size = ss_type_size(j->type);
    const size_t left = j->n - s->at, wanted = least(s->capacity - s->out.stored, left);

    if (s->at == 0)
        s->out.stop = j->n;
    s->list.room = gpu_list_room(&p->list, wanted, size);
    if (s->list.room == 0) /* no room was reserved */
        s->list.room = wanted;
    s->piece = s->list.room < wanted ? s->list.room : left;
    void *work = gpu_area(p, &p->work, gpu_scan_work(j->type, s->piece));
    if (!work || !gpu_list_make(p, &p->list, &s->list, size))
        return false;
    gpu_scan(&p->device.queue, j->type, j->op, (const char *)j->g + s->at * size, s->piece,
             j->base + (uint32_t)s->at, &s->list, work);
    return wait_for(p, j, work, sizeof(struct gpu_scanned));
}

static void see_scan(struct gpu_backend *p, struct gpu_job *j)
{
    const struct gpu_scanned *s = p->counts;
    const bool floats = ss_type_is_float(j->type);
    struct ss_scan *out = &j->scan.out;
    const size_t nnz = (size_t)s->nnz;

    j->scan.here = least(nnz, j->scan.list.room);
    if (j->scan.here < nnz && out->stop == j->n)
        out->stop = j->scan.at + (size_t)s->stop;
    /* A bitmap has all indices of the piece in at most half the bytes. */
    j->scan.mapping = j->scan.idx && !gpu_vector_of(p, j->scan.idx) && nnz == j->scan.here &&
                      nnz > j->scan.piece / 16;
    out->nnz += nnz;
    out->negative_zero = out->negative_zero || (floats && s->negative_zero);
    out->not_finite = out->not_finite || (floats && s->not_finite);
    j->phase++;
}

/* Sends the indices of a piece as bitmaps of ranges, as far as slots are free. */
static bool send_bitmap(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_scan_job *s = &j->scan;

    while (s->mapped < s->piece) {
        const size_t bits = least(s->piece - s->mapped, BITMAP);
        const uint32_t first = j->base + (uint32_t)(s->at + s->mapped);
        uint32_t *words = gpu_area(p, &p->picked, GPU_SLOT_BYTES);
        if (!words)
            return false;
        gpu_bitmap(&p->device.queue, s->list.idx, s->here, first, bits, words);
        if (!gpu_send_to_host(p, j, s->mapped == 0 ? s->idx + s->out.stored : NULL, words,
                              (bits + 31) / 32 * sizeof *words))
            return false;
        gpu_call_bitmap(j, first, bits);
        s->mapped += bits;
    }
    return true;
}

void gpu_take_bitmap(struct gpu_job *j, const struct gpu_parcel *x)
{
    const uint32_t *words = x->slot->data;
    uint32_t *next = x->to ? x->to : j->scan.next;

    for (size_t i = 0; i < (x->bits + 31) / 32; i++)
        for (uint32_t word = words[i]; word; word &= word - 1)
            *next++ = x->first + (uint32_t)(32 * i) + (uint32_t)__builtin_ctz(word);
    j->scan.next = next;
}

static bool send_piece(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_scan_job *s = &j->scan;
    const size_t stored = s->out.stored;
    void *val = s->val ? (char *)s->val + stored * ss_type_size(j->type) : NULL;

    if (s->mapping && !send_bitmap(p, j))
        return false;
    if (s->mapping)
        j->sent[1] = s->here * sizeof *s->idx;
    if (!gpu_send_list_to_host(p, j, &s->list, s->idx ? s->idx + stored : NULL, val, s->here))
        return false;
    s->out.stored += s->here;
    s->at += s->piece;
    j->sent[0] = j->sent[1] = s->mapped = 0;
    j->phase = 0;
    return true;
}

bool gpu_step_scan(struct gpu_backend *p, struct gpu_job *j)
{
    do {
        if (j->phase == 0)
            return start_scan(p, j);
        if (j->phase == 1) {
            if (!gpu_arrived(p, j))
                return false;
            see_scan(p, j);
        }
        if (!send_piece(p, j))
            return false;
    } while (j->scan.at < j->n);
    return true;
}

void gpu_give_scan(struct gpu_job *j)
{
    *j->scan.out_to = j->scan.out;
}

/* ---- squares ---- */

/* The beginning of the work area. */
struct square_counts {
    uint32_t any, unused[15];
    double sum;
};

size_t gpu_backend_square_work(enum ss_type type, size_t n)
{
    return offsetof(struct square_counts, sum) + gpu_square_work(type, n);
}

static bool start_square(struct gpu_backend *p, struct gpu_job *j)
{
    const size_t before = offsetof(struct square_counts, sum);
    char *work = gpu_area(p, &p->work, gpu_backend_square_work(j->type, j->n));

    if (!work)
        return false;
    gpu_any_bit(&p->device.queue, j->type, j->g, j->n, (uint32_t *)(void *)work);
    gpu_square(&p->device.queue, j->type, j->g, j->n, work + before);
    return wait_for(p, j, work, sizeof(struct square_counts));
}

bool gpu_step_square(struct gpu_backend *p, struct gpu_job *j)
{
    const struct square_counts *c = p->counts;

    if (j->phase == 0)
        return start_square(p, j);
    if (!gpu_arrived(p, j))
        return false;
    j->square = c->sum == 0 && c->any ? DBL_TRUE_MIN : c->sum;
    return true;
}

void gpu_give_square(struct gpu_job *j)
{
    memcpy(j->to, &j->square, sizeof j->square);
}

/* ---- elements that are not finite ---- */

bool gpu_step_not_finite(struct gpu_backend *p, struct gpu_job *j)
{
    uint64_t *work = gpu_area(p, &p->work, sizeof *work), found;

    if (!work)
        return false;
    if (j->phase == 0) {
        gpu_not_finite(&p->device.queue, j->type, j->g, j->w, j->n, work);
        return wait_for(p, j, work, sizeof *work);
    }
    if (!gpu_arrived(p, j))
        return false;
    memcpy(&found, p->counts, sizeof found);
    j->count = (size_t)found;
    return true;
}

void gpu_give_count(struct gpu_job *j)
{
    memcpy(j->to, &j->count, sizeof j->count);
}

/* ---- sketch ---- */

/* Converts the sums in the slot to doubles. */
void gpu_arrive_sketch(struct gpu_job *j, void *slot)
{
    int64_t sums[GPU_SKETCH];
    double sketch[GPU_SKETCH];

    memcpy(sums, slot, sizeof sums);
    for (size_t i = 0; i < GPU_SKETCH; i++)
        sketch[i] = ldexp((double)sums[i], -j->shift);
    memcpy(slot, sketch, sizeof sketch);
}

/* Computes the sketch in units that the largest element allows. */
bool gpu_step_sketch(struct gpu_backend *p, struct gpu_job *j)
{
    int64_t *sums = gpu_area(p, &p->work, GPU_SKETCH * sizeof *sums);
    uint64_t largest;

    if (!sums)
        return false;
    if (j->phase == 0) {
        gpu_largest(&p->device.queue, j->type, j->g, j->n, (uint64_t *)sums);
        return wait_for(p, j, sums, sizeof largest);
    }
    if (!gpu_arrived(p, j))
        return false;
    if (j->phase == 1) {
        memcpy(&largest, p->counts, sizeof largest);
        j->shift = gpu_sketch_shift(j->type, largest, j->n);
        j->phase++;
    }
    gpu_sketch(&p->device.queue, j->type, j->g, j->n, j->shift, sums);
    return gpu_send_to_host(p, j, j->to, sums, GPU_SKETCH * sizeof *sums);
}
