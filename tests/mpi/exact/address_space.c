/* address_space WHAT: a sum for which the process has the address space that the MPI library needs
 * (RLIMIT_AS), if it were not for the work space of sparse sums before it: `same` on one
 * communicator, `others` on the duplicates of it, `nonblocking` (at MPI_THREAD_MULTIPLE). Each is
 * right, and once there is room again calls are served again. */
#include <sys/resource.h>
#include <unistd.h>

#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum {
    SPARSE = 1 << 20,
    DENSE = 6 << 20,
    CALLS = 3,
    DUPLICATES = 4,
    ROOM = 52 << 20,
    LEAST = 8 << 20
};

static float *in, *out;

static bool sum(MPI_Comm comm, int count, int every, bool nonblocking)
{
    MPI_Request request;
    bool right = true;

    for (int i = 0; i < count; i++)
        in[i] = i % every == 0 ? (float)(tap.rank + 1) : 0;
    if (nonblocking) {
        MPI_Iallreduce(in, out, count, MPI_FLOAT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, comm);
    }
    for (int i = 0; i < count && right; i++)
        right = out[i] == (i % every == 0 ? (float)(tap.size * (tap.size + 1) / 2) : 0);
    return right;
}

static bool sums(MPI_Comm comm, bool nonblocking)
{
    bool right = sum(comm, SPARSE, 16, false);

    for (int call = 0; call < CALLS; call++)
        right = sum(comm, SPARSE, 4, nonblocking) && right;
    return right;
}

static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%lu", &pages) != 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fclose(file);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void limit(rlim_t bytes)
{
    struct rlimit now;

    getrlimit(RLIMIT_AS, &now);
    now.rlim_cur = bytes;
    if (setrlimit(RLIMIT_AS, &now) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "same";
    const bool nonblocking = strcmp(what, "nonblocking") == 0;
    MPI_Comm comms[DUPLICATES];
    bool right = true;
    rlim_t most;
    int level, status;

    MPI_Init_thread(&argc, &argv, nonblocking ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    tap_begin(MPI_COMM_WORLD);
    in = input_alloc(DENSE * sizeof *in);
    out = input_alloc(DENSE * sizeof *out);
    for (int i = 0; i < DUPLICATES; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < DUPLICATES; i++)
        right = sum(comms[i], 1024, 4, false) && right;
    most = address_space() + ROOM;
    for (int i = 0; i < DUPLICATES && strcmp(what, "others") == 0; i++)
        right = sums(comms[i], nonblocking) && right;
    right = sums(MPI_COMM_WORLD, nonblocking) && right;
    tap_ok(right, "sparse sums");
    if (most < address_space() + LEAST) /* what the stack needs to grow */
        most = address_space() + LEAST;
    tap_note("%llu of %llu bytes are left", (unsigned long long)(most - address_space()),
             (unsigned long long)ROOM);
    limit(most);
    right = sum(MPI_COMM_WORLD, DENSE, 1, nonblocking);
    limit(RLIM_INFINITY);
    tap_ok(right, "a sum of what is not zero, with the address space that it needs");
    tap_ok(sums(MPI_COMM_WORLD, nonblocking), "sparse sums with room again");
    for (int i = 0; i < DUPLICATES; i++)
        MPI_Comm_free(&comms[i]);
    free(in);
    free(out);
    status = tap_end();
    MPI_Finalize();
    return status;
}
