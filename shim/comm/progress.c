/* Active communicators, and the thread that steps them. */
#include "shim/comm/progress.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "core/base/fpenv.h"
#include "shim/comm/quorum.h"
#include "shim/mpi/log.h"

/* The watchdog looks this often whether the application still moves its calls itself, in
 * nanoseconds; after a step of its own that moved something it looks again sooner, since the answer
 * to what it sent may be on its way. */
enum { LOOK_AFTER = 1000000, LOOK_SOON = 50000 };

/* Steps in a row without movement after which a thread of ours goes to sleep, and looks without
 * any call under way after which it waits to be woken. */
enum { IDLE_STEPS = 16, IDLE_LOOKS = 4 };

/* Looks at rounds after which the thread's share of a core is looked at, what it may be, and how
 * much more seldom it looks at most to that end. */
enum { THRIFT_LOOKS = 64 };
#define THRIFT_SHARE 0.02
#define THRIFT_MOST  4.0

/* Of a thread of ours: what the MPI library's progress needs, whatever stack the application gives
 * its own threads (ulimit -s, pthread_setattr_default_np). */
enum { STACK = 1 << 20 };

/* Seconds after which calls under way at the end of the job are worth a warning, and within which
 * a thread of ours is expected to have left the MPI library. */
#define PATIENCE 30.0
#define LEAVING  1.0

static void *watch(void *unused);

/* Signals are for the program's threads. Those of an access to memory are for who makes it: a
 * program may have its buffers protected, and a handler that opens a page once it is written. */
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
    bool listed = comm->listed;

    if (!listed) {
        comm->listed = true;
        shim_list_add(SHIM_ACTIVE, comm);
    }
    if (atomic_load(&shim.watch.wanted))
        shim_progress_wake();
}

/* Under the communicator's lock. Returns whether its reference is the caller's to give back. */
static bool leave(struct shim_comm *comm)
{
    if (!comm->listed || comm->queue || comm->state == SHIM_COMM_MEETING ||
        comm->meeting != MPI_REQUEST_NULL)
        return false;
    comm->listed = false;
    return shim_list_remove(SHIM_ACTIVE, comm);
}

static bool step(struct shim_comm *comm, void *unused)
{
    struct shim_left work = {.wants = NULL};
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
    atomic_fetch_add_explicit(&shim.watch.turns, 1, memory_order_relaxed);
    return shim_list_visit(SHIM_ACTIVE, step, NULL);
}

/* ---- the thread ---- */

bool shim_progress_is_open(void)
{
    return atomic_load(&shim.watch.bars) == 0;
}

static bool others_inside(void)
{
    return atomic_load(&shim.watch.inside) > (shim_ours ? 1 : 0);
}

/* A thread of ours goes into MPI, where it adds up what calls of the program need: in the rounding
 * mode of these. Its traps stay masked, since the handlers are the program's. */
static void go_in(void)
{
    atomic_fetch_add(&shim.watch.inside, 1);
    (void)ss_fpenv_enter();
    if (atomic_load(&shim.watch.own_sums) > 0)
        ss_fpenv_leave(atomic_load(&shim.watch.rounding));
}

/* The program hears of what was raised in there by one of its own threads (shim_task_raise). */
static void come_out(void)
{
    const unsigned raised = ss_fpenv_raised(ss_fpenv_now());

    if (raised)
        atomic_fetch_or(&shim.watch.raised, raised);
    (void)ss_fpenv_enter();
    atomic_fetch_sub(&shim.watch.inside, 1);
}

/* One round in a thread of ours, which is inside of MPI meanwhile. None where MPI might run code of
 * the application's in there. */
static bool turn(void)
{
    bool moved = false;

    go_in();
    if (shim_progress_is_open())
        moved = shim_progress();
    come_out();
    return moved;
}

/* Bounded: the caller may be in a callback of MPI that holds the lock the thread waits for. */
static void wait_outside(void)
{
    double begin = shim_now();

    while (others_inside() && shim_now() - begin < LEAVING)
        sched_yield();
}

void shim_progress_keep_out(void)
{
    atomic_store(&shim.callbacks, true);
    if (!atomic_exchange(&shim.watch.shut, true))
        shim_progress_bar();
}

bool shim_progress_try_bar(void)
{
    atomic_fetch_add(&shim.watch.bars, 1);
    if (!others_inside())
        return true;
    shim_progress_unbar();
    return false;
}

void shim_progress_bar(void)
{
    atomic_fetch_add(&shim.watch.bars, 1);
    wait_outside();
}

void shim_progress_unbar(void)
{
    atomic_fetch_sub(&shim.watch.bars, 1);
}

void shim_progress_round_as(ss_fpenv env)
{
    atomic_store(&shim.watch.rounding, ss_fpenv_rounding(env));
    atomic_fetch_add(&shim.watch.own_sums, 1);
    wait_outside();
}

void shim_progress_round_as_before(void)
{
    atomic_fetch_sub(&shim.watch.own_sums, 1);
}

static void rest(long nanoseconds)
{
    struct timespec t = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};

    nanosleep(&t, NULL);
}

/* Steps until nothing has moved for a while; returns whether anything did. */
static bool burst(void)
{
    bool any = false;

    for (int idle = 0; idle < IDLE_STEPS && !shim_progress_idle();) {
        if (turn()) {
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

/* As turn, for the rounds of partial calls. */
static bool take_part(bool *under_way)
{
    bool moved = false;

    *under_way = false;
    go_in();
    if (shim_progress_is_open())
        moved = shim_quorum_turn(under_way);
    come_out();
    return moved;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t = {0};

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What the thread uses for looking at rounds, every so many looks. */
struct thrift {
    unsigned looks;
    double used, at; /* seconds of a processor, then */
    double stretch;  /* factor on QUORUM_LOOK */
};

/* Where a sleep alone costs as much, it looks more seldom. */
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

/* With partial calls it looks more often, and at what else is under way on these occasions. */
static void look_at_rounds(uint64_t *seen, struct thrift *thrift)
{
    const long seldom = (long)(shim.options.quorum_look * 1e9 * thrift->stretch);
    bool under_way = false, moved = false;
    uint64_t turns;

    for (int i = 0; i < IDLE_STEPS && take_part(&under_way); i++)
        ;
    turns = atomic_load(&shim.watch.turns);
    if (!shim_progress_idle() && (shim.own_thread || turns == *seen))
        moved = burst();
    *seen = atomic_load(&shim.watch.turns);
    rest((under_way || moved) && seldom > LOOK_SOON ? LOOK_SOON : seldom);
    be_thrifty(thrift);
}

static bool called(void)
{
    bool stop;

    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.asleep = true;
    atomic_store(&shim.watch.wanted, true);
    while (!shim.watch.stop && atomic_load(&shim.list_count[SHIM_ACTIVE]) == 0 &&
           atomic_load(&shim.list_count[SHIM_QUORUM]) == 0)
        pthread_cond_wait(&shim.watch.called, &shim.watch.lock);
    shim.watch.asleep = false;
    atomic_store(&shim.watch.wanted, false);
    stop = shim.watch.stop;
    pthread_mutex_unlock(&shim.watch.lock);
    return !stop;
}

/* The thread has nothing more to do. */
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
    ss_fpenv_enter_full(&(struct ss_fpenv_full){0}); /* else it has its creator's */
    pthread_mutex_lock(&shim.watch.lock);
    shim.watch.began = began;
    shim.watch.runs = true;
    pthread_mutex_unlock(&shim.watch.lock);
    while (called()) {
        for (int idle = 0; idle < IDLE_LOOKS && !atomic_load(&shim.watch.ending);) {
            if (!shim_quorum_idle()) {
                look_at_rounds(&seen, &thrift);
            } else if (shim_progress_idle()) {
                idle++;
                rest(shim.own_thread ? LOOK_SOON : LOOK_AFTER);
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

/* What the program left under way, which is its error, may still end; TIMEOUT bounds each of its
 * waits. */
static void drain(void)
{
    double begin = shim_now();
    bool told = false;

    while (!shim_progress_idle()) {
        if (!shim_progress())
            rest(LOOK_SOON);
        if (!told && shim_now() - begin > PATIENCE) {
            told = true;
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
