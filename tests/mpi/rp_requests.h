/* Random programs: what is under way, and how it is completed. */
#ifndef TESTS_MPI_RP_REQUESTS_H
#define TESTS_MPI_RP_REQUESTS_H

#include "tests/mpi/rp.h"

/* A status in which MPI has written nothing yet. MPI_Testall of MPICH 4.0.2 takes an error that the
 * caller left in one for that of a request still under way (seen). */
static inline MPI_Status rp_no_status(void)
{
    MPI_Status status;

    memset(&status, 0x11, sizeof status);
    status.MPI_ERROR = MPI_SUCCESS;
    return status;
}

/* Room for one more; the caller has posted, or is about to post, its request. */
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

/* Takes a complete operation off the list. status: NULL where none was asked for. */
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
    RP_WAIT,
    RP_TEST,
    RP_TESTALL,
    RP_TESTANY,
    RP_TESTSOME,
    RP_GET_STATUS,
    RP_TEST_LOOP,
    RP_WAYS
};

/* One completion call over n requests. Marks in `over` what it completed, with its status, and in
 * `told` whether that status is one that was asked for. */
static void rp_complete(struct rp *p, enum rp_way way, int n, MPI_Request *request,
                        MPI_Status *status, bool *over)
{
    MPI_Status answer[RP_PENDING];
    int index[RP_PENDING], done = 0, flag = 0;

    for (int i = 0; i < n; i++)
        answer[i] = status[i] = rp_no_status();
    memset(over, 0, (size_t)n * sizeof *over);
    switch (way) {
    case RP_WAITALL:
        flag = RP(Waitall, n, request, status) == MPI_SUCCESS;
        break;
    case RP_TESTALL:
        RP(Testall, n, request, &flag, status);
        break;
    case RP_WAITANY:
        RP(Waitany, n, request, index, answer);
        done = index[0] != MPI_UNDEFINED;
        break;
    case RP_TESTANY:
        RP(Testany, n, request, index, &flag, answer);
        done = flag && index[0] != MPI_UNDEFINED;
        flag = 0;
        break;
    case RP_WAITSOME:
        RP(Waitsome, n, request, &done, index, answer);
        break;
    case RP_TESTSOME:
        RP(Testsome, n, request, &done, index, answer);
        break;
    case RP_WAIT:
        over[0] = RP(Wait, &request[0], &status[0]) == MPI_SUCCESS;
        break;
    case RP_GET_STATUS:
        RP(Request_get_status, request[0], &flag, &answer[0]);
        if (flag)
            over[0] = RP(Wait, &request[0], &status[0]) == MPI_SUCCESS;
        flag = 0;
        break;
    case RP_TEST_LOOP:
        while (!flag && RP(Test, &request[0], &flag, &status[0]) == MPI_SUCCESS)
            ;
        over[0] = flag;
        flag = 0;
        break;
    default:
        RP(Test, &request[0], &flag, &status[0]);
        over[0] = flag;
        flag = 0;
        break;
    }
    for (int i = 0; i < n && flag; i++)
        over[i] = true;
    for (int i = 0; done != MPI_UNDEFINED && i < done; i++) {
        over[index[i]] = true;
        status[index[i]] = answer[i];
    }
    (void)p;
}

/* Requests of the program that may be waited for: not the generalized ones, which wait for it. */
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

/* Waits or tests, as this rank alone draws, for some of what is under way, or for all of it. */
static void rp_complete_some(struct rp *p, bool all)
{
    MPI_Request request[RP_PENDING];
    MPI_Status status[RP_PENDING];
    int chosen[RP_PENDING], n;
    bool over[RP_PENDING];
    enum rp_way way = all ? RP_WAITALL : (enum rp_way)rp_draw_own(p, RP_WAYS);

    /* MPI_Testall of MPICH 4.0.2 gives MPI_ERR_IN_STATUS now and then where a persistent collective
     * is among the requests (seen). */
    n = rp_choose(p, all, way != RP_TESTALL, chosen, request);
    if (n == 0)
        return;
    rp_complete(p, way, n, request, status, over);
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
