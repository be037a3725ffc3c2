/* edge_exchange CASE: what a program may notice when the library first meets a communicator. */
#include <stdatomic.h>

#include "tests/mpi/harmless/edge.h"

enum { CALLS = 3 };

/* A first call of each kind, on a communicator of its own. */
static bool first_call(MPI_Comm comm, int kind)
{
    int n = edge.count, part = n / edge.size;
    float *all = input_alloc(sizeof(float) * (size_t)n * (size_t)edge.size);
    int counts[64], displs[64];
    bool good = true;
    MPI_Request request = MPI_REQUEST_NULL;

    for (int r = 0; r < edge.size; r++) {
        counts[r] = n;
        displs[r] = r * n;
    }
    edge_fill(comm, edge.in, 2);
    switch (kind) {
    case 0:
        good = edge_sum(comm, 2);
        break;
    case 1:
        good = edge_isum(comm, 2);
        break;
    case 2:
        MPI_Allgather(edge.in, n, MPI_FLOAT, all, n, MPI_FLOAT, comm);
        break;
    case 3:
        MPI_Iallgather(edge.in, n, MPI_FLOAT, all, n, MPI_FLOAT, comm, &request);
        break;
    case 4:
        MPI_Allgatherv(edge.in, n, MPI_FLOAT, all, counts, displs, MPI_FLOAT, comm);
        break;
    case 5:
        MPI_Iallgatherv(edge.in, n, MPI_FLOAT, all, counts, displs, MPI_FLOAT, comm, &request);
        break;
    case 6:
        MPI_Reduce(edge.in, edge.out, n, MPI_FLOAT, MPI_SUM, 0, comm);
        break;
    default:
        MPI_Reduce_scatter_block(edge.in, edge.out, part, MPI_FLOAT, MPI_SUM, comm);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (kind >= 2 && kind <= 5)
        good = memcmp(all + (size_t)edge.rank * (size_t)n, edge.in, sizeof(float) * (size_t)n) == 0;
    free(all);
    return good;
}

/* ---- many communicators ---- */

static int granted(MPI_Comm *comms, int wanted)
{
    int n = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (n < wanted && MPI_Comm_dup(MPI_COMM_WORLD, &comms[n]) == MPI_SUCCESS)
        n++;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return n;
}

/* contexts LEFT: all but so many communicators that MPI grants are in use before the first call. */
static void contexts(void)
{
    static MPI_Comm comms[4096];
    int left = edge.argc > 2 ? atoi(edge.argv[2]) : 0;
    int got = granted(comms, 4096), n = got;

    while (n > 0 && n > got - left)
        MPI_Comm_free(&comms[--n]);
    edge_say("more than 2000 communicators: %s", edge_yes(got > 2000));
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, CALLS, 1)));
    edge_say("nonblocking %s", edge_yes(edge_isum(MPI_COMM_WORLD, 5)));
    edge_say("nonblocking %s", edge_yes(edge_isum(comms[0], 5)));
    edge_say("sums %s", edge_yes(edge_sums(comms[0], CALLS, 1)));
    edge_say("nonblocking %s", edge_yes(edge_isum(comms[1], 5)));
    edge_say("sums %s", edge_yes(edge_sums(comms[2], CALLS, 1)));
    for (int i = 0; i < n; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(comms[0], CALLS, 1)),
             edge_yes(edge_isum(comms[0], 7)));
    MPI_Comm_free(&comms[0]);
}

/* Ranks share different numbers of communicators: what is left differs from rank to rank. */
static void contexts_uneven(void)
{
    static MPI_Comm comms[4096];
    int n = 0;
    MPI_Comm pair;

    MPI_Comm_dup(MPI_COMM_WORLD, &pair);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (edge.rank == 0)
        while (n < 4096 && MPI_Comm_dup(MPI_COMM_SELF, &comms[n]) == MPI_SUCCESS)
            n++;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    edge_say("nonblocking %s", edge_yes(edge_isum(MPI_COMM_WORLD, 5)));
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, CALLS, 1)));
    edge_say("sums %s", edge_yes(edge_sums(pair, CALLS, 1)));
    edge_say("nonblocking %s", edge_yes(edge_isum(pair, 5)));
    while (n > 0)
        MPI_Comm_free(&comms[--n]);
    edge_say("sums %s", edge_yes(edge_sums(pair, CALLS, 1)));
    MPI_Comm_free(&pair);
}

/* ---- error handlers ---- */

static atomic_int handled;

static void counts_errors(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

static MPI_Comm noisy;
static atomic_bool enough;
static int made;

static void *makes_errors(void *least)
{
    int x = 0;

    for (int i = 0; i < *(int *)least || !enough; i++, made++)
        MPI_Send(&x, 1, MPI_INT, 4711, 0, noisy);
    return NULL;
}

static bool first_exchanges(int n)
{
    bool good = true;

    for (int i = 0; i < n; i++) {
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        good = (i % 2 ? edge_isum(comm, 3) : edge_sum(comm, 3)) && good;
        MPI_Comm_free(&comm);
    }
    return good;
}

static MPI_Errhandler count_errors_of(MPI_Comm comm)
{
    MPI_Errhandler handler;

    MPI_Comm_create_errhandler(counts_errors, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    return handler;
}

static void tell_errors(MPI_Errhandler handler, bool good)
{
    MPI_Errhandler got;

    MPI_Comm_get_errhandler(noisy, &got);
    edge_say("handled all errors %s, sums %s, the same handler %s", edge_yes(handled == made),
             edge_yes(good), edge_yes(got == handler));
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&handler);
}

/* A thread makes errors on MPI_COMM_SELF while this one makes first exchanges with others. */
static void errors_on_self(void)
{
    MPI_Errhandler handler = count_errors_of(MPI_COMM_SELF);
    pthread_t thread;
    int least = 9000;
    bool good;

    noisy = MPI_COMM_SELF;
    pthread_create(&thread, NULL, makes_errors, &least);
    good = first_exchanges(30);
    enough = true;
    pthread_join(thread, NULL);
    tell_errors(handler, good);
}

/* Does so on the communicator whose first exchange it is. */
static void errors_on_the_same(void)
{
    int least = 300;

    for (int round = 0; round < 12; round++) {
        MPI_Errhandler handler;
        pthread_t thread;
        bool good;

        MPI_Comm_dup(MPI_COMM_WORLD, &noisy);
        handler = count_errors_of(noisy);
        enough = false;
        pthread_create(&thread, NULL, makes_errors, &least);
        if (edge.rank == round % edge.size)
            usleep(1000);
        good = round % 2 ? edge_isum(noisy, 3) : edge_sum(noisy, 3);
        good = edge_sum(noisy, 4) && good;
        enough = true;
        pthread_join(thread, NULL);
        tell_errors(handler, good);
        MPI_Comm_free(&noisy);
    }
}

/* ---- the shape of what the program sees ---- */

static void names_and_info(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0, keys = 0, flag = 0, *value = NULL;
    MPI_Comm comm, copy;
    MPI_Info info;
    MPI_Request request;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    edge_sums(comm, CALLS, 1);
    edge_isum(comm, 5);
    MPI_Comm_get_name(comm, name, &length);
    edge_say("name \"%s\" of %d", name, length);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_nkeys(info, &keys);
    edge_say("info of %d keys", keys);
    MPI_Info_free(&info);
    MPI_Comm_set_name(comm, "mine");
    edge_sums(comm, CALLS, 1);
    MPI_Comm_get_name(comm, name, &length);
    edge_say("name \"%s\" of %d", name, length);
    MPI_Comm_idup(comm, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
    for (int key = 0; key < 6; key++) {
        static const int keys_of_mpi[] = {MPI_TAG_UB, MPI_HOST,          MPI_IO,
                                          MPI_APPNUM, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE};

        MPI_Comm_get_attr(MPI_COMM_WORLD, keys_of_mpi[key], &value, &flag);
        edge_say("attribute %d: %d", key, flag ? *value : -1);
    }
    MPI_Comm_free(&comm);
}

/* Messages of the program on the communicator of a first exchange, of every tag, before and after.
 */
static void messages_beside(void)
{
    MPI_Comm comm;
    int next = (edge.rank + 1) % edge.size, flag = 0, wrong = 0;
    int got[64], sent[64];
    MPI_Request in[64], out[64];
    MPI_Status status;

    for (int kind = 0; kind < 8; kind++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int i = 0; i < 64; i++) {
            sent[i] = i + edge.rank;
            MPI_Irecv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &in[i]);
        }
        first_call(comm, kind);
        edge_sums(comm, 2, 1);
        for (int i = 0; i < 64; i++)
            MPI_Isend(&sent[i], 1, MPI_INT, next, i == 63 ? 0x5353 : i, comm, &out[i]);
        edge_isum(comm, 2);
        for (int i = 0; i < 64; i++) {
            MPI_Wait(&in[i], &status);
            MPI_Wait(&out[i], MPI_STATUS_IGNORE);
            wrong += got[i] != i + (edge.rank + edge.size - 1) % edge.size;
            wrong += status.MPI_TAG != (i == 63 ? 0x5353 : i);
        }
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
        edge_say("first call %d: %d wrong messages, one more to come: %d", kind, wrong, flag);
        MPI_Comm_free(&comm);
    }
}

static const struct edge_case cases[] = {
    {"contexts", EDGE_INIT, contexts},
    {"contexts-uneven", EDGE_INIT, contexts_uneven},
    {"errors-self", MPI_THREAD_MULTIPLE, errors_on_self},
    {"errors-same", MPI_THREAD_MULTIPLE, errors_on_the_same},
    {"names", EDGE_INIT, names_and_info},
    {"messages", EDGE_INIT, messages_beside},
};

EDGE_MAIN(cases)
