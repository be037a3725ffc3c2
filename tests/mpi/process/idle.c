/* idle WHAT: a job with nothing to serve. barrier: no collective that is wrapped; max: maxima,
 * which are not served. */
#include <mpi.h>
#include <string.h>

enum { COUNT = 4096 };

static float in[COUNT], out[COUNT];

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "max") == 0)
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    else
        MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
