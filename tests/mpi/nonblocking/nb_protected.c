/* Receive buffers are protected against writing, and a handler of the program opens a page once it
 * is written, as those do that save what has changed: whoever writes it, all ends as without the
 * library. */
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 100000, BYTES = 4 * COUNT, CALLS = 20 };

static char *buffer;
static uintptr_t page;
static volatile sig_atomic_t opened;

static void on_write(int signal, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)info->si_addr;

    (void)signal, (void)context;
    if (at - (uintptr_t)buffer >= BYTES)
        _exit(50);
    mprotect((void *)(at & ~(page - 1)), page, PROT_READ | PROT_WRITE);
    opened++;
}

static bool is_right(int call, float *values, bool sparse)
{
    MPI_Request request;

    for (int i = 0; i < COUNT; i++)
        values[i] = sparse && i % 100 ? 0 : (float)(1 + (i + call) % 7);
    mprotect(buffer, BYTES, PROT_READ);
    MPI_Iallreduce(values, buffer, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    usleep(20000); /* who else is there makes it end */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++)
        if (((float *)buffer)[i] != (float)tap.size * values[i])
            return false;
    return true;
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_sigaction = on_write, .sa_flags = SA_SIGINFO};
    bool dense = true, sparse = true;
    int provided, status;
    float *values;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    buffer = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    values = calloc(COUNT, sizeof *values);
    if (buffer == MAP_FAILED || !values)
        MPI_Abort(MPI_COMM_WORLD, 2);
    sigaction(SIGSEGV, &action, NULL);
    for (int call = 0; call < 3; call++)
        MPI_Allreduce(values, buffer, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int call = 0; call < CALLS; call++) {
        sparse = is_right(call, values, true) && sparse;
        dense = is_right(call, values, false) && dense;
    }
    tap_ok(sparse, "sums of sparse inputs");
    tap_ok(dense, "sums of dense ones");
    tap_ok(opened >= 2 * CALLS, "the handler has opened pages: %d", (int)opened);
    free(values);
    status = tap_end();
    MPI_Finalize();
    return status;
}
