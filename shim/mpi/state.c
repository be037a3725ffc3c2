/* The state of the shim, one per process, and its clock. */
#include "shim/mpi/state.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

_Thread_local bool shim_ours;

struct shim_state shim = {
    .fast = {.count = INT64_MIN, .nonblocking = INT64_MIN},
    .process = {.phase = SHIM_NEW,
                .start_lock = PTHREAD_MUTEX_INITIALIZER,
                .rank = -1,
                .thread_level = -1},
    .library = {.single_lock = PTHREAD_MUTEX_INITIALIZER},
    .report = {.lock = PTHREAD_MUTEX_INITIALIZER},
    .log = {.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER},
    .table = {.lock = PTHREAD_MUTEX_INITIALIZER},
    .requests = {.lock = PTHREAD_MUTEX_INITIALIZER},
    .watch = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .called = PTHREAD_COND_INITIALIZER,
              .wanted = true},
    .sites = {.lock = PTHREAD_MUTEX_INITIALIZER},
    .costs = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

/* Returns a page that fork empties; NULL without memory, or before Linux 4.14. */
static atomic_bool *page_cleared_by_fork(void)
{
#ifdef MADV_WIPEONFORK
    const size_t size = sizeof(atomic_bool); /* the system maps a whole page */
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, size, MADV_WIPEONFORK) == 0)
        return page;
    munmap(page, size);
#endif
    return NULL;
}

void shim_note_process(void)
{
    atomic_bool *page = page_cleared_by_fork();

    shim.process.pid = getpid();
    if (page) {
        atomic_store(page, true);
        shim.process.process_page = page;
    }
}

bool shim_is_this_process(void)
{
    return shim.process.process_page
               ? atomic_load_explicit(shim.process.process_page, memory_order_relaxed)
               : getpid() == shim.process.pid;
}

double shim_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ticks = (now.tv_sec - shim.process.start_second) * ((int64_t)1 << 28) +
                    now.tv_nsec * ((int64_t)1 << 28) / 1000000000;
    return (double)ticks * 0x1p-28;
}

bool shim_calls_are_counted(void)
{
    return shim.stats.timed || shim.options.mode == CFG_MODE_LEARN ||
           shim.options.debug >= CFG_DEBUG_INFO || (shim.options.trace && *shim.options.trace);
}

void shim_requests_pass(void)
{
    if (!shim_calls_are_counted())
        atomic_store(&shim.fast.nonblocking, INT64_MAX);
}

void shim_stats_time(double seconds)
{
    pthread_mutex_lock(&shim.stats.lock);
    shim.stats.allreduce_seconds += seconds;
    pthread_mutex_unlock(&shim.stats.lock);
}
