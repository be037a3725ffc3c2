/* A profiler of the classic kind (MPI standard, profiling interface): wraps MPI_Allreduce,
 * MPI_Reduce_scatter and MPI_Finalize and calls their PMPI names. Prints what each rank of it saw,
 * and what came with MPI_Pcontrol: a double at level 2; an int, a double, a text and another double
 * at level 3; at level 4 as many ints as registers pass. */
#include <mpi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#if defined(__x86_64__)
enum { PASSED = 5 };
#else
enum { PASSED = 7 };
#endif
static atomic_int calls;

__attribute__((visibility("default"))) int
MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    atomic_fetch_add(&calls, 1);
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

__attribute__((visibility("default"))) int MPI_Reduce_scatter(const void *in, void *out,
                                                              const int *counts, MPI_Datatype type,
                                                              MPI_Op op, MPI_Comm comm)
{
    atomic_fetch_add(&calls, 1);
    return PMPI_Reduce_scatter(in, out, counts, type, op, comm);
}

__attribute__((visibility("default"))) int MPI_Pcontrol(const int level, ...)
{
    va_list ap;
    va_start(ap, level);
    if (level == 2)
        fprintf(stderr, "profiler: level 2 with %g\n", va_arg(ap, double));
    if (level == 3) {
        int number = va_arg(ap, int);
        double first = va_arg(ap, double);
        const char *text = va_arg(ap, const char *);
        fprintf(stderr, "profiler: level 3 with %d %g %s %g\n", number, first, text,
                va_arg(ap, double));
    }
    if (level == 4) {
        char text[80] = "";
        for (int i = 0, n = 0; i < PASSED; i++)
            n += snprintf(text + n, sizeof text - (size_t)n, " %d", va_arg(ap, int));
        fprintf(stderr, "profiler: level 4 with%s\n", text);
    }
    va_end(ap);
    return MPI_SUCCESS;
}

__attribute__((visibility("default"))) int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "profiler: rank %d saw %d\n", rank, atomic_load(&calls));
    return PMPI_Finalize();
}
