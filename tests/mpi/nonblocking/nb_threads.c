/* nb_threads [--rounds N]: threads of an MPI_THREAD_MULTIPLE program post, reduce and wait at once,
 * each on a communicator of its own; requests of one thread are waited for by another.
 */
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

#include <pthread.h>

enum { THREADS = 4, CALLS = 6, LIMIT = 60, LONGEST = 3000 };

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    int number, round;
    bool right;
    struct nb_call call[CALLS]; /* of a thread that only posts */
};

static struct nb_call make(const struct worker *w, int i)
{
    static const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT};
    uint64_t seed = (uint64_t)(10000 * w->round + 100 * w->number + i);

    return nb_make(w->comm, types[(i + w->number) % 3], LONGEST >> (i + w->number) % 3,
                   (enum nb_input)((i + w->round) % NB_INPUTS), i % 2, seed);
}

/* Calls in flight, blocking ones between them, completed in another order than posted. */
static void *all_kinds(void *arg)
{
    struct worker *w = arg;
    struct nb_call pending[CALLS];
    MPI_Request request[CALLS];
    int flag = 0;

    w->right = true;
    for (int i = 0; i < CALLS; i++) {
        struct nb_call blocking;

        pending[i] = make(w, i);
        nb_post(&pending[i], w->comm);
        request[i] = pending[i].request;
        if (i % 3 == w->number % 3) {
            blocking = make(w, 50 + i);
            nb_reduce(&blocking, w->comm);
            w->right = nb_finish(&blocking, "blocking call of a thread") && w->right;
        }
    }
    while (!flag)
        MPI_Test(&request[CALLS - 1], &flag, MPI_STATUS_IGNORE);
    MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    nb_wait_all(CALLS, request);
    for (int i = 0; i < CALLS; i++) {
        pending[i].request = request[i];
        w->right = nb_finish(&pending[i], "call of a thread") && w->right;
    }
    return NULL;
}

static void *post_only(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < CALLS; i++) {
        w->call[i] = make(w, i);
        nb_post(&w->call[i], w->comm);
    }
    return NULL;
}

static void *blocking_only(void *arg)
{
    struct worker *w = arg;

    w->right = true;
    for (int i = 0; i < 2 * CALLS; i++) {
        struct nb_call call = make(w, i);
        nb_reduce(&call, w->comm);
        w->right = nb_finish(&call, "thread of blocking calls") && w->right;
    }
    return NULL;
}

static void start(struct worker *w, void *(*run)(void *), int number, int round)
{
    w->number = number;
    w->round = round;
    if (pthread_create(&w->thread, NULL, run, w) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void each_thread_on_its_communicator(struct worker *worker, int rounds)
{
    bool good = true;

    for (int round = 0; round < rounds; round++) {
        nb_within(LIMIT, "threads, each on its communicator, round %d", round);
        for (int t = 0; t < THREADS; t++)
            start(&worker[t], all_kinds, t, round);
        for (int t = 0; t < THREADS; t++) {
            pthread_join(worker[t].thread, NULL);
            good = good && worker[t].right;
        }
    }
    tap_ok(good, "%d threads, each on its communicator, blocking and nonblocking, %d rounds",
           THREADS, rounds);
}

/* Calls in program order on one communicator by one thread, another communicator busy in another;
 * the main thread waits for what the first has posted. */
static void several_on_one_communicator(struct worker *worker, int rounds)
{
    bool good = true;

    for (int round = 0; round < rounds; round++) {
        struct worker *poster = &worker[0], *busy = &worker[1];
        int left = CALLS;

        nb_within(LIMIT, "several on one communicator, round %d", round);
        start(busy, blocking_only, 11, round);
        start(poster, post_only, 10, round);
        pthread_join(poster->thread, NULL);
        while (left-- > 0) {
            struct nb_call *call = &poster->call[tap.rank % 2 ? left : CALLS - 1 - left];
            MPI_Wait(&call->request, MPI_STATUS_IGNORE);
            good = nb_finish(call, "posted by another thread") && good;
        }
        pthread_join(busy->thread, NULL);
        good = good && busy->right;
    }
    tap_ok(good, "%d calls on one communicator while another thread is busy on another, %d rounds",
           CALLS, rounds);
}

/* A thread sits in MPI_Recv until the main thread of the same rank has its sum. */
static void *sit_in_recv(void *arg)
{
    struct worker *w = arg;
    int token = -1;

    MPI_Recv(&token, 1, MPI_INT, tap.rank, 9, w->comm, MPI_STATUS_IGNORE);
    w->right = token == w->round;
    return NULL;
}

static void a_thread_sits_in_recv(struct worker *worker, int rounds)
{
    bool good = true;

    for (int round = 0; round < rounds; round++) {
        struct nb_call call;

        nb_within(LIMIT, "a thread in MPI_Recv, round %d", round);
        start(&worker[2], sit_in_recv, 20, round);
        worker[0].number = 21;
        worker[0].round = round;
        call = make(&worker[0], 0);
        nb_post(&call, worker[0].comm);
        MPI_Wait(&call.request, MPI_STATUS_IGNORE);
        good = nb_finish(&call, "beside a thread in Recv") && good;
        MPI_Send(&round, 1, MPI_INT, tap.rank, 9, worker[2].comm);
        pthread_join(worker[2].thread, NULL);
        good = good && worker[2].right;
    }
    tap_ok(good, "a thread sits in MPI_Recv until the sum is there, %d rounds", rounds);
}

int main(int argc, char **argv)
{
    struct worker worker[THREADS];
    int level, again, status, rounds;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    tap_begin(MPI_COMM_WORLD);
    rounds = (int)nb_option(argc, argv, "--rounds", 4);
    MPI_Query_thread(&again);
    tap_ok(level == MPI_THREAD_MULTIPLE && again == level, "MPI_THREAD_MULTIPLE is granted");
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &worker[t].comm);
    each_thread_on_its_communicator(worker, rounds);
    several_on_one_communicator(worker, rounds);
    a_thread_sits_in_recv(worker, rounds);
    nb_within(LIMIT, "MPI_Finalize");
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_free(&worker[t].comm);
    status = tap_end();
    MPI_Finalize();
    return status;
}
