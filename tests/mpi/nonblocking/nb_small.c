/* nb_small [--steps N] [--operator 1]: small calls of several counts among large ones, blocking and
 * nonblocking, on two communicators that the ranks come to in unlike order.
 *
 * A step makes
 *
 *     3 large nonblocking sums
 *     3 small ones that a rule may name: 77 floats on each communicator and 99 doubles
 *     3 small ones that no rule names: 77 floats blocking, 50 floats and 77 integers nonblocking
 *
 * The program prints how many sums of the second line are whole on rank 0. It also prints a hash of
 * the results of the third line, whose bits depend on the order of summation. With --operator the
 * last rank makes an operator of its own. */
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { LIMIT = 60, LARGE = 3, NAMED = 3, BARE = 50, COUNT = 77 };

static MPI_Comm other;
static struct nb_call large[LARGE], named[NAMED], whole[1];
static float blocking_in[COUNT], blocking_out[COUNT], bare_in[BARE], bare_out[BARE];
static MPI_Request bare;
static uint64_t hash = UINT64_C(0xcbf29ce484222325), seed;
static long wholes;

static void take_in(const void *results, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)results)[i]) * UINT64_C(0x100000001b3);
}

static struct nb_call make(MPI_Comm comm, MPI_Datatype type, int count, enum nb_input input)
{
    seed++;
    return nb_make(comm, type, count, input, seed % 3 == 0, seed);
}

/* Fractions, so that another order of summation would give other bits. */
static void make_all(void)
{
    large[0] = make(MPI_COMM_WORLD, MPI_FLOAT, 2000, NB_SPARSE);
    large[1] = make(MPI_COMM_WORLD, MPI_DOUBLE, 3000, NB_SPARSE);
    large[2] = make(other, MPI_FLOAT, 2000, NB_SPARSE);
    named[0] = make(MPI_COMM_WORLD, MPI_FLOAT, COUNT, NB_DENSE);
    named[1] = make(MPI_COMM_WORLD, MPI_DOUBLE, 99, NB_DENSE);
    named[2] = make(other, MPI_FLOAT, COUNT, NB_DENSE);
    whole[0] = make(MPI_COMM_WORLD, MPI_INT, COUNT, NB_DENSE);
    for (int i = 0; i < COUNT; i++)
        blocking_in[i] = bare_in[i % BARE] = 1.0f / (float)(1 + tap.rank + i + (int)(seed % 97));
}

static void post_other(void)
{
    nb_post(&named[2], other);
    nb_post(&large[2], other);
}

/* The last rank ends a small call before it lets rank 0 make the next ones. */
static void post_world(bool message)
{
    int token = 0;

    nb_post(&large[0], MPI_COMM_WORLD);
    nb_post(&named[0], MPI_COMM_WORLD);
    if (message && tap.rank == tap.size - 1) {
        MPI_Wait(&named[0].request, MPI_STATUS_IGNORE);
        MPI_Send(&token, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    } else if (message && tap.rank == 0) {
        MPI_Recv(&token, 1, MPI_INT, tap.size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(blocking_in, blocking_out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Iallreduce(bare_in, bare_out, BARE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &bare);
    nb_post(&whole[0], MPI_COMM_WORLD);
    nb_post(&named[1], MPI_COMM_WORLD);
    nb_post(&large[1], MPI_COMM_WORLD);
}

static void wait_for(struct nb_call *call, int n)
{
    for (int i = 0; i < n; i++) {
        int k = tap.rank % 2 ? i : n - 1 - i;
        if (call[k].request != MPI_REQUEST_NULL)
            MPI_Wait(&call[k].request, MPI_STATUS_IGNORE);
    }
}

/* Returns true if the result is the sum of all ranks' inputs. */
static bool is_whole(const struct nb_call *call)
{
    for (int i = 0; i < call->count; i++) {
        double sum = 0;

        for (int r = 0; r < call->size; r++)
            sum += nb_value(call->input, call->seed, r, (uint64_t)i);
        if (nb_load(call->out, call->type, i) != sum)
            return false;
    }
    return true;
}

static bool step(long number)
{
    bool right = true;

    make_all();
    if (tap.rank % 2)
        post_other();
    post_world(number % 2 == 1);
    if (tap.rank % 2 == 0)
        post_other();
    MPI_Wait(&bare, MPI_STATUS_IGNORE);
    wait_for(named, NAMED);
    wait_for(whole, 1);
    wait_for(large, LARGE);
    take_in(blocking_out, sizeof blocking_out);
    take_in(bare_out, sizeof bare_out);
    take_in(whole[0].out, COUNT * sizeof(int));
    for (int i = 0; i < LARGE; i++)
        right = nb_finish(&large[i], "a large call") && right;
    for (int i = 0; i < NAMED; i++) {
        wholes += is_whole(&named[i]);
        nb_drop(&named[i]);
    }
    return nb_finish(&whole[0], "a small call of integers") && right;
}

static void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((float *)inout)[i] *= ((const float *)in)[i];
}

static void meet(bool own_operator)
{
    static float in[4096] = {1}, out[4096];
    MPI_Op product;

    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (own_operator && tap.rank == tap.size - 1) {
        MPI_Op_create(multiply, 1, &product);
        MPI_Op_free(&product);
    }
    MPI_Allreduce(in, out, 4096, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(in, out, 4096, MPI_FLOAT, MPI_SUM, other);
}

int main(int argc, char **argv)
{
    bool right = true;
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    long steps = nb_option(argc, argv, "--steps", 10);
    meet(nb_option(argc, argv, "--operator", 0));
    for (long i = 0; i < steps; i++) {
        nb_within(LIMIT, "step %ld", i);
        right = step(i) && right;
    }
    nb_within(LIMIT, "MPI_Finalize");
    tap_ok(right, "large calls and small ones of integers in %ld steps are right", steps);
    tap_note("whole %ld", wholes);
    tap_note("bits %016llx", (unsigned long long)hash);
    status = tap_end();
    MPI_Comm_free(&other);
    MPI_Finalize();
    return status;
}
