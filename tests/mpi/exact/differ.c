/* differ count|type|op|kind|nonblocking|below: after four ordinary calls one in which the last rank
 * differs from the others; "below": its count is below MIN_COUNT, so that it does not vote. Under
 * MPI_ERRORS_RETURN every rank that votes gets an error that names the cause. */
#include <string.h>

#include "tests/mpi/support/tap.h"

enum { N = 4096, FEW = 100 };

static int in[8 * N], out[8 * N];

static int call(const char *what, bool other)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;
    int err;

    if (strcmp(what, "type") == 0)
        return MPI_Allreduce(in, out, N, other ? MPI_FLOAT : MPI_INT, MPI_SUM, world);
    if (strcmp(what, "op") == 0)
        return MPI_Allreduce(in, out, N, MPI_INT, other ? MPI_BOR : MPI_SUM, world);
    if (strcmp(what, "kind") == 0 && other)
        return MPI_Reduce_scatter_block(in, out, N / tap.size, MPI_INT, MPI_SUM, world);
    if (strcmp(what, "nonblocking") == 0) {
        err = MPI_Iallreduce(in, out, other ? N - 8 : N, MPI_INT, MPI_SUM, world, &request);
        return err == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : err;
    }
    if (strcmp(what, "below") == 0)
        return MPI_Allreduce(in, out, other ? FEW : N, MPI_INT, MPI_SUM, world);
    return MPI_Allreduce(in, out, other ? N - 8 : N, MPI_INT, MPI_SUM, world);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "count";
    bool below = strcmp(what, "below") == 0, other, right = true;
    char text[MPI_MAX_ERROR_STRING] = "";
    int err, again, length, status;
    MPI_Comm aside;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &aside);
    tap_begin(aside);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    other = tap.rank == tap.size - 1;
    in[17] = 1;
    for (int i = 0; i < 4; i++) {
        MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        right = right && out[17] == tap.size;
    }
    tap_ok(right, "%s: ordinary calls are right", what);
    err = call(what, other);
    MPI_Error_string(err, text, &length);
    if (!other || !below)
        fprintf(stderr, "differ: rank %d: %s\n", tap.rank, text);
    if (below) { /* lets the last rank out of the MPI library's call */
        if (!other)
            PMPI_Allreduce(in, out, FEW, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        tap_ok(other ? err == MPI_SUCCESS
                     : err != MPI_SUCCESS && strstr(text, "timeout") &&
                           strstr(text, "same count, datatype and operator"),
               "%s: ranks that wait in vain get an error that names what may be the cause", what);
    } else {
        tap_ok(err != MPI_SUCCESS && strstr(text, "different counts, datatypes or operators"),
               "%s: every rank gets an error that names the cause", what);
    }
    again = MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    tap_ok(again != MPI_SUCCESS || (below && other), "%s: later calls get the error at once", what);
    status = tap_end();
    MPI_Finalize();
    return status;
}
