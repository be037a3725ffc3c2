/* Preloaded by `vcluster run` into the ranks, to change MPICH over UCX in two ways.
 *
 * Waiting: UCX polls its sockets all the time. If ranks outnumber cores, a rank that is idle takes
 * the time slice of a rank that has work. With this library, a thread that has found its sockets
 * empty VCLUSTER_SPIN times in a row (20; -1: no limit) sleeps until a socket is ready. The sleep
 * lasts 50 us at first and at most 1 ms, since the thread may have other work.
 *
 * Leaving: MPI_Finalize before MPICH 4.2 says good-bye to its peers through UCX, and then reads the
 * answer to a barrier of the process manager. A rank in that read serves no peer that is still
 * saying good-bye, and both wait for ever (MPICH pull request 6596 removed the barrier). With this
 * library, the wait for that answer drives UCX.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 32, FIRST_SLEEP_US = 50, LAST_SLEEP_US = 1000 };

static struct {
    pthread_once_t once, ucx_once;
    ssize_t (*read)(int, void *, size_t);
    int (*epoll_wait)(int, struct epoll_event *, int, int);
    int (*worker_create)(void *, const void *, void **);
    void (*worker_destroy)(void *);
    unsigned (*worker_progress)(void *);
    void *(*disconnect)(void *);
    _Atomic(void *) worker[WORKERS];
    atomic_bool leaving;
    long spin;
} helper = {.once = PTHREAD_ONCE_INIT, .ucx_once = PTHREAD_ONCE_INIT, .spin = 20};

static void look_up(void *from, const char *name, void *slot)
{
    void *address = dlsym(from, name);

    memcpy(slot, &address, sizeof address);
}

static void find_functions(void)
{
    const char *spin = getenv("VCLUSTER_SPIN");

    if (spin && *spin)
        helper.spin = strtol(spin, NULL, 10);
    look_up(RTLD_NEXT, "read", &helper.read);
    look_up(RTLD_NEXT, "epoll_wait", &helper.epoll_wait);
}

/* Finds UCX by its name: called by MPI, so that UCX is loaded, but in Python it is not among the
 * libraries after this one. */
static void find_ucx(void)
{
    void *from = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);

    if (!from)
        from = RTLD_NEXT;
    look_up(from, "ucp_worker_create", &helper.worker_create);
    look_up(from, "ucp_worker_destroy", &helper.worker_destroy);
    look_up(from, "ucp_worker_progress", &helper.worker_progress);
    look_up(from, "ucp_disconnect_nb", &helper.disconnect);
}

static void ready(void)
{
    pthread_once(&helper.once, find_functions);
}

static void ready_for_ucx(void)
{
    ready();
    pthread_once(&helper.ucx_once, find_ucx);
}

static void exchange(void *old, void *new)
{
    for (int i = 0; i < WORKERS; i++) {
        void *expected = old;

        if (atomic_compare_exchange_strong(&helper.worker[i], &expected, new))
            return;
    }
}

int ucp_worker_create(void *context, const void *params, void **worker)
{
    int status;

    ready_for_ucx();
    status = helper.worker_create(context, params, worker);
    if (status == 0)
        exchange(NULL, *worker);
    return status;
}

void ucp_worker_destroy(void *worker)
{
    ready_for_ucx();
    exchange(worker, NULL);
    helper.worker_destroy(worker);
}

void *ucp_disconnect_nb(void *endpoint)
{
    ready_for_ucx();
    atomic_store(&helper.leaving, true);
    return helper.disconnect(endpoint);
}

ssize_t read(int fd, void *buffer, size_t length)
{
    static _Thread_local bool driving; /* UCX reads too, on its way through here */
    struct pollfd answer = {.fd = fd, .events = POLLIN};

    ready();
    if (atomic_load(&helper.leaving) && !driving && !(fcntl(fd, F_GETFL) & O_NONBLOCK)) {
        driving = true;
        while (poll(&answer, 1, 1) == 0) {
            for (int i = 0; i < WORKERS; i++) {
                void *worker = atomic_load(&helper.worker[i]);

                if (worker)
                    helper.worker_progress(worker);
            }
        }
        driving = false;
    }
    return helper.read(fd, buffer, length);
}

static void sleep_until_ready(int epoll, long us)
{
    struct pollfd sockets = {.fd = epoll, .events = POLLIN};
    struct timespec at_most = {.tv_nsec = us * 1000};

    ppoll(&sockets, 1, &at_most, NULL);
}

int epoll_wait(int fd, struct epoll_event *events, int room, int timeout)
{
    static _Thread_local long empty, sleep_us = FIRST_SLEEP_US;
    int found;

    ready();
    found = helper.epoll_wait(fd, events, room, timeout);
    if (timeout != 0 || helper.spin < 0)
        return found;
    if (found == 0 && ++empty > helper.spin) {
        sleep_until_ready(fd, sleep_us);
        sleep_us = 2 * sleep_us < LAST_SLEEP_US ? 2 * sleep_us : LAST_SLEEP_US;
        found = helper.epoll_wait(fd, events, room, 0);
    }
    if (found != 0) {
        empty = 0;
        sleep_us = FIRST_SLEEP_US;
    }
    return found;
}
