/* The residual as a whole: its norm against that of the input, its way into dense calls (design
 * sections 5 and 7). */
#include <float.h>
#include <string.h>

#include "core/feedback/feedback.h"
#include "core/tensor/tensor_impl.h"

/* All of it has been sent. A tensor that rests keeps the room. */
static void empty(struct ss_tensor *t)
{
    if (t->state != SS_TENSOR_REGISTERED)
        ss_tensor_drop_residual(t);
    else
        t->emptied = t->resting;
}

bool ss_residual_pending(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_tensor *t = f->tensor;

    if (!t || !t->placed || !t->residual.data || t->fresh)
        return false;
    if (t->state == SS_TENSOR_REGISTERED && (!f->resting || t->emptied))
        return false;
    if (!f->resting || !(t->residual_square > 0))
        t->residual_square = ss_square_sum(t->type, t->residual.data, (size_t)t->n);
    if (t->residual_square == 0) {
        bool zero = true;
        const unsigned char *bytes = t->residual.data;
        for (size_t i = 0; zero && i < (size_t)t->n * x->esize; i++)
            zero = bytes[i] == 0;
        if (zero) {
            empty(t);
            return false;
        }
    }
    f->input_square = ss_square_sum(x->type, f->c.in, (size_t)x->n);
    return true;
}

double ss_residual_ratio_square(const struct ss_feedback *f)
{
    const struct ss_tensor *t = f->tensor;

    if (!t || !t->residual.data || !(t->residual_square > 0))
        return 0;
    if (!(f->input_square > 0))
        return DBL_MAX;
    return t->residual_square / f->input_square;
}

/* ---- dense calls ---- */

static const double SIXTEENTH = 0.0625;

/* Of what has left top-k for what it looked like, so little is left that it may go at once: ratio
 * of squared norms. */
static const double LITTLE = 1e-6;

#define DEFINE_JOIN(name, real)                                                                    \
    static void name(const real *in, const real *r, real *out, size_t n, real share)               \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            out[i] = in[i] + share * r[i];                                                         \
    }

DEFINE_JOIN(join_32, float)
DEFINE_JOIN(join_64, double)

#define DEFINE_LEAVE(name, real)                                                                   \
    static void name(real *r, size_t n, real share)                                                \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            r[i] -= share * r[i];                                                                  \
    }

DEFINE_LEAVE(leave_32, float)
DEFINE_LEAVE(leave_64, double)

void ss_residual_join(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    struct ss_tensor *t = f->tensor;
    double ratio = ss_bits_double(f->vote.ballot.ratio_max);

    if (!t || !t->placed || !t->residual.data || t->fresh || ss_scale_asked(f))
        return;
    f->joined = ratio <= (ss_tensor_has_left(t) ? LITTLE : 1) ? 1 : SIXTEENTH;
    if (x->type == SS_F32)
        join_32((const float *)c->in, t->residual.data, (void *)c->out, (size_t)x->n,
                (float)f->joined);
    else
        join_64((const double *)c->in, t->residual.data, (void *)c->out, (size_t)x->n, f->joined);
}

void ss_residual_leave(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_tensor *t = f->tensor;
    double left = 1 - f->joined;

    if (left == 0)
        memset(t->residual.data, 0, (size_t)t->n * x->esize);
    else if (x->type == SS_F32)
        leave_32(t->residual.data, (size_t)t->n, (float)f->joined);
    else
        leave_64(t->residual.data, (size_t)t->n, f->joined);
    t->residual_square *= left * left;
    if (left == 0)
        empty(t);
}
