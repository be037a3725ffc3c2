/* The residual as a whole: its norm against that of the input, its way into dense calls, its scale
 * (design sections 5 and 7). */
#include <float.h>
#include <string.h>

#include "core/call_impl.h"
#include "core/tensor_impl.h"

bool ss_residual_pending(struct ss_call *c)
{
    struct ss_tensor *t = c->tensor;

    if (!t || t->state == SS_TENSOR_REGISTERED || !t->residual.data || t->fresh)
        return false;
    t->residual_square = ss_square_sum(t->type, t->residual.data, (size_t)t->n);
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
    c->input_square = ss_square_sum(c->type, c->in, (size_t)c->n);
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

void ss_residual_join(struct ss_call *c)
{
    struct ss_tensor *t = c->tensor;
    double ratio = ss_bits_double(c->vote.ballot.ratio_max);

    if (!t || !t->residual.data || t->fresh)
        return;
    bool left = t->state == SS_TENSOR_EXACT &&
                (t->reason == SS_TENSOR_LEFT || t->reason == SS_TENSOR_GUARDED);
    c->joined = ratio <= (left ? LITTLE : 1) ? 1 : SIXTEENTH;
    if (c->type == SS_F32)
        join_32((const float *)c->in, t->residual.data, (void *)c->out, (size_t)c->n,
                (float)c->joined);
    else
        join_64((const double *)c->in, t->residual.data, (void *)c->out, (size_t)c->n, c->joined);
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

/* All other registered tensors of the communicator have held the jump of this one. */
static bool others_held(const struct ss_comm *comm, const struct ss_tensor *of)
{
    for (const struct ss_tensor *t = ss_tensors_first(comm->tensors); t; t = t->next)
        if (t != of && t->state == SS_TENSOR_REGISTERED && t->residual.data &&
            (t->jump != of->jump || t->jump_held < HELD))
            return false;
    return true;
}

/* This one is to hold it for the last time that is needed, and the others have. */
static bool nearly_held(const struct ss_comm *comm, const struct ss_tensor *t)
{
    return t->jump_held >= HELD - 1 && others_held(comm, t);
}

static bool new_round(const struct ss_call *c)
{
    return c->comm->scale_round > c->tensor->scale_round;
}

uint64_t ss_residual_jump(const struct ss_call *c)
{
    const struct ss_comm *comm = c->comm;
    const struct ss_tensor *t = c->tensor;

    if (!c->topk || !comm->settings->residual_scale)
        return 0;
    uint64_t fields[] = {ss_double_bits(t->reference_square),
                         (uint64_t)(t->jump + NO_JUMP),
                         t->jump_held,
                         new_round(c),
                         (uint64_t)comm->scale_begun | (uint64_t)comm->scale_refused << 1,
                         (uint64_t)(comm->scale_jump + NO_JUMP),
                         nearly_held(comm, t)};
    uint64_t h = 0x9e3779b97f4a7c15ULL;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        h = ss_mix(h, fields[i]);
    return h | 1;
}

/* The jump that all ranks see: of the voted norm, from a state that the vote has confirmed. */
static int agreed_jump(const struct ss_call *c)
{
    const struct ss_ballot *b = &c->vote.ballot;
    const struct ss_comm *comm = c->comm;
    const struct ss_tensor *t = c->tensor;
    double norm = ss_bits_double(b->norm_max);

    if (!ss_ballot_same(b, SS_SAME_JUMP) || b->same_min[SS_SAME_JUMP] == 0)
        return 0;
    if (new_round(c)) { /* the first finite call after one that was not */
        int jump = jump_of(norm, t->reference_square, LOOSE);
        return comm->scale_refused || (comm->scale_begun && jump != comm->scale_jump) ? 0 : jump;
    }
    bool again = jump_of(norm, t->reference_square, STRICT) == t->jump;
    return again && nearly_held(comm, t) ? t->jump : 0;
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
    t->reference_square *= factor * factor;
    t->jump_held = 0;
    scale_magnitude(t->type, &t->threshold, factor);
}

static void scale_by_power(struct ss_tensor *t, int exponent)
{
    double factor = power_of_two(exponent);

    ss_residual_scale(t, factor);
    scale_magnitude(t->type, &t->agreed.global, factor);
    t->scaled_by += exponent;
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

    if (!c->topk || !comm->settings->residual_scale)
        return false;
    bool round = new_round(c);
    int jump = agreed_jump(c);
    if (t->number == comm->scale_tensor)
        comm->scale_stepped = true;
    if (round && !(t->reference_square > 0)) { /* nothing is known of it: it has no say */
        t->scale_round = comm->scale_round;
        t->scaled_by = 0;
        return false;
    }
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
    c->comm->scale_tensor = c->tensor->number;
}

void ss_residual_seen(struct ss_call *c)
{
    struct ss_tensor *t = c->tensor;
    double norm = ss_bits_double(c->vote.ballot.norm_max);
    int jump = jump_of(norm, t->reference_square, STRICT);

    if (!(norm > 0))
        return;
    if (jump != 0) {
        t->jump_held = jump == t->jump ? t->jump_held + 1 : 1;
        t->jump = jump;
        if (t->jump_held <= 2 * HELD) /* longer than that the other tensors do not follow */
            return;
    }
    t->jump_held = 0;
    t->reference_square = norm;
}
