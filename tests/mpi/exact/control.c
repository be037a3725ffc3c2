/* Persistent allreduces, and MPI_Pcontrol: off, on, report. */
#include <mpi.h>
#include <stdio.h>

enum { N = 5000, STARTS = 3 };

static float in[N], out[N];
static int rank, ranks, failures, tests;

static void check(int good, const char *what)
{
    int all;

    PMPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    failures += !all;
    tests++;
    if (rank == 0)
        printf("%sok %d - %s\n", all ? "" : "not ", tests, what);
}

static int is_sum(void)
{
    for (int i = 0; i < N; i++) {
        float want = i % 97 == 0 ? (float)(ranks * (ranks + 1) / 2) : 0;

        if (out[i] != want)
            return 0;
        out[i] = -1;
    }
    return 1;
}

static int reduces(void)
{
    MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return is_sum();
}

int main(int argc, char **argv)
{
    MPI_Request request;
    int good = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < N; i += 97)
        in[i] = (float)(rank + 1);
    check(reduces() && reduces(), "allreduce");
    MPI_Allreduce_init(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < STARTS; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        good = is_sum() && good;
    }
    MPI_Request_free(&request);
    check(good && request == MPI_REQUEST_NULL, "a persistent allreduce, started three times");
    if (rank == ranks - 1)
        MPI_Pcontrol(0);
    check(reduces(), "off on one rank");
    MPI_Pcontrol(1);
    check(reduces(), "on again");
    MPI_Pcontrol(2);
    MPI_Pcontrol(7, "for somebody else");
    check(reduces(), "after a report and a level of another tool's");
    if (rank == 0)
        printf("1..%d\n", tests);
    MPI_Finalize();
    return failures > 0;
}
