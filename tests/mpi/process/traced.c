/* traced [--calls=N] [--slow=RANK] [--ms=N] [--limit=BYTES] [--nonblocking=1]: sparse sums, before
 * the tenth of which a rank sleeps, by default none, for so many milliseconds. limit: no file may
 * be longer from MPI_Init on. Prints the bits of all results. */
#include <sys/resource.h>
#include <time.h>

#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 50000, SLOW_CALL = 10 };

static void limit_files(int bytes)
{
    struct rlimit limit = {(rlim_t)bytes, (rlim_t)bytes};

    if (bytes == 0)
        return;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void fill(float *in, int call)
{
    for (int i = 0; i < COUNT; i++) {
        uint64_t word = input_word((uint64_t)call, tap.rank, (uint64_t)i);
        in[i] = word % 20 == 0 ? (float)(word >> 40 & 1023) / 7 : 0;
    }
}

static void rest(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void reduce(const float *in, float *out, bool nonblocking)
{
    MPI_Request request;

    if (!nonblocking) {
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
    }
    MPI_Iallreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static float in[COUNT], out[COUNT];
    int calls = argument_number(argc, argv, "--calls", 20);
    int slow = argument_number(argc, argv, "--slow", -1);
    bool nonblocking = argument_number(argc, argv, "--nonblocking", 0) != 0;
    uint64_t bits = 1;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    limit_files(argument_number(argc, argv, "--limit", 0));
    for (int call = 1; call <= calls; call++) {
        fill(in, call);
        if (call == SLOW_CALL && tap.rank == slow)
            rest(argument_number(argc, argv, "--ms", 300));
        reduce(in, out, nonblocking);
        bits = gradient_hash(bits, out, sizeof out);
    }
    tap_note("bits %016llx", (unsigned long long)bits);
    tap_ok(true, "%d calls", calls);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
