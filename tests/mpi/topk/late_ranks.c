/* late_ranks NAME=VALUE...: a program whose ranks are late, under SPARSESHIM_QUORUM.
 *
 *     late=none|one|random|stop|chain|last   which rank sleeps before its step, and how long
 *     steps=S n=N tensors=T type=float|double   steps of T allreduces of N, N + 256, ... elements
 *     calls=blocking|nonblocking|inplace
 *     spoiled=1  a rank's gradients hold Inf and NaN now and then
 *     exact=E    every E steps an allreduce of integers and one of few elements, with exact results
 *     comm=C     a duplicate of the communicator for each C steps, freed as soon as its calls are
 * over here; sums are not checked, since what is held back goes with it fewer=F    the last rank
 * makes F steps fewer and waits a while; nothing is checked
 *
 * Gradients are small integers, so that every sum is exact. In the end steps without gradient
 * follow until all of what was held back must have arrived. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

enum { MOST_TENSORS = 4, INTEGERS = 3000 };

static int size, steps, quiet, tensors, n, exact, spoiled, each;
static MPI_Comm comm = MPI_COMM_WORLD;
static bool wide;
static const char *late, *calls;

static size_t bytes_of(int tensor)
{
    return (size_t)(n + 256 * tensor) * (wide ? sizeof(double) : sizeof(float));
}

static bool is_spoiled(int rank, int step, int i)
{
    return spoiled && step % 5 == 2 && rank == step % size && i % 301 == 7;
}

static double gradient_of(int rank, int step, int tensor, int i)
{
    uint64_t h = input_word(3, rank, (uint64_t)(step * MOST_TENSORS + tensor) << 32 | (uint64_t)i);

    if (step >= steps)
        return 0;
    if (is_spoiled(rank, step, i))
        return step % 2 ? (double)INFINITY : (double)NAN;
    return h % 4 == 0 ? (double)((int)(h >> 8 & 15) - 8) : 0;
}

static double get(const void *v, int i)
{
    return wide ? ((const double *)v)[i] : (double)((const float *)v)[i];
}

static void fill(void *v, int rank, int step, int tensor)
{
    for (int i = 0; i < n + 256 * tensor; i++)
        if (wide)
            ((double *)v)[i] = gradient_of(rank, step, tensor, i);
        else
            ((float *)v)[i] = (float)gradient_of(rank, step, tensor, i);
}

/* Thousandths of a second. */
static unsigned delay(int rank, int step)
{
    if (step >= steps)
        return 0;
    if (strcmp(late, "one") == 0)
        return rank == size - 1 ? 8 : 0;
    if (strcmp(late, "random") == 0)
        return input_word(5, 0, (uint64_t)step) % (unsigned)size == (unsigned)rank ? 15 : 0;
    if (strcmp(late, "stop") == 0)
        return rank == 1 && step == steps / 2 ? 400 : 0;
    if (strcmp(late, "chain") == 0)
        return (unsigned)rank * 3;
    return 0;
}

static void reduce(int tensor, void *in, void *out, MPI_Request *request)
{
    MPI_Datatype type = wide ? MPI_DOUBLE : MPI_FLOAT;
    int count = n + 256 * tensor;

    if (strcmp(calls, "inplace") == 0) {
        memcpy(out, in, bytes_of(tensor));
        in = MPI_IN_PLACE;
    }
    *request = MPI_REQUEST_NULL;
    if (strcmp(calls, "nonblocking") == 0)
        MPI_Iallreduce(in, out, count, type, MPI_SUM, comm, request);
    else
        MPI_Allreduce(in, out, count, type, MPI_SUM, comm);
}

/* Integers, and a few numbers: no gradients. */
static int wrong_exact(int step)
{
    static int64_t in[INTEGERS], out[INTEGERS];
    double few[2] = {tap.rank, 0.5}, sum[2];
    int wrong = 0;

    for (int i = 0; i < INTEGERS; i++)
        in[i] = i * step + tap.rank;
    MPI_Allreduce(in, out, INTEGERS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(few, sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < INTEGERS; i++)
        wrong += out[i] != (int64_t)i * step * size + size * (size - 1) / 2;
    return wrong + (sum[0] != size * (size - 1) / 2.0) + (sum[1] != 0.5 * size);
}

/* Sum of results against that of inputs, element by element; what was spoiled is in neither. */
static int lost(const double *sum, int tensor)
{
    int wrong = 0;

    for (int i = 0; i < n + 256 * tensor; i++) {
        double all = 0;
        for (int step = 0; step < steps; step++)
            for (int r = 0; r < size; r++)
                all += gradient_of(r, step, tensor, i);
        wrong += isfinite(all) && !(sum[i] == all);
        wrong += !isfinite(all) && isfinite(sum[i]);
    }
    return wrong;
}

static void next_communicator(int step)
{
    if (each == 0 || step % each != 0)
        return;
    if (comm != MPI_COMM_WORLD)
        MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
}

/* Ranks begin each step together; rank 0 makes its last call behind that of rank 1, however busy
 * the machine is. */
static void come_last(int step, bool called)
{
    if (strcmp(late, "last") != 0)
        return;
    if (!called)
        PMPI_Barrier(MPI_COMM_WORLD);
    if (step != steps - 1)
        return;
    if (tap.rank == 0 && !called)
        PMPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (tap.rank == 1 && called)
        PMPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
}

static void run_steps(int own_steps, struct hashes *hashes, double **sums, int *wrong)
{
    void *in[MOST_TENSORS], *out[MOST_TENSORS];
    MPI_Request requests[MOST_TENSORS];

    for (int t = 0; t < tensors; t++) {
        in[t] = input_alloc(bytes_of(t));
        out[t] = input_alloc(bytes_of(t));
    }
    for (int step = 0; step < own_steps; step++) {
        next_communicator(step);
        usleep(1000 * delay(tap.rank, step));
        come_last(step, false);
        for (int t = 0; t < tensors; t++) {
            fill(in[t], tap.rank, step, t);
            reduce(t, in[t], out[t], &requests[t]);
        }
        for (int t = 0; t < tensors; t++) {
            MPI_Wait(&requests[t], MPI_STATUS_IGNORE);
            hashes_add(hashes, gradient_hash(1, out[t], bytes_of(t)));
            for (int i = 0; i < n + 256 * t; i++)
                sums[t][i] += get(out[t], i);
        }
        come_last(step, true);
        if (exact > 0 && step % exact == 0)
            *wrong += wrong_exact(step);
    }
    for (int t = 0; t < tensors; t++) {
        free(in[t]);
        free(out[t]);
    }
}

static int unlike_rank_0(const struct hashes *hashes, int count)
{
    uint64_t *first = input_alloc(sizeof *first * (size_t)count);
    int differ = 0;

    memcpy(first, hashes->of, sizeof *first * (size_t)count);
    PMPI_Bcast(first, count, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        differ += first[i] != hashes->of[i];
    free(first);
    return differ;
}

int main(int argc, char **argv)
{
    struct hashes hashes = {0};
    double *sums[MOST_TENSORS];
    int wrong = 0;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    size = tap.size;
    steps = argument_number(argc, argv, "steps", 40);
    quiet = argument_number(argc, argv, "quiet", 40);
    tensors = argument_number(argc, argv, "tensors", 1);
    n = argument_number(argc, argv, "n", 2000);
    exact = argument_number(argc, argv, "exact", 0);
    spoiled = argument_number(argc, argv, "spoiled", 0);
    each = argument_number(argc, argv, "comm", 0);
    int fewer = argument_number(argc, argv, "fewer", 0);
    wide = strcmp(argument(argc, argv, "type", "float"), "double") == 0;
    late = argument(argc, argv, "late", "random");
    calls = argument(argc, argv, "calls", "blocking");
    for (int t = 0; t < tensors; t++)
        sums[t] = calloc((size_t)(n + 256 * t), sizeof(double));
    run_steps(steps + quiet - (tap.rank == size - 1 ? fewer : 0), &hashes, sums, &wrong);
    if (fewer > 0 && tap.rank == size - 1)
        sleep(1);
    if (fewer == 0) {
        int count = (steps + quiet) * tensors, differ = unlike_rank_0(&hashes, count);
        tap_ok(differ == 0, "all ranks have the same bits in each of %d calls", count);
        for (int t = 0; t < tensors && each == 0; t++)
            tap_ok(lost(sums[t], t) == 0, "tensor %d: results are the sum of all inputs", t);
        tap_ok(wrong == 0, "exact calls are exact");
    }
    for (int t = 0; t < tensors; t++)
        free(sums[t]);
    free(hashes.of);
    if (each > 0)
        MPI_Comm_free(&comm);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
