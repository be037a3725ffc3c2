/* edge_wrong CASE HOW: calls with wrong arguments (tests/t/harmless.t). */
#include "tests/mpi/harmless/edge.h"

static int handled, handled_elsewhere;
static MPI_Comm mine, stale;
static MPI_Datatype uncommitted;
static float *gathered; /* count * size elements */
static int *counts, *displs;

static void count_mine(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    handled += *comm == mine;
    handled_elsewhere += *comm != mine;
}

enum mistake {
    NOTHING,
    COUNT_NEGATIVE,
    SEND_NULL,
    RECV_NULL,
    BOTH_NULL,
    TYPE_NULL,
    TYPE_UNCOMMITTED,
    TYPE_GARBAGE,
    OP_NULL,
    OP_UNFIT,
    OP_GARBAGE,
    COMM_NULL,
    COMM_FREED,
    COMM_GARBAGE,
    ALIASED,
    RECV_IN_PLACE,
    BOTH_IN_PLACE,
    ROOT_NEGATIVE,
    ROOT_LARGE,
    MISTAKES
};

static const char *const mistake_names[] = {
    "nothing",       "count",         "send-null",     "recv-null",  "both-null",
    "type-null",     "uncommitted",   "type-bad",      "op-null",    "op-unfit",
    "op-bad",        "comm-null",     "comm-freed",    "comm-bad",   "aliased",
    "recv-in-place", "both-in-place", "root-negative", "root-large",
};

static const char *const call_names[] = {
    "allreduce",        "iallreduce",
    "allgather",        "iallgather",
    "allgatherv",       "iallgatherv",
    "reduce",           "reduce_scatter_block",
    "reduce_scatter",   "allreduce_init",
    "allreduce_c",      "iallreduce_c",
    "allgather_c",      "iallgather_c",
    "allgatherv_c",     "iallgatherv_c",
    "reduce_c",         "reduce_scatter_block_c",
    "reduce_scatter_c", "allreduce_init_c",
};

enum { KINDS = 10, INIT = 9 };

struct arguments {
    const void *send;
    void *recv;
    int count, root;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
};

static struct arguments with(enum mistake mistake, bool gathers)
{
    struct arguments a = {edge.in, gathers ? gathered : edge.out, edge.count, 0, MPI_FLOAT, MPI_SUM,
                          mine};

    switch (mistake) {
    case COUNT_NEGATIVE:
        a.count = -1;
        break;
    case SEND_NULL:
        a.send = NULL;
        break;
    case RECV_NULL:
        a.recv = NULL;
        break;
    case BOTH_NULL:
        a.send = a.recv = NULL;
        break;
    case TYPE_NULL:
        a.type = MPI_DATATYPE_NULL;
        break;
    case TYPE_UNCOMMITTED:
        a.type = uncommitted;
        break;
    case TYPE_GARBAGE:
        a.type = (MPI_Datatype)0x12345678;
        break;
    case OP_NULL:
        a.op = MPI_OP_NULL;
        break;
    case OP_UNFIT:
        a.op = MPI_BAND;
        break;
    case OP_GARBAGE:
        a.op = (MPI_Op)0x12345678;
        break;
    case COMM_NULL:
        a.comm = MPI_COMM_NULL;
        break;
    case COMM_FREED:
        a.comm = stale;
        break;
    case COMM_GARBAGE:
        a.comm = (MPI_Comm)0x12345678;
        break;
    case ALIASED:
        a.recv = (void *)(uintptr_t)a.send;
        break;
    case RECV_IN_PLACE:
        a.recv = MPI_IN_PLACE;
        break;
    case BOTH_IN_PLACE:
        a.send = a.recv = MPI_IN_PLACE;
        break;
    case ROOT_NEGATIVE:
        a.root = -7;
        break;
    case ROOT_LARGE:
        a.root = edge.size;
        break;
    default:
        break;
    }
    return a;
}

/* The count of a reduce_scatter, whose send buffer has the elements of all ranks. */
static int part_of(const struct arguments *a)
{
    return a->count > 0 ? a->count / edge.size : a->count;
}

static int make(int kind, const struct arguments *a, MPI_Request *request)
{
    for (int r = 0; r < edge.size; r++)
        counts[r] = kind == 8 ? part_of(a) : a->count;
    switch (kind) {
    case 0:
        return MPI_Allreduce(a->send, a->recv, a->count, a->type, a->op, a->comm);
    case 1:
        return MPI_Iallreduce(a->send, a->recv, a->count, a->type, a->op, a->comm, request);
    case 2:
        return MPI_Allgather(a->send, a->count, a->type, a->recv, a->count, a->type, a->comm);
    case 3:
        return MPI_Iallgather(a->send, a->count, a->type, a->recv, a->count, a->type, a->comm,
                              request);
    case 4:
        return MPI_Allgatherv(a->send, a->count, a->type, a->recv, counts, displs, a->type,
                              a->comm);
    case 5:
        return MPI_Iallgatherv(a->send, a->count, a->type, a->recv, counts, displs, a->type,
                               a->comm, request);
    case 6:
        return MPI_Reduce(a->send, a->recv, a->count, a->type, a->op, a->root, a->comm);
    case 7:
        return MPI_Reduce_scatter_block(a->send, a->recv, part_of(a), a->type, a->op, a->comm);
    case 8:
        return MPI_Reduce_scatter(a->send, a->recv, counts, a->type, a->op, a->comm);
#if MPI_VERSION >= 4
    case INIT:
        return MPI_Allreduce_init(a->send, a->recv, a->count, a->type, a->op, a->comm,
                                  MPI_INFO_NULL, request);
#endif
    default:
        return MPI_SUCCESS;
    }
}

static int make_large(int kind, const struct arguments *a, MPI_Request *request)
{
#if MPI_VERSION >= 4
    MPI_Count many[64];
    MPI_Aint places[64];

    for (int r = 0; r < edge.size; r++) {
        many[r] = kind == 8 ? part_of(a) : a->count;
        places[r] = displs[r];
    }
    switch (kind) {
    case 0:
        return MPI_Allreduce_c(a->send, a->recv, a->count, a->type, a->op, a->comm);
    case 1:
        return MPI_Iallreduce_c(a->send, a->recv, a->count, a->type, a->op, a->comm, request);
    case 2:
        return MPI_Allgather_c(a->send, a->count, a->type, a->recv, a->count, a->type, a->comm);
    case 3:
        return MPI_Iallgather_c(a->send, a->count, a->type, a->recv, a->count, a->type, a->comm,
                                request);
    case 4:
        return MPI_Allgatherv_c(a->send, a->count, a->type, a->recv, many, places, a->type,
                                a->comm);
    case 5: {
        int err = MPI_Iallgatherv_c(a->send, a->count, a->type, a->recv, many, places, a->type,
                                    a->comm, request);

        if (err == MPI_SUCCESS) /* its arrays are the caller's until the call is done */
            MPI_Wait(request, MPI_STATUS_IGNORE);
        return err;
    }
    case 6:
        return MPI_Reduce_c(a->send, a->recv, a->count, a->type, a->op, a->root, a->comm);
    case 7:
        return MPI_Reduce_scatter_block_c(a->send, a->recv, part_of(a), a->type, a->op, a->comm);
    case 8:
        return MPI_Reduce_scatter_c(a->send, a->recv, many, a->type, a->op, a->comm);
    case INIT:
        return MPI_Allreduce_init_c(a->send, a->recv, a->count, a->type, a->op, a->comm,
                                    MPI_INFO_NULL, request);
    default:
        break;
    }
#endif
    (void)kind, (void)a, (void)request;
    return MPI_SUCCESS;
}

/* Calls that the bare library takes to be right are completed. */
static void try_mistake(int call, enum mistake mistake)
{
    int kind = call % KINDS;
    struct arguments a = with(mistake, kind >= 2 && kind <= 5);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = call < KINDS ? make(kind, &a, &request) : make_large(kind, &a, &request);
    bool has = request != MPI_REQUEST_NULL;
    int end = MPI_SUCCESS;

    if (code == MPI_SUCCESS && kind != INIT)
        end = MPI_Wait(&request, MPI_STATUS_IGNORE);
    else if (code == MPI_SUCCESS && has)
        MPI_Request_free(&request);
    edge_say("%s, %s: %s, request %s, handled %d and %d", call_names[call], mistake_names[mistake],
             edge_class(code), code == MPI_SUCCESS ? "-" : edge_yes(has), handled,
             handled_elsewhere);
    if (end != MPI_SUCCESS)
        edge_say("... which ends with: %s", edge_class(end));
    handled = handled_elsewhere = 0;
}

/* Mistakes that end the program or wait for ever under the bare library are left out. */
static bool is_survived(int call, enum mistake mistake)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, kind = call % KINDS;

    MPI_Get_library_version(library, &length);
    if (!strstr(library, "MPICH Version:\t4") && !strstr(library, "MPICH Version:      4") &&
        (mistake == TYPE_NULL || mistake == TYPE_GARBAGE))
        return false;
    if (mistake == COUNT_NEGATIVE)
        return kind != 0 && kind != 6 && kind != 7;
    if (mistake == ALIASED) /* an error on some of the ranks */
        return kind < 2 || kind > 6;
    return kind != 6 ||
           (mistake != RECV_NULL && mistake != RECV_IN_PLACE && mistake != BOTH_IN_PLACE);
}

static void before_wrong(void)
{
    MPI_Errhandler handler;

    gathered = input_alloc(sizeof(float) * (size_t)edge.count * (size_t)edge.size);
    counts = input_alloc(sizeof(int) * (size_t)edge.size);
    displs = input_alloc(sizeof(int) * (size_t)edge.size);
    for (int r = 0; r < edge.size; r++)
        displs[r] = r * edge.count;
    edge_fill(MPI_COMM_WORLD, edge.in, 1);
    MPI_Type_contiguous(1, MPI_FLOAT, &uncommitted);
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    MPI_Comm_dup(MPI_COMM_WORLD, &stale);
    edge_sums(stale, 2, 1);
    MPI_Comm_free(&(MPI_Comm){stale});
    if (edge.argc > 2 && strcmp(edge.argv[2], "counting") == 0) {
        MPI_Comm_create_errhandler(count_mine, &handler);
    } else {
        handler = MPI_ERRORS_RETURN;
    }
    MPI_Comm_set_errhandler(mine, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
}

/* wrong HOW [CALL MISTAKE]: HOW is return or counting. */
static void wrong(void)
{
    before_wrong();
    for (int call = 0; call < 2 * KINDS; call++)
        for (int m = 0; m < MISTAKES; m++) {
            if (edge.argc > 4 ? strcmp(edge.argv[3], call_names[call]) == 0 &&
                                    strcmp(edge.argv[4], mistake_names[m]) == 0
                              : is_survived(call, (enum mistake)m))
                try_mistake(call, (enum mistake)m);
        }
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(mine, 3, 5)),
             edge_yes(edge_isum(mine, 9)));
    MPI_Type_free(&uncommitted);
    MPI_Comm_free(&mine);
    free(gathered);
    free(counts);
    free(displs);
}

static const struct edge_case cases[] = {
    {"wrong", EDGE_INIT, wrong},
};

EDGE_MAIN(cases)
