/* MPI_Wait, MPI_Test and the like. If the MPI library does not poll requests of this library (Open
 * MPI), these do, as the MPI library's own functions do in MPICH. */
#include "shim/entry/entry.h"

/* Returns true if the MPI library does all that there is to do. */
static inline bool is_complete(const void *requests)
{
    be_ready();
    return atomic_load_explicit(&shim.requests.count, memory_order_relaxed) == 0 ||
           !shim.requests.polled || !requests || !shim_is_this_process();
}

static const void *at(const void *requests, int i)
{
    return (const char *)requests + (size_t)i * shim_abi.handle;
}

/* Polls once if a request of this library is pending. */
static bool poll_requests(int count, const void *requests)
{
    for (int i = 0; i < count; i++)
        if (shim_request_poll(at(requests, i)))
            return true;
    return false;
}

SLOW serve_wait(const struct shim_next *next, void *request, void *status)
{
    while (poll_requests(1, request))
        ;
    const struct shim_ended outer = shim_request_begin_end();

    return shim_request_end_end(outer, next->wait(request, status));
}

SLOW serve_test(const struct shim_next *next, void *request, int *done, void *status)
{
    poll_requests(1, request);
    const struct shim_ended outer = shim_request_begin_end();

    return shim_request_end_end(outer, next->test(request, done, status));
}

SLOW serve_waitall(const struct shim_next *next, int count, void *requests, void *statuses)
{
    for (int i = 0; i < count; i++)
        while (poll_requests(1, at(requests, i)))
            ;
    const struct shim_ended outer = shim_request_begin_end();

    return shim_request_end_end(outer, next->waitall(count, requests, statuses));
}

SLOW serve_testall(const struct shim_next *next, int count, void *requests, int *done,
                   void *statuses)
{
    poll_requests(count, requests);
    const struct shim_ended outer = shim_request_begin_end();

    return shim_request_end_end(outer, next->testall(count, requests, done, statuses));
}

SLOW serve_testany(const struct shim_next *next, int count, void *requests, int *index, int *done,
                   void *status)
{
    poll_requests(count, requests);
    const struct shim_ended outer = shim_request_begin_end();

    return shim_request_end_end(outer, next->testany(count, requests, index, done, status));
}

/* Tests while a request of this library is pending, which may not be the one that ends. */
SLOW serve_waitany(const struct shim_next *next, int count, void *requests, int *index,
                   void *status)
{
    int done = 0, err = 0;

    while (!done && err == 0 && poll_requests(count, requests)) {
        const struct shim_ended outer = shim_request_begin_end();

        err = shim_request_end_end(outer, next->testany(count, requests, index, &done, status));
    }
    if (done || err != 0)
        return err;
    const struct shim_ended outer = shim_request_begin_end();

    return shim_request_end_end(outer, next->waitany(count, requests, index, status));
}

SLOW serve_testsome(const struct shim_next *next, int count, void *requests, int *ended,
                    int *indices, void *statuses)
{
    poll_requests(count, requests);
    const struct shim_ended outer = shim_request_begin_end();

    return shim_request_end_end(outer, next->testsome(count, requests, ended, indices, statuses));
}

SLOW serve_waitsome(const struct shim_next *next, int count, void *requests, int *ended,
                    int *indices, void *statuses)
{
    int err = 0;

    while (err == 0 && poll_requests(count, requests)) {
        const struct shim_ended outer = shim_request_begin_end();

        err =
            shim_request_end_end(outer, next->testsome(count, requests, ended, indices, statuses));
        if (err == 0 && *ended != 0)
            return 0;
    }
    if (err != 0)
        return err;
    const struct shim_ended outer = shim_request_begin_end();

    return shim_request_end_end(outer, next->waitsome(count, requests, ended, indices, statuses));
}

/* ---- the names; PMPI names are those of Fortran (shim/entry/fortran.c) ---- */

#define BEHIND_NEXT(...) (next, __VA_ARGS__)
#define COMPLETES(member, name, parameters, arguments, held)                                       \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        const struct shim_next *const next = &shim.next;                                           \
                                                                                                   \
        return is_complete(held) ? next->member arguments : serve_##member BEHIND_NEXT arguments;  \
    }                                                                                              \
    int PMPI_##name parameters                                                                     \
    {                                                                                              \
        const struct shim_next *const next = &shim.pmpi;                                           \
                                                                                                   \
        return is_complete(held) || !FROM_FORTRAN ? next->member arguments                         \
                                                  : serve_##member BEHIND_NEXT arguments;          \
    }

SHIM_WRAPPED_COMPLETIONS(COMPLETES)
