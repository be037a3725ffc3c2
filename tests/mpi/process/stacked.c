/* stacked: four eligible calls and three that are not, for a profiler to count, and arguments of
 * several kinds after the level of MPI_Pcontrol. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 4096 };

int main(int argc, char **argv)
{
    static float in[COUNT], out[COUNT];
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (int call = 0; call < 4; call++) {
        input_fill_whole(in, COUNT, (uint64_t)call, tap.rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        tap_ok(input_is_whole_sum(out, COUNT, (uint64_t)call, tap.size), "sum %d", call);
    }
    MPI_Pcontrol(2, 3.25);
    MPI_Pcontrol(3, 7, -0.5, "region", 1e100);
    MPI_Pcontrol(4, 1, 2, 3, 4, 5, 6, 7);
    for (int call = 0; call < 3; call++) {
        int mine = tap.rank + call, largest;
        MPI_Allreduce(&mine, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        tap_ok(largest == tap.size - 1 + call, "maximum %d", call);
    }
    status = tap_end();
    MPI_Finalize();
    return status;
}
