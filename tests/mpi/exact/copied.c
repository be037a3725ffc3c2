/* copied [info]: the first eligible call on a communicator while MPI_Comm_idup copies it, and while
 * it copies another one. info: MPI_Comm_idup_with_info copies, if there is one. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

/* Open MPI 4 lacks it, and its header too. */
int MPI_Comm_idup_with_info(MPI_Comm, MPI_Info, MPI_Comm *, MPI_Request *) __attribute__((weak));

enum { COUNT = 5000, ROUNDS = 10 };

static float in[COUNT], out[COUNT];
static bool with_info;

static int copy_of(MPI_Comm from, MPI_Comm *copy, MPI_Request *request)
{
    return with_info && MPI_Comm_idup_with_info
               ? MPI_Comm_idup_with_info(from, MPI_INFO_NULL, copy, request)
               : MPI_Comm_idup(from, copy, request);
}

static bool sums(MPI_Comm comm, int calls)
{
    static uint64_t seed;
    bool good = true;

    for (int i = 0; i < calls; i++) {
        input_fill_whole(in, COUNT, ++seed, tap.rank);
        good = MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS &&
               input_is_whole_sum(out, COUNT, seed, tap.size) && good;
    }
    return good;
}

/* Copies `from` and makes sums on `comm` before the copy is waited for, then sums on the copy. */
static bool round_of(MPI_Comm from, MPI_Comm comm)
{
    MPI_Request request;
    MPI_Comm copy;
    bool good;

    copy_of(from, &copy, &request);
    good = sums(comm, 3);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    good = sums(copy, 3) && good;
    MPI_Comm_free(&copy);
    return good;
}

int main(int argc, char **argv)
{
    MPI_Comm one, other;
    bool same = true, another = true;
    int status;

    MPI_Init(&argc, &argv);
    with_info = argc > 1;
    tap_begin(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &one);
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
        same = round_of(one, one) && same;
        another = round_of(one, other) && another;
        MPI_Comm_free(&one);
        MPI_Comm_free(&other);
    }
    tap_ok(same, "sums on a communicator that is being copied, and on the copy");
    tap_ok(another, "sums on a communicator while another one is copied");
    tap_ok(sums(MPI_COMM_WORLD, 3) && round_of(MPI_COMM_WORLD, MPI_COMM_WORLD),
           "sums on a communicator that is copied after its first sums");
    status = tap_end();
    MPI_Finalize();
    return status;
}
