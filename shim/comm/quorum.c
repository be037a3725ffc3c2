/* The list of communicators with partial calls, and what is told at the end. */
#include "shim/comm/quorum.h"

#include <sched.h>

#include "core/base/fpenv.h"
#include "core/quorum/rounds.h"
#include "shim/comm/progress.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

enum { BATCH = 32 };

/* Seconds for messages that are on their way. */
#define SETTLING 1.0

/* MPI_Query_thread of the MPI library: what it gave, not what the program was told. */
void shim_quorum_start(void)
{
    int level = MPI_THREAD_SINGLE;

    shim.serves_quorum = shim.settings.quorum != SS_QUORUM_ALL && !shim.sessions &&
                         shim_real.Query_thread(&level) == MPI_SUCCESS &&
                         level == MPI_THREAD_MULTIPLE;
}

static void enter(struct shim_comm *comm)
{
    pthread_mutex_lock(&shim.table_lock);
    comm->refs++;
    comm->next_quorum = shim.quorums;
    shim.quorums = comm;
    pthread_mutex_unlock(&shim.table_lock);
    atomic_fetch_add(&shim.quorum_count, 1);
    shim_progress_wake();
}

void shim_quorum_equip(struct shim_comm *c)
{
    if (atomic_fetch_add(&shim.privates, 1) < SHIM_PRIVATES &&
        shim_transport_open(&c->rounds, c->rank, c->size) == SS_OK)
        c->rounds_open = true;
    else
        atomic_fetch_sub(&shim.privates, 1);
}

bool shim_quorum_unequip(struct shim_comm *c)
{
    c->rounds_open = false;
    atomic_fetch_sub(&shim.privates, 1);
    return shim_transport_close(&c->rounds);
}

static void tell_no_quorum(const struct shim_comm *c)
{
    if (c->rank == 0 && !atomic_exchange(&shim.quorum_told, true))
        shim_say(CFG_DEBUG_WARN,
                 "communicator \"%s\": SPARSESHIM_QUORUM is off, every call waits for all ranks: "
                 "not every rank runs at MPI_THREAD_MULTIPLE, without callbacks, and with a "
                 "communicator to spare",
                 c->name);
}

void shim_quorum_open(struct shim_comm *c)
{
    if (shim.settings.quorum == SS_QUORUM_ALL)
        return;
    if (c->private_rounds == MPI_COMM_NULL) {
        if (c->rounds_open)
            shim_quorum_unequip(c);
        tell_no_quorum(c);
        return;
    }
    shim_transport_use(&c->rounds, c->private_rounds);
    if (ss_comm_open_rounds(c->core, &c->rounds.base) == SS_OK)
        enter(c);
}

void shim_quorum_leave(struct shim_comm *comm)
{
    struct shim_comm **link;

    pthread_mutex_lock(&shim.table_lock);
    for (link = &shim.quorums; *link && *link != comm; link = &(*link)->next_quorum)
        ;
    bool listed = *link != NULL;
    if (listed)
        *link = comm->next_quorum;
    pthread_mutex_unlock(&shim.table_lock);
    if (!listed)
        return;
    atomic_fetch_sub(&shim.quorum_count, 1);
    shim_comm_put_later(comm);
}

/* References to up to BATCH of them, but for the first `skip`. */
static size_t some(struct shim_comm **list, size_t skip)
{
    size_t n = 0;

    pthread_mutex_lock(&shim.table_lock);
    for (struct shim_comm *c = shim.quorums; c && n < BATCH; c = c->next_quorum) {
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

static bool serve(struct shim_comm *comm, bool *under_way)
{
    bool moved, more = false;

    if (pthread_mutex_trylock(&comm->lock) != 0)
        return false;
    moved = ss_comm_serve(comm->core, &more);
    pthread_mutex_unlock(&comm->lock);
    *under_way = *under_way || more;
    return moved;
}

bool shim_quorum_turn(bool *under_way)
{
    struct shim_comm *list[BATCH];
    bool moved = false;
    size_t n, skip = 0;

    *under_way = false;
    do {
        n = some(list, skip);
        for (size_t i = 0; i < n; i++) {
            moved = serve(list[i], under_way) || moved;
            shim_comm_put(list[i]);
        }
        skip += n;
    } while (n == BATCH);
    return moved;
}

/* ---- the end ---- */

static void tell_end(const struct shim_comm *c)
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
    if (seen.rounds > 0)
        shim_say(CFG_DEBUG_INFO,
                 "communicator \"%s\": rank %d was in %llu of %llu rounds; %llu gradients came "
                 "late, of %llu of them nothing has been sent; at most %llu results waited",
                 c->name, c->rank, (unsigned long long)seen.in, (unsigned long long)seen.rounds,
                 (unsigned long long)seen.late, (unsigned long long)seen.pending,
                 (unsigned long long)seen.queued_most);
    ss_fpenv_leave_full(&saved);
}

void shim_quorum_end(void)
{
    struct shim_comm *list[BATCH];
    size_t n, skip = 0;

    do {
        n = some(list, skip);
        for (size_t i = 0; i < n; i++) {
            pthread_mutex_lock(&list[i]->lock);
            shim_quorum_settle(list[i]);
            tell_end(list[i]);
            ss_comm_pause_rounds(list[i]->core);
            pthread_mutex_unlock(&list[i]->lock);
            shim_comm_put(list[i]);
        }
        skip += n;
    } while (n == BATCH);
}

void shim_quorum_settle(struct shim_comm *comm)
{
    double begin = shim_now();
    bool under_way;

    while (!ss_comm_rounds_settled(comm->core) && shim_now() - begin < SETTLING) {
        ss_comm_serve(comm->core, &under_way);
        sched_yield();
    }
}
