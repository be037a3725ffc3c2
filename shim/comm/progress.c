/* Steps active communicators, and runs the thread that does. */
#include "shim/comm/progress.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "core/base/fpenv.h"
#include "shim/comm/partial_calls.h"
#include "shim/mpi/log.h"

/* Nanoseconds between two looks of the watchdog at whether the application moves its calls itself.
 * After a step that moved something the watchdog looks again sooner, since the answer to its
 * message may be on its way. Without rounds in progress it looks for one every LOOK_ROUNDS. */
enum { LOOK_AFTER = 1000000, LOOK_SOON = 50000, LOOK_ROUNDS = 250000 };

/* Steps in a row without movement after which the thread sleeps, and looks without a call in
 * progress after which it waits for a wake-up. */
enum { IDLE_STEPS = 16, IDLE_LOOKS = 4 };

/* Number of looks at rounds after which the thread checks its share of a core, the share that it
 * may use, and the largest factor by which it looks more seldom for that. */
enum { THRIFT_LOOKS = 64 };
#define THRIFT_SHARE 0.02
#define THRIFT_MOST  4.0

/* Stack of a thread of the shim: enough for the MPI library's progress, whatever stack the
 * application gives its own threads (ulimit -s, pthread_setattr_default_np). */
enum { STACK = 1 << 20 };

/* Seconds after which calls in progress at the end of the job log a warning, and within which a
 * thread of the shim is expected to leave the MPI library. */
#define PATIENCE 30.0
#define LEAVING  1.0

static void *watch(void *unused);

/* Blocks signals, which are for the program's threads, except those of a memory access, which are
 * for the thread that makes it: a program may protect its buffers and open pages in a handler. */
static void leave_signals(sigset_t *before)
{
    sigset_t theirs;

    sigfillset(&theirs);
    sigdelset(&theirs, SIGSEGV);
    sigdelset(&theirs, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &theirs, before);
}

int shim_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t before;
    pthread_attr_t attr;
    int err = pthread_attr_init(&attr);

    if (err != 0)
        return err;
    err = pthread_attr_setstacksize(&attr, STACK);
    leave_signals(&before);
    if (err == 0)
        err = pthread_create(thread, &attr, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

static bool start_thread(void)
{
    int err = shim_thread_start(&shim.watch.thread, watch, NULL);

    if (err != 0)
        shim_say(CFG_DEBUG_WARN,
                 "no thread for the progress of nonblocking calls (%s): they move only inside of "
                 "MPI_Wait, MPI_Test and MPI_Allreduce",
                 strerror(err));
    return err == 0;
}

void shim_progress_wake(void)
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

bool shim_progress_refused(void)
{
    bool refused;

    pthread_mutex_lock(&shim.watch.lock);
    refused = shim.watch.refused;
    pthread_mutex_unlock(&shim.watch.lock);
    return refused;
}

void shim_progress_enter(struct shim_comm *comm)
{
    bool listed = comm->queue.listed;

    if (!listed) {
        comm->queue.listed = true;
        shim_list_add(SHIM_ACTIVE, comm);
    }
    if (atomic_load(&shim.watch.wanted))
        shim_progress_wake();
}

/* Removes an idle communicator from the active list, under its lock. Returns true if its reference
 * now belongs to the caller. */
static bool leave(struct shim_comm *comm)
{
    if (!comm->queue.listed || comm->queue.first)
        return false;
    comm->queue.listed = false;
    return shim_list_remove(SHIM_ACTIVE, comm);
}

static bool step(struct shim_comm *comm, void *unused)
{
    struct shim_left work = {.finished = NULL};
    bool moved, left;

    (void)unused;
    if (shim_is_out() || pthread_mutex_trylock(&comm->lock) != 0)
        return false;
    moved = shim.hooks.step(comm, &work);
    left = leave(comm);
    pthread_mutex_unlock(&comm->lock);
    shim.hooks.leave(&work);
    if (left)
        shim_comm_put(comm);
    return moved;
}

bool shim_progress(void)
{
    if (shim_progress_idle())
        return false;
    atomic_fetch_add_explicit(&shim.watch.rounds, 1, memory_order_relaxed);
    return shim_list_visit(SHIM_ACTIVE, step, NULL);
}

/* ---- the thread ---- */

bool shim_progress_is_open(void)
{
    return atomic_load(&shim.watch.stops) == 0;
}

static bool others_inside(void)
{
    return atomic_load(&shim.watch.inside) > (shim_ours ? 1 : 0);
}

/* Enters MPI in a thread of the shim. If sums of the program may run there, takes their rounding
 * mode. Traps stay masked, since their handlers belong to the program. */
static void go_in(void)
{
    atomic_fetch_add(&shim.watch.inside, 1);
    (void)ss_fpenv_enter();
    if (atomic_load(&shim.watch.environment_sums) > 0)
        ss_fpenv_leave(atomic_load(&shim.watch.rounding));
}

/* Leaves MPI. A thread of the program later raises the exceptions that were raised inside
 * (shim_task_raise). */
static void come_out(void)
{
    const unsigned raised = ss_fpenv_raised(ss_fpenv_now());

    if (raised)
        atomic_fetch_or(&shim.watch.raised, raised);
    (void)ss_fpenv_enter();
    atomic_fetch_sub(&shim.watch.inside, 1);
}

/* Makes one round of progress in a thread of the shim, which counts as inside of MPI meanwhile.
 * Does nothing if MPI could run code of the application. */
static bool make_round(void)
{
    bool moved = false;

    go_in();
    if (shim_progress_is_open())
        moved = shim_progress();
    come_out();
    return moved;
}

/* Waits a bounded time, since the caller may be in a callback of MPI that holds the lock that the
 * thread waits for. */
static void wait_outside(void)
{
    double begin = shim_now();

    while (others_inside() && shim_now() - begin < LEAVING)
        sched_yield();
}

void shim_progress_keep_out(void)
{
    atomic_store(&shim.callbacks.any, true);
    if (!atomic_exchange(&shim.watch.shut, true))
        shim_progress_stop();
}

bool shim_progress_try_stop(void)
{
    atomic_fetch_add(&shim.watch.stops, 1);
    if (!others_inside())
        return true;
    shim_progress_resume();
    return false;
}

void shim_progress_stop(void)
{
    atomic_fetch_add(&shim.watch.stops, 1);
    wait_outside();
}

void shim_progress_resume(void)
{
    atomic_fetch_sub(&shim.watch.stops, 1);
}

void shim_progress_round_as(ss_fpenv env)
{
    atomic_store(&shim.watch.rounding, ss_fpenv_rounding(env));
    atomic_fetch_add(&shim.watch.environment_sums, 1);
    wait_outside();
}

void shim_progress_round_as_before(void)
{
    atomic_fetch_sub(&shim.watch.environment_sums, 1);
}

static void sleep_for(long nanoseconds)
{
    struct timespec t = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};

    nanosleep(&t, NULL);
}

/* Steps until nothing has moved for a while. Returns true if anything moved. */
static bool burst(void)
{
    bool any = false;

    for (int idle = 0; idle < IDLE_STEPS && !shim_progress_idle();) {
        if (make_round()) {
            any = true;
            idle = 0;
        } else {
            idle++;
            sched_yield();
        }
    }
    return any;
}

/* Looks once: steps in any case with PROGRESS=thread, otherwise only if no other thread has stepped
 * since the last look. */
static void look(uint64_t *seen, long *pause)
{
    bool moved;

    if (!shim.requests.by_thread) {
        uint64_t rounds;

        sleep_for(*pause);
        rounds = atomic_load(&shim.watch.rounds);
        if (rounds != *seen) {
            *seen = rounds;
            *pause = LOOK_AFTER;
            return;
        }
    }
    moved = burst();
    *seen = atomic_load(&shim.watch.rounds);
    if (moved)
        *pause = LOOK_SOON;
    else if (*pause < LOOK_AFTER)
        *pause *= 2;
    if (shim.requests.by_thread && !moved)
        sleep_for(LOOK_SOON);
}

/* Makes one round of partial calls, like make_round. */
static bool take_part(bool *under_way)
{
    bool moved = false;

    *under_way = false;
    go_in();
    if (shim_progress_is_open())
        moved = shim_partial_step(under_way);
    come_out();
    return moved;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t = {0};

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The thread's use of the processor for looking at rounds. */
struct thrift {
    unsigned looks;
    double used, at; /* processor seconds at the last check; time of the check */
    double stretch;  /* factor on LOOK_ROUNDS */
};

/* Looks more seldom if looking costs more than THRIFT_SHARE of a core. */
static void be_thrifty(struct thrift *t)
{
    double used, now;

    if (t->looks++ % THRIFT_LOOKS != 0)
        return;
    used = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    now = shim_now();
    if (t->at > 0 && now > t->at)
        t->stretch *= (used - t->used) / (now - t->at) / THRIFT_SHARE;
    t->stretch = t->stretch < 1 ? 1 : t->stretch > THRIFT_MOST ? THRIFT_MOST : t->stretch;
    t->used = used;
    t->at = now;
}

/* Looks at the rounds of partial calls, and on the same occasion at other calls in progress. */
static void look_at_rounds(uint64_t *seen, struct thrift *thrift)
{
    const long seldom = (long)(LOOK_ROUNDS * thrift->stretch);
    bool under_way = false, moved = false;
    uint64_t rounds;

    for (int i = 0; i < IDLE_STEPS && take_part(&under_way); i++)
        ;
    rounds = atomic_load(&shim.watch.rounds);
    if (!shim_progress_idle() && (shim.requests.by_thread || rounds == *seen))
        moved = burst();
    *seen = atomic_load(&shim.watch.rounds);
    sleep_for((under_way || moved) && seldom > LOOK_SOON ? LOOK_SOON : seldom);
    be_thrifty(thrift);
}

static bool called(void)
{
    bool stop;

    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.asleep = true;
    atomic_store(&shim.watch.wanted, true);
    while (!shim.watch.stop && atomic_load(&shim.table.list_count[SHIM_ACTIVE]) == 0 &&
           atomic_load(&shim.table.list_count[SHIM_PARTIAL]) == 0)
        pthread_cond_wait(&shim.watch.called, &shim.watch.lock);
    shim.watch.asleep = false;
    atomic_store(&shim.watch.wanted, false);
    stop = shim.watch.stop;
    pthread_mutex_unlock(&shim.watch.lock);
    return !stop;
}

/* Records the thread's times at its end. */
static void book_thread(double began)
{
    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.used += seconds_of(CLOCK_THREAD_CPUTIME_ID);
    shim.watch.lived += shim_now() - began;
    shim.watch.runs = false;
    pthread_mutex_unlock(&shim.watch.lock);
}

void shim_progress_used(double *used, double *lived)
{
    clockid_t clock;

    pthread_mutex_lock(&shim.watch.lock);
    *used = shim.watch.used;
    *lived = shim.watch.lived;
    if (shim.watch.runs && pthread_getcpuclockid(shim.watch.thread, &clock) == 0) {
        *used += seconds_of(clock);
        *lived += shim_now() - shim.watch.began;
    }
    pthread_mutex_unlock(&shim.watch.lock);
}

static void *watch(void *unused)
{
    const double began = shim_now();
    uint64_t seen = 0;
    long pause = LOOK_AFTER;
    struct thrift thrift = {.stretch = 1};

    (void)unused;
    shim_ours = true;
    /* otherwise the thread has its creator's environment */
    ss_fpenv_enter_full(&(struct ss_fpenv_full){0});
    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.began = began;
    shim.watch.runs = true;
    pthread_mutex_unlock(&shim.watch.lock);
    while (called()) {
        for (int idle = 0; idle < IDLE_LOOKS && !atomic_load(&shim.watch.ending);) {
            if (!shim_partial_idle()) {
                look_at_rounds(&seen, &thrift);
            } else if (shim_progress_idle()) {
                idle++;
                sleep_for(shim.requests.by_thread ? LOOK_SOON : LOOK_AFTER);
            } else {
                idle = 0;
                look(&seen, &pause);
            }
        }
    }
    book_thread(began);
    return NULL;
}

/* ---- the end ---- */

/* Waits for calls that the program left in progress, an error of the program. TIMEOUT bounds each
 * of their waits. */
static void drain(void)
{
    double begin = shim_now();
    bool logged = false;

    while (!shim_progress_idle()) {
        if (!shim_progress())
            sleep_for(LOOK_SOON);
        if (!logged && shim_now() - begin > PATIENCE) {
            logged = true;
            shim_say(CFG_DEBUG_WARN,
                     "MPI_Finalize has waited %.0f s for nonblocking calls that the program left "
                     "under way: a rank has not made the same calls",
                     PATIENCE);
        }
    }
}

void shim_progress_end(void)
{
    bool started;

    drain();
    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.stop = true;
    started = shim.watch.started;
    shim.watch.started = false;
    pthread_cond_signal(&shim.watch.called);
    pthread_mutex_unlock(&shim.watch.lock);
    atomic_store(&shim.watch.ending, true);
    if (started)
        pthread_join(shim.watch.thread, NULL);
    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.stop = shim.watch.asleep = false; /* communicators of a session may live on */
    atomic_store(&shim.watch.wanted, true);
    atomic_store(&shim.watch.ending, false);
    pthread_mutex_unlock(&shim.watch.lock);
}
