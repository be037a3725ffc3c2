/* The residual, reached through the operations of its backend. */
#include "core/tensor/residual.h"

#include <string.h>

#include "core/compute/vector.h"
#include "core/tensor/tensor_impl.h"

/* Returns the bytes of a residual: one element if this rank holds none, so that it is there. */
static size_t bytes_of(const struct ss_tensor *t)
{
    return (size_t)(t->range.n > 0 ? t->range.n : 1) * ss_type_size(t->type);
}

void *ss_residual_at(struct ss_tensor *t, uint64_t first)
{
    char *values = t->residual.values.data;

    return values ? values + (size_t)(first - t->range.first) * ss_type_size(t->type) : NULL;
}

const void *ss_residual_values(const struct ss_tensor *t)
{
    return t->residual.values.data;
}

/* Copies the elements that this rank holds to the host. */
static int read_held(const struct ss_tensor *t, void *to)
{
    struct ss_backend *p = t->residual.backend;

    return ss_backend_wait(
        p, p->ops->read(p, t->type, t->residual.values.data, (size_t)t->range.n, to));
}

int ss_residual_read(const struct ss_tensor *t, void *to)
{
    const size_t esize = ss_type_size(t->type), first = (size_t)t->range.first * esize;

    if (t->range.n < t->n)
        memset(to, 0, (size_t)t->n * esize);
    return read_held(t, (char *)to + first);
}

bool ss_residual_make(struct ss_tensor *t)
{
    struct ss_buf *values = &t->residual.values;

    if (values->data)
        return true;
    if (t->residual.backend->ops->make(t->residual.backend, t->set->mem, values, bytes_of(t)) !=
        SS_OK)
        return false;
    t->set->lanes[t->lane].residuals++;
    return true;
}

void ss_residual_drop(struct ss_tensor *t)
{
    if (t->residual.values.data)
        t->set->lanes[t->lane].residuals--;
    t->residual.backend->ops->drop(t->residual.backend, &t->residual.values);
}

void ss_residual_clear(struct ss_tensor *t)
{
    t->residual.backend->ops->clear(t->residual.backend, t->type, t->residual.values.data,
                                    (size_t)t->range.n);
    t->residual.square = 0;
}

ss_ticket ss_residual_measure(const struct ss_tensor *t, double *square)
{
    struct ss_backend *p = t->residual.backend;

    return p->ops->square(p, t->type, t->residual.values.data, (size_t)t->range.n, square);
}

void ss_residual_measured(struct ss_tensor *t, double square)
{
    t->residual.square = square;
}

static bool is_lost(const struct ss_tensor *t)
{
    struct ss_backend *p = t->residual.backend;

    return ss_residual_there(t) && p->ops->lost && p->ops->lost(p);
}

double ss_residual_norm(struct ss_tensor *t)
{
    double square = 0;

    if (ss_residual_there(t) && !is_lost(t) &&
        ss_backend_wait(t->residual.backend, ss_residual_measure(t, &square)) != SS_OK)
        square = 0; /* the backend has failed */
    return t->residual.norm = ss_root(square);
}

void ss_residual_claimed(struct ss_tensor *t, double square)
{
    t->residual.square = square > 0 ? square : 0;
}

void ss_residual_add(struct ss_tensor *t, const uint32_t *idx, const void *val, size_t count)
{
    t->residual.backend->ops->add_at(t->residual.backend, t->type, t->residual.values.data,
                                     (uint32_t)t->range.first, idx, val, count);
}

void ss_residual_return(struct ss_tensor *t, const uint32_t *idx, const void *val, size_t count)
{
    ss_residual_add(t, idx, val, count);
    t->residual.square += ss_vector_square(t->type, val, count);
}

void ss_residual_add_dense(struct ss_tensor *t, uint64_t first, const void *val, size_t count)
{
    t->residual.backend->ops->add_dense(t->residual.backend, t->type, ss_residual_at(t, first), val,
                                        count);
}

void ss_residual_join(const struct ss_tensor *t, const void *in, void *out, double share)
{
    const size_t esize = ss_type_size(t->type), first = (size_t)t->range.first * esize,
                 end = first + (size_t)t->range.n * esize;

    if (in != out && t->range.by_host) {
        memcpy(out, in, first);
        memcpy((char *)out + end, (const char *)in + end, (size_t)t->n * esize - end);
    }
    t->residual.backend->ops->join(t->residual.backend, t->type, (const char *)in + first,
                                   t->residual.values.data, (char *)out + first, (size_t)t->range.n,
                                   share);
}

void ss_residual_leave(struct ss_tensor *t, double share)
{
    double left = 1 - share;

    if (left == 0) {
        ss_residual_clear(t);
        return;
    }
    t->residual.backend->ops->leave(t->residual.backend, t->type, t->residual.values.data,
                                    (size_t)t->range.n, share);
    t->residual.square *= left * left;
}

void ss_residual_scale(struct ss_tensor *t, double factor)
{
    if (!ss_residual_there(t))
        return;
    t->residual.backend->ops->scale(t->residual.backend, t->type, t->residual.values.data,
                                    (size_t)t->range.n, factor);
    t->residual.square *= factor * factor;
    ss_threshold_scale(&t->threshold, t->type, factor);
}

static void give_up(struct ss_tensor *t)
{
    t->set->lost_square += t->residual.square;
    ss_residual_drop(t);
    t->residual.square = 0;
}

double ss_residual_give_up(struct ss_tensor *t)
{
    double norm;

    if (!is_lost(t))
        return 0;
    norm = ss_root(t->residual.square);
    give_up(t);
    return norm;
}

int ss_residual_move(struct ss_tensor *t, struct ss_backend *to)
{
    struct ss_backend *from = t->residual.backend;
    size_t bytes = bytes_of(t);
    struct ss_buf moved = {0}, copy = {0};
    int status = SS_OK;

    if (from == to)
        return SS_OK;
    if (is_lost(t)) {
        status = SS_ERR_DEVICE;
    } else if (ss_residual_there(t)) {
        status = ss_buf_reserve(&copy, t->set->mem, bytes);
        if (status == SS_OK)
            status = read_held(t, copy.data);
        if (status == SS_OK)
            status = to->ops->make(to, t->set->mem, &moved, bytes);
        if (status == SS_OK) {
            to->ops->write(to, t->type, moved.data, copy.data, (size_t)t->range.n);
            from->ops->drop(from, &t->residual.values);
            t->residual.values = moved;
        }
        ss_buf_free(&copy);
    }
    if (status == SS_ERR_DEVICE) {
        give_up(t);
        status = SS_OK;
    }
    if (status == SS_OK)
        t->residual.backend = to;
    return status;
}

double ss_residual_lost(struct ss_tensors *tensors)
{
    const double norm = ss_root(tensors->lost_square);

    tensors->lost_square = 0;
    return norm;
}
