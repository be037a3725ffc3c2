/* Serves communicators with partial calls, and logs their results at the end. */
#include "shim/comm/partial_calls.h"

#include <sched.h>

#include "core/base/fpenv.h"
#include "core/partial/rounds.h"
#include "shim/comm/progress.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

/* Seconds to wait for messages in flight. */
#define SETTLING 1.0

/* Asks the MPI library for the level that it gave, which may differ from the level reported
 * to the program. */
void shim_partial_start(void)
{
    int level = MPI_THREAD_SINGLE;

    shim.requests.partial = shim.settings.quorum != SS_QUORUM_ALL && !shim.process.sessions &&
                            shim_real.Query_thread(&level) == MPI_SUCCESS &&
                            level == MPI_THREAD_MULTIPLE;
}

void shim_partial_equip(struct shim_comm *c)
{
    if (atomic_fetch_add(&shim.table.privates, 1) < SHIM_PRIVATES &&
        shim_transport_open(&c->rounds.transport, c->rank, c->size) == SS_OK)
        c->rounds.open = true;
    else
        atomic_fetch_sub(&shim.table.privates, 1);
}

bool shim_partial_unequip(struct shim_rounds *rounds)
{
    rounds->open = false;
    atomic_fetch_sub(&shim.table.privates, 1);
    return shim_transport_close(&rounds->transport);
}

static void warn_off(const struct shim_comm *c)
{
    if (c->rank == 0 && !atomic_exchange(&shim.problems.partial_off_logged, true))
        shim_say(CFG_DEBUG_WARN,
                 "communicator \"%s\": SPARSESHIM_QUORUM is off, every call waits for all ranks: "
                 "not every rank runs at MPI_THREAD_MULTIPLE, without callbacks, and with a "
                 "communicator to spare",
                 c->name);
}

void shim_partial_open(struct shim_comm *c)
{
    if (shim.settings.quorum == SS_QUORUM_ALL)
        return;
    if (c->rounds.comm == MPI_COMM_NULL) {
        if (c->rounds.open)
            shim_partial_unequip(&c->rounds);
        warn_off(c);
        return;
    }
    shim_transport_use(&c->rounds.transport, c->rounds.comm);
    if (ss_comm_open_rounds(c->core, &c->rounds.transport.base) == SS_OK) {
        shim_list_add(SHIM_PARTIAL, c);
        shim_progress_wake();
    }
}

void shim_partial_leave(struct shim_comm *comm)
{
    if (shim_list_remove(SHIM_PARTIAL, comm))
        shim_comm_put_later(comm);
}

static bool serve(struct shim_comm *comm, void *ctx)
{
    bool moved, more = false, *under_way = ctx;

    if (pthread_mutex_trylock(&comm->lock) != 0)
        return false;
    moved = ss_comm_serve(comm->core, &more);
    pthread_mutex_unlock(&comm->lock);
    *under_way = *under_way || more;
    return moved;
}

bool shim_partial_step(bool *under_way)
{
    *under_way = false;
    return shim_list_visit(SHIM_PARTIAL, serve, under_way);
}

/* ---- the end ---- */

static void log_end(const struct shim_comm *c)
{
    uint64_t not_asked_for;
    struct ss_rounds_stats seen = ss_comm_rounds_seen(c->core, &not_asked_for);
    struct ss_fpenv_full saved;

    ss_fpenv_enter_full(&saved);
    if (not_asked_for > 0)
        shim_say(CFG_DEBUG_WARN,
                 "communicator \"%s\": rank %d is at MPI_Finalize and has not made %llu calls "
                 "that other ranks have made: the ranks' numbers of calls are not equal",
                 c->name, c->rank, (unsigned long long)not_asked_for);
    if (seen.sum.rounds > 0)
        shim_say(CFG_DEBUG_INFO,
                 "communicator \"%s\": rank %d took part in %llu of %llu rounds; %llu gradients "
                 "came late, and %llu of them are not sent at all; at most %llu results waited",
                 c->name, c->rank, (unsigned long long)seen.sum.in,
                 (unsigned long long)seen.sum.rounds, (unsigned long long)seen.sum.late,
                 (unsigned long long)seen.pending, (unsigned long long)seen.queued_most);
    ss_fpenv_leave_full(&saved);
}

static bool end(struct shim_comm *comm, void *unused)
{
    (void)unused;
    pthread_mutex_lock(&comm->lock);
    shim_partial_settle(comm);
    log_end(comm);
    ss_comm_pause_rounds(comm->core);
    pthread_mutex_unlock(&comm->lock);
    return true;
}

void shim_partial_end(void)
{
    shim_list_visit(SHIM_PARTIAL, end, NULL);
}

void shim_partial_settle(struct shim_comm *comm)
{
    double begin = shim_now();
    bool under_way;

    while (!ss_comm_rounds_settled(comm->core) && shim_now() - begin < SETTLING) {
        ss_comm_serve(comm->core, &under_way);
        sched_yield();
    }
}
