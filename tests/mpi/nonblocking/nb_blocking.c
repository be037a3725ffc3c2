/* A blocking allreduce while a nonblocking one is under way: the even ranks wait for the first of
 * them after the blocking call, the odd ones before it; on one communicator and on two. On one it
 * needs no thread: a blocking call moves what was called before it. nb_blocking [one] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 4000, ROUNDS = 40 };

static float in[2][N], out[2][N];
static int rank, ranks;

static void fill(int which, int round)
{
    for (int i = 0; i < N; i++)
        in[which][i] = i % (20 + which) == round % 20 ? (float)(rank + which + 1) : 0;
}

static int is_sum(int which, int round)
{
    for (int i = 0; i < N; i++) {
        float each = (float)(ranks * (ranks + 1) / 2 + ranks * which);

        if (out[which][i] != (i % (20 + which) == round % 20 ? each : 0))
            return 0;
    }
    return 1;
}

static int pair(MPI_Comm a, MPI_Comm b, int round)
{
    MPI_Request request;

    fill(0, round);
    fill(1, round);
    MPI_Iallreduce(in[0], out[0], N, MPI_FLOAT, MPI_SUM, a, &request);
    if (rank % 2 == 1)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(in[1], out[1], N, MPI_FLOAT, MPI_SUM, b);
    if (rank % 2 == 0)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    return is_sum(0, round) && is_sum(1, round);
}

int main(int argc, char **argv)
{
    int good[2] = {1, 1}, all[2];
    MPI_Comm other;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    /* The first call on a communicator is the MPI library's, which moves nothing of ours. */
    MPI_Allreduce(in[0], out[0], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(in[0], out[0], N, MPI_FLOAT, MPI_SUM, other);
    for (int round = 0; round < ROUNDS; round++) {
        good[0] = pair(MPI_COMM_WORLD, MPI_COMM_WORLD, round) && good[0];
        if (argc == 1)
            good[1] = pair(MPI_COMM_WORLD, other, round) && good[1];
    }
    MPI_Comm_free(&other);
    PMPI_Allreduce(good, all, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%sok 1 - on one communicator\n%sok 2 - on two communicators\n1..2\n",
               all[0] ? "" : "not ", all[1] ? "" : "not ");
    MPI_Finalize();
    return !(all[0] && all[1]);
}
