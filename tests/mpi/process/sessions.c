/* A program that never calls MPI_Init: MPI Sessions alone. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 4096 };

static float in[COUNT], out[COUNT];

static bool sums_on(MPI_Comm comm, uint64_t seed)
{
    bool good = true;
    for (int call = 0; call < 4; call++) {
        input_fill_whole(in, COUNT, seed, tap.rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm);
        good = good && input_is_whole_sum(out, COUNT, seed, tap.size);
    }
    return good;
}

int main(void)
{
    int status;
#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm, second;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "sparseshim.tests.first", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                               &comm);
    MPI_Comm_create_from_group(group, "sparseshim.tests.second", MPI_INFO_NULL,
                               MPI_ERRORS_ARE_FATAL, &second);
    tap_begin(comm);
    tap_ok(sums_on(comm, 1), "sums on a communicator made from a session");
    tap_ok(sums_on(second, 2), "sums on a second one");
    MPI_Comm_free(&second);
    tap_ok(sums_on(comm, 3), "sums on the first after the second was freed");
    status = tap_end();
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
#else
    puts("1..0 # SKIP this MPI library has no sessions (MPI 4)");
    status = 0;
#endif
    return status;
}
