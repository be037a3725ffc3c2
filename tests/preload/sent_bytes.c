/* Preloaded behind the library: counts the bytes of the messages that it sends. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) atomic_ullong sent_bytes;

typedef int isend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static isend *find(void)
{
    void *found = dlsym(RTLD_NEXT, "PMPI_Isend");
    isend *real;

    if (!found)
        abort();
    memcpy(&real, &found, sizeof real);
    return real;
}

__attribute__((visibility("default"))) int PMPI_Isend(const void *data, int count,
                                                      MPI_Datatype type, int to, int tag,
                                                      MPI_Comm comm, MPI_Request *request)
{
    static isend *_Atomic known;
    isend *real = known;
    int size = 0;

    if (!real)
        known = real = find();
    if (PMPI_Type_size(type, &size) == MPI_SUCCESS)
        sent_bytes += (unsigned long long)count * (unsigned)size;
    return real(data, count, type, to, tag, comm, request);
}
