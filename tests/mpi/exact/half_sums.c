/* half_sums: sums in 16 bits (tests/apps/half_sum.h) on the first 1, 2, ... ranks, for counts that
 * the ranks divide and do not divide: within the rounding of bfloat16 of the sum, same bits on all
 * ranks. */
#include <math.h>

#include "tests/apps/half_sum.h"
#include "tests/mpi/support/tap.h"

enum { MOST = 1001 };

static const size_t counts[] = {1, 2, 7, 16, MOST};

/* Element i of rank r: between -8 and 8, with all 24 bits of a float. */
static float element(int r, size_t i)
{
    uint32_t x = (uint32_t)(r + 1) * 0x9e3779b9u ^ (uint32_t)(i + 1) * 0x85ebca6bu;

    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x ^= x >> 13;
    return (float)(x >> 8) / 0x1p20f - 8;
}

/* How far the sum of element i may lie from the true one: each input is rounded once, and the sum
 * once, or with each addition. */
static bool close_enough(int how, float sum, int ranks, size_t i)
{
    double right = 0, magnitudes = 0, roundings = how == ALLTOALL16 ? 2 : ranks;

    for (int r = 0; r < ranks; r++) {
        right += (double)element(r, i);
        magnitudes += fabs((double)element(r, i));
    }
    if (how == ALLREDUCE)
        return fabs((double)sum - right) <= ranks * 0x1p-24 * magnitudes;
    return fabs((double)sum - right) <= 1.01 * roundings * 0x1p-8 * magnitudes;
}

/* Sums count elements over comm, in place if asked; returns whether result and bits are right. */
static bool sums_right(int how, size_t count, bool in_place, MPI_Comm comm)
{
    float vector[MOST + 1], sum[MOST + 1], of_first[MOST + 1];
    int rank, ranks;
    bool right = true;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (size_t i = 0; i <= count; i++)
        vector[i] = sum[i] = element(rank, i);
    add_up(how, in_place ? MPI_IN_PLACE : vector, sum, count, comm);
    for (size_t i = 0; i < count; i++)
        right = right && close_enough(how, sum[i], ranks, i);
    memcpy(of_first, sum, sizeof of_first);
    MPI_Bcast(of_first, (int)count, MPI_FLOAT, 0, comm);
    return right && memcmp(of_first, sum, count * sizeof *sum) == 0 && sum[count] == vector[count];
}

static bool rounds_to(float x, float rounded)
{
    float found = from_bf16(to_bf16(x));

    return isnan(rounded) ? isnan(found) : found == rounded && !signbit(found) == !signbit(rounded);
}

static bool rounding_right(void)
{
    const uint32_t low_nan = 0x7f800001;
    float nan_below;

    memcpy(&nan_below, &low_nan, sizeof nan_below);
    return rounds_to(1 + 0x1p-8f, 1) && rounds_to(1 + 0x3p-8f, 1 + 0x1p-6f) && /* ties */
           rounds_to(1 + 0x1.02p-8f, 1 + 0x1p-7f) && rounds_to(1 + 0x1.fep-9f, 1) &&
           rounds_to(-0.0f, -0.0f) && rounds_to(0x1.ffp127f, INFINITY) &&
           rounds_to(-INFINITY, -INFINITY) && rounds_to(nan_below, nan_below);
}

int main(int argc, char **argv)
{
    int rank, ranks, status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    tap_begin(MPI_COMM_WORLD);
    tap_ok(rounding_right(), "floats are rounded to the nearest bfloat16, ties to the even one");
    for (int how = ALLREDUCE; how <= OPERATOR16; how++) {
        bool right = true;

        for (int first = 1; first <= ranks; first++) {
            MPI_Comm comm;

            MPI_Comm_split(MPI_COMM_WORLD, rank < first ? 0 : MPI_UNDEFINED, rank, &comm);
            if (comm == MPI_COMM_NULL)
                continue;
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                right = sums_right(how, counts[i], i % 2 == 0, comm) && right;
            MPI_Comm_free(&comm);
        }
        tap_ok(right, "%s on 1 to %d ranks: right, and the same bits on all", sums_names[how],
               ranks);
    }
    status = tap_end();
    MPI_Finalize();
    return status;
}
