#include "core/tensor/residual.h"

#include "core/compute/vector.h"
#include "core/tensor/tensor_impl.h"

void *ss_residual_at(struct ss_tensor *t, uint64_t first)
{
    char *values = t->residual.values.data;

    return values ? values + (size_t)first * ss_type_size(t->type) : NULL;
}

const void *ss_residual_values(const struct ss_tensor *t)
{
    return t->residual.values.data;
}

bool ss_residual_make(struct ss_tensor *t)
{
    struct ss_buf *values = &t->residual.values;

    if (values->data)
        return true;
    if (ss_buf_reserve(values, t->owner->mem, (size_t)t->n * ss_type_size(t->type)) != SS_OK)
        return false;
    ss_vector_clear(t->type, values->data, (size_t)t->n);
    t->owner->lanes[t->lane].residuals++;
    t->fresh = true;
    return true;
}

void ss_residual_drop(struct ss_tensor *t)
{
    if (t->residual.values.data)
        t->owner->lanes[t->lane].residuals--;
    ss_buf_free(&t->residual.values);
    t->fresh = false;
}

void ss_residual_clear(struct ss_tensor *t)
{
    ss_vector_clear(t->type, t->residual.values.data, (size_t)t->n);
    t->residual.square = 0;
}

double ss_residual_measure(struct ss_tensor *t)
{
    t->residual.square = ss_vector_square(t->type, t->residual.values.data, (size_t)t->n);
    return t->residual.square;
}

double ss_residual_norm(struct ss_tensor *t)
{
    if (!ss_residual_there(t))
        return t->residual.norm = 0;
    return t->residual.norm =
               ss_root(ss_vector_square(t->type, t->residual.values.data, (size_t)t->n));
}

bool ss_residual_is_clear(const struct ss_tensor *t)
{
    return ss_vector_is_clear(t->type, t->residual.values.data, (size_t)t->n);
}

void ss_residual_claimed(struct ss_tensor *t, double square)
{
    t->residual.square = square > 0 ? square : 0;
}

void ss_residual_add(struct ss_tensor *t, const uint32_t *idx, const void *val, size_t count)
{
    ss_vector_add_at(t->type, t->residual.values.data, 0, idx, val, count);
}

void ss_residual_return(struct ss_tensor *t, const uint32_t *idx, const void *val, size_t count)
{
    ss_residual_add(t, idx, val, count);
    t->residual.square += ss_vector_square(t->type, val, count);
}

void ss_residual_add_dense(struct ss_tensor *t, uint64_t first, const void *val, size_t count)
{
    ss_vector_add(t->type, ss_residual_at(t, first), val, count);
}

void ss_residual_join(const struct ss_tensor *t, const void *in, void *out, double share)
{
    ss_vector_join(t->type, in, t->residual.values.data, out, (size_t)t->n, share);
}

void ss_residual_leave(struct ss_tensor *t, double share)
{
    double left = 1 - share;

    if (left == 0) {
        ss_residual_clear(t);
        return;
    }
    ss_vector_leave(t->type, t->residual.values.data, (size_t)t->n, share);
    t->residual.square *= left * left;
}

void ss_residual_scale(struct ss_tensor *t, double factor)
{
    if (!ss_residual_there(t))
        return;
    ss_vector_scale(t->type, t->residual.values.data, (size_t)t->n, factor);
    t->residual.square *= factor * factor;
    ss_threshold_scale(&t->threshold, t->type, factor);
}

void ss_residual_hand_over(struct ss_tensor *from, struct ss_tensor *to)
{
    if (!ss_residual_there(from))
        return;
    if (ss_residual_there(to)) {
        ss_vector_add(to->type, to->residual.values.data, from->residual.values.data,
                      (size_t)to->n);
        /* A bound, until the next call knows. */
        to->residual.square = 2 * (to->residual.square + from->residual.square);
        ss_residual_drop(from);
    } else {
        to->residual.values = from->residual.values;
        to->residual.square = from->residual.square;
        from->residual.values = (struct ss_buf){0};
    }
    from->residual.square = 0;
    to->emptied = false;
}
