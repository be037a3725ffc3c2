/* starved: communicators on which one rank has no memory at the first eligible call. Nobody may
 * wait for it, sums are right, and once it has memory again other communicators are served.
 *
 * Run with tests/preload/failing.c preloaded. */
#include <dlfcn.h>

#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 4096, TIMES = 20, CALLS = 3 };

typedef int failing_memory_function(int fails);

static float in[COUNT], out[COUNT];

static bool sum_is_right(MPI_Comm comm, uint64_t seed)
{
    input_fill_whole(in, COUNT, seed, tap.rank);
    return MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS &&
           input_is_whole_sum(out, COUNT, seed, tap.size);
}

int main(int argc, char **argv)
{
    failing_memory_function *failing_memory;
    bool first = true, later = true;
    int failed = 0, status;
    MPI_Comm fed;

    *(void **)&failing_memory = dlsym(RTLD_DEFAULT, "failing_memory");
    if (!failing_memory) {
        fputs("starved: tests/preload/failing.c is not preloaded\n", stderr);
        return 1;
    }
    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    tap_ok(sum_is_right(MPI_COMM_WORLD, 1), "a sum with memory everywhere");
    for (int time = 0; time < TIMES; time++) {
        MPI_Comm comm;

        PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
        failing_memory(tap.rank == time % tap.size);
        first = first && sum_is_right(comm, 2);
        failed = failing_memory(0);
        for (int call = 1; call < CALLS; call++)
            later = later && sum_is_right(comm, 2 + (uint64_t)call);
        MPI_Comm_free(&comm);
    }
    tap_ok(failed >= TIMES / tap.size, "every rank in turn had no memory");
    tap_ok(first, "first calls on %d communicators with a rank without memory", TIMES);
    tap_ok(later, "later calls on them");
    PMPI_Comm_dup(MPI_COMM_WORLD, &fed);
    for (int call = 0; call < CALLS; call++)
        tap_ok(sum_is_right(fed, 7 + (uint64_t)call), "sum %d with memory again", call);
    MPI_Comm_free(&fed);
    status = tap_end();
    MPI_Finalize();
    return status;
}
