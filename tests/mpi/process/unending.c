/* unending HOW: a job that does not reach MPI_Finalize. term: SIGTERM after three calls; exit:
 * _exit after three calls; wait: calls until somebody ends it. */
#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 4096, CALLS = 3 };

static float in[COUNT], out[COUNT];

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "wait";

    MPI_Init(&argc, &argv);
    for (int call = 0; call < CALLS || strcmp(how, "wait") == 0; call++) {
        in[call % COUNT] = 1;
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (call >= CALLS)
            usleep(20000);
    }
    if (strcmp(how, "term") == 0)
        raise(SIGTERM);
    _exit(3);
}
