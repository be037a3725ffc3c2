/* Random programs: collectives, wrapped ones and others, blocking, nonblocking and persistent.
 *
 * Sums are of small whole numbers, exact in any order, so results are compared bit for bit. */
#ifndef TESTS_MPI_RP_COLLECTIVES_H
#define TESTS_MPI_RP_COLLECTIVES_H

#include "tests/mpi/harmless/rp_requests.h"

enum rp_input { RP_SPARSE, RP_DENSE, RP_ZERO, RP_ONE_RANK, RP_NOT_FINITE, RP_INPUTS };

struct rp_element {
    const char *name;
    MPI_Datatype type;
    size_t bytes;
    bool whole;
};

static const struct rp_element rp_elements[] = {
    {"float", MPI_FLOAT, 4, false},  {"double", MPI_DOUBLE, 8, false},
    {"int", MPI_INT, 4, true},       {"long", MPI_LONG, 8, true},
    {"int64", MPI_INT64_T, 8, true}, {"unsigned", MPI_UNSIGNED, 4, true},
    {"short", MPI_SHORT, 2, true},   {"byte sized", MPI_SIGNED_CHAR, 1, true},
};
enum { RP_ELEMENTS = sizeof rp_elements / sizeof *rp_elements };

static const struct {
    const char *name;
    MPI_Op op;
    bool whole; /* for whole numbers only */
} rp_ops[] = {
    {"SUM", MPI_SUM, false},  {"MAX", MPI_MAX, false},  {"MIN", MPI_MIN, false},
    {"BOR", MPI_BOR, true},   {"BXOR", MPI_BXOR, true}, {"LOR", MPI_LOR, true},
    {"LXOR", MPI_LXOR, true}, {"BAND", MPI_BAND, true}, {"PROD", MPI_PROD, true},
};
enum { RP_OPS = sizeof rp_ops / sizeof *rp_ops };

/* Operator and datatype of a reduction. rp_terms_drop frees those made for it, which may happen
 * while a nonblocking call is in flight. */
struct rp_terms {
    const struct rp_element *element;
    MPI_Datatype type;
    MPI_Op op;
    bool own_op, own_type;
    size_t bytes; /* bytes of an element of `type` */
    const char *op_name;
};

struct rp_buffers {
    void *in, *out; /* owned */
    size_t in_bytes, out_bytes;
    size_t out_seen;  /* bytes of `out` that are observed; 0: all of them, and the guard */
    const void *send; /* in, or MPI_IN_PLACE */
};

/* ---- inputs ---- */

static inline void rp_store(void *out, const struct rp_element *e, size_t i, int value)
{
    if (e->bytes == 1)
        ((signed char *)out)[i] = (signed char)value;
    else if (e->bytes == 2)
        ((short *)out)[i] = (short)value;
    else if (e->type == MPI_FLOAT)
        ((float *)out)[i] = (float)value;
    else if (e->type == MPI_DOUBLE)
        ((double *)out)[i] = value;
    else if (e->bytes == 4)
        ((int *)out)[i] = value;
    else
        ((long *)out)[i] = value;
}

static inline int rp_value(enum rp_input input, uint64_t seed, int rank, size_t i)
{
    uint64_t word = input_word(seed, rank, i);

    if (input == RP_ZERO || (input == RP_ONE_RANK && rank != 0) ||
        (input != RP_DENSE && word % 32 != 0))
        return 0;
    return (int)(word >> 32 & 15) - 7;
}

/* Fills an input; `rank` is this rank's in the communicator. */
static void rp_fill(struct rp *p, void *out, const struct rp_element *e, size_t n,
                    enum rp_input input, int rank)
{
    uint64_t seed = p->seed * 1000003 + (uint64_t)p->step;

    for (size_t i = 0; i < n; i++)
        rp_store(out, e, i, rp_value(input, seed, rank, i));
    if (input != RP_NOT_FINITE || e->whole || n == 0 || rank != 0)
        return;
    if (e->type == MPI_FLOAT)
        ((float *)out)[seed % n] = __builtin_inff();
    else
        ((double *)out)[seed % n] = __builtin_nan("");
}

/* Draws counts around the values of SPARSESHIM_MIN_COUNT in the campaign: 1, 1000, 65536. */
static int rp_draw_count(struct rp *p)
{
    switch (rp_draw(p, 24)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
    case 3:
        return 990 + rp_draw(p, 20);
    case 4:
        return 1000 + rp_draw(p, 4000);
    case 5:
        return rp_draw(p, 4) ? 256 : 65530 + rp_draw(p, 12);
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
        return 64; /* often the same, so that lanes repeat */
    default:
        return 2 + rp_draw(p, 100);
    }
}

/* ---- operators ---- */

static void rp_in_operator(int len)
{
    rp_callback();
    atomic_fetch_add(&rp_operations, 1);
    atomic_fetch_add(&rp_combined, len);
    if (rp_here.in_operator++ && rp_here.program)
        rp_note(rp_here.program, "an operator runs within an operator");
}

RP_RUN_BY_MPI static void rp_user_sum(void *in, void *inout, int *len, MPI_Datatype *type)
{
    int type_bytes = 0;

    rp_in_operator(*len);
    PMPI_Type_size(*type, &type_bytes);
    for (int i = 0; i < *len * (type_bytes / 4); i++)
        ((unsigned *)inout)[i] += ((const unsigned *)in)[i];
    rp_here.in_operator--;
}

/* Composes x -> a x + b modulo 2^32, the left operand first: not commutative. */
RP_RUN_BY_MPI static void rp_user_affine(void *in, void *inout, int *len, MPI_Datatype *type)
{
    const unsigned *left = in;
    unsigned *right = inout;

    (void)type;
    rp_in_operator(*len);
    for (int i = 0; i < *len; i++, left += 2, right += 2) {
        right[1] += right[0] * left[1];
        right[0] *= left[0];
    }
    rp_here.in_operator--;
}

static MPI_Datatype rp_contiguous(int n, MPI_Datatype of)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;

    RP(Type_contiguous, n, of, &type);
    RP(Type_commit, &type);
    return type;
}

static struct rp_terms rp_draw_terms(struct rp *p)
{
    const struct rp_element *e =
        &rp_elements[rp_draw(p, 4) ? rp_draw(p, 4) : rp_draw(p, RP_ELEMENTS)];
    struct rp_terms t = {.element = e, .type = e->type, .bytes = e->bytes};
    int op = rp_draw(p, 2) ? 0 : rp_draw(p, RP_OPS), own = rp_draw(p, 5);

    if (own > 0 || p->plain) {
        op = rp_ops[op].whole && !e->whole ? 0 : op;
        t.op = rp_ops[op].op;
        t.op_name = rp_ops[op].name;
        return t;
    }
    t.own_op = true;
    t.element = &rp_elements[2];
    t.type = MPI_INT;
    t.bytes = 4;
    if (rp_draw(p, 3) == 0) {
        t.type = rp_contiguous(2, MPI_INT);
        t.own_type = true;
        t.bytes = 8;
        t.op_name = "an affine";
        RP(Op_create, rp_user_affine, 0, &t.op);
    } else {
        t.op_name = "a user's sum";
        RP(Op_create, rp_user_sum, rp_draw(p, 2), &t.op);
    }
    return t;
}

static void rp_terms_drop(struct rp_terms *t)
{
    if (RP_OPEN_MPI)
        return; /* they stay until the process ends */
    if (t->own_op)
        RP(Op_free, &t->op);
    if (t->own_type)
        RP(Type_free, &t->type);
}

/* ---- reductions ---- */

enum rp_reduction {
    RP_ALLREDUCE,
    RP_IALLREDUCE,
    RP_REDUCE,
    RP_IREDUCE,
    RP_SCATTER_BLOCK,
    RP_ISCATTER_BLOCK,
    RP_SCATTER,
    RP_SCAN,
    RP_ISCAN,
    RP_ALLREDUCE_INIT,
    RP_REDUCTIONS
};

static const char *const rp_reduction_names[RP_REDUCTIONS] = {"Allreduce",
                                                              "Iallreduce",
                                                              "Reduce",
                                                              "Ireduce",
                                                              "Reduce_scatter_block",
                                                              "Ireduce_scatter_block",
                                                              "Reduce_scatter",
                                                              "Scan",
                                                              "Iscan",
                                                              "Allreduce_init"};

static bool rp_is_nonblocking(enum rp_reduction what)
{
    return what == RP_IALLREDUCE || what == RP_IREDUCE || what == RP_ISCATTER_BLOCK ||
           what == RP_ISCAN || what == RP_ALLREDUCE_INIT;
}

/* Each form above in its MPI_Count variant. */
#define RP_EITHER(large, name, ...) ((large) ? RP(name##_c, __VA_ARGS__) : RP(name, __VA_ARGS__))

static int rp_call_reduction(enum rp_reduction what, bool large, const struct rp_buffers *b, int n,
                             const struct rp_terms *t, int root, MPI_Comm comm, MPI_Request *r)
{
    switch (what) {
    case RP_ALLREDUCE:
        return RP_EITHER(large, Allreduce, b->send, b->out, n, t->type, t->op, comm);
    case RP_IALLREDUCE:
        return RP_EITHER(large, Iallreduce, b->send, b->out, n, t->type, t->op, comm, r);
    case RP_REDUCE:
        return RP_EITHER(large, Reduce, b->send, b->out, n, t->type, t->op, root, comm);
    case RP_IREDUCE:
        return RP_EITHER(large, Ireduce, b->send, b->out, n, t->type, t->op, root, comm, r);
    case RP_SCATTER_BLOCK:
        return RP_EITHER(large, Reduce_scatter_block, b->send, b->out, n, t->type, t->op, comm);
    case RP_ISCATTER_BLOCK:
        return RP_EITHER(large, Ireduce_scatter_block, b->send, b->out, n, t->type, t->op, comm, r);
    case RP_SCAN:
        return RP_EITHER(large, Scan, b->send, b->out, n, t->type, t->op, comm);
    case RP_ISCAN:
        return RP_EITHER(large, Iscan, b->send, b->out, n, t->type, t->op, comm, r);
    default:
        return RP_EITHER(large, Allreduce_init, b->send, b->out, n, t->type, t->op, comm,
                         MPI_INFO_NULL, r) == MPI_SUCCESS
                   ? RP(Start, r)
                   : MPI_ERR_OTHER;
    }
}

/* n elements for each rank, twice as many for rank 0 if `more`. */
static int rp_call_scatter(bool large, const struct rp_buffers *b, int n, bool more, int size,
                           const struct rp_terms *t, MPI_Comm comm)
{
    int counts[RP_MOST_RANKS];
    MPI_Count many[RP_MOST_RANKS];

    for (int r = 0; r < size; r++)
        many[r] = counts[r] = more && r == 0 ? 2 * n : n;
    return large ? RP(Reduce_scatter_c, b->send, b->out, many, t->type, t->op, comm)
                 : RP(Reduce_scatter, b->send, b->out, counts, t->type, t->op, comm);
}

static struct rp_buffers rp_make_buffers(size_t in_bytes, size_t out_bytes, bool in_place)
{
    struct rp_buffers b = {.out = rp_alloc(in_place && in_bytes > out_bytes ? in_bytes : out_bytes),
                           .out_bytes = in_place && in_bytes > out_bytes ? in_bytes : out_bytes,
                           .send = MPI_IN_PLACE};

    if (!in_place) {
        b.in = rp_alloc(in_bytes);
        b.in_bytes = in_bytes;
        b.send = b.in;
    }
    return b;
}

/* Hands the buffers to a request in flight; if the call is over, observes and frees them. */
static void rp_keep_buffers(struct rp *p, struct rp_buffers *b, const char *what, bool pending,
                            MPI_Request request, bool persistent)
{
    struct rp_pending *kept = rp_keep(p, what);

    kept->in = b->in;
    kept->in_seen = b->in_bytes + RP_GUARD;
    kept->out = b->out;
    kept->out_seen = b->out_seen ? b->out_seen : b->out_bytes + RP_GUARD;
    kept->request = request;
    kept->persistent = persistent;
    if (!pending)
        rp_finish(p, p->waiting - 1, NULL);
}

static struct rp_slot *rp_draw_slot(struct rp *p)
{
    int slot = rp_draw(p, RP_SLOTS);

    while (!p->slot[slot].used)
        slot = (slot + 1) % RP_SLOTS;
    return &p->slot[slot];
}

/* Draws a slot. If it holds an intercommunicator, returns the slot of the world. */
static struct rp_slot *rp_draw_intra(struct rp *p)
{
    struct rp_slot *slot = rp_draw_slot(p);

    return slot->inter ? &p->slot[0] : slot;
}

static int rp_slot_number(const struct rp *p, const struct rp_slot *slot)
{
    return (int)(slot - p->slot);
}

/* Makes a reduction on a communicator that this rank is a member of, with parameters that are equal
 * on all ranks. */
static void rp_reduce_on(struct rp *p, struct rp_slot *slot, enum rp_reduction what)
{
    struct rp_terms t = rp_draw_terms(p);
    int n = rp_draw_count(p), root_drawn = rp_draw(p, 1000), root = root_drawn % slot->size;
    bool large = rp_draw(p, 5) == 0, in_place = rp_draw(p, 3) == 0 && !slot->inter;
    enum rp_input input =
        (enum rp_input)rp_draw(p, rp_draw(p, 8) || t.op != MPI_SUM ? RP_NOT_FINITE : RP_INPUTS);
    bool scatters = what == RP_SCATTER_BLOCK || what == RP_ISCATTER_BLOCK || what == RP_SCATTER;
    bool more = what == RP_SCATTER && rp_draw(p, 3) == 0;
    size_t in_count = (size_t)n * (size_t)(scatters ? slot->size + more : 1);
    size_t out_count = (size_t)n * (more && slot->rank == 0 ? 2 : 1);
    struct rp_buffers b;
    MPI_Request request = MPI_REQUEST_NULL;

    /* MPICH 4.0.2 crashes in a long MPI_Reduce in place at a root other than rank 0 */
    if ((what == RP_REDUCE || what == RP_IREDUCE) && in_place) {
        root = 0;
        in_place = slot->rank == 0;
    }
    b = rp_make_buffers(in_count * t.bytes, out_count * t.bytes, in_place);
    rp_fill(p, in_place ? b.out : b.in, t.element, in_count * t.bytes / t.element->bytes, input,
            slot->rank);
    rp_note(p, "%s%s of %d %s by %s in slot %d, input %d%s", rp_reduction_names[what],
            large ? "_c" : "", n, t.element->name, t.op_name, rp_slot_number(p, slot), input,
            in_place ? ", in place" : "");
    if (what == RP_SCATTER)
        rp_call_scatter(large, &b, n, more, slot->size, &t, slot->comm);
    else
        rp_call_reduction(what, large, &b, n, &t, root, slot->comm, &request);
    rp_terms_drop(&t);
    if (scatters && in_place) /* MPI leaves undefined what is behind the own block */
        b.out_seen = out_count * t.bytes;
    rp_keep_buffers(p, &b, rp_reduction_names[what], rp_is_nonblocking(what), request,
                    what == RP_ALLREDUCE_INIT);
}

static void rp_act_reduce(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    int what = rp_draw(p, RP_REDUCTIONS + 4);

    if (what >= RP_REDUCTIONS)
        what = (what - RP_REDUCTIONS) % 2;
    if (slot->comm != MPI_COMM_NULL)
        rp_reduce_on(p, slot, (enum rp_reduction)what);
}

/* Posts nonblocking allreduces on several communicators, in an order that differs between ranks. */
static void rp_act_shuffle(struct rp *p)
{
    uint64_t streams = rp_word(&p->shared);
    int slot[RP_SLOTS], n = 0;

    for (int i = 0; i < RP_SLOTS; i++)
        if (p->slot[i].used && !p->slot[i].inter && rp_draw(p, 2))
            slot[n++] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = rp_draw_own(p, i + 1), other = slot[j];

        slot[j] = slot[i];
        slot[i] = other;
    }
    for (int i = 0; i < n; i++) {
        p->shared = streams + (uint64_t)slot[i];
        if (p->slot[slot[i]].comm != MPI_COMM_NULL)
            rp_reduce_on(p, &p->slot[slot[i]], RP_IALLREDUCE);
    }
}

#endif
