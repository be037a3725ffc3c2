/* nb_merged [--times N] [--count N]: legal programs that would hang if a call were held back until
 * others join it: some rank waits for a message that another sends only after the call, while what
 * would complete the group comes later. Calls are of COUNT elements and more, sums exact.
 *
 * The first of them is r2: I(L1); Wait(L1); Send(0) against r0: I(L1); Recv(from 2); I(L2). */
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { LIMIT = 60, CALLS = 4 };

static const char *const names[] = {"MPI_Wait", "MPI_Test", "MPI_Testall",
                                    "MPI_Request_get_status"};
enum { HOWS = sizeof names / sizeof names[0] };

static struct nb_call call[CALLS];
static uint64_t seed;
static int count = 300;

static void post(int first, int n)
{
    for (int i = first; i < first + n; i++) {
        call[i] = nb_make(MPI_COMM_WORLD, i % 2 ? MPI_DOUBLE : MPI_FLOAT, count + 32 * i, NB_SPARSE,
                          i == 2, seed * CALLS + (uint64_t)i);
        nb_post(&call[i], MPI_COMM_WORLD);
    }
}

/* The last way leaves the request to MPI_Wait, which then has nothing to wait for. */
static void end_one(int how, MPI_Request *request)
{
    MPI_Status status;
    int flag = how == 0;

    while (!flag)
        if (how == 1)
            MPI_Test(request, &flag, &status);
        else
            MPI_Request_get_status(*request, &flag, &status);
    if (how != 1)
        MPI_Wait(request, &status);
}

static void end_with(int how, int first, int n)
{
    MPI_Request requests[CALLS];
    MPI_Status statuses[CALLS];
    int flag = how != 2;

    for (int i = 0; i < n; i++)
        requests[i] = call[first + i].request;
    for (int i = 0; i < n && how != 2; i++)
        end_one(how, &requests[i]);
    while (!flag)
        MPI_Testall(n, requests, &flag, statuses);
    for (int i = 0; i < n; i++)
        call[first + i].request = requests[i];
}

static bool all_right(const char *what)
{
    bool right = true;

    for (int i = 0; i < CALLS; i++)
        right = nb_finish(&call[i], what) && right;
    seed++;
    return right;
}

static void hear(int from)
{
    int token;

    MPI_Recv(&token, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void say(int to)
{
    int token = tap.rank;

    MPI_Send(&token, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
}

/* The last rank ends its first call before it lets rank 0 go on; others come to it when they do. */
static void end_then_tell(int how)
{
    int last = tap.size - 1;

    post(0, 1);
    if (tap.rank == last) {
        end_with(how, 0, 1);
        say(0);
    } else if (tap.rank == 0) {
        hear(last);
    }
    post(1, CALLS - 1);
    end_with(how, tap.rank == last, CALLS - (tap.rank == last));
}

/* Ends as above, with more calls posted on the rank that waits than on the late rank. */
static void end_of_many_then_tell(int how)
{
    int last = tap.size - 1;

    post(0, tap.rank == last ? 3 : 1);
    if (tap.rank == last) {
        end_with(how, 0, 1);
        say(0);
        post(3, 1);
        end_with(how, 1, 3);
        return;
    }
    if (tap.rank == 0)
        hear(last);
    post(1, CALLS - 1);
    end_with(how, 0, CALLS);
}

/* Each rank but the first is let go by the one before, which has ended a call that it began. */
static void one_after_another(int how)
{
    post(0, 1 + tap.rank % 2);
    if (tap.rank > 0)
        hear(tap.rank - 1);
    end_with(how, 0, 1);
    if (tap.rank < tap.size - 1)
        say(tap.rank + 1);
    post(1 + tap.rank % 2, CALLS - 1 - tap.rank % 2);
    end_with(how, 1, CALLS - 1);
}

/* Makes a collective of the MPI library follow the call on a rank. */
static void barrier_between(int how)
{
    post(0, 1 + tap.rank % 3);
    MPI_Barrier(MPI_COMM_WORLD);
    if (tap.rank % 2 == 0)
        end_with(how, 0, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    post(1 + tap.rank % 3, CALLS - 1 - tap.rank % 3);
    end_with(how, tap.rank % 2 == 0, CALLS - (tap.rank % 2 == 0));
}

static void run(const char *what, void (*program)(int how), int how, int times)
{
    bool right = true;

    for (int i = 0; i < times; i++) {
        nb_within(LIMIT, "%s, %s, time %d", what, names[how], i);
        program(how);
        right = all_right(what) && right;
    }
    tap_ok(right, "%s, %s: %d times", what, names[how], times);
}

int main(int argc, char **argv)
{
    float in[4096] = {1}, out[4096];
    int times, status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    times = (int)nb_option(argc, argv, "--times", 5);
    count = (int)nb_option(argc, argv, "--count", count);
    MPI_Allreduce(in, out, 4096, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int how = 0; how < HOWS; how++) {
        run("a call ended, then a message", end_then_tell, how, times);
        run("one of several ended, then a message", end_of_many_then_tell, how, times);
        run("one rank after another", one_after_another, how, times);
        run("barriers between", barrier_between, how, times);
    }
    nb_within(LIMIT, "MPI_Finalize");
    status = tap_end();
    MPI_Finalize();
    return status;
}
