/* Collectives with large counts on buffers in device memory: what the same call of the MPI library
 * gives on buffers of the host.
 *
 *     device_counts [nonblocking]  blocking ones; those that have a request, behind a blocking one
 */
#include <stdbool.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 5000, CALLS = 6, RANKS_MOST = 16 };
enum form { ALLREDUCE, REDUCE, SCATTER, GATHER, GATHERV, FORMS };
static const char *const names[FORMS] = {"allreduce", "reduce", "reduce_scatter_block", "allgather",
                                         "allgatherv"};

static MPI_Count counts[RANKS_MOST];
static MPI_Aint displs[RANKS_MOST];
static float in[COUNT * RANKS_MOST], got[COUNT * RANKS_MOST + RANKS_MOST],
    expected[COUNT * RANKS_MOST + RANKS_MOST];

/* Gaps of an element between the slices. */
static void lay_out(void)
{
    for (int r = 0; r < tap.size; r++) {
        counts[r] = COUNT - r;
        displs[r] = (MPI_Aint)(COUNT + 1) * r;
    }
}

/* prefix: MPI_ or PMPI_ */
#define MAKE(prefix, form, send, recv)                                                             \
    ((form) == REDUCE                                                                              \
         ? prefix##Reduce_c(send, recv, COUNT, MPI_FLOAT, MPI_SUM, tap.size - 1, MPI_COMM_WORLD)   \
     : (form) == SCATTER                                                                           \
         ? prefix##Reduce_scatter_block_c(send, recv, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)   \
     : (form) == GATHER                                                                            \
         ? prefix##Allgather_c(send, COUNT, MPI_FLOAT, recv, COUNT, MPI_FLOAT, MPI_COMM_WORLD)     \
     : (form) == GATHERV                                                                           \
         ? prefix##Allgatherv_c(send, counts[tap.rank], MPI_FLOAT, recv, counts, displs,           \
                                MPI_FLOAT, MPI_COMM_WORLD)                                         \
         : prefix##Allreduce_c(send, recv, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))

static int post_and_wait(enum form form, const void *send, void *recv)
{
    MPI_Request request;
    int err;

    if (form == GATHER)
        err = MPI_Iallgather_c(send, COUNT, MPI_FLOAT, recv, COUNT, MPI_FLOAT, MPI_COMM_WORLD,
                               &request);
    else if (form == GATHERV)
        err = MPI_Iallgatherv_c(send, counts[tap.rank], MPI_FLOAT, recv, counts, displs, MPI_FLOAT,
                                MPI_COMM_WORLD, &request);
    else
        err = MPI_Iallreduce_c(send, recv, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    return err == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : err;
}

/* Whole numbers: their sums are exact in any order. */
static bool is_right(enum form form, uint64_t seed, char *send, char *recv, bool nonblocking)
{
    static float sent[COUNT * RANKS_MOST];
    int err;

    input_fill_whole(in, COUNT * tap.size, seed, tap.rank);
    memset(expected, 0x5a, sizeof expected);
    cuda_write(DEVICE, send, in, sizeof in);
    cuda_write(POOL, recv, expected, sizeof expected);
    err = nonblocking ? post_and_wait(form, send, recv) : MAKE(MPI_, form, send, recv);
    (void)MAKE(PMPI_, form, in, expected);
    cuda_read(DEVICE, sent, send, sizeof sent);
    cuda_read(POOL, got, recv, sizeof got);
    return err == MPI_SUCCESS && memcmp(got, expected, sizeof got) == 0 &&
           memcmp(sent, in, sizeof in) == 0;
}

int main(int argc, char **argv)
{
    const bool nonblocking = argc > 1;
    char *send, *recv;
    int provided, status;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    if (tap.size > RANKS_MOST)
        MPI_Abort(MPI_COMM_WORLD, 2);
    cuda_open();
    lay_out();
    send = cuda_memory(DEVICE, sizeof in);
    recv = cuda_memory(POOL, sizeof got);
    (void)is_right(ALLREDUCE, 99, send, recv, false);
    for (enum form form = 0; form < FORMS; form++) {
        bool right = true;

        if (nonblocking && (form == REDUCE || form == SCATTER)) /* the MPI library's own */
            continue;
        for (uint64_t call = 0; call < CALLS; call++)
            right = is_right(form, call, send, recv, nonblocking) && right;
        tap_ok(right, "%s", names[form]);
    }
    status = tap_end();
    MPI_Finalize();
    return status;
}
