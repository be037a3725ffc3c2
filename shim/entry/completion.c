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

/* Polls until none of the requests is pending. */
static void poll_each(int count, const void *requests)
{
    for (int i = 0; i < count; i++)
        while (poll_requests(1, at(requests, i)))
            ;
}

#define WITH_NEXT(...) (const struct shim_next *next, __VA_ARGS__)
#define SERVES(member, polls, parameters, arguments)                                               \
    SLOW serve_##member WITH_NEXT parameters                                                       \
    {                                                                                              \
        polls;                                                                                     \
        const struct shim_ended outer = shim_request_begin_end();                                  \
                                                                                                   \
        return shim_request_end_end(outer, next->member arguments);                                \
    }
SERVES(wait, poll_each(1, request), (void *request, void *status), (request, status))
SERVES(test, poll_requests(1, request), (void *request, int *done, void *status),
       (request, done, status))
SERVES(waitall, poll_each(count, requests), (int count, void *requests, void *statuses),
       (count, requests, statuses))
SERVES(testall, poll_requests(count, requests),
       (int count, void *requests, int *done, void *statuses), (count, requests, done, statuses))
SERVES(testany, poll_requests(count, requests),
       (int count, void *requests, int *index, int *done, void *status),
       (count, requests, index, done, status))
SERVES(testsome, poll_requests(count, requests),
       (int count, void *requests, int *ended, int *indices, void *statuses),
       (count, requests, ended, indices, statuses))

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
