/* TAP for MPI programs: a check holds if it holds on every rank; rank 0 prints.
 *
 * MPI_Gather collects the results of the ranks, since the library under test does not touch it.
 */
#ifndef TESTS_MPI_TAP_H
#define TESTS_MPI_TAP_H

#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct tap {
    MPI_Comm comm; /* borrowed; no check breaks it */
    int rank;
    int size;
    int checks;
    int failed;
};

static struct tap tap;

static inline void tap_begin(MPI_Comm comm)
{
    tap.comm = comm;
    MPI_Comm_rank(comm, &tap.rank);
    MPI_Comm_size(comm, &tap.size);
}

/* Prints a remark of rank 0. */
__attribute__((format(printf, 1, 2))) static inline void tap_note(const char *format, ...)
{
    va_list args;
    if (tap.rank != 0)
        return;
    fputs("# ", stdout);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* Prints one line of TAP; collective. Returns true, on rank 0 only, if it held on all ranks. */
__attribute__((format(printf, 2, 3))) static inline bool tap_ok(bool holds, const char *format, ...)
{
    int mine = holds;
    int *all = calloc((size_t)tap.size, sizeof *all);
    bool everywhere = true;
    va_list args;
    if (!all)
        MPI_Abort(MPI_COMM_WORLD, 1);
    PMPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, 0, tap.comm);
    tap.checks++;
    if (tap.rank == 0) {
        for (int r = 0; r < tap.size; r++)
            everywhere = everywhere && all[r];
        printf("%s %d - ", everywhere ? "ok" : "not ok", tap.checks);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        putchar('\n');
        for (int r = 0; r < tap.size && !everywhere; r++)
            if (!all[r])
                printf("# not on rank %d\n", r);
        fflush(stdout);
        tap.failed += !everywhere;
    }
    free(all);
    return everywhere;
}

/* Prints the plan. Returns the exit status of the program. */
static inline int tap_end(void)
{
    if (tap.rank == 0) {
        printf("1..%d\n", tap.checks);
        fflush(stdout);
    }
    return tap.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
