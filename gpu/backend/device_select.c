/* Selection: the passes that struct ss_selecting of core asks for. Each answer is waited for, since
 * the next question depends on it. The claims stay on the device until they are final. */
#include <string.h>

#include "gpu/backend/device_backend_impl.h"

static struct gpu_input input_of(struct gpu_backend *p, const struct gpu_job *j)
{
    const struct gpu_vector *x = j->v ? gpu_vector_of(p, j->v) : NULL;

    return (struct gpu_input){.type = j->type,
                              .g = j->select.control.alone ? NULL : j->g,
                              .r = j->v,
                              .n = j->n,
                              .base = j->base,
                              .overflows = x ? gpu_vector_overflows(x) : NULL};
}

/* Clears the overflow bits of a claim that was never undone. */
static void clear_overflows(struct gpu_backend *p, const struct gpu_job *j)
{
    struct gpu_vector *x = j->v ? gpu_vector_of(p, j->v) : NULL;

    if (!x || !x->overflowed)
        return;
    gpu_clear(&p->device.queue, SS_F32, gpu_vector_overflows(x), (x->bytes / 4 + 31) / 32);
    x->overflowed = false;
}

/* ---- questions ---- */

static const void *find(struct gpu_backend *p, struct gpu_job *j, const struct gpu_input *in)
{
    struct ss_selecting *s = &j->select.control;
    char *work = gpu_area(p, &p->work, (1 + GPU_BINS) * sizeof(struct gpu_search));
    struct gpu_search *found = (struct gpu_search *)(void *)work;
    uint32_t *bins;

    if (!work)
        return NULL;
    bins = (uint32_t *)(void *)(found + 1);
    if (s->ask == SS_ASK_FIND)
        gpu_find(&p->device.queue, in, s->k, found, bins);
    else
        gpu_find_sampled(&p->device.queue, in, s->step, s->rank, found, bins);
    return work;
}

static const void *count(struct gpu_backend *p, struct gpu_job *j, const struct gpu_input *in)
{
    struct ss_selecting *s = &j->select.control;
    uint64_t *work = gpu_area(p, &p->work, sizeof *work);

    if (work)
        gpu_reach_sampled(&p->device.queue, in, s->step, s->t->magnitude, work);
    return work;
}

static size_t room_of(const struct gpu_job *j)
{
    const size_t limit = ss_claim_limit(j->select.k);

    return limit < j->n ? limit : j->n;
}

static const void *claim(struct gpu_backend *p, struct gpu_job *j, const struct gpu_input *in)
{
    struct gpu_list *list = &j->select.list;
    void *work = gpu_area(p, &p->work, gpu_claim_work(j->type, j->n));

    list->room = room_of(j);
    if (!work || !gpu_list_make(p, &p->list, list, ss_type_size(j->type)))
        return NULL;
    clear_overflows(p, j);
    gpu_claim(&p->device.queue, in, j->select.threshold.magnitude, NULL, list, work);
    return work;
}

/* Returns true if the threshold can be found and claimed by in about one reading. If each call
 * finds the threshold anew, no call asks for the sample in between. */
static bool at_once(const struct gpu_job *j)
{
    const struct ss_selecting *s = &j->select.control;

    return s->ask == SS_ASK_FIND && s->t->period == 1 && !j->select.missed;
}

static const void *claim_exact(struct gpu_backend *p, struct gpu_job *j, const struct gpu_input *in)
{
    const size_t k = j->select.k, size = ss_type_size(j->type);
    struct gpu_list *list = &j->select.list, between = {.room = gpu_exact_room(j->n, k)};
    void *work = gpu_area(p, &p->work, gpu_exact_work(j->type, j->n, k));

    list->room = room_of(j);
    if (!work || !gpu_list_make(p, &p->between, &between, size) ||
        !gpu_list_make(p, &p->list, list, size))
        return NULL;
    clear_overflows(p, j);
    gpu_claim_exact(&p->device.queue, in, k, &between, list, work);
    return work;
}

/* Queues the pass. Returns false if that failed. */
static bool ask(struct gpu_backend *p, struct gpu_job *j)
{
    const struct gpu_input in = input_of(p, j);
    const enum ss_ask what = j->select.control.ask;
    const void *counts;
    size_t bytes;

    if (at_once(j)) {
        counts = claim_exact(p, j, &in);
        bytes = sizeof(struct gpu_exact);
    } else if (what == SS_ASK_CLAIM) {
        counts = claim(p, j, &in);
        bytes = sizeof(struct gpu_claimed);
    } else if (what == SS_ASK_COUNT) {
        counts = count(p, j, &in);
        bytes = sizeof(uint64_t);
    } else {
        counts = find(p, j, &in);
        bytes = sizeof(struct gpu_search);
    }
    if (!counts)
        return false;
    gpu_download(&p->device, p->counts, counts, bytes);
    j->end = gpu_record(&p->device);
    return true;
}

static void put_back(struct gpu_backend *p, struct gpu_job *j)
{
    const struct gpu_list *list = &j->select.list;

    gpu_add_at(&p->device.queue, j->type, j->v, j->base, list->idx, list->val,
               j->select.out.claimed);
    ss_selecting_put_back(&j->select.control);
}

/* ---- answers ---- */

static void see_claimed(struct gpu_backend *p, struct gpu_job *j, const struct gpu_claimed *c,
                        size_t reached)
{
    const size_t room = j->select.list.room, claimed = reached < room ? reached : room;
    struct gpu_vector *x = j->v ? gpu_vector_of(p, j->v) : NULL;

    if (x && c->overflowed > 0)
        x->overflowed = true;
    j->select.out = (struct ss_selection){.claimed = claimed,
                                          .over = reached - claimed,
                                          .not_finite = (size_t)c->not_finite,
                                          .stop = j->n,
                                          .largest = c->largest,
                                          .zero_input = !c->any_input,
                                          .input_square = c->input_square,
                                          .sum_square = c->sum_square};
}

static void see_found(struct gpu_job *j, const struct gpu_search *f)
{
    const struct ss_exact found = {.threshold = f->low > 0 ? f->low : SS_LEAST_MAGNITUDE,
                                   .above = (size_t)f->above,
                                   .count = (size_t)f->count,
                                   .all_zero = f->count == 0};

    ss_selecting_found(&j->select.control, &found);
}

/* Takes the result of claim_exact. If the sample has missed the threshold, the residual holds a,
 * and nothing is claimed. If an element is not finite, the selection ends all the same. */
static void see_exact(struct gpu_backend *p, struct gpu_job *j, const struct gpu_exact *x)
{
    const bool missed = x->kept.missed != 0;

    see_claimed(p, j, &x->claimed, missed ? 0 : (size_t)x->kept.kept);
    if (missed && x->claimed.not_finite == 0) {
        j->select.missed = true;
        j->select.seen = j->select.out;
        j->select.control.alone = j->v != NULL;
        return;
    }
    see_found(j, &x->found);
    ss_selecting_claimed(&j->select.control, &j->select.out);
}

static void see_pass(struct gpu_backend *p, struct gpu_job *j, const struct gpu_claimed *c)
{
    struct ss_selection *out = &j->select.out;

    see_claimed(p, j, c, (size_t)c->reached);
    if (j->select.missed) { /* an earlier pass has seen the gradient */
        out->zero_input = j->select.seen.zero_input;
        out->input_square = j->select.seen.input_square;
        out->sum_square = j->select.seen.sum_square;
    }
    ss_selecting_claimed(&j->select.control, out);
}

static void answer(struct gpu_backend *p, struct gpu_job *j)
{
    struct ss_selecting *s = &j->select.control;
    uint64_t reached;

    if (at_once(j)) {
        see_exact(p, j, p->counts);
    } else if (s->ask == SS_ASK_COUNT) {
        memcpy(&reached, p->counts, sizeof reached);
        ss_selecting_counted(s, (size_t)reached);
    } else if (s->ask == SS_ASK_CLAIM) {
        see_pass(p, j, p->counts);
    } else {
        see_found(j, p->counts);
    }
}

/* ---- steps ---- */

enum { START, ASK, WAIT, SEND };

static bool send_claims(struct gpu_backend *p, struct gpu_job *j)
{
    return gpu_send_list_to_host(p, j, &j->select.list, j->select.idx, j->select.val,
                                 j->select.out.claimed);
}

bool gpu_step_claim(struct gpu_backend *p, struct gpu_job *j)
{
    struct ss_selecting *s = &j->select.control;

    if (j->phase == START) {
        ss_selecting_start(s, &j->select.threshold, j->select.k, j->v != NULL);
        j->phase = ASK;
    }
    while (j->phase != SEND) {
        if (j->phase == WAIT) {
            if (!gpu_arrived(p, j))
                return false;
            answer(p, j);
        }
        if (s->ask == SS_ASK_PUT_BACK)
            put_back(p, j);
        j->phase = s->ask == SS_ASK_NOTHING ? SEND : WAIT;
        if (j->phase == WAIT && !ask(p, j))
            return false;
    }
    return send_claims(p, j);
}

static bool start_buckets(struct gpu_backend *p, struct gpu_job *j)
{
    const size_t bucket = j->select.bucket;
    const struct gpu_input in = input_of(p, j);
    struct gpu_list *list = &j->select.list;
    void *work = gpu_area(p, &p->work, gpu_buckets_work(j->n, bucket));

    list->room = j->select.k * ((j->n + bucket - 1) / bucket);
    if (!work || !gpu_list_make(p, &p->list, list, ss_type_size(j->type)))
        return false;
    clear_overflows(p, j);
    gpu_claim_buckets(&p->device.queue, &in, j->select.k, bucket, list, work);
    gpu_download(&p->device, p->counts, work, sizeof(struct gpu_claimed));
    j->end = gpu_record(&p->device);
    j->phase = WAIT;
    return false;
}

bool gpu_step_claim_buckets(struct gpu_backend *p, struct gpu_job *j)
{
    if (j->phase == START)
        return start_buckets(p, j);
    if (j->phase == WAIT) {
        if (!gpu_arrived(p, j))
            return false;
        const struct gpu_claimed *c = p->counts;
        see_claimed(p, j, c, (size_t)c->reached);
        j->phase = SEND;
    }
    return send_claims(p, j);
}

void gpu_give_selection(struct gpu_job *j)
{
    const struct gpu_selection_job *s = &j->select;

    *s->out_to = s->out;
    if (s->few_to)
        *s->few_to = s->control.few;
    if (s->threshold_to)
        *s->threshold_to = s->threshold;
}

/* Undoes a claim. Queued behind the claim, so that the overflow bits of the claim are known. */
bool gpu_step_undo(struct gpu_backend *p, struct gpu_job *j)
{
    struct gpu_vector *x = j->v ? gpu_vector_of(p, j->v) : NULL;
    const struct gpu_list none = {.room = 0};
    struct gpu_input in;

    if (!j->v)
        return true;
    if (!gpu_step_add_at(p, j))
        return false;
    in = input_of(p, j);
    gpu_undo(&p->device.queue, &in, &none, 0, x && x->overflowed);
    if (x)
        x->overflowed = false;
    return true;
}
