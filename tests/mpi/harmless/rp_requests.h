/* Random programs: operations in flight, and their completion. */
#ifndef TESTS_MPI_RP_REQUESTS_H
#define TESTS_MPI_RP_REQUESTS_H

#include "tests/mpi/harmless/rp.h"

/* Returns a status that MPI has not written. MPI_Testall of MPICH 4.0.2 takes an error that the
 * caller left in a status for that of a request in flight. */
static inline MPI_Status rp_no_status(void)
{
    MPI_Status status;

    memset(&status, 0x11, sizeof status);
    status.MPI_ERROR = MPI_SUCCESS;
    return status;
}

/* Makes room for one more; the caller has posted its request, or is about to. */
static struct rp_pending *rp_keep(struct rp *p, const char *what)
{
    struct rp_pending *kept = &p->pending[p->waiting++];

    *kept = (struct rp_pending){
        .request = MPI_REQUEST_NULL, .step = p->step, .serial = p->serial++, .what = what};
    return kept;
}

static void rp_note_status(struct rp *p, const struct rp_pending *done, MPI_Status *status)
{
    int count = -7, cancelled = -7;

    MPI_Test_cancelled(status, &cancelled);
    if (done->message && !cancelled) {
        MPI_Get_count(status, MPI_BYTE, &count);
        rp_note_at(p, done->step, "%d %s from %d with tag %d of %d bytes", done->serial, done->what,
                   status->MPI_SOURCE, status->MPI_TAG, count);
    } else {
        rp_note_at(p, done->step, "%d %s is complete, cancelled %d", done->serial, done->what,
                   cancelled);
    }
}

/* Removes a complete operation. status: NULL if none was asked for. */
static void rp_finish(struct rp *p, int place, MPI_Status *status)
{
    struct rp_pending *done = &p->pending[place];

    if (status)
        rp_note_status(p, done, status);
    rp_note_at(p, done->step, "%d %s: in %llx out %llx", done->serial, done->what,
               (unsigned long long)rp_contents(done->in, done->in_seen),
               (unsigned long long)rp_contents(done->out, done->out_seen));
    free(done->in);
    free(done->out);
    *done = p->pending[--p->waiting];
}

enum rp_way {
    RP_WAITALL,
    RP_WAITANY,
    RP_WAITSOME,
    RP_TESTALL,
    RP_TESTANY,
    RP_TESTSOME,
    RP_WAIT, /* from here on: ways to complete a single request */
    RP_TEST,
    RP_GET_STATUS,
    RP_TEST_LOOP,
    RP_WAYS
};

/* The result of a completion call. */
struct rp_answer {
    MPI_Status status[RP_PENDING]; /* statuses of the requests in `index` */
    int index[RP_PENDING];
    int done; /* number of entries of `index` */
    bool all; /* all are complete, and their statuses are with the requests */
};

/* Makes completion calls for the first request alone. Returns true if it is complete. */
static bool rp_complete_first(enum rp_way way, MPI_Request *request, MPI_Status *status)
{
    MPI_Status ignored = rp_no_status();
    int flag = 0;

    switch (way) {
    case RP_WAIT:
        return RP(Wait, request, status) == MPI_SUCCESS;
    case RP_GET_STATUS:
        RP(Request_get_status, *request, &flag, &ignored);
        return flag && RP(Wait, request, status) == MPI_SUCCESS;
    case RP_TEST_LOOP:
        while (!flag && RP(Test, request, &flag, status) == MPI_SUCCESS)
            ;
        return flag;
    default:
        RP(Test, request, &flag, status);
        return flag;
    }
}

/* Makes completion calls for n requests. */
static void rp_complete_many(enum rp_way way, int n, MPI_Request *request, MPI_Status *status,
                             struct rp_answer *a)
{
    int flag = 0;

    switch (way) {
    case RP_WAITALL:
        a->all = RP(Waitall, n, request, status) == MPI_SUCCESS;
        break;
    case RP_TESTALL:
        RP(Testall, n, request, &flag, status);
        a->all = flag;
        break;
    case RP_WAITANY:
        RP(Waitany, n, request, a->index, a->status);
        a->done = a->index[0] != MPI_UNDEFINED;
        break;
    case RP_TESTANY:
        RP(Testany, n, request, a->index, &flag, a->status);
        a->done = flag && a->index[0] != MPI_UNDEFINED;
        break;
    case RP_WAITSOME:
        RP(Waitsome, n, request, &a->done, a->index, a->status);
        break;
    default:
        RP(Testsome, n, request, &a->done, a->index, a->status);
        break;
    }
}

/* Makes one completion call for n requests. Marks completed ones in `over`, with their status. */
static void rp_complete(enum rp_way way, int n, MPI_Request *request, MPI_Status *status,
                        bool *over)
{
    struct rp_answer a = {.done = 0};

    for (int i = 0; i < n; i++)
        a.status[i] = status[i] = rp_no_status();
    memset(over, 0, (size_t)n * sizeof *over);
    if (way >= RP_WAIT) {
        over[0] = rp_complete_first(way, request, status);
        return;
    }
    rp_complete_many(way, n, request, status, &a);
    for (int i = 0; i < n && a.all; i++)
        over[i] = true;
    for (int i = 0; a.done != MPI_UNDEFINED && i < a.done; i++) {
        over[a.index[i]] = true;
        status[a.index[i]] = a.status[i];
    }
}

/* Returns requests that the program may wait for: not the generalized ones, which wait for the
 * program. */
static int rp_choose(struct rp *p, bool all, bool persistent, int *chosen, MPI_Request *request)
{
    int n = 0;

    for (int i = p->waiting - 1; i >= 0; i--)
        if (!p->pending[i].general && (persistent || !p->pending[i].persistent) &&
            (all || rp_draw_own(p, 2))) {
            chosen[n] = i; /* descending: rp_finish moves the last into the gap */
            request[n++] = p->pending[i].request;
        }
    return n;
}

/* Waits or tests, as this rank alone draws, for some or all of the operations in flight. */
static void rp_complete_some(struct rp *p, bool all)
{
    MPI_Request request[RP_PENDING];
    MPI_Status status[RP_PENDING];
    int chosen[RP_PENDING], n;
    bool over[RP_PENDING];
    enum rp_way way = all ? RP_WAITALL : (enum rp_way)rp_draw_own(p, RP_WAYS);

    /* MPI_Testall of MPICH 4.0.2 sometimes gives MPI_ERR_IN_STATUS if a persistent collective is
     * among the requests. MPI_Request_get_status of MPICH 5.0.2 ends a persistent receive, so that
     * MPI_Wait returns an empty status. */
    n = rp_choose(p, all, way != RP_TESTALL && way != RP_GET_STATUS, chosen, request);
    if (n == 0)
        return;
    rp_complete(way, n, request, status, over);
    for (int i = 0; i < n; i++) {
        struct rp_pending *at = &p->pending[chosen[i]];

        at->request = request[i];
        if (!over[i])
            continue;
        if (at->persistent)
            RP(Request_free, &at->request);
        if (at->request != MPI_REQUEST_NULL)
            rp_note_at(p, at->step, "%d %s leaves a request", at->serial, at->what);
        rp_finish(p, chosen[i], &status[i]);
    }
}

#endif
