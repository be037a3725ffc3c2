/* MPI_Wait, MPI_Test and the like. If the MPI library does not poll requests of this library (Open
 * MPI), these do, as the MPI library's own functions do in MPICH. */
#include "shim/entry/entry.h"

EXPORT shim_wait_fn MPI_Wait;
EXPORT shim_test_fn MPI_Test;
EXPORT shim_waitall_fn MPI_Waitall;
EXPORT shim_testall_fn MPI_Testall;
EXPORT shim_waitany_fn MPI_Waitany;
EXPORT shim_testany_fn MPI_Testany;
EXPORT shim_some_fn MPI_Waitsome, MPI_Testsome;

/* Returns true if the MPI library does all that there is to do. */
static inline bool is_complete(const void *requests)
{
    be_ready();
    return atomic_load_explicit(&shim.request_count, memory_order_relaxed) == 0 ||
           !shim.polls_requests || !requests || !shim_is_own_process();
}

static const void *at(const void *requests, int i)
{
    return (const char *)requests + (size_t)i * shim_abi.handle;
}

/* Makes one turn if a request of this library is pending. */
static bool turn(int count, const void *requests)
{
    for (int i = 0; i < count; i++)
        if (shim_request_turn(at(requests, i)))
            return true;
    return false;
}

SLOW wait_one(void *request, void *status)
{
    while (turn(1, request))
        ;
    shim_request_begin_end();
    return shim_request_end_end(shim.next.wait(request, status));
}

int MPI_Wait(void *request, void *status)
{
    return is_complete(request) ? shim.next.wait(request, status) : wait_one(request, status);
}

SLOW test_one(void *request, int *done, void *status)
{
    turn(1, request);
    shim_request_begin_end();
    return shim_request_end_end(shim.next.test(request, done, status));
}

int MPI_Test(void *request, int *done, void *status)
{
    return is_complete(request) ? shim.next.test(request, done, status)
                                : test_one(request, done, status);
}

SLOW waitall(int count, void *requests, void *statuses)
{
    for (int i = 0; i < count; i++)
        while (turn(1, at(requests, i)))
            ;
    shim_request_begin_end();
    return shim_request_end_end(shim.next.waitall(count, requests, statuses));
}

int MPI_Waitall(int count, void *requests, void *statuses)
{
    return is_complete(requests) ? shim.next.waitall(count, requests, statuses)
                                 : waitall(count, requests, statuses);
}

SLOW testall(int count, void *requests, int *done, void *statuses)
{
    turn(count, requests);
    shim_request_begin_end();
    return shim_request_end_end(shim.next.testall(count, requests, done, statuses));
}

int MPI_Testall(int count, void *requests, int *done, void *statuses)
{
    return is_complete(requests) ? shim.next.testall(count, requests, done, statuses)
                                 : testall(count, requests, done, statuses);
}

SLOW testany(int count, void *requests, int *index, int *done, void *status)
{
    turn(count, requests);
    shim_request_begin_end();
    return shim_request_end_end(shim.next.testany(count, requests, index, done, status));
}

int MPI_Testany(int count, void *requests, int *index, int *done, void *status)
{
    return is_complete(requests) ? shim.next.testany(count, requests, index, done, status)
                                 : testany(count, requests, index, done, status);
}

/* Tests while a request of this library is pending, which may not be the one that ends. */
SLOW waitany(int count, void *requests, int *index, void *status)
{
    int done = 0, err = 0;

    while (!done && err == 0 && turn(count, requests)) {
        shim_request_begin_end();
        err = shim_request_end_end(shim.next.testany(count, requests, index, &done, status));
    }
    if (done || err != 0)
        return err;
    shim_request_begin_end();
    return shim_request_end_end(shim.next.waitany(count, requests, index, status));
}

int MPI_Waitany(int count, void *requests, int *index, void *status)
{
    return is_complete(requests) ? shim.next.waitany(count, requests, index, status)
                                 : waitany(count, requests, index, status);
}

SLOW testsome(int count, void *requests, int *ended, int *indices, void *statuses)
{
    turn(count, requests);
    shim_request_begin_end();
    return shim_request_end_end(shim.next.testsome(count, requests, ended, indices, statuses));
}

int MPI_Testsome(int count, void *requests, int *ended, int *indices, void *statuses)
{
    return is_complete(requests) ? shim.next.testsome(count, requests, ended, indices, statuses)
                                 : testsome(count, requests, ended, indices, statuses);
}

SLOW waitsome(int count, void *requests, int *ended, int *indices, void *statuses)
{
    int err = 0;

    while (err == 0 && turn(count, requests)) {
        shim_request_begin_end();
        err = shim_request_end_end(shim.next.testsome(count, requests, ended, indices, statuses));
        if (err == 0 && *ended != 0)
            return 0;
    }
    if (err != 0)
        return err;
    shim_request_begin_end();
    return shim_request_end_end(shim.next.waitsome(count, requests, ended, indices, statuses));
}

int MPI_Waitsome(int count, void *requests, int *ended, int *indices, void *statuses)
{
    return is_complete(requests) ? shim.next.waitsome(count, requests, ended, indices, statuses)
                                 : waitsome(count, requests, ended, indices, statuses);
}
