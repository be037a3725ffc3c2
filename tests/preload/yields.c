/* Preloaded into programs that are tested on more ranks than the machine has cores: while the MPI
 * library polls in vain, the rank sleeps, so that the processor goes to a rank that has something
 * to do. A rank that calls sched_yield first takes up to twice the processor time. MPICH over UCX
 * has no setting for that; under another MPI library nothing here is called. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

enum { POLLS_BEFORE_SLEEP = 20, SLEEP_NS = 50000 }; /* polls without news */

typedef unsigned progress(void *worker);

__attribute__((visibility("default"))) progress ucp_worker_progress;

/* UCX may lie in the scope of the MPI library alone. */
static progress *find(void)
{
    void *found = dlsym(RTLD_NEXT, "ucp_worker_progress"), *ucx = NULL;

    if (!found)
        ucx = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (ucx)
        found = dlsym(ucx, "ucp_worker_progress");
    if (!found)
        abort();
    return (progress *)found;
}

unsigned ucp_worker_progress(void *worker)
{
    static progress *_Atomic known;
    static _Thread_local unsigned idle;
    progress *real = known;

    if (!real)
        known = real = find();
    unsigned news = real(worker);
    idle = news ? 0 : idle + 1;
    if (idle > POLLS_BEFORE_SLEEP)
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    return news;
}
