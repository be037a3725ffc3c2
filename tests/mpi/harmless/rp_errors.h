/* Random programs: error handlers, and errors from a rank's own arguments. */
#ifndef TESTS_MPI_RP_ERRORS_H
#define TESTS_MPI_RP_ERRORS_H

#include "tests/mpi/harmless/rp_comms.h"

enum { RP_HANDLERS = 3, RP_ERROR_COUNT = 2000, RP_JUMPED = -2 };

/* Records where a handler runs, with which error class, for which communicator. */
static void rp_handle(MPI_Comm comm, int code, int number)
{
    struct rp *p = rp_callback();
    int slot = -1;

    if (!p)
        return;
    for (int i = 0; i < RP_SLOTS; i++)
        if (p->slot[i].used && p->slot[i].comm == comm)
            slot = i;
    rp_note(p, "handler %d: class %d in %s, slot %d", number, rp_class(code), rp_calling(), slot);
}

static void rp_handler_0(MPI_Comm *comm, int *code, ...)
{
    rp_handle(*comm, *code, 0);
}

/* Calls MPI, which MPICH allows in a handler below MPI_THREAD_MULTIPLE. */
static void rp_handler_1(MPI_Comm *comm, int *code, ...)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    char text[MPI_MAX_ERROR_STRING];
    int len = 0;

    rp_handle(*comm, *code, 1);
    if (!rp_here.program || !rp_here.may_jump)
        return;
    RP(Error_string, *code, text, &len);
    RP(Comm_get_errhandler, *comm, &handler);
    if (handler != MPI_ERRHANDLER_NULL)
        RP(Errhandler_free, &handler);
}

/* Leaves by longjmp, like the bindings of other languages. */
static void rp_handler_2(MPI_Comm *comm, int *code, ...)
{
    rp_handle(*comm, *code, 2);
    if (rp_here.program && rp_here.may_jump)
        longjmp(rp_here.jump, 1);
}

static MPI_Comm_errhandler_function *const rp_handlers[RP_HANDLERS] = {rp_handler_0, rp_handler_1,
                                                                       rp_handler_2};

/* Sets a random handler on each rank; a handler made for it is freed at once and lives on. */
static void rp_act_set_handler(struct rp *p)
{
    struct rp_slot *slot = rp_draw_slot(p);
    int which = rp_draw_own(p, RP_HANDLERS + 1);
    MPI_Errhandler handler = MPI_ERRORS_RETURN;

    if (slot->comm == MPI_COMM_NULL)
        return;
    rp_note_handler(p, slot);
    if (which < RP_HANDLERS)
        RP(Comm_create_errhandler, rp_handlers[which], &handler);
    RP(Comm_set_errhandler, slot->comm, handler);
    slot->handler = handler;
    rp_note(p, "slot %d gets handler %d", rp_slot_number(p, slot), which);
    if (which < RP_HANDLERS)
        RP(Errhandler_free, &handler);
}

struct rp_wrong {
    MPI_Comm comm;
    int size, n;
    int *in, *out;
    bool together; /* all members make the call, not some of them alone */
};

/* Calls on a communicator that was freed. (Freed operators and datatypes are left out: MPICH 4.0.2
 * accepts the former, and crashes when it names the latter.) */
static int rp_call_on_freed(const struct rp_wrong *w)
{
    MPI_Comm comm = MPI_COMM_NULL, gone;

    RP(Comm_dup, MPI_COMM_SELF, &comm);
    gone = comm;
    RP(Comm_free, &comm);
    return RP(Allreduce, w->in, w->out, w->n, MPI_INT, MPI_SUM, gone);
}

/* Negative counts are left out: MPICH 4.0.2 does not refuse those of reductions. */
static int rp_call_wrong_numbers(const struct rp_wrong *w, int what)
{
    MPI_Request request = MPI_REQUEST_NULL;

    switch (what) {
    case 0:
        return RP(Allreduce, w->in, w->out, w->n, MPI_DOUBLE, MPI_BAND, w->comm);
    case 1:
        return RP(Iallreduce, w->in, w->out, w->n, MPI_INT, MPI_OP_NULL, w->comm, &request);
    case 2:
        return RP(Scan, w->in, w->out, w->n, MPI_INT, MPI_OP_NULL, w->comm);
    case 3:
        return RP(Iallgather, w->in, 1, MPI_INT, w->out, 1, MPI_DATATYPE_NULL, w->comm, &request);
    case 4:
        return RP(Reduce_scatter_block, w->in, w->out, 3, MPI_DATATYPE_NULL, MPI_SUM, w->comm);
    case 5:
        return RP(Reduce, w->in, w->out, w->n, MPI_INT, MPI_SUM, w->size + 1, w->comm);
    case 6:
        return RP(Bcast, w->in, w->n, MPI_INT, -5, w->comm);
    case 7:
        return RP(Allreduce_c, w->in, w->out, w->n, MPI_INT, MPI_OP_NULL, w->comm);
    case 8:
        return RP(Reduce, w->in, w->out, w->n, MPI_INT, MPI_SUM, -1, w->comm);
    case 9:
        return RP(Iallgather, w->in, w->n, MPI_INT, w->out, w->n, MPI_INT, w->comm, NULL);
    case 10:
        return RP(Iallreduce, w->in, w->out, w->n, MPI_INT, MPI_SUM, w->comm, NULL);
    default:
        return RP(Send, w->in, 1, MPI_INT, w->size, 3, w->comm);
    }
}

static int rp_call_wrong_handles(const struct rp_wrong *w, int what)
{
    MPI_Request request = MPI_REQUEST_NULL;

    switch (what) {
    case 0:
        return RP(Allreduce, w->in, w->out, w->n, MPI_DATATYPE_NULL, MPI_SUM, w->comm);
    case 1:
        return RP(Allreduce, w->in, w->out, w->n, MPI_INT, MPI_OP_NULL, w->comm);
    case 2:
        return RP(Allreduce, w->in, w->out, w->n, MPI_FLOAT, MPI_BOR, w->comm);
    case 3:
        return RP(Iallreduce, w->in, w->out, w->n, MPI_FLOAT, MPI_BXOR, w->comm, &request);
    case 4:
        return RP(Iallreduce, w->in, w->out, w->n, MPI_DATATYPE_NULL, MPI_SUM, w->comm, &request);
    case 5:
        return RP(Allreduce_init, w->in, w->out, w->n, MPI_INT, MPI_OP_NULL, w->comm, MPI_INFO_NULL,
                  &request);
    case 6:
        return RP(Allreduce, w->in, w->in, w->n, MPI_INT, MPI_SUM, w->comm);
    case 7:
        return RP(Allreduce, w->in, MPI_IN_PLACE, w->n, MPI_INT, MPI_SUM, w->comm);
    case 8:
        return RP(Iallreduce, w->in, w->in, w->n, MPI_FLOAT, MPI_SUM, w->comm, &request);
    case 9:
        return RP(Allreduce, NULL, w->out, w->n, MPI_FLOAT, MPI_SUM, w->comm);
    case 10:
        return RP(Allgather, w->in, 1, MPI_INT, w->out, 1, MPI_DATATYPE_NULL, w->comm);
    case 11:
        return RP(Reduce_scatter_block, w->in, w->out, 1, MPI_INT, MPI_OP_NULL, w->comm);
    default:
        return RP(Comm_call_errhandler, w->comm, MPI_ERR_INTERN);
    }
}

/* Passes wrong slices to an allgather, on all ranks: a rank may have to ask the others first
 * whether the call is served. */
static int rp_call_wrong_slices(const struct rp_wrong *w, int what)
{
    switch (what / 2 % 3) {
    case 0:
        return RP(Allgather, w->in, -1, MPI_INT, w->out, w->n / 2, MPI_INT, w->comm);
    case 1:
        return RP(Allgather, w->in, 1, MPI_DATATYPE_NULL, w->out, w->n / 2, MPI_INT, w->comm);
    default:
        return RP(Allgather, NULL, w->n / 2, MPI_INT, w->out, w->n / 2, MPI_INT, w->comm);
    }
}

/* Makes errors without a communicator, which go to the handler of the world or of self, whichever
 * function has set it. */
static int rp_call_on_nothing(const struct rp_wrong *w, int what)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm none = MPI_COMM_NULL;

    switch (what) {
    case 0:
        return RP(Allreduce, w->in, w->out, w->n, MPI_INT, MPI_SUM, MPI_COMM_NULL);
    case 1:
        return RP(Iallreduce, w->in, w->out, w->n, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL, &request);
    case 2:
        return RP(Cancel, &request);
    case 3:
        return RP(Request_free, &request);
    case 4:
        return RP(Comm_free, &none);
    case 5:
        return RP(Allgather, w->in, 1, MPI_INT, w->out, 1, MPI_INT, MPI_COMM_NULL);
    default:
        return rp_call_on_freed(w);
    }
}

/* Draws a call of all members of the communicator, equal on all ranks. */
static int rp_call_wrong(struct rp *p, const struct rp_wrong *w)
{
    static int (*const ways[])(const struct rp_wrong *w, int what) = {
        rp_call_wrong_numbers, rp_call_wrong_handles, rp_call_wrong_handles, rp_call_on_nothing,
        rp_call_wrong_slices};
    uint64_t *state = w->together ? &p->shared : &p->own;
    int way = rp_drawn(state, p->alone && !p->sessions ? 4 : 3), what = rp_drawn(state, 13);

    if (w->together && what % 2)
        way = 4;
    rp_note(p, "wrong in way %d, %d", way, what);
    return ways[way](w, what);
}

/* Tests handlers that may leave the call. Not at MPI_THREAD_MULTIPLE, which is the level of a
 * session: there MPICH holds its lock in handlers. */
static int rp_call_or_jump(struct rp *p, const struct rp_wrong *w)
{
    int err, depth = rp_here.depth;

    rp_here.may_jump = p->level < MPI_THREAD_MULTIPLE && !p->raised && !p->sessions;
    if (setjmp(rp_here.jump) != 0) {
        rp_here.depth = depth;
        rp_here.may_jump = false;
        return RP_JUMPED;
    }
    err = rp_call_wrong(p, w);
    rp_here.may_jump = false;
    return err;
}

/* Makes a call on some ranks that MPI refuses before it communicates. */
static void rp_act_wrong(struct rp *p)
{
    struct rp_slot *slot = rp_draw_slot(p);
    struct rp_wrong w = {.comm = slot->comm, .size = slot->size, .n = RP_ERROR_COUNT};
    int err;

    w.together = rp_draw(p, 3) == 0;
    if (slot->comm == MPI_COMM_NULL || slot->inter || (!w.together && rp_draw_own(p, 2)))
        return;
    w.in = rp_alloc(RP_ERROR_COUNT * 8);
    w.out = rp_alloc(RP_ERROR_COUNT * 8 * (size_t)slot->size);
    err = rp_call_or_jump(p, &w);
    rp_note(p, "a wrong call: %s", err == RP_JUMPED ? "left by longjmp" : "returned");
    if (err != RP_JUMPED)
        rp_note(p, "class %d", rp_class(err));
    free(w.in);
    free(w.out);
}

static void rp_end_handlers(struct rp *p)
{
    for (int i = 0; i < 2; i++) {
        rp_note_handler(p, &p->slot[i]);
        RP(Comm_set_errhandler, p->slot[i].comm, MPI_ERRORS_RETURN);
        p->slot[i].handler = MPI_ERRORS_RETURN;
    }
}

#endif
