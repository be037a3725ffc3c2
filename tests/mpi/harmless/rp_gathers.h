/* Random programs: collectives that move data, served and not served. */
#ifndef TESTS_MPI_RP_GATHERS_H
#define TESTS_MPI_RP_GATHERS_H

#include "tests/mpi/harmless/rp_comms.h"

enum rp_gather {
    RP_ALLGATHER,
    RP_IALLGATHER,
    RP_ALLGATHERV,
    RP_IALLGATHERV,
    RP_ALLTOALL,
    RP_IALLTOALL,
    RP_BCAST,
    RP_IBCAST,
    RP_BARRIER,
    RP_IBARRIER,
    RP_GATHERS
};

static const char *const rp_gather_names[RP_GATHERS] = {
    "Allgather", "Iallgather", "Allgatherv", "Iallgatherv", "Alltoall",
    "Ialltoall", "Bcast",      "Ibcast",     "Barrier",     "Ibarrier"};

enum { RP_LAYOUTS = 5 };

/* The description of the data on a side: n elements of `base` are `count` of `type`. */
struct rp_side {
    MPI_Datatype type;
    int count;
    bool own;
    size_t span; /* bytes in memory */
};

/* Draws a description; n is a multiple of 2. A vector leaves gaps. */
static struct rp_side rp_describe(MPI_Datatype base, size_t base_bytes, int n, int layout)
{
    struct rp_side s = {.type = base, .count = n, .span = (size_t)n * base_bytes};

    if (layout == 1) {
        s.type = rp_contiguous(2, base);
        s.count = n / 2;
        s.own = true;
    } else if (layout == 2) {
        MPI_Datatype inner = MPI_DATATYPE_NULL;
        RP(Type_contiguous_c, 1, base, &inner);
        s.type = rp_contiguous(n > 0 ? n : 1, inner);
        s.count = n > 0;
        s.own = true;
        RP(Type_free, &inner);
    } else if (layout == 3) {
        RP(Type_vector, n / 2, 2, 3, base, &s.type);
        RP(Type_commit, &s.type);
        s.count = 1;
        s.own = true;
        s.span = (size_t)n * base_bytes * 3 / 2;
    }
    return s;
}

/* What is sent in place means nothing. */
static struct rp_side rp_in_place(void)
{
    return (struct rp_side){.type = MPI_DATATYPE_NULL, .count = RP_OPEN_MPI ? 0 : -5};
}

/* Draws what this rank sends. */
static int rp_draw_layout(struct rp *p)
{
    return RP_OPEN_MPI ? 0 : rp_draw_own(p, 4);
}

static void rp_side_drop(struct rp_side *s)
{
    if (s->own)
        RP(Type_free, &s->type);
}

/* Draws words of every pattern, including -0.0, Inf and NaN as floats; one in 16 is non-zero, or
 * all are. */
static void rp_fill_words(struct rp *p, void *out, size_t bytes, bool sparse, int rank)
{
    static const uint32_t special[] = {0x80000000u, 0x7f800000u, 0x7fc00001u, 0xffffffffu, 1u};
    uint64_t seed = p->seed * 1000003 + (uint64_t)p->step;

    for (size_t i = 0; i < bytes / 4; i++) {
        uint64_t word = input_word(seed, rank, i);
        uint32_t value = sparse && word % 16 ? 0
                         : word >> 60        ? (uint32_t)(word >> 16)
                                             : special[(word >> 32) % 5];
        memcpy((char *)out + 4 * i, &value, 4);
    }
}

/* Draws an even count per rank and the beginnings of the slices, in the order of the ranks or
 * reversed, with or without gaps. */
static size_t rp_draw_slices(struct rp *p, int n, int size, int *counts, int *displs)
{
    bool gaps = rp_draw(p, 2), reversed = rp_draw(p, 4) == 0;
    size_t next = 0;

    for (int i = 0; i < size; i++) {
        int r = reversed ? size - 1 - i : i;
        counts[r] = rp_draw(p, 3) ? n : 2 * rp_draw(p, 1 + n / 2);
        displs[r] = (int)next;
        next += (size_t)counts[r] + (gaps ? (size_t)rp_draw(p, 5) : 0);
    }
    return next;
}

/* Overwrites counts and displacements as soon as the call has returned. */
static void rp_gatherv(struct rp *p, struct rp_slot *slot, bool blocking)
{
    int counts[RP_MOST_RANKS], displs[RP_MOST_RANKS], n = rp_draw_count(p) / 2 * 2;
    MPI_Count large_counts[RP_MOST_RANKS];
    MPI_Aint large_displs[RP_MOST_RANKS];
    bool in_place = rp_draw(p, 3) == 0, large = rp_draw(p, 5) == 0, sparse = rp_draw(p, 2);
    size_t total = rp_draw_slices(p, n, slot->size, counts, displs);
    int mine = counts[slot->rank], at = displs[slot->rank];
    struct rp_side s = in_place ? rp_in_place() : rp_describe(MPI_INT, 4, mine, rp_draw_layout(p));
    struct rp_buffers b = rp_make_buffers(in_place ? 0 : s.span, total * 4, in_place);
    MPI_Request request = MPI_REQUEST_NULL;

    rp_fill_words(p, in_place ? (char *)b.out + at * 4 : b.in, in_place ? (size_t)mine * 4 : s.span,
                  sparse, slot->rank);
    for (int r = 0; r < slot->size; r++) {
        large_counts[r] = counts[r];
        large_displs[r] = displs[r];
    }
    rp_note(p, "%sgatherv%s of %d of %zu in slot %d%s", blocking ? "All" : "Iall",
            large ? "_c" : "", mine, total, rp_slot_number(p, slot), in_place ? ", in place" : "");
    if (blocking && large)
        RP(Allgatherv_c, b.send, s.count, s.type, b.out, large_counts, large_displs, MPI_INT,
           slot->comm);
    else if (blocking)
        RP(Allgatherv, b.send, s.count, s.type, b.out, counts, displs, MPI_INT, slot->comm);
    else if (large)
        RP(Iallgatherv_c, b.send, s.count, s.type, b.out, large_counts, large_displs, MPI_INT,
           slot->comm, &request);
    else
        RP(Iallgatherv, b.send, s.count, s.type, b.out, counts, displs, MPI_INT, slot->comm,
           &request);
    memset(counts, 0x7e, sizeof counts);
    memset(displs, 0x7e, sizeof displs);
    memset(large_counts, 0x7e, sizeof large_counts);
    memset(large_displs, 0x7e, sizeof large_displs);
    rp_side_drop(&s);
    rp_keep_buffers(p, &b, "gatherv", !blocking, request, false);
}

static int rp_call_gather(enum rp_gather what, bool large, const struct rp_buffers *b,
                          const struct rp_side *s, const struct rp_side *r, int root, MPI_Comm comm,
                          MPI_Request *request)
{
    switch (what) {
    case RP_ALLGATHER:
        return RP_EITHER(large, Allgather, b->send, s->count, s->type, b->out, r->count, r->type,
                         comm);
    case RP_IALLGATHER:
        return RP_EITHER(large, Iallgather, b->send, s->count, s->type, b->out, r->count, r->type,
                         comm, request);
    case RP_ALLTOALL:
        return RP_EITHER(large, Alltoall, b->send, s->count, s->type, b->out, r->count, r->type,
                         comm);
    case RP_IALLTOALL:
        return RP_EITHER(large, Ialltoall, b->send, s->count, s->type, b->out, r->count, r->type,
                         comm, request);
    case RP_BCAST:
        return RP_EITHER(large, Bcast, b->out, r->count, r->type, root, comm);
    case RP_IBCAST:
        return RP_EITHER(large, Ibcast, b->out, r->count, r->type, root, comm, request);
    case RP_BARRIER:
        return RP(Barrier, comm);
    default:
        return RP(Ibarrier, comm, request);
    }
}

static void rp_gather_on(struct rp *p, struct rp_slot *slot, enum rp_gather what)
{
    static const struct {
        MPI_Datatype type;
        size_t bytes;
    } bases[] = {{MPI_INT, 4},   {MPI_DOUBLE, 8}, {MPI_FLOAT, 4},
                 {MPI_SHORT, 2}, {MPI_CHAR, 1},   {MPI_FLOAT_INT, 8}};
    int base = rp_draw(p, 6), n = rp_draw_count(p) / 2 * 2, root = rp_draw(p, 1000) % slot->size;
    bool gathers = what == RP_ALLGATHER || what == RP_IALLGATHER;
    bool alltoall = what == RP_ALLTOALL || what == RP_IALLTOALL;
    bool in_place = gathers && rp_draw(p, 3) == 0, large = rp_draw(p, 5) == 0;
    bool sparse = rp_draw(p, 2);
    size_t all = gathers || alltoall ? (size_t)slot->size : 1, bytes = bases[base].bytes;
    struct rp_side r = rp_describe(bases[base].type, bytes, n, rp_draw(p, 3));
    struct rp_side s =
        in_place ? rp_in_place()
                 : rp_describe(bases[base].type, bytes, n, gathers ? rp_draw_layout(p) : 0);
    size_t in = alltoall ? s.span * all : s.span, out = r.span * all;
    struct rp_buffers b = rp_make_buffers(in_place ? 0 : in, out, in_place);
    MPI_Request request = MPI_REQUEST_NULL;

    if (b.in)
        rp_fill_words(p, b.in, in, sparse, slot->rank);
    else
        rp_fill_words(p, (char *)b.out + r.span * (size_t)slot->rank, r.span, sparse, slot->rank);
    if ((what == RP_BCAST || what == RP_IBCAST) && slot->rank == root)
        rp_fill_words(p, b.out, out, sparse, root);
    rp_note(p, "%s%s of %d base %d in slot %d%s", rp_gather_names[what], large ? "_c" : "", n, base,
            rp_slot_number(p, slot), in_place ? ", in place" : "");
    rp_call_gather(what, large, &b, &s, &r, root, slot->comm, &request);
    rp_side_drop(&s);
    rp_side_drop(&r);
    rp_keep_buffers(p, &b, rp_gather_names[what],
                    what == RP_IALLGATHER || what == RP_IALLTOALL || what == RP_IBCAST ||
                        what == RP_IBARRIER,
                    request, false);
}

static void rp_act_gather(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    enum rp_gather what = (enum rp_gather)rp_draw(p, RP_GATHERS);

    if (slot->comm == MPI_COMM_NULL)
        return;
    if (what == RP_ALLGATHERV || what == RP_IALLGATHERV)
        rp_gatherv(p, slot, what == RP_ALLGATHERV);
    else
        rp_gather_on(p, slot, what);
}

/* Uses a grid whose first dimension is a ring. */
static void rp_act_neighbours(struct rp *p)
{
    struct rp_slot *slot = NULL;
    struct rp_buffers b;
    MPI_Request request = MPI_REQUEST_NULL;
    int n = 1 + rp_draw(p, 100);
    bool blocking = rp_draw(p, 2);

    for (int i = 0; i < RP_SLOTS && !slot; i++)
        if (p->slot[i].used && p->slot[i].cart)
            slot = &p->slot[i];
    if (!slot || slot->comm == MPI_COMM_NULL)
        return;
    b = rp_make_buffers((size_t)n * 4, (size_t)n * 16, false);
    rp_fill_words(p, b.in, (size_t)n * 4, true, slot->rank);
    if (blocking)
        RP(Neighbor_allgather, b.in, n, MPI_INT, b.out, n, MPI_INT, slot->comm);
    else
        RP(Ineighbor_allgather, b.in, n, MPI_INT, b.out, n, MPI_INT, slot->comm, &request);
    rp_keep_buffers(p, &b, "neighbours", !blocking, request, false);
}

#endif
