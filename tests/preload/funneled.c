/* Preloaded behind the library: an MPI library that gives rank FUNNELED_RANK no more than
 * MPI_THREAD_FUNNELED. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

typedef int init_thread(int *, char ***, int, int *);
typedef int init(int *, char ***);

static int begin(int *argc, char ***argv, int required, int *provided)
{
    void *address = dlsym(RTLD_NEXT, "PMPI_Init_thread");
    const char *here = getenv("PMI_RANK"), *which = getenv("FUNNELED_RANK");
    init_thread *next;

    memcpy(&next, &address, sizeof next);
    if (here && which && strcmp(here, which) == 0 && required > MPI_THREAD_FUNNELED)
        required = MPI_THREAD_FUNNELED;
    return next(argc, argv, required, provided);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return begin(argc, argv, required, provided);
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return begin(argc, argv, required, provided);
}

int MPI_Init(int *argc, char ***argv)
{
    int provided;

    return begin(argc, argv, MPI_THREAD_SINGLE, &provided);
}

int PMPI_Init(int *argc, char ***argv)
{
    return MPI_Init(argc, argv);
}
