#define _GNU_SOURCE 1
#include "shim/progress.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "shim/job.h"
#include "shim/log.h"
#include "shim/op.h"

/* The watchdog looks this often whether the application still moves its calls itself, in
 * nanoseconds; after a step of its own that moved something it looks again sooner, since the answer
 * to what it sent may be on its way. */
enum { LOOK_AFTER = 1000000, LOOK_SOON = 50000 };

/* Steps in a row without movement after which a thread of ours goes to sleep, and looks without
 * any call under way after which it waits to be woken. */
enum { IDLE_STEPS = 16, IDLE_LOOKS = 4 };

enum { BATCH = 32 };

static void *watch(void *unused);

/* Signals go to the application's own threads. */
static bool start_thread(void)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&shim.watch.thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0)
        shim_say(CFG_DEBUG_WARN,
                 "no thread for the progress of nonblocking calls (%s): they move only inside of "
                 "MPI_Wait, MPI_Test and MPI_Allreduce",
                 strerror(err));
    return err == 0;
}

static void wake(void)
{
    pthread_mutex_lock(&shim.watch.lock);
    if (!shim.watch.started && !shim.watch.refused && !shim.watch.stop) {
        shim.watch.started = start_thread();
        shim.watch.refused = !shim.watch.started;
    } else if (shim.watch.asleep) {
        pthread_cond_signal(&shim.watch.called);
    }
    pthread_mutex_unlock(&shim.watch.lock);
}

void shim_progress_enter(struct shim_comm *comm)
{
    bool listed = comm->listed;

    if (!listed) {
        comm->listed = true;
        pthread_mutex_lock(&shim.table_lock);
        comm->refs++;
        comm->next_active = shim.active;
        shim.active = comm;
        pthread_mutex_unlock(&shim.table_lock);
        atomic_fetch_add(&shim.active_count, 1);
    }
    if (atomic_load(&shim.watch.wanted))
        wake();
}

/* Under the communicator's lock. Returns whether its reference is the caller's to give back. */
static bool leave(struct shim_comm *comm)
{
    struct shim_comm **link;

    if (!comm->listed || comm->queue || comm->state == SHIM_COMM_MEETING)
        return false;
    comm->listed = false;
    pthread_mutex_lock(&shim.table_lock);
    for (link = &shim.active; *link != comm; link = &(*link)->next_active)
        ;
    *link = comm->next_active;
    pthread_mutex_unlock(&shim.table_lock);
    atomic_fetch_sub(&shim.active_count, 1);
    return true;
}

/* References to up to BATCH active communicators, but for the first `skip`. */
static size_t some_active(struct shim_comm **list, size_t skip)
{
    size_t n = 0;

    pthread_mutex_lock(&shim.table_lock);
    for (struct shim_comm *c = shim.active; c && n < BATCH; c = c->next_active) {
        if (skip > 0) {
            skip--;
            continue;
        }
        c->refs++;
        list[n++] = c;
    }
    pthread_mutex_unlock(&shim.table_lock);
    return n;
}

static bool step(struct shim_comm *comm)
{
    struct shim_op *finished = NULL;
    bool moved, left;

    if (pthread_mutex_trylock(&comm->lock) != 0)
        return false;
    moved = shim_op_step(comm, &finished);
    left = leave(comm);
    pthread_mutex_unlock(&comm->lock);
    shim_request_deliver(finished);
    if (left)
        shim_comm_put(comm);
    return moved;
}

bool shim_progress(void)
{
    struct shim_comm *list[BATCH];
    bool moved = false;
    size_t n, skip = 0;

    if (shim_progress_idle())
        return false;
    atomic_fetch_add_explicit(&shim.watch.turns, 1, memory_order_relaxed);
    do {
        n = some_active(list, skip);
        for (size_t i = 0; i < n; i++) {
            moved = step(list[i]) || moved;
            shim_comm_put(list[i]);
        }
        skip += n;
    } while (n == BATCH);
    return moved;
}

/* ---- the thread ---- */

static void rest(long nanoseconds)
{
    struct timespec t = {.tv_nsec = nanoseconds};

    nanosleep(&t, NULL);
}

/* Steps until nothing has moved for a while; returns whether anything did. */
static bool burst(void)
{
    bool any = false;

    for (int idle = 0; idle < IDLE_STEPS && !shim_progress_idle();) {
        if (shim_progress()) {
            any = true;
            idle = 0;
        } else {
            idle++;
            sched_yield();
        }
    }
    return any;
}

/* With PROGRESS=thread it steps all the time; otherwise only where nobody else has since it last
 * looked. */
static void look(uint64_t *seen, long *pause)
{
    bool moved;

    if (!shim.own_thread) {
        uint64_t turns;

        rest(*pause);
        turns = atomic_load(&shim.watch.turns);
        if (turns != *seen) {
            *seen = turns;
            *pause = LOOK_AFTER;
            return;
        }
    }
    moved = burst();
    *seen = atomic_load(&shim.watch.turns);
    if (moved)
        *pause = LOOK_SOON;
    else if (*pause < LOOK_AFTER)
        *pause *= 2;
    if (shim.own_thread && !moved)
        rest(LOOK_SOON);
}

static bool called(void)
{
    bool stop;

    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.asleep = true;
    atomic_store(&shim.watch.wanted, true);
    while (!shim.watch.stop && atomic_load(&shim.active_count) == 0)
        pthread_cond_wait(&shim.watch.called, &shim.watch.lock);
    shim.watch.asleep = false;
    atomic_store(&shim.watch.wanted, false);
    stop = shim.watch.stop;
    pthread_mutex_unlock(&shim.watch.lock);
    return !stop;
}

static void *watch(void *unused)
{
    uint64_t seen = 0;
    long pause = LOOK_AFTER;

    (void)unused;
    while (called()) {
        for (int idle = 0; idle < IDLE_LOOKS && !atomic_load(&shim.watch.ending);) {
            if (shim_progress_idle()) {
                idle++;
                rest(shim.own_thread ? LOOK_SOON : LOOK_AFTER);
            } else {
                idle = 0;
                look(&seen, &pause);
            }
        }
    }
    return NULL;
}

void shim_progress_end(void)
{
    double begin = shim_now();
    bool started;

    if (atomic_load(&shim.watch.ending))
        return;
    while (!shim_progress_idle() && shim_now() - begin < 1)
        shim_progress();
    if (!shim_progress_idle())
        shim_say(CFG_DEBUG_WARN, "MPI_Finalize with nonblocking calls under way that do not end");
    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.stop = true;
    started = shim.watch.started;
    shim.watch.started = false;
    pthread_cond_signal(&shim.watch.called);
    pthread_mutex_unlock(&shim.watch.lock);
    atomic_store(&shim.watch.ending, true);
    if (started)
        pthread_join(shim.watch.thread, NULL);
}
