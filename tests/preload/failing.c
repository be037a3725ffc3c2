/* A library whose PMPI_Isend fails, to be preloaded after the library under test.
 *
 * FAILING_RANK (in the world), FAILING_CALL (counted from 1) say where; FAILING_FOREVER=1 makes
 * every later call fail too. Without FAILING_CALL it only passes through.
 *
 * A program finds two functions here by dlsym: failing_memory(1) makes malloc, calloc and realloc
 * fail where the library under test calls them, failing_memory(0) lets them work again, and both
 * return how many failed; failing_sends() returns the number of PMPI_Isend so far. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

EXPORT int failing_memory(int fails);
EXPORT long failing_sends(void);

static atomic_bool memory_fails;
static atomic_int allocations_failed;
static atomic_long sends;

static bool denied(const void *caller)
{
    Dl_info info;

    if (!atomic_load_explicit(&memory_fails, memory_order_relaxed) || !dladdr(caller, &info) ||
        !info.dli_fname || !strstr(info.dli_fname, "libsparseshim"))
        return false;
    atomic_fetch_add(&allocations_failed, 1);
    return true;
}

EXPORT void *malloc(size_t size)
{
    return denied(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    return denied(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
    return denied(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}

int failing_memory(int fails)
{
    atomic_store(&memory_fails, fails != 0);
    return atomic_load(&allocations_failed);
}

long failing_sends(void)
{
    return atomic_load(&sends);
}

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

EXPORT int PMPI_Isend(const void *buf, int count, MPI_Datatype type, int dst, int tag,
                      MPI_Comm comm, MPI_Request *request)
{
    long call = atomic_fetch_add(&sends, 1) + 1, at = number("FAILING_CALL", 0);
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (at > 0 && rank == number("FAILING_RANK", 0) &&
        (call == at || (call > at && number("FAILING_FOREVER", 0)))) {
        fprintf(stderr, "failing: PMPI_Isend number %ld of rank %d fails\n", call, rank);
        return MPI_ERR_OTHER;
    }
    return real_isend()(buf, count, type, dst, tag, comm, request);
}
