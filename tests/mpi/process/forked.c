/* Each rank forks between its calls: a child that only ends (by exit, running its handlers), and
 * one that runs another program. The parents go on. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 4096 };

static float in[COUNT], out[COUNT];

static bool sum_is_right(uint64_t seed)
{
    input_fill_whole(in, COUNT, seed, tap.rank);
    MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return input_is_whole_sum(out, COUNT, seed, tap.size);
}

static int status_of(pid_t child)
{
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static pid_t child_that_ends(void)
{
    pid_t child;
    fflush(NULL);
    child = fork();
    if (child == 0)
        exit(7);
    return child;
}

static pid_t child_that_execs(void)
{
    pid_t child;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL);
        _exit(1);
    }
    return child;
}

int main(int argc, char **argv)
{
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    tap_ok(status_of(child_that_ends()) == 7, "a child forked before the first call ends by exit");
    for (int call = 0; call < 3; call++)
        tap_ok(sum_is_right((uint64_t)call), "sum %d before the fork", call);
    tap_ok(status_of(child_that_ends()) == 7, "a child forked between calls ends by exit");
    tap_ok(status_of(child_that_execs()) == 9, "a child forked between calls runs a program");
    tap_ok(sum_is_right(10), "the sum after the forks");
    tap_ok(sum_is_right(11), "and once more");
    status = tap_end();
    MPI_Finalize();
    return status;
}
