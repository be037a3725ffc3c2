/* The residual as a whole: its norm against that of the input, its way into dense calls, its scale
 * (design sections 5 and 7). */
#include <float.h>
#include <string.h>

#include "core/call_impl.h"
#include "core/tensor_impl.h"

static double square_sum(enum ss_type type, const void *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i += 4096) { /* short sums keep the error small */
        size_t end = n - i < 4096 ? n : i + 4096;
        double part = 0;
        if (type == SS_F32)
            for (size_t j = i; j < end; j++)
                part += (double)((const float *)v)[j] * (double)((const float *)v)[j];
        else
            for (size_t j = i; j < end; j++)
                part += ((const double *)v)[j] * ((const double *)v)[j];
        sum += part;
    }
    return sum;
}

double ss_stream_square(enum ss_type type, const void *val, size_t nnz)
{
    return square_sum(type, val, nnz);
}

bool ss_residual_pending(struct ss_call *c)
{
    struct ss_tensor *t = c->tensor;

    if (!t || t->state == SS_TENSOR_REGISTERED || !t->residual.data || t->fresh)
        return false;
    t->residual_square = square_sum(t->type, t->residual.data, (size_t)t->n);
    if (t->residual_square == 0) {
        bool zero = true;
        const unsigned char *bytes = t->residual.data;
        for (size_t i = 0; zero && i < (size_t)t->n * c->esize; i++)
            zero = bytes[i] == 0;
        if (zero) {
            ss_tensor_drop_residual(t);
            return false;
        }
    }
    c->input_square = square_sum(c->type, c->in, (size_t)c->n);
    return true;
}

double ss_residual_ratio_square(const struct ss_call *c)
{
    const struct ss_tensor *t = c->tensor;

    if (!t || !t->residual.data || !(t->residual_square > 0))
        return 0;
    if (!(c->input_square > 0))
        return DBL_MAX;
    return t->residual_square / c->input_square;
}

/* ---- dense calls ---- */

static const double SIXTEENTH = 0.0625;

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

void ss_residual_join(struct ss_call *c)
{
    struct ss_tensor *t = c->tensor;
    double ratio = ss_bits_double(c->vote.ballot.ratio_max);

    if (!t || !t->residual.data || t->fresh)
        return;
    c->joined = ratio <= 1 ? 1 : SIXTEENTH;
    if (c->type == SS_F32)
        join_32((const float *)c->in, t->residual.data, (float *)c->out, (size_t)c->n,
                (float)c->joined);
    else
        join_64((const double *)c->in, t->residual.data, (double *)c->out, (size_t)c->n, c->joined);
}

void ss_residual_leave(struct ss_call *c)
{
    struct ss_tensor *t = c->tensor;
    double left = 1 - c->joined;

    if (left == 0)
        memset(t->residual.data, 0, (size_t)t->n * c->esize);
    else if (c->type == SS_F32)
        leave_32(t->residual.data, (size_t)t->n, (float)c->joined);
    else
        leave_64(t->residual.data, (size_t)t->n, c->joined);
    t->residual_square *= left * left;
    if (left == 0 && t->state != SS_TENSOR_REGISTERED)
        ss_tensor_drop_residual(t);
}

/* ---- loss scale ---- */

enum { HELD = 3, MOST = 24, NO_JUMP = 64 };

/* How far from a power of two a norm may be after a jump, squared: after a call that was not
 * finite, and without such a hint. */
static const double LOOSE = 1.74, STRICT = 1.23;

static double power_of_two(int exponent)
{
    double x = 1;

    for (; exponent > 0; exponent--)
        x *= 2;
    for (; exponent < 0; exponent++)
        x /= 2;
    return x;
}

/* The j for which square / reference is within a factor of 4^j, 0 where there is none. */
static int jump_of(double square, double reference, double factor)
{
    if (!(square > 0) || !(reference > 0))
        return 0;
    double q = square / reference;
    for (int j = -MOST; j <= MOST; j++) {
        double p = power_of_two(2 * j);
        if (q >= p / factor && q <= p * factor)
            return j;
    }
    return 0;
}

/* All registered tensors of the communicator have held a jump by `jump`. */
static bool all_held(const struct ss_comm *comm, int jump)
{
    for (const struct ss_tensor *t = ss_tensors_first(comm->tensors); t; t = t->next)
        if (t->state == SS_TENSOR_REGISTERED && t->residual.data &&
            (t->jump != jump || t->jump_held < HELD))
            return false;
    return true;
}

uint64_t ss_residual_jump(struct ss_call *c)
{
    const struct ss_comm *comm = c->comm;
    struct ss_tensor *t = c->tensor;
    int jump = 0;

    if (!c->topk || !comm->settings->residual_scale || c->scan.not_finite)
        return NO_JUMP;
    if (comm->scale_round > t->scale_round) { /* the first finite call after one that was not */
        jump = jump_of(c->input_square, t->reference_square, LOOSE);
        if (comm->scale_refused || (comm->scale_begun && jump != comm->scale_jump))
            jump = 0;
    } else if (t->jump_held >= HELD - 1 &&
               jump_of(c->input_square, t->reference_square, STRICT) == t->jump) {
        t->jump_held = HELD;
        jump = all_held(comm, t->jump) ? t->jump : 0;
    }
    return (uint64_t)(NO_JUMP + jump);
}

static void scale_magnitude(enum ss_type type, struct ss_threshold *t, double factor)
{
    if (t->magnitude == 0)
        return;
    t->magnitude = ss_magnitude_of(type, ss_magnitude_value(type, t->magnitude) * factor);
    if (t->magnitude < SS_LEAST_MAGNITUDE)
        t->magnitude = SS_LEAST_MAGNITUDE;
}

void ss_residual_scale(struct ss_tensor *t, double factor)
{
    size_t n = (size_t)t->n;

    if (!t->residual.data)
        return;
    if (t->type == SS_F32) {
        float *r = t->residual.data;
        for (size_t i = 0; i < n; i++) {
            double x = (double)r[i] * factor;
            r[i] = x > (double)FLT_MAX ? FLT_MAX : x < -(double)FLT_MAX ? -FLT_MAX : (float)x;
        }
    } else {
        double *r = t->residual.data;
        for (size_t i = 0; i < n; i++) {
            double x = r[i] * factor;
            r[i] = x > DBL_MAX ? DBL_MAX : x < -DBL_MAX ? -DBL_MAX : x;
        }
    }
    t->residual_square *= factor * factor;
    scale_magnitude(t->type, &t->threshold, factor);
}

static void scale_by_power(struct ss_tensor *t, int exponent)
{
    double factor = power_of_two(exponent);

    ss_residual_scale(t, factor);
    scale_magnitude(t->type, &t->agreed.global, factor);
    t->reference_square *= factor * factor;
    t->scaled_by += exponent;
    t->jump_held = 0;
}

static void scale_all(struct ss_comm *comm, int exponent)
{
    for (struct ss_tensor *t = ss_tensors_first(comm->tensors); t; t = t->next)
        if (t->state == SS_TENSOR_REGISTERED)
            scale_by_power(t, exponent);
}

/* Tensors scaled after the same non-finite call go back when one of their step says otherwise. */
static void take_back(struct ss_comm *comm)
{
    for (struct ss_tensor *t = ss_tensors_first(comm->tensors); t; t = t->next)
        if (t->scale_round == comm->scale_round && t->scaled_by != 0)
            scale_by_power(t, -t->scaled_by);
    comm->scale_refused = true;
}

bool ss_residual_rescale(struct ss_call *c)
{
    struct ss_comm *comm = c->comm;
    struct ss_tensor *t = c->tensor;
    const struct ss_ballot *b = &c->vote.ballot;
    if (!t)
        return false;
    int jump = ss_ballot_same(b, SS_SAME_JUMP) ? (int)b->same_min[SS_SAME_JUMP] - NO_JUMP : 0;
    bool round = comm->scale_round > t->scale_round;

    if (!c->topk || !comm->settings->residual_scale)
        return false;
    if (t->lane == comm->scale_lane && t->ordinal == comm->scale_ordinal)
        comm->scale_stepped = true;
    if (round && jump == 0 && !comm->scale_begun && !comm->scale_stepped)
        return false;
    if (round) {
        t->scale_round = comm->scale_round;
        t->scaled_by = 0;
        if (!comm->scale_begun)
            comm->scale_jump = jump;
        else if (jump != comm->scale_jump && !comm->scale_refused)
            take_back(comm);
        comm->scale_begun = true;
    }
    if (jump == 0)
        return false;
    ss_topk_undo(c);
    if (round)
        scale_by_power(t, jump);
    else
        scale_all(comm, jump);
    return true;
}

void ss_residual_not_finite(struct ss_call *c)
{
    if (!c->topk)
        return;
    c->comm->scale_round++;
    c->comm->scale_begun = c->comm->scale_refused = c->comm->scale_stepped = false;
    c->comm->scale_lane = c->tensor->lane;
    c->comm->scale_ordinal = c->tensor->ordinal;
}

void ss_residual_seen(struct ss_call *c)
{
    struct ss_tensor *t = c->tensor;
    int jump = jump_of(c->input_square, t->reference_square, STRICT);

    if (!(c->input_square > 0))
        return;
    if (jump != 0) {
        t->jump_held = jump == t->jump ? t->jump_held + 1 : 1;
        t->jump = jump;
        if (t->jump_held <= 2 * HELD) /* longer than that the other tensors do not follow */
            return;
    }
    t->jump_held = 0;
    t->reference_square = c->input_square;
}
