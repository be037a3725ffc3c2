/* unending HOW [FORM]: a job that does not reach MPI_Finalize. term: SIGTERM after three calls,
 * kill: SIGKILL; exit: _exit after three calls; wait: calls until somebody ends it, "# begun" after
 * the first. FORM small: a call of one element before them; nonblocking: these, behind a blocking
 * one. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 4096, CALLS = 3 };

static float in[COUNT], out[COUNT];

static void reduce(int nonblocking)
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
    const char *how = argc > 1 ? argv[1] : "wait", *form = argc > 2 ? argv[2] : "";
    int nonblocking = strcmp(form, "nonblocking") == 0;

    MPI_Init(&argc, &argv);
    if (strcmp(form, "small") == 0)
        MPI_Allreduce(in, out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int call = 0; call < CALLS || strcmp(how, "wait") == 0; call++) {
        in[call % COUNT] = 1;
        reduce(nonblocking && call > 0);
        if (call == CALLS && puts("# begun") >= 0)
            fflush(stdout);
        if (call >= CALLS)
            usleep(20000);
    }
    if (strcmp(how, "term") == 0)
        raise(SIGTERM);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    _exit(3);
}
