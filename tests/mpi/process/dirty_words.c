/* Calls whose handles have anything in the upper half of their registers, as an int argument may:
 * the results are right, and preloaded the calls are served as others are. For MPI libraries whose
 * handles are ints. */
#include <stdint.h>

#include "tests/mpi/support/tap.h"

enum { N = 4000, CALLS = 12 };

typedef int reduction(const void *, void *, int, uint64_t, uint64_t, uint64_t);
typedef int rooted(const void *, void *, int, uint64_t, uint64_t, int, uint64_t);
typedef int ireduction(const void *, void *, int, uint64_t, uint64_t, uint64_t, void *);
typedef int irooted(const void *, void *, int, uint64_t, uint64_t, int, uint64_t, void *);
typedef int gather(const void *, int, uint64_t, void *, int, uint64_t, uint64_t);
typedef int asks(uint64_t, int *, void *);
typedef int sets(uint64_t, int, void *);

#define AS(type, function) (type *)(void (*)(void))(function)
static reduction *volatile allreduce = AS(reduction, MPI_Allreduce);
static gather *volatile allgather = AS(gather, MPI_Allgather);
static rooted *volatile reduce = AS(rooted, MPI_Reduce);
static ireduction *volatile iallreduce = AS(ireduction, MPI_Iallreduce);
static irooted *volatile ireduce = AS(irooted, MPI_Ireduce);
static asks *volatile get_status = AS(asks, MPI_Request_get_status);
static sets *volatile set_attr = AS(sets, MPI_Comm_set_attr);

static float in[N], out[N], all[4 * N];

/* Another upper half each time. */
static uint64_t dirty(int handle)
{
    static uint64_t last = 0x9e3779b97f4a7c15;

    last = last * 6364136223846793005 + 1;
    return (last & 0xffffffff00000000) | (uint32_t)handle;
}

static void fill(void)
{
    for (int i = 0; i < N; i++)
        in[i] = i % 50 == tap.rank ? (float)(i + 1) : 0;
}

static bool is_sum(void)
{
    bool is = true;

    for (int i = 0; i < N; i++) {
        is = is && out[i] == (i % 50 < tap.size ? (float)(i + 1) : 0);
        out[i] = -1;
    }
    return is;
}

static bool is_gathered(void)
{
    bool is = true;

    for (int i = 0; i < N; i++)
        for (int r = 0; r < tap.size; r++)
            is = is && all[r * N + i] == (i % 50 == r ? (float)(i + 1) : 0);
    return is;
}

static void add(void *a, void *b, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((float *)b)[i] += ((float *)a)[i];
}

static bool ends_by_status(MPI_Request *request)
{
    int done = 0;

    while (!done)
        if (get_status(dirty(*request), &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
    return MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

static void blocking(MPI_Comm comm)
{
    MPI_Datatype pair;
    bool sums = true, gathers = true, reduces = true;

    MPI_Type_contiguous(2, MPI_FLOAT, &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i < CALLS; i++) {
        allreduce(in, out, N, dirty(MPI_FLOAT), dirty(MPI_SUM), dirty(comm));
        sums = is_sum() && sums;
        allgather(in, N / 2, dirty(pair), all, N / 2, dirty(pair), dirty(comm));
        gathers = is_gathered() && gathers;
        reduce(in, out, N, dirty(MPI_FLOAT), dirty(MPI_SUM), 0, dirty(comm));
        reduces = (tap.rank > 0 || is_sum()) && reduces;
    }
    tap_ok(sums, "allreduces are right");
    tap_ok(gathers, "allgathers of a derived type are right");
    tap_ok(reduces, "reduces are right");
    MPI_Type_free(&pair);
}

static void nonblocking(MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    bool sums = true, own = true;
    MPI_Op op;

    for (int i = 0; i < CALLS; i++) {
        iallreduce(in, out, N, dirty(MPI_FLOAT), dirty(MPI_SUM), dirty(comm), &request);
        sums = ends_by_status(&request) && is_sum() && sums;
    }
    tap_ok(sums, "nonblocking allreduces are right, and their requests answer");
    MPI_Op_create(add, 1, &op);
    ireduce(in, out, N, dirty(MPI_FLOAT), dirty(op), 0, dirty(comm), &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    own = tap.rank > 0 || is_sum();
    tap_ok(own, "a nonblocking reduce with an operator of the program is right");
    MPI_Op_free(&op);
}

int main(int argc, char **argv)
{
    int level, keyval;
    MPI_Comm comm;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    tap_begin(MPI_COMM_WORLD);
    fill();
    for (int i = 0; i < 2; i++) { /* the second may get the handle of the first */
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
        tap_ok(set_attr(dirty(comm), keyval, NULL) == MPI_SUCCESS, "an attribute can be set");
        blocking(comm);
        if (i == 0)
            nonblocking(comm);
        MPI_Comm_free_keyval(&keyval);
        MPI_Comm_free(&comm);
    }
    MPI_Finalize();
    return tap_end();
}
