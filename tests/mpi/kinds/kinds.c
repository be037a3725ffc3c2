/* Allgather, reduce_scatter and reduce in all the forms that are served, against what the MPI
 * library gives on a communicator of its own. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 6000, ROUNDS = 3 };

static int rank, ranks, failures;
static MPI_Comm plain;

static void check(int good, const char *what, int round)
{
    int all;

    PMPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, plain);
    if (!all) {
        failures++;
        if (rank == 0)
            printf("not ok - %s, round %d\n", what, round);
    }
}

static void *zeros(size_t bytes)
{
    void *p = calloc(bytes > 0 ? bytes : 1, 1);

    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return p;
}

/* About 1 % of the elements, small whole numbers; -0.0, Inf and NaN among them where asked. */
static void fill(float *x, size_t n, int seed, int special)
{
    memset(x, 0, n * sizeof *x);
    for (size_t i = (size_t)(seed * 7 % 97); i < n; i += 89 + (size_t)seed % 13)
        x[i] = (float)(1 + (i + (size_t)seed) % 31);
    if (special && n > 12) {
        uint32_t nan = 0x7fc01234u + (uint32_t)seed;

        x[3] = -0.0f;
        memcpy(&x[7], &nan, sizeof nan);
        x[11] = 1.0f / x[4];
    }
}

static void allgather(int round)
{
    size_t n = (size_t)SLICE * (size_t)ranks;
    float *mine = zeros(SLICE * sizeof *mine), *ours = zeros(n * sizeof *ours),
          *theirs = zeros(n * sizeof *theirs);
    MPI_Datatype block;
    MPI_Request request;

    fill(mine, SLICE, rank + 10 * round, 1);
    MPI_Type_contiguous(SLICE, MPI_FLOAT, &block);
    MPI_Type_commit(&block);
    PMPI_Allgather(mine, SLICE, MPI_FLOAT, theirs, SLICE, MPI_FLOAT, plain);
#define SAME(what)                                                                                 \
    do {                                                                                           \
        check(memcmp(ours, theirs, n * sizeof *ours) == 0, what, round);                           \
        memset(ours, 0xff, n * sizeof *ours);                                                      \
    } while (0)

    memset(ours, 0xff, n * sizeof *ours);
    MPI_Allgather(mine, SLICE, MPI_FLOAT, ours, SLICE, MPI_FLOAT, MPI_COMM_WORLD);
    SAME("allgather");
    if (rank == 0)
        MPI_Allgather(mine, SLICE, MPI_FLOAT, ours, SLICE, MPI_FLOAT, MPI_COMM_WORLD);
    else
        MPI_Allgather(mine, 1, block, ours, 1, block, MPI_COMM_WORLD);
    SAME("allgather, one rank with floats, the others with a contiguous type");
    if (rank == 0)
        MPI_Allgather(mine, 1, block, ours, SLICE, MPI_FLOAT, MPI_COMM_WORLD);
    else
        MPI_Allgather_c(mine, SLICE, MPI_FLOAT, ours, 1, block, MPI_COMM_WORLD);
    SAME("allgather, types that differ on the two sides, and the large form on some ranks");
    memcpy(ours + (size_t)rank * SLICE, mine, SLICE * sizeof *mine);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, ours, SLICE, MPI_FLOAT, MPI_COMM_WORLD);
    SAME("allgather in place");
    MPI_Iallgather(mine, SLICE, MPI_FLOAT, ours, SLICE, MPI_FLOAT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME("iallgather");
    MPI_Type_free(&block);

    /* A type whose memory order is not that of its signature, on one rank: cannot be served. */
    int order[] = {1, 0};
    int lengths[] = {1, 1};
    MPI_Datatype swapped;

    MPI_Type_indexed(2, lengths, order, MPI_FLOAT, &swapped);
    MPI_Type_commit(&swapped);
    if (rank == ranks - 1) {
        MPI_Allgather(mine, SLICE / 2, swapped, ours, SLICE, MPI_FLOAT, MPI_COMM_WORLD);
        PMPI_Allgather(mine, SLICE / 2, swapped, theirs, SLICE, MPI_FLOAT, plain);
    } else {
        MPI_Allgather(mine, SLICE, MPI_FLOAT, ours, SLICE, MPI_FLOAT, MPI_COMM_WORLD);
        PMPI_Allgather(mine, SLICE, MPI_FLOAT, theirs, SLICE, MPI_FLOAT, plain);
    }
    SAME("allgather, one rank with a permuted type");
    MPI_Type_free(&swapped);
    free(mine);
    free(ours);
    free(theirs);
}

static void allgatherv(int round)
{
    int *counts = zeros((size_t)ranks * sizeof *counts),
        *displs = zeros((size_t)ranks * sizeof *displs);
    MPI_Count *big_counts = zeros((size_t)ranks * sizeof *big_counts);
    MPI_Aint *big_displs = zeros((size_t)ranks * sizeof *big_displs);
    size_t n = 0, gap = 5;
    MPI_Request request;

    for (int r = 0; r < ranks; r++) {
        counts[r] = r == 1 ? 0 : SLICE + 100 * r;
        displs[r] = (int)n;
        big_counts[r] = counts[r];
        big_displs[r] = displs[r];
        n += (size_t)counts[r];
    }
    size_t room = n + gap * (size_t)ranks;
    float *mine = zeros((size_t)counts[rank] * sizeof *mine), *ours = zeros(room * sizeof *ours),
          *theirs = zeros(room * sizeof *theirs);

    fill(mine, (size_t)counts[rank], rank + 3 * round, 1);
    PMPI_Allgatherv(mine, counts[rank], MPI_FLOAT, theirs, counts, displs, MPI_FLOAT, plain);
    MPI_Allgatherv(mine, counts[rank], MPI_FLOAT, ours, counts, displs, MPI_FLOAT, MPI_COMM_WORLD);
    SAME("allgatherv");
    MPI_Allgatherv_c(mine, counts[rank], MPI_FLOAT, ours, big_counts, big_displs, MPI_FLOAT,
                     MPI_COMM_WORLD);
    SAME("allgatherv, large form");
    MPI_Iallgatherv(mine, counts[rank], MPI_FLOAT, ours, counts, displs, MPI_FLOAT, MPI_COMM_WORLD,
                    &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME("iallgatherv");
    MPI_Iallgatherv_c(mine, counts[rank], MPI_FLOAT, ours, big_counts, big_displs, MPI_FLOAT,
                      MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME("iallgatherv, large form");
    memcpy(ours + displs[rank], mine, (size_t)counts[rank] * sizeof *mine);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, ours, counts, displs, MPI_FLOAT,
                   MPI_COMM_WORLD);
    SAME("allgatherv in place");

    /* Rank 0 leaves gaps between the slices, the others do not. */
    if (rank == 0)
        for (int r = 0; r < ranks; r++)
            displs[r] += r * (int)gap;
    n = rank == 0 ? room : n;
    memset(ours, 0, room * sizeof *ours);
    memset(theirs, 0, room * sizeof *theirs);
    PMPI_Allgatherv(mine, counts[rank], MPI_FLOAT, theirs, counts, displs, MPI_FLOAT, plain);
    MPI_Allgatherv(mine, counts[rank], MPI_FLOAT, ours, counts, displs, MPI_FLOAT, MPI_COMM_WORLD);
    SAME("allgatherv, one rank with gaps");
    free(mine);
    free(ours);
    free(theirs);
    free(counts);
    free(displs);
    free(big_counts);
    free(big_displs);
}

static void reductions(int round)
{
    size_t n = (size_t)SLICE * (size_t)ranks;
    float *mine = zeros(n * sizeof *mine), *ours = zeros(n * sizeof *ours),
          *theirs = zeros(n * sizeof *theirs);
    size_t all = n;

    fill(mine, n, rank + 5 * round, 0);
    PMPI_Reduce_scatter_block(mine, theirs, SLICE, MPI_FLOAT, MPI_SUM, plain);
    n = SLICE;
    MPI_Reduce_scatter_block(mine, ours, SLICE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    SAME("reduce_scatter_block");
    MPI_Reduce_scatter_block_c(mine, ours, SLICE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    SAME("reduce_scatter_block, large form");
    memcpy(ours, mine, all * sizeof *ours);
    MPI_Reduce_scatter_block(MPI_IN_PLACE, ours, SLICE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    SAME("reduce_scatter_block in place");

    n = all;
    for (int root = 0; root < ranks; root++) {
        memset(theirs, 0, n * sizeof *theirs);
        memset(ours, 0, n * sizeof *ours);
        PMPI_Reduce(mine, theirs, (int)n, MPI_FLOAT, MPI_SUM, root, plain);
        MPI_Reduce(mine, ours, (int)n, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
        check(memcmp(ours, theirs, n * sizeof *ours) == 0, "reduce", round);
        if (root > 0) /* MPICH 4.0.2 does not survive MPI_IN_PLACE on another root than 0 */
            continue;
        if (rank == root)
            memcpy(ours, mine, n * sizeof *ours);
        else
            memset(ours, 0, n * sizeof *ours);
        MPI_Reduce(rank == root ? MPI_IN_PLACE : (void *)mine, rank == root ? ours : NULL, (int)n,
                   MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
        check(memcmp(ours, theirs, n * sizeof *ours) == 0, "reduce in place on the root", round);
    }
    free(mine);
    free(ours);
    free(theirs);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    PMPI_Comm_dup(MPI_COMM_WORLD, &plain);
    for (int round = 0; round < ROUNDS; round++) {
        allgather(round);
        allgatherv(round);
        reductions(round);
    }
    PMPI_Comm_free(&plain);
    if (rank == 0 && failures == 0)
        puts("ok 1 - allgather, reduce_scatter and reduce as the MPI library gives them\n1..1");
    MPI_Finalize();
    return failures > 0;
}
