/* quorum_edges WHAT: programs under SPARSESHIM_QUORUM whose gradients come and go.
 *
 *     pattern   steps of two gradients of equal count, then many of one, then of two again
 *     withdraw  every rank takes its gradient back by sparseshim_unregister and drops the residual
 *     freed     150 communicators, each with a few gradients, freed at once
 *
 * Gradients are small integers, so that every sum is exact. */
#include <string.h>
#include <unistd.h>

#include "shim/sparseshim.h"
#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

enum { N = 2000, OTHERS = 3000, PERIOD = 16, LEFT = 10, COMMUNICATORS = 150 };

static float in[N], out[N];
static double inputs[N], results[N];
static uint64_t calls;
static struct hashes hashes;

static float gradient_of(int rank, uint64_t call, int i)
{
    uint64_t h = input_word(7, rank, call << 32 | (uint64_t)i);

    return h % 4 == 0 ? (float)((int)(h >> 8 & 15) - 8) : 0;
}

/* A gradient, or an empty one; whether the result is all zero. */
static bool reduce(bool empty, MPI_Comm comm)
{
    int entries = 0;

    for (int i = 0; i < N; i++) {
        in[i] = empty ? 0 : gradient_of(tap.rank, calls, i);
        for (int r = 0; r < tap.size && !empty; r++)
            inputs[i] += (double)gradient_of(r, calls, i);
    }
    calls++;
    MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, comm);
    hashes_add(&hashes, gradient_hash(1, out, sizeof out));
    for (int i = 0; i < N; i++) {
        results[i] += (double)out[i];
        entries += out[i] != 0;
    }
    return entries == 0;
}

/* Makes a call that distinguishes a step from the next one. */
static void reduce_other(int step)
{
    static float a[OTHERS], b[OTHERS];

    for (int i = 0; i < OTHERS; i++)
        a[i] = (i * 7 + step + tap.rank) % 11 == 0;
    MPI_Allreduce(a, b, OTHERS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Returns how many results were all zero. */
static int run_steps(int steps, int gradients, bool empty)
{
    int zero = 0;

    for (int step = 0; step < steps; step++) {
        for (int g = 0; g < gradients; g++)
            zero += reduce(empty, MPI_COMM_WORLD);
        reduce_other(step);
    }
    return zero;
}

static int lost(void)
{
    int wrong = 0;

    for (int i = 0; i < N; i++)
        wrong += !(results[i] == inputs[i]);
    return wrong;
}

static bool is_like_rank_0(void)
{
    uint64_t mine = gradient_hash(1, hashes.of, sizeof *hashes.of * calls), first = mine;

    PMPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return first == mine;
}

static void pattern(void)
{
    int zero = 0;

    for (int i = 0; i < 2; i++) {
        zero += run_steps(30, 2, false);
        zero += run_steps(150, 1, false);
    }
    zero += run_steps(30, 2, false);
    run_steps(4 * PERIOD, 2, true);
    tap_ok(is_like_rank_0(), "all ranks have the same bits in each of %llu calls",
           (unsigned long long)calls);
    tap_ok(zero == 0, "no gradient comes back as nothing");
    tap_ok(lost() == 0, "results are the sum of all inputs");
}

static int unlike_sum(void)
{
    int wrong = 0;

    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int r = 0; r < tap.size; r++)
            sum += gradient_of(r, calls - 1, i);
        wrong += !(out[i] == sum);
    }
    return wrong;
}

/* The gradient may be in a round that another rank has begun. */
static int once_idle(int (*action)(const void *))
{
    int status = action(out);

    for (int tries = 0; status == SPARSESHIM_BUSY && tries < 1000; tries++) {
        usleep(1000);
        status = action(out);
    }
    return status;
}

/* Exact at the latest from the second call with all ranks on: the first one may still drain what
 * late gradients left. */
static void withdraw(void)
{
    int zero = run_steps(LEFT, 1, false), wrong = 0;

    tap_ok(once_idle(sparseshim_unregister) == SPARSESHIM_OK, "a gradient is unregistered");
    tap_ok(once_idle(sparseshim_drop_residual) == SPARSESHIM_OK, "its residual is dropped");
    zero += run_steps(2 * PERIOD, 1, false);
    tap_ok(zero == 0, "no result is nothing");
    for (int step = 0; step < PERIOD; step++) {
        run_steps(1, 1, false);
        wrong += unlike_sum();
    }
    tap_ok(wrong == 0, "and then it is exact");
}

static void freed(void)
{
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_name(comm, "freed");
        for (int step = 0; step < 6; step++)
            reduce(false, comm);
        MPI_Comm_free(&comm);
    }
    tap_ok(is_like_rank_0(), "all ranks have the same bits");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "pattern";

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    if (strcmp(what, "withdraw") == 0)
        withdraw();
    else if (strcmp(what, "freed") == 0)
        freed();
    else
        pattern();
    free(hashes.of);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
