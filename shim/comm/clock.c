/* Measures clock offsets by Cristian's algorithm (Probabilistic clock synchronization, Distributed
 * Computing 3, 1989). A rank asks another for its time, which is taken for the time halfway between
 * question and answer. The fastest of several tries counts, and half its duration is the
 * uncertainty. Ranks ask along a binomial tree, so that the duration is log2 P times that of two
 * ranks. */
#include "shim/comm/clock.h"

#include <pthread.h>
#include <sched.h>

#include "core/base/fpenv.h"
#include "shim/mpi/real.h"

enum { TRIES = 40, YIELD_AFTER = 64 };

/* Seconds to wait for a message, and at the end for the last rank. The clock of a rank that does
 * not answer stays unknown. */
#define PATIENCE        5.0
#define PATIENCE_AT_END 30.0

/* Difference of a rank's clock from the first rank's: rank's time + offset = first rank's time. */
struct apart {
    double offset, uncertainty; /* seconds; uncertainty < 0: unknown */
};

static bool ended(MPI_Request *request, double patience)
{
    double until = shim_now() + patience;
    int done = 0;

    for (unsigned round = 1; !done; round++) {
        if (shim_real.Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (done || round % YIELD_AFTER != 0)
            continue;
        if (shim_now() > until)
            break;
        sched_yield();
    }
    return done;
}

static bool ended_message(MPI_Request *request)
{
    bool done = ended(request, PATIENCE);

    if (!done) {
        shim_real.Cancel(request);
        shim_real.Request_free(request);
    }
    return done;
}

static bool tell(const struct shim_comm *c, int rank, const double *words)
{
    MPI_Request request = 0;

    return shim_real.Isend(words, 2, MPI_DOUBLE, rank, SHIM_TAG_CLOCK, c->private, &request) ==
               MPI_SUCCESS &&
           ended_message(&request);
}

static bool hear(const struct shim_comm *c, int rank, double *words)
{
    MPI_Request request = 0;

    return shim_real.Irecv(words, 2, MPI_DOUBLE, rank, SHIM_TAG_CLOCK, c->private, &request) ==
               MPI_SUCCESS &&
           ended_message(&request);
}

/* Measures the clock of a rank further out on the tree, and sends it the result. */
static bool ask(const struct shim_comm *c, int rank, struct apart own)
{
    double words[2] = {0, 0}, offset = 0, shortest = -1;

    for (int i = 0; i < TRIES; i++) {
        double asked = shim_now();
        if (!tell(c, rank, words) || !hear(c, rank, words))
            return false;
        double answered = shim_now(), way = (answered - asked) / 2;
        if (shortest < 0 || way < shortest) {
            shortest = way;
            offset = asked + way - words[0];
        }
    }
    words[0] = own.offset + offset;
    words[1] = own.uncertainty < 0 ? -1 : own.uncertainty + shortest;
    return tell(c, rank, words);
}

static bool answer(const struct shim_comm *c, int rank, struct apart *own)
{
    double words[2] = {0, 0};

    for (int i = 0; i < TRIES; i++) {
        if (!hear(c, rank, words))
            return false;
        words[0] = shim_now();
        if (!tell(c, rank, words))
            return false;
    }
    if (!hear(c, rank, words))
        return false;
    *own = (struct apart){words[0], words[1]};
    return true;
}

/* Records a sample. Only one sample comes from first exchanges; the last entry is for the end. */
static void keep(struct apart own, int most)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    int samples = atomic_load(&shim.clock.samples);
    if (own.uncertainty >= 0 && samples < most) {
        shim.clock.sample[samples] =
            (struct shim_clock_sample){shim_now(), own.offset, own.uncertainty};
        atomic_store(&shim.clock.samples, samples + 1);
    }
    pthread_mutex_unlock(&lock);
}

/* Takes part in a measurement. Rank r is asked by the rank without r's lowest bit, and asks the
 * ranks that have one bit more below it. At most `most` samples are kept. */
static void measure(const struct shim_comm *c, int most)
{
    struct apart own = {0, 0};
    int low = 1;

    while (low < c->size && (c->rank & low) == 0)
        low *= 2;
    if (c->rank > 0 && !answer(c, c->rank & (c->rank - 1), &own))
        own.uncertainty = -1;
    for (int next = low / 2; next > 0; next /= 2)
        if (c->rank + next < c->size)
            ask(c, c->rank + next, own);
    keep(own, most);
}

bool shim_clock_is_wanted(void)
{
    return shim.options.trace && *shim.options.trace;
}

/* Returns true if the communicator's first rank has the clock of all traces: rank 0 of the world,
 * or, in sessions, of the first communicator. All ranks get the same result. */
static bool has_the_clock(const struct shim_comm *c)
{
    int first = 0, found = MPI_UNDEFINED;
    MPI_Group world = 0;

    if (shim.process.sessions)
        return !atomic_exchange(&shim.clock.tried, true);
    if (shim_real.Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return false;
    if (shim_real.Group_translate_ranks(c->group, 1, &first, world, &found) != MPI_SUCCESS)
        found = MPI_UNDEFINED;
    shim_real.Group_free(&world);
    return found == 0;
}

/* All ranks decide alike, whichever communicator is their first. */
void shim_clock_measure(const struct shim_comm *c)
{
    if (!c->first.agreed[SHIM_EXCHANGE_TRACE] || c->size != shim.process.ranks ||
        !c->first.within_world || !has_the_clock(c))
        return;
    measure(c, 1);
    shim.hooks.clock_known(); /* also for a job that is killed later */
}

void shim_clock_measure_again(void)
{
    struct ss_fpenv_full saved;
    struct shim_comm *c;
    MPI_Request request = 0;

    if (!shim_clock_is_wanted())
        return;
    c = shim_comm_get((uintptr_t)MPI_COMM_WORLD);

    ss_fpenv_enter_full(&saved);
    if (c && c->state == SHIM_COMM_SERVED && c->first.agreed[SHIM_EXCHANGE_TRACE] &&
        shim_real.Ibarrier(c->private, &request) == MPI_SUCCESS && ended(&request, PATIENCE_AT_END))
        measure(c, SHIM_CLOCK_SAMPLES);
    ss_fpenv_leave_full(&saved);
    if (c)
        shim_comm_put(c);
}
