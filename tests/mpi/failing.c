/* A library whose PMPI_Isend fails, to be preloaded after the library under test.
 *
 * FAILING_RANK (in the world), FAILING_CALL (counted from 1) say where; FAILING_FOREVER=1 makes
 * every later call fail too. Without FAILING_CALL it only passes through. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef int isend_function(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static isend_function *real_isend(void)
{
    static _Atomic(isend_function *) real;
    isend_function *found = atomic_load(&real);
    if (!found) {
        *(void **)&found = dlsym(RTLD_NEXT, "PMPI_Isend");
        atomic_store(&real, found);
    }
    return found;
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

__attribute__((visibility("default"))) int PMPI_Isend(const void *buf, int count, MPI_Datatype type,
                                                      int dst, int tag, MPI_Comm comm,
                                                      MPI_Request *request)
{
    static atomic_long calls;
    long call = atomic_fetch_add(&calls, 1) + 1, at = number("FAILING_CALL", 0);
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (at > 0 && rank == number("FAILING_RANK", 0) &&
        (call == at || (call > at && number("FAILING_FOREVER", 0)))) {
        fprintf(stderr, "failing: PMPI_Isend number %ld of rank %d fails\n", call, rank);
        return MPI_ERR_OTHER;
    }
    return real_isend()(buf, count, type, dst, tag, comm, request);
}
