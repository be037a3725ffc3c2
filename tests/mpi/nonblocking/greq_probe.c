/* greq_probe: what nonblocking calls lean on in the MPI library, with nothing of ours in the
 * process. An extended generalized request (MPIX_Grequest_start) completes under every Wait* and
 * Test*, be it by its own callbacks or by a second thread; callbacks run with no lock of the
 * library held; MPI_Request_get_status, MPI_Cancel and MPI_Request_free do what is known of them.
 *
 * Runs on one rank. Messages go to the rank itself. */
#include "tests/mpi/support/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { STEPS = 3, MANY = 70, TAG = 7, PEER_TAG = 8 };

/* Completer of the request: its callbacks, or another thread once `go` is set. */
enum completer { BY_CALLBACK, BY_THREAD };

struct operation {
    MPI_Request request;
    enum completer completer;
    atomic_int steps;
    atomic_bool complete;
    atomic_bool go;
    int polled, waited, queried, freed, cancelled;
    MPI_Request peer;    /* a receive that the callbacks test */
    bool other_may_call; /* a second thread got through an MPI call while a callback ran */
};

/* A second thread that makes an MPI call whenever it is asked to. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t asked, answered;
    int asks, answers;
    bool stop;
} caller = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, false};
static bool ask_the_other_thread;

static void *call_when_asked(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&caller.lock);
    while (!caller.stop) {
        int flag;

        if (caller.answers == caller.asks) {
            pthread_cond_wait(&caller.asked, &caller.lock);
            continue;
        }
        pthread_mutex_unlock(&caller.lock);
        MPI_Iprobe(0, TAG + 1000, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        pthread_mutex_lock(&caller.lock);
        caller.answers++;
        pthread_cond_broadcast(&caller.answered);
    }
    pthread_mutex_unlock(&caller.lock);
    return NULL;
}

/* Returns when the other thread has made its call; hangs where the library lets it not. */
static void ask(void)
{
    pthread_mutex_lock(&caller.lock);
    caller.asks++;
    pthread_cond_signal(&caller.asked);
    while (caller.answers < caller.asks)
        pthread_cond_wait(&caller.answered, &caller.lock);
    pthread_mutex_unlock(&caller.lock);
}

static void step(struct operation *op)
{
    int flag = 0;

    if (atomic_load(&op->complete))
        return;
    if (ask_the_other_thread) {
        ask();
        op->other_may_call = true;
    }
    if (op->peer != MPI_REQUEST_NULL)
        MPI_Test(&op->peer, &flag, MPI_STATUS_IGNORE);
    if (op->completer == BY_THREAD) {
        atomic_store(&op->go, true);
        return;
    }
    if (atomic_fetch_add(&op->steps, 1) + 1 >= STEPS && op->peer == MPI_REQUEST_NULL) {
        atomic_store(&op->complete, true);
        MPI_Grequest_complete(op->request);
    }
}

static int poll_fn(void *state, MPI_Status *status)
{
    struct operation *op = state;

    (void)status;
    op->polled++;
    step(op);
    return MPI_SUCCESS;
}

static int wait_fn(int count, void **states, double timeout, MPI_Status *status)
{
    (void)timeout;
    (void)status;
    for (int i = 0; i < count; i++) {
        struct operation *op = states[i];

        op->waited++;
        step(op);
    }
    return MPI_SUCCESS;
}

static int query_fn(void *state, MPI_Status *status)
{
    struct operation *op = state;

    op->queried++;
    MPI_Status_set_elements(status, MPI_INT, 5);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 3;
    status->MPI_TAG = 4;
    return MPI_SUCCESS;
}

static int free_fn(void *state)
{
    struct operation *op = state;

    op->freed++;
    return MPI_SUCCESS;
}

static int cancel_fn(void *state, int complete)
{
    struct operation *op = state;

    (void)complete;
    op->cancelled++;
    return MPI_ERR_REQUEST;
}

static void *complete_when_told(void *arg)
{
    struct operation *op = arg;

    while (!atomic_load(&op->go)) {
        int flag;

        MPI_Iprobe(0, TAG + 1000, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
    atomic_store(&op->complete, true);
    MPI_Grequest_complete(op->request);
    return NULL;
}

static void start(struct operation *op, enum completer completer, bool with_peer)
{
    static int received;

    memset(op, 0, sizeof *op);
    op->completer = completer;
    op->peer = MPI_REQUEST_NULL;
    if (with_peer)
        MPI_Irecv(&received, 1, MPI_INT, 0, PEER_TAG, MPI_COMM_SELF, &op->peer);
    if (MPIX_Grequest_start(query_fn, free_fn, cancel_fn, poll_fn, wait_fn, op, &op->request) !=
        MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static const char *const calls[] = {"MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome",
                                    "MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome"};
enum { CALLS = sizeof calls / sizeof *calls };

/* Completes all n requests by one kind of call. Returns the status of the first. */
static MPI_Status complete(int call, int n, MPI_Request *requests)
{
    MPI_Status statuses[2 * MANY], first = {0};
    int indices[2 * MANY], done = 0, index, some, flag = 0;

    switch (call) {
    case 0:
        for (int i = 0; i < n; i++)
            MPI_Wait(&requests[i], &statuses[i]);
        return statuses[0];
    case 1:
        MPI_Waitall(n, requests, statuses);
        return statuses[0];
    case 2:
        for (; done < n; done++) {
            MPI_Waitany(n, requests, &index, &statuses[0]);
            if (index == 0)
                first = statuses[0];
        }
        return first;
    case 4:
        for (; done < n; done++)
            for (flag = 0; !flag;)
                MPI_Test(&requests[done], &flag, &statuses[done]);
        return statuses[0];
    case 5:
        while (!flag)
            MPI_Testall(n, requests, &flag, statuses);
        return statuses[0];
    case 6:
        while (done < n) {
            MPI_Testany(n, requests, &index, &flag, &statuses[0]);
            if (flag && index == 0)
                first = statuses[0];
            done += flag;
        }
        return first;
    default:
        while (done < n) {
            if (call == 3)
                MPI_Waitsome(n, requests, &some, indices, statuses);
            else
                MPI_Testsome(n, requests, &some, indices, statuses);
            for (int i = 0; i < some; i++)
                if (indices[i] == 0)
                    first = statuses[i];
            done += some;
        }
        return first;
    }
}

static bool is_as_queried(const struct operation *op, const MPI_Status *status)
{
    int count = 0, cancelled = 1;

    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    return op->queried > 0 && op->freed == 1 && op->cancelled == 0 && count == 5 && !cancelled &&
           status->MPI_SOURCE == 3 && status->MPI_TAG == 4;
}

static void one_request(enum completer completer, const char *how)
{
    for (int call = 0; call < CALLS; call++) {
        struct operation op;
        pthread_t thread;
        MPI_Request request;
        MPI_Status status;

        start(&op, completer, false);
        request = op.request;
        if (completer == BY_THREAD && pthread_create(&thread, NULL, complete_when_told, &op) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        status = complete(call, 1, &request);
        if (completer == BY_THREAD)
            pthread_join(thread, NULL);
        tap_ok(request == MPI_REQUEST_NULL && is_as_queried(&op, &status),
               "%s completes a request that %s", calls[call], how);
        tap_note("%s: poll_fn %d times, wait_fn %d times, other thread free to call: %s",
                 calls[call], op.polled, op.waited, op.other_may_call ? "yes" : "not asked");
    }
}

/* The operation waits for a message that the program sent before: callbacks must be able to test
 * requests of their own. Point-to-point requests stand among those that are completed. */
static void many_requests(void)
{
    static struct operation ops[MANY];
    static int sent[MANY], received[MANY];

    for (int call = 0; call < CALLS; call++) {
        MPI_Request requests[2 * MANY], send;
        int message = 1, wrong = 0;

        for (int i = 0; i < MANY; i++) {
            start(&ops[i], BY_CALLBACK, i == MANY / 2);
            requests[2 * i] = ops[i].request;
            sent[i] = i;
            received[i] = -1;
            MPI_Irecv(&received[i], 1, MPI_INT, 0, TAG, MPI_COMM_SELF, &requests[2 * i + 1]);
        }
        for (int i = 0; i < MANY; i++)
            MPI_Send(&sent[i], 1, MPI_INT, 0, TAG, MPI_COMM_SELF);
        MPI_Isend(&message, 1, MPI_INT, 0, PEER_TAG, MPI_COMM_SELF, &send);
        complete(call, 2 * MANY, requests);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        for (int i = 0; i < MANY; i++)
            wrong += received[i] != i || ops[i].freed != 1 || ops[i].queried == 0;
        tap_ok(wrong == 0, "%s completes %d requests among as many receives", calls[call], MANY);
    }
}

static void inquiries(void)
{
    struct operation op;
    MPI_Request request;
    MPI_Status status;
    int flag = 0, code, before;

    start(&op, BY_CALLBACK, false);
    request = op.request;
    for (int i = 0; i < 10 * STEPS && !flag; i++)
        MPI_Request_get_status(request, &flag, &status);
    tap_note("MPI_Request_get_status: poll_fn %d times, wait_fn %d times, complete: %d", op.polled,
             op.waited, flag);
    if (flag)
        MPI_Wait(&request, &status), start(&op, BY_CALLBACK, false), request = op.request;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    before = op.cancelled;
    code = MPI_Cancel(&request);
    tap_ok(code != MPI_SUCCESS && op.cancelled == before + 1,
           "MPI_Cancel gives the error of cancel_fn");
    MPI_Wait(&request, &status);
    tap_ok(request == MPI_REQUEST_NULL && op.freed == 1 && op.queried >= 1,
           "and the request completes afterwards");

    start(&op, BY_CALLBACK, false);
    request = op.request;
    while (!atomic_load(&op.complete))
        step(&op);
    MPI_Request_get_status(request, &flag, &status);
    tap_ok(flag && request != MPI_REQUEST_NULL && op.freed == 0 && status.MPI_TAG == 4,
           "MPI_Request_get_status sees a complete request and keeps it");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    tap_ok(request == MPI_REQUEST_NULL && op.freed == 1, "which MPI_Wait then frees");
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int level, status;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    tap_begin(MPI_COMM_WORLD);
    tap_ok(level == MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE is granted");
    if (pthread_create(&thread, NULL, call_when_asked, NULL) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    one_request(BY_CALLBACK, "its callbacks complete");
    one_request(BY_THREAD, "another thread completes");
    many_requests();
    inquiries();
    ask_the_other_thread = true;
    one_request(BY_CALLBACK, "its callbacks complete while another thread calls MPI");
    pthread_mutex_lock(&caller.lock);
    caller.stop = true;
    pthread_cond_signal(&caller.asked);
    pthread_mutex_unlock(&caller.lock);
    pthread_join(thread, NULL);
    status = tap_end();
    MPI_Finalize();
    return status;
}
