/* direct [fortran]: calls PMPI names itself, which pass untouched. With an argument, built with
 * Open MPI, it then opens the Fortran library and calls MPI_Allreduce through it, which is served,
 * and an MPI_Reduce_scatter that is too small. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/support/tap.h"

enum { COUNT = 4096, CALLS = 5 };

static float in[COUNT], out[COUNT], all[64 * COUNT];

static int wrong(const float *sum)
{
    int found = 0;

    for (int i = 0; i < COUNT; i++)
        found +=
            sum[i] != (i % 50 == 3 ? (float)(tap.size * i + tap.size * (tap.size - 1) / 2) : 0);
    return found;
}

static int direct(void)
{
    MPI_Request request;
    MPI_Comm copy;
    int bad = 0;

    for (int call = 0; call < CALLS; call++) {
        memset(out, 0xff, sizeof out);
        PMPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        bad += wrong(out);
        memset(out, 0xff, sizeof out);
        PMPI_Iallreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        PMPI_Wait(&request, MPI_STATUS_IGNORE);
        bad += wrong(out);
        PMPI_Allgather(in, COUNT, MPI_FLOAT, all, COUNT, MPI_FLOAT, MPI_COMM_WORLD);
        bad += memcmp(all + (size_t)tap.rank * COUNT, in, sizeof in) != 0;
        PMPI_Comm_dup(MPI_COMM_WORLD, &copy);
        PMPI_Comm_free(&copy);
        bad += copy != MPI_COMM_NULL;
    }
    return bad;
}

#ifdef OPEN_MPI
typedef void reduction_of_fortran(const void *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
                                  MPI_Fint *, MPI_Fint *);

static reduction_of_fortran *find(const char *name)
{
    void *library = dlopen("libmpi_mpifh.so.40", RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, name) : NULL;
    reduction_of_fortran *found = NULL;

    if (address)
        memcpy(&found, &address, sizeof found);
    return found;
}

static int through_fortran(void)
{
    MPI_Fint count = COUNT, type = MPI_Type_c2f(MPI_FLOAT), op = MPI_Op_c2f(MPI_SUM);
    MPI_Fint comm = MPI_Comm_c2f(MPI_COMM_WORLD), err = 0, counts[64];
    reduction_of_fortran *allreduce = find("mpi_allreduce_");
    reduction_of_fortran *reduce_scatter = find("mpi_reduce_scatter_");
    int bad = 0;

    if (!allreduce || !reduce_scatter)
        return 1;
    for (int call = 0; call < CALLS; call++) {
        memset(out, 0xff, sizeof out);
        allreduce(in, out, &count, &type, &op, &comm, &err);
        bad += wrong(out) + (err != MPI_SUCCESS);
    }
    for (int rank = 0; rank < tap.size; rank++)
        counts[rank] = rank == 0 ? 4 : 1;
    reduce_scatter(in, all, counts, &type, &op, &comm, &err);
    bad += memcmp(all, out + (tap.rank == 0 ? 0 : 3 + tap.rank),
                  (size_t)counts[tap.rank] * sizeof *all) != 0;
    return bad + (err != MPI_SUCCESS);
}
#else
static int through_fortran(void)
{
    return 1;
}
#endif

int main(int argc, char **argv)
{
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        in[i] = i % 50 == 3 ? (float)(i + tap.rank) : 0;
    tap_ok(direct() == 0, "PMPI names give the right results");
    if (argc > 1)
        tap_ok(through_fortran() == 0, "so does Fortran's name, from a library opened later");
    status = tap_end();
    MPI_Finalize();
    return status;
}
