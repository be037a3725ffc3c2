/* nb_mixed nonblocking|blocking [funneled]: the rank in C of a job of several languages.
 *
 * nb_mixed_f08.f90, nb_mixed_mpi.f90, nb_mixed_mpif.f and tests/py/mixed.py make the same calls, of
 * the same data: 20 steps of four nonblocking sums and a blocking one between them, the last of a
 * step against a message from rank 2 to rank 0. The argument says which kind of call is the first
 * on the communicator. Each language completes its requests in its own way.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 2048, STEPS = 20, CALLS = 5 };

static float in[CALLS][N], out[CALLS][N];
static int rank, ranks;

/* Small whole numbers, one entry in 25, partly at the same places on neighbouring ranks: their sums
 * are exact in any order. */
static int value(int i, int of, int call)
{
    return (i + of + call) % 50 < 2 ? (i + call) % 31 + of + 1 : 0;
}

static void fill(int step)
{
    for (int k = 0; k < CALLS; k++)
        for (int i = 0; i < N; i++) {
            in[k][i] = (float)value(i, rank, CALLS * step + k);
            out[k][i] = -7;
        }
}

/* Entries of the first sums of a step that are wrong. */
static int wrong(int step, int sums)
{
    int bad = 0;

    for (int k = 0; k < sums; k++)
        for (int i = 0; i < N; i++) {
            int want = 0;

            for (int of = 0; of < ranks; of++)
                want += value(i, of, CALLS * step + k);
            bad += out[k][i] != (float)want;
        }
    return bad;
}

static void start(int k, MPI_Request *request)
{
    MPI_Iallreduce(in[k], out[k], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, request);
}

/* Sums and the request of one step that are not what they should be. */
static int run(int step)
{
    MPI_Request request[3];
    MPI_Status status[3];
    int which, done = 0, token = step, bad = 0;

    fill(step);
    start(0, &request[0]);
    start(1, &request[1]);
    MPI_Allreduce(in[2], out[2], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    start(3, &request[2]);
    MPI_Waitany(3, request, &which, MPI_STATUS_IGNORE);
    while (!done)
        MPI_Testall(3, request, &done, status);
    start(4, &request[0]);
    if (rank == 0) {
        MPI_Recv(&token, 1, MPI_INT, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        bad += token != -step;
    }
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    if (rank == 2) {
        token = -step;
        MPI_Send(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    }
    for (int k = 0; k < 3; k++)
        bad += request[k] != MPI_REQUEST_NULL;
    return bad + wrong(step, CALLS);
}

int main(int argc, char **argv)
{
    const char *first = argc > 1 ? argv[1] : "nonblocking";
    int level = MPI_THREAD_FUNNELED, again = -1, bad = 0, all_bad = 0;

    if (argc > 2 && strcmp(argv[2], "funneled") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Query_thread(&again);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bad += level != MPI_THREAD_FUNNELED;
    /* MPI_Init gives what the user may have named. */
    if (argc <= 2 && !getenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL"))
        level = MPI_THREAD_SINGLE;
    bad += again != level;
    if (strcmp(first, "blocking") == 0) {
        fill(0);
        MPI_Allreduce(in[0], out[0], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        bad += wrong(0, 1);
    }
    for (int step = 1; step <= STEPS; step++)
        bad += run(step);
    MPI_Reduce(&bad, &all_bad, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        if (all_bad == 0)
            printf("ok 1 - sums of a job of several languages, rank 0 in C\n");
        else
            printf("not ok 1 - %d wrong entries, tokens or requests\n", all_bad);
        printf("1..1\n");
    }
    MPI_Finalize();
    return rank == 0 && all_bad != 0;
}
