/* Stands for an MPI library without the functions of large counts: tells how it is called, and
 * looks at no buffer. A request is a number of OLD_MPI_HANDLE bytes (4 or 8), and keeps the lists
 * of an MPI_Iallgatherv or MPI_Ireduce_scatter for old_mpi_wait, as a library may that reads them
 * until the request ends. Communicators above BETWEEN are between two groups. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uintptr_t handle;

enum { RANKS = 2, REMOTE = 3, BETWEEN = 100, REQUESTS = 64, FIRST = 0x1000 };

static struct {
    const int *counts, *displs;
    int size;
} requests[REQUESTS];

/* A function by both its names. */
#define MPI(name, ...)                                                                             \
    int MPI_##name(__VA_ARGS__);                                                                   \
    int PMPI_##name(__VA_ARGS__);                                                                  \
    int MPI_##name(__VA_ARGS__) __attribute__((alias("PMPI_" #name)));                             \
    int PMPI_##name(__VA_ARGS__)

long long old_mpi_wait(void *request);

static long long tell(const char *name, const void *send, const void *recv, long long count)
{
    return printf("%s send %llx recv %llx count %lld\n", name, (unsigned long long)(uintptr_t)send,
                  (unsigned long long)(uintptr_t)recv, count);
}

static int width(void)
{
    const char *bytes = getenv("OLD_MPI_HANDLE");

    return bytes ? atoi(bytes) : 8;
}

/* Those that have ended are given out again, the last one first. */
static int start(const int *counts, const int *displs, int size, void *request)
{
    handle made;
    int i = REQUESTS - 1;

    while (i > 0 && requests[i].counts)
        i--;
    requests[i].counts = counts;
    requests[i].displs = displs;
    requests[i].size = size;
    made = (handle)(FIRST + i);
    memcpy(request, &made, (size_t)width());
    return 0;
}

/* The sum of the request's lists, which the caller has let go. */
long long old_mpi_wait(void *request)
{
    handle made = 0;
    long long sum = 0;
    int i;

    memcpy(&made, request, (size_t)width());
    i = (int)made - FIRST;
    for (int r = 0; r < requests[i].size; r++)
        sum += 1000LL * requests[i].counts[r] + requests[i].displs[r];
    requests[i].counts = NULL;
    return sum;
}

MPI(Get_library_version, char *text, int *length)
{
    return (*length = sprintf(text, "a library before MPI 4")) < 0;
}

MPI(Comm_size, handle comm, int *size)
{
    *size = RANKS;
    return comm == 0;
}

MPI(Comm_remote_size, handle comm, int *size)
{
    *size = REMOTE;
    return comm == 0;
}

MPI(Comm_rank, handle comm, int *rank)
{
    *rank = (int)(comm & 1);
    return comm == 0;
}

MPI(Comm_test_inter, handle comm, int *inter)
{
    *inter = comm > BETWEEN;
    return comm == 0;
}

MPI(Type_get_extent, handle type, intptr_t *lower, intptr_t *extent)
{
    *lower = 0;
    *extent = (intptr_t)type;
    return 0;
}

MPI(Comm_call_errhandler, handle comm, int code)
{
    return printf("error %d on %d\n", code, (int)comm) < 0;
}

MPI(Allreduce, const void *send, void *recv, int count, handle type, handle op, handle comm)
{
    return tell("allreduce", send, recv, count) < 0 || type + op + comm == 0;
}

MPI(Reduce, const void *send, void *recv, int count, handle type, handle op, int root, handle comm)
{
    printf("to %d: ", root);
    return tell("reduce", send, recv, count) < 0 || type + op + comm == 0;
}

MPI(Reduce_scatter_block, const void *send, void *recv, int count, handle type, handle op,
    handle comm)
{
    return tell("scatter", send, recv, count) < 0 || type + op + comm == 0;
}

MPI(Reduce_scatter, const void *send, void *recv, const int *counts, handle type, handle op,
    handle comm)
{
    return tell("scatter with counts", send, recv, counts ? counts[0] : -1) < 0 ||
           type + op + comm == 0;
}

#define POST(name)                                                                                 \
    MPI(name, const void *send, void *recv, int count, handle type, handle op, handle comm,        \
        void *request)                                                                             \
    {                                                                                              \
        return tell(#name, send, recv, count) < 0 || type + op + comm == 0 || !request;            \
    }
POST(Iallreduce)
POST(Iscan)
POST(Iexscan)
POST(Ireduce_scatter_block)

MPI(Ireduce, const void *send, void *recv, int count, handle type, handle op, int root, handle comm,
    void *request)
{
    printf("to %d: ", root);
    return tell("Ireduce", send, recv, count) < 0 || type + op + comm == 0 || !request;
}

MPI(Ireduce_scatter, const void *send, void *recv, const int *counts, handle type, handle op,
    handle comm, void *request)
{
    return tell("Ireduce_scatter", send, recv, counts ? counts[0] : -1) < 0 ||
           type + op + comm == 0 || (counts && start(counts, counts, RANKS, request));
}

MPI(Allgather, const void *send, int send_count, handle send_type, void *recv, int count,
    handle type, handle comm)
{
    printf("%d: ", send_count);
    return tell("allgather", send, recv, count) < 0 || send_type + type + comm == 0;
}

MPI(Iallgatherv, const void *send, int send_count, handle send_type, void *recv, const int *counts,
    const int *displs, handle type, handle comm, void *request)
{
    return !send || !recv || send_count < 0 || send_type + type + comm == 0 ||
           start(counts, displs, comm > BETWEEN ? REMOTE : RANKS, request);
}
