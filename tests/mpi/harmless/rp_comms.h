/* Random programs: communicators, made in every way and freed at any time. */
#ifndef TESTS_MPI_RP_COMMS_H
#define TESTS_MPI_RP_COMMS_H

#include "tests/mpi/harmless/rp_collectives.h"

enum rp_maker {
    RP_DUP,
    RP_IDUP,
    RP_DUP_INFO,
    RP_SPLIT_HALVES,
    RP_SPLIT_PARITY,
    RP_SPLIT_SOME,
    RP_SPLIT_REVERSED,
    RP_SPLIT_TYPE,
    RP_CREATE_GROUP,
    RP_CREATE,
    RP_CART,
    RP_MAKERS
};

static const char *const rp_maker_names[RP_MAKERS] = {"Comm_dup",
                                                      "Comm_idup",
                                                      "Comm_dup_with_info",
                                                      "Comm_split in halves",
                                                      "Comm_split by parity",
                                                      "Comm_split of some",
                                                      "Comm_split, reversed",
                                                      "Comm_split_type",
                                                      "Comm_create_group",
                                                      "Comm_create",
                                                      "Cart_create"};

static struct rp_slot *rp_free_slot(struct rp *p)
{
    for (int i = 2; i < RP_SLOTS; i++)
        if (!p->slot[i].used)
            return &p->slot[i];
    return NULL;
}

/* Handlers of a communicator, as far as programs can distinguish them. */
static const char *rp_handler_name(const struct rp_slot *slot, MPI_Errhandler handler)
{
    return handler == MPI_ERRORS_RETURN      ? "the one that returns"
           : handler == MPI_ERRORS_ARE_FATAL ? "the fatal one"
           : handler == slot->handler        ? "its own"
                                             : "another";
}

static void rp_note_handler(struct rp *p, struct rp_slot *slot)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;

    RP(Comm_get_errhandler, slot->comm, &handler);
    rp_note(p, "the handler of slot %d is %s", rp_slot_number(p, slot),
            rp_handler_name(slot, handler));
    /* a predefined handler may be given back as well */
    if (handler != MPI_ERRHANDLER_NULL)
        RP(Errhandler_free, &handler);
}

/* Enters a communicator that this rank has just got, or MPI_COMM_NULL, into the slot. */
static void rp_take(struct rp *p, struct rp_slot *slot, MPI_Comm comm)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int len = 0;

    *slot = (struct rp_slot){.used = true, .comm = comm, .handler = MPI_ERRORS_RETURN};
    if (comm == MPI_COMM_NULL)
        return;
    RP(Comm_rank, comm, &slot->rank);
    RP(Comm_size, comm, &slot->size);
    RP(Comm_get_name, comm, name, &len);
    rp_note(p, "slot %d is rank %d of %d, named '%s'", rp_slot_number(p, slot), slot->rank,
            slot->size, name);
    rp_note_handler(p, slot);
    RP(Comm_set_errhandler, comm, MPI_ERRORS_RETURN);
}

/* The request is completed in the same step; calls in between may use the parent. */
static int rp_idup(struct rp *p, struct rp_slot *from, MPI_Comm *comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int err = RP(Comm_idup, from->comm, comm, &request), flag = 0;

    if (err != MPI_SUCCESS)
        return err;
    if (rp_draw(p, 2))
        rp_reduce_on(p, from, rp_draw(p, 2) ? RP_IALLREDUCE : RP_ALLREDUCE);
    if (rp_draw_own(p, 2))
        rp_complete_some(p, false);
    if (rp_draw_own(p, 2))
        return RP(Wait, &request, MPI_STATUS_IGNORE);
    while (!flag && err == MPI_SUCCESS)
        err = RP(Test, &request, &flag, MPI_STATUS_IGNORE);
    return err;
}

static int rp_dup_with_info(MPI_Comm from, MPI_Comm *comm)
{
    MPI_Info info;
    int err;

    RP(Info_create, &info);
    RP(Info_set, info, "random_programs", "yes");
    err = RP(Comm_dup_with_info, from, info, comm);
    RP(Info_free, &info);
    return err;
}

/* Groups the even ranks, or all ranks but the last. */
static int rp_create_of_group(struct rp *p, struct rp_slot *from, bool by_group, MPI_Comm *comm)
{
    MPI_Group all, some;
    int range[1][3] = {{0, from->size - 1, 2}}, err = MPI_SUCCESS;

    if (rp_draw(p, 2) && from->size > 1)
        range[0][1] = from->size - 2, range[0][2] = 1;
    RP(Comm_group, from->comm, &all);
    RP(Group_range_incl, all, 1, range, &some);
    if (!by_group)
        err = RP(Comm_create, from->comm, some, comm);
    else if (from->rank <= range[0][1] && from->rank % range[0][2] == 0)
        err = RP(Comm_create_group, from->comm, some, p->step, comm);
    RP(Group_free, &some);
    RP(Group_free, &all);
    return err;
}

static int rp_cart(struct rp_slot *from, MPI_Comm *comm)
{
    int dims[2] = {0, 0}, periods[2] = {1, 0};

    RP(Dims_create, from->size, 2, dims);
    return RP(Cart_create, from->comm, 2, dims, periods, 0, comm);
}

static int rp_make(struct rp *p, struct rp_slot *from, enum rp_maker how, MPI_Comm *comm)
{
    int rank = from->rank;

    switch (how) {
    case RP_DUP:
        return RP(Comm_dup, from->comm, comm);
    case RP_IDUP:
        return rp_idup(p, from, comm);
    case RP_DUP_INFO:
        return rp_dup_with_info(from->comm, comm);
    case RP_SPLIT_HALVES:
        return RP(Comm_split, from->comm, rank < from->size / 2, rank, comm);
    case RP_SPLIT_PARITY:
        return RP(Comm_split, from->comm, rank % 2, rank, comm);
    case RP_SPLIT_SOME:
        return RP(Comm_split, from->comm, rank == 0 ? MPI_UNDEFINED : 1, rank, comm);
    case RP_SPLIT_REVERSED:
        return RP(Comm_split, from->comm, 0, -rank, comm);
    case RP_SPLIT_TYPE:
        return RP(Comm_split_type, from->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, comm);
    case RP_CREATE_GROUP:
    case RP_CREATE:
        return rp_create_of_group(p, from, how == RP_CREATE_GROUP, comm);
    default:
        return rp_cart(from, comm);
    }
}

static void rp_act_make(struct rp *p)
{
    struct rp_slot *from = rp_draw_intra(p), *to = rp_free_slot(p);
    enum rp_maker how = (enum rp_maker)rp_draw(p, RP_MAKERS);
    MPI_Comm comm = MPI_COMM_NULL;

    if (!to || (from->poisoned && how <= RP_DUP_INFO))
        return;
    if (from->comm != MPI_COMM_NULL) {
        rp_note(p, "%s of slot %d", rp_maker_names[how], rp_slot_number(p, from));
        if (rp_make(p, from, how, &comm) != MPI_SUCCESS)
            comm = MPI_COMM_NULL;
    }
    rp_take(p, to, comm);
    to->cart = how == RP_CART;
}

/* Splits the program's world into two halves with an intercommunicator, which may be merged
 * again. */
static void rp_act_make_inter(struct rp *p)
{
    struct rp_slot *to = rp_free_slot(p), *world = &p->slot[0];
    int half = p->size / 2, low = p->rank < half, merge = rp_draw(p, 3) == 0;
    MPI_Comm local, comm = MPI_COMM_NULL, merged = MPI_COMM_NULL;

    if (!to || p->size < 2)
        return;
    RP(Comm_split, world->comm, low, 0, &local);
    RP(Intercomm_create, local, 0, world->comm, low ? half : 0, p->step, &comm);
    RP(Comm_free, &local);
    if (merge) {
        RP(Intercomm_merge, comm, low, &merged);
        RP(Comm_free, &comm);
        rp_take(p, to, merged);
        return;
    }
    rp_take(p, to, comm);
    to->inter = true;
}

/* Frees a slot, which may have operations in flight. */
static void rp_act_free(struct rp *p)
{
    struct rp_slot *slot = rp_draw_slot(p);

    if (slot->borrowed)
        return;
    if (RP_OPEN_MPI)
        rp_complete_some(p, true);
    rp_note(p, "slot %d is freed", rp_slot_number(p, slot));
    slot->used = false;
    if (slot->comm != MPI_COMM_NULL)
        RP(Comm_free, &slot->comm);
}

static void rp_act_name(struct rp *p)
{
    struct rp_slot *slot = rp_draw_slot(p);
    char name[MPI_MAX_OBJECT_NAME] = "";
    MPI_Info info = MPI_INFO_NULL;
    int len = 0, flag = 0, keys = 0;

    if (slot->comm == MPI_COMM_NULL)
        return;
    RP(Comm_get_name, slot->comm, name, &len);
    RP(Comm_get_info, slot->comm, &info);
    RP(Info_get_nkeys, info, &keys);
    rp_note(p, "slot %d: name '%s', %d keys of info", rp_slot_number(p, slot), name, keys);
    RP(Info_free, &info);
    RP(Comm_test_inter, slot->comm, &flag);
    rp_note(p, "slot %d: inter %d", rp_slot_number(p, slot), flag);
    snprintf(name, sizeof name, "slot %d of step %d", rp_slot_number(p, slot), p->step);
    if (!slot->borrowed)
        RP(Comm_set_name, slot->comm, name);
}

/* Reduces one group to the first rank of the other, whose other ranks name nothing. */
static void rp_reduce_to_group(struct rp *p, struct rp_slot *slot, bool low)
{
    const int n = 1 + rp_draw(p, 3000);
    const size_t bytes = (size_t)n * sizeof(int);
    const bool roots = (p->rank < p->size / 2) == low;
    struct rp_buffers b = rp_make_buffers(bytes, bytes, false);

    rp_fill(p, b.in, &rp_elements[2], (size_t)n, RP_SPARSE, slot->rank);
    rp_note(p, "Reduce of %d between groups", n);
    if (!roots)
        RP(Reduce, b.in, NULL, n, MPI_INT, MPI_SUM, 0, slot->comm);
    else if (slot->rank == 0)
        RP(Reduce, b.in, b.out, n, MPI_INT, MPI_SUM, MPI_ROOT, slot->comm);
    else
        RP(Reduce, NULL, NULL, n, MPI_DATATYPE_NULL, MPI_OP_NULL, MPI_PROC_NULL, slot->comm);
    rp_keep_buffers(p, &b, "Reduce", false, MPI_REQUEST_NULL, false);
}

/* Makes collectives over two groups, each of which gets the other's data. */
static void rp_act_inter(struct rp *p)
{
    static const enum rp_reduction what[] = {RP_ALLREDUCE, RP_IALLREDUCE, RP_SCATTER_BLOCK};
    struct rp_slot *slot = rp_draw_slot(p);

    for (int i = 0; i < RP_SLOTS && !slot->inter; i++)
        slot = &p->slot[i];
    if (!slot->used || !slot->inter)
        return;
    if (rp_draw(p, 3) == 0)
        rp_reduce_to_group(p, slot, rp_draw(p, 2));
    else
        rp_reduce_on(p, slot, what[rp_draw(p, 2)]);
}

static void rp_act_compare(struct rp *p)
{
    struct rp_slot *a = rp_draw_slot(p), *b = rp_draw_slot(p);
    int result = -1, topology = -1;

    if (a->comm == MPI_COMM_NULL || b->comm == MPI_COMM_NULL)
        return;
    RP(Comm_compare, a->comm, b->comm, &result);
    RP(Topo_test, a->comm, &topology);
    rp_note(p, "slots %d and %d compare as %d, topology %d", rp_slot_number(p, a),
            rp_slot_number(p, b), result, topology);
}

#endif
