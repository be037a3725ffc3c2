/* The job ends as soon as its only nonblocking allreduces have, while the ranks still meet on their
 * communicators.
 *
 *     nb_finalize [communicators]
 */
#include "tests/mpi/support/tap.h"

int main(int argc, char **argv)
{
    enum { COUNT = 1000, MOST = 8 };
    static float values[MOST][COUNT];
    int comms = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Comm comm[MOST] = {MPI_COMM_WORLD};
    MPI_Request requests[MOST];
    bool right = true;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (int c = 0; c < comms; c++) {
        if (c > 0)
            MPI_Comm_dup(MPI_COMM_WORLD, &comm[c]);
        for (int i = 0; i < COUNT; i++)
            values[c][i] = (float)(tap.rank + c);
        MPI_Iallreduce(MPI_IN_PLACE, values[c], COUNT, MPI_FLOAT, MPI_SUM, comm[c], &requests[c]);
    }
    for (int c = comms - 1; c >= 0; c--) {
        MPI_Wait(&requests[c], MPI_STATUS_IGNORE);
        for (int i = 0; i < COUNT; i++)
            right = right && values[c][i] == (float)(tap.size * (tap.size - 1) / 2 + tap.size * c);
        if (c > 0)
            MPI_Comm_free(&comm[c]);
    }
    tap_ok(right, "a_job_may_end_while_its_ranks_still_meet: the sums");
    MPI_Finalize();
    return tap_end();
}
