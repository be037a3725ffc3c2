/* churn_threads TIMES: two threads, each of which makes communicators, sums on them and frees them,
 * so that one is given the handle that the other has just freed. The scheduler decides if that
 * happens: they begin again until it has on each rank, at most ROUNDS times. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

#include <pthread.h>

enum { COUNT = 64, CALLS = 3, THREADS = 2, ROUNDS = 20 };

struct worker {
    pthread_t thread;
    MPI_Comm base;
    int number, times;
    int reused; /* handles that the other thread had before */
    bool good;
};

static _Atomic MPI_Comm freed[THREADS];

static bool sums(const struct worker *w, MPI_Comm comm, uint64_t seed)
{
    float in[COUNT], out[COUNT];

    input_fill_whole(in, COUNT, seed, tap.rank);
    return MPI_Allreduce(in, out, COUNT - w->number, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS &&
           input_is_whole_sum(out, COUNT - w->number, seed, tap.size);
}

static void *churn(void *arg)
{
    struct worker *w = arg;

    for (int made = 0; made < w->times; made++) {
        MPI_Comm comm;

        MPI_Comm_dup(w->base, &comm);
        w->reused += comm == freed[!w->number];
        for (int call = 0; call < CALLS; call++)
            w->good = sums(w, comm, (uint64_t)(made * CALLS + call)) && w->good;
        freed[w->number] = comm;
        MPI_Comm_free(&comm);
    }
    return NULL;
}

/* Lets both threads make their communicators. */
static void let_churn(struct worker *w)
{
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&w[i].thread, NULL, churn, &w[i]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(w[i].thread, NULL);
}

/* Succeeds if on each rank a thread was given a handle that the other had before. */
static bool went_over(const struct worker *w)
{
    int here = 0, everywhere;

    for (int i = 0; i < THREADS; i++)
        here = here || w[i].reused > 0;
    PMPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return everywhere != 0;
}

int main(int argc, char **argv)
{
    struct worker w[THREADS];
    int level, status;
    bool over = false;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    tap_begin(MPI_COMM_WORLD);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.number = i, .times = argc > 1 ? atoi(argv[1]) : 300, .good = true};
        MPI_Comm_dup(MPI_COMM_WORLD, &w[i].base);
    }
    for (int round = 0; round < ROUNDS && !over; round++) {
        let_churn(w);
        over = went_over(w);
    }
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&w[i].base);
    tap_ok(w[0].good && w[1].good, "every sum is right");
    tap_ok(true, "handles go from one thread to the other%s", over ? "" : " # SKIP none did");
    status = tap_end();
    MPI_Finalize();
    return status;
}
