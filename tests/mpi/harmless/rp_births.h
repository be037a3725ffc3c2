/* Random programs: what may come between nonblocking sums. Calls that are never served, ranks that
 * are late, more communicators than the library serves, and callbacks of one rank alone. */
#ifndef TESTS_MPI_RP_BIRTHS_H
#define TESTS_MPI_RP_BIRTHS_H

#include "tests/mpi/harmless/rp_comms.h"

#include <unistd.h>

enum { RP_MOST_SUMS = 12 };

/* ---- calls between sums ---- */

static void rp_ibarrier(struct rp *p, struct rp_slot *slot)
{
    struct rp_buffers none = {.in = NULL};
    MPI_Request request = MPI_REQUEST_NULL;

    rp_note(p, "Ibarrier in slot %d", rp_slot_number(p, slot));
    RP(Ibarrier, slot->comm, &request);
    rp_keep_buffers(p, &none, "Ibarrier", true, request, false);
}

static void rp_ibcast(struct rp *p, struct rp_slot *slot)
{
    const int root = rp_draw(p, 1000) % slot->size, n = 1 + rp_draw(p, 100);
    const size_t bytes = (size_t)n * sizeof(int);
    struct rp_buffers b = rp_make_buffers(bytes, bytes, true);
    MPI_Request request = MPI_REQUEST_NULL;

    if (slot->rank == root)
        rp_fill(p, b.out, &rp_elements[2], (size_t)n, RP_DENSE, root);
    rp_note(p, "Ibcast of %d int in slot %d", n, rp_slot_number(p, slot));
    RP(Ibcast, b.out, n, MPI_INT, root, slot->comm, &request);
    rp_keep_buffers(p, &b, "Ibcast", true, request, false);
}

static void rp_make_and_free(struct rp *p, struct rp_slot *slot)
{
    MPI_Comm comm = MPI_COMM_NULL;

    rp_note(p, "a communicator from slot %d, freed at once", rp_slot_number(p, slot));
    if (slot->poisoned || rp_draw(p, 2))
        RP(Comm_split, slot->comm, slot->rank % 2, 0, &comm);
    else
        RP(Comm_dup, slot->comm, &comm);
    RP(Comm_free, &comm);
}

/* Posts several calls on one communicator, with pauses that each rank draws for itself. */
static void rp_act_between(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    const int calls = 3 + rp_draw(p, 4);

    if (slot->comm == MPI_COMM_NULL)
        return;
    for (int i = 0; i < calls; i++) {
        if (rp_draw_own(p, 3) == 0)
            usleep((useconds_t)rp_draw_own(p, 3000));
        switch (rp_draw(p, 9)) {
        case 0:
            rp_ibarrier(p, slot);
            break;
        case 1:
            rp_ibcast(p, slot);
            break;
        case 2:
            rp_reduce_on(p, slot, RP_ISCAN);
            break;
        case 3:
            rp_make_and_free(p, slot);
            break;
        default:
            rp_reduce_on(p, slot, RP_IALLREDUCE);
            break;
        }
    }
}

/* ---- a crowd of communicators ---- */

static void rp_make_crowd(struct rp *p)
{
    static const enum rp_maker ways[] = {RP_DUP, RP_SPLIT_HALVES, RP_SPLIT_REVERSED, RP_CREATE,
                                         RP_SPLIT_PARITY};
    struct rp_slot *from = rp_draw_intra(p);
    const int n = 1 + rp_draw(p, RP_CROWD);

    for (int i = 0; i < n; i++) {
        MPI_Comm comm = MPI_COMM_NULL;
        enum rp_maker how = ways[rp_draw(p, 5)];

        if (how == RP_DUP && from->poisoned)
            how = RP_SPLIT_HALVES;
        if (from->comm != MPI_COMM_NULL && rp_make(p, from, how, &comm) != MPI_SUCCESS)
            comm = MPI_COMM_NULL;
        rp_take(p, &p->slot[RP_SLOTS + i], comm);
    }
    p->crowd = n;
}

static void rp_free_some(struct rp *p)
{
    const int left = rp_draw(p, p->crowd);

    if (RP_OPEN_MPI)
        rp_complete_some(p, true);
    rp_note(p, "%d of the crowd are left", left);
    while (p->crowd > left) {
        struct rp_slot *slot = &p->slot[RP_SLOTS + --p->crowd];

        slot->used = false;
        if (slot->comm != MPI_COMM_NULL)
            RP(Comm_free, &slot->comm);
    }
}

/* Makes nonblocking sums on some of the crowd. Each rank begins with a communicator that it draws
 * for itself. */
static void rp_sum_in_crowd(struct rp *p)
{
    const uint64_t streams = rp_word(&p->shared);
    const int n = p->crowd < RP_MOST_SUMS ? p->crowd : RP_MOST_SUMS;
    const int first = p->crowd - n, begin = rp_draw_own(p, n);

    for (int i = 0; i < n; i++) {
        const int chosen = RP_SLOTS + first + (begin + i) % n;

        p->shared = streams + (uint64_t)chosen;
        if (p->slot[chosen].comm == MPI_COMM_NULL)
            continue;
        for (int call = 1 + rp_draw(p, 2); call > 0; call--)
            rp_reduce_on(p, &p->slot[chosen], RP_IALLREDUCE);
    }
}

/* Makes a crowd, uses it, or frees a part of it. */
static void rp_act_crowd(struct rp *p)
{
    const uint64_t stream = rp_word(&p->shared);

    if (p->crowd == 0)
        rp_make_crowd(p);
    else if (rp_draw(p, 3) == 0)
        rp_free_some(p);
    p->shared = stream;
    if (p->crowd > 0)
        rp_sum_in_crowd(p);
}

/* ---- callbacks of one rank ---- */

static bool rp_is_alone(struct rp *p)
{
    return rp_draw(p, 1000) % p->size == p->rank;
}

static void rp_act_lone_operator(struct rp *p)
{
    MPI_Op op;

    if (!rp_is_alone(p))
        return;
    RP(Op_create, rp_user_sum, 1, &op);
    RP(Op_free, &op);
    usleep((useconds_t)rp_draw_own(p, 5000));
}

static int rp_lone_deleted(MPI_Datatype type, int keyval, void *value, void *extra)
{
    (void)type, (void)keyval, (void)extra;
    rp_callback();
    ++*(int *)value;
    return MPI_SUCCESS;
}

static void rp_act_lone_type_attribute(struct rp *p)
{
    int keyval, deleted = 0;
    MPI_Datatype type;

    if (!rp_is_alone(p))
        return;
    RP(Type_create_keyval, MPI_TYPE_NULL_COPY_FN, rp_lone_deleted, &keyval, NULL);
    type = rp_contiguous(2, MPI_INT);
    RP(Type_set_attr, type, keyval, &deleted);
    RP(Type_free, &type);
    RP(Type_free_keyval, &keyval);
    rp_note(p, "an attribute of one rank's datatype is deleted %d times", deleted);
    usleep((useconds_t)rp_draw_own(p, 5000));
}

#endif
