/* A program at MPI_THREAD_MULTIPLE has nonblocking calls taken over; then one rank makes an
 * operator of its own, with some of them under way. From the next vote on all ranks hand
 * nonblocking calls to the MPI library: every sum is right, however far the ranks run ahead, and
 * the operator runs in no thread but the program's.
 *
 *     nb_callbacks [operator|keyval|nothing] [rounds]
 */
#include "tests/mpi/support/tap.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 70000, AHEAD = 6 };

static pid_t owner;
static atomic_int elsewhere;

static void own_sum(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    if (gettid() != owner)
        atomic_fetch_add(&elsewhere, 1);
    for (int i = 0; i < *n; i++)
        ((float *)inout)[i] += ((float *)in)[i];
}

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    if (gettid() != owner)
        atomic_fetch_add(&elsewhere, 1);
    return MPI_SUCCESS;
}

/* Few elements, so that the calls are worth making sparse. */
static void fill(float *x, int call)
{
    memset(x, 0, COUNT * sizeof *x);
    for (int i = call; i < COUNT; i += 997)
        x[i] = (float)(tap.rank + 1);
}

static bool is_sum(const float *x, int call)
{
    float all = (float)(tap.size * (tap.size + 1) / 2);

    for (int i = 0; i < COUNT; i++)
        if (x[i] != (i >= call && (i - call) % 997 == 0 ? all : 0))
            return false;
    return true;
}

static float values[AHEAD][COUNT], own[COUNT], own_result[COUNT];
static float late[COUNT], late_result[COUNT]; /* of the reduction that stays under way */

/* Ranks differ in when they wait, and whether a blocking call comes between makes no difference. */
static bool round_of_calls(int round)
{
    MPI_Request requests[AHEAD];
    MPI_Status statuses[AHEAD];
    bool right = true;

    for (int k = 0; k < AHEAD; k++) {
        fill(values[k], round + k);
        MPI_Iallreduce(MPI_IN_PLACE, values[k], COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                       &requests[k]);
        if ((tap.rank + round + k) % 3 == 0)
            MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
        if (k == 3 && round % 2 == 0) {
            fill(own, round);
            MPI_Allreduce(own, own_result, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            right = right && is_sum(own_result, round);
        }
    }
    MPI_Waitall(AHEAD, requests, statuses);
    for (int k = 0; k < AHEAD; k++)
        right = right && is_sum(values[k], round + k);
    return right;
}

static MPI_Op make_operator(const char *what)
{
    MPI_Op op = MPI_SUM;
    int keyval;

    if (strcmp(what, "nothing") == 0) { /* MPI refuses it */
        MPI_Request request;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Iallreduce(own, own_result, COUNT, MPI_FLOAT, MPI_OP_NULL, MPI_COMM_WORLD, &request);
    } else if (strcmp(what, "keyval") == 0)
        MPI_Comm_create_keyval(MPI_COMM_DUP_FN, on_delete, &keyval, NULL);
    else
        MPI_Op_create(own_sum, 1, &op);
    return op;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "operator";
    int rounds = argc > 2 ? atoi(argv[2]) : 8, provided;
    MPI_Request request;
    MPI_Op op = MPI_SUM;
    bool right = true;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    owner = gettid();
    tap_begin(MPI_COMM_WORLD);
    fill(own, 0);
    MPI_Allreduce(own, own_result, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) {
        right = right && round_of_calls(round);
        if (round == rounds / 2 && tap.rank == tap.size - 1)
            op = make_operator(what);
    }
    tap_ok(right, "sums are right before and after a rank makes an operator");
    if (tap.rank != tap.size - 1)
        op = make_operator(what);
    fill(late, 0);
    MPI_Ireduce(late, late_result, COUNT, MPI_FLOAT, op, 0, MPI_COMM_WORLD, &request);
    right = round_of_calls(0);
    usleep(20000); /* a thread of the library's would look now */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    right = right && (tap.rank != 0 || is_sum(late_result, 0));
    tap_ok(right && atomic_load(&elsewhere) == 0, "own_code_runs_in_no_thread_but_the_programs");
    MPI_Finalize();
    return tap_end();
}
