/* Several threads reduce at once, each on a communicator of its own (MPI_THREAD_MULTIPLE). */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

#include <pthread.h>

enum { THREADS = 3, CALLS = 8, LONGEST = 4096 };

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    int number;
    int wrong;
};

static void *reduce_repeatedly(void *arg)
{
    struct worker *worker = arg;
    float *in = input_alloc(LONGEST * sizeof *in);
    float *out = input_alloc(LONGEST * sizeof *out);

    for (int call = 0; call < CALLS; call++) {
        int count = LONGEST >> (call + worker->number) % 4;
        uint64_t seed = (uint64_t)(1000 * worker->number + call);
        input_fill_whole(in, count, seed, tap.rank);
        if (call % 2) {
            memcpy(out, in, (size_t)count * sizeof *out);
            MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM, worker->comm);
        } else {
            MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, worker->comm);
        }
        worker->wrong += !input_is_whole_sum(out, count, seed, tap.size);
    }
    free(in);
    free(out);
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS];
    int level, again, status, wrong = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    tap_begin(MPI_COMM_WORLD);
    MPI_Query_thread(&again);
    tap_ok(level == MPI_THREAD_MULTIPLE && again == level, "MPI_THREAD_MULTIPLE is granted");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){.number = i};
            MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
        }
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&workers[i].thread, NULL, reduce_repeatedly, &workers[i]) != 0)
                MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 0; i < THREADS; i++)
            pthread_join(workers[i].thread, NULL);
        for (int i = 0; i < THREADS; i++) {
            wrong += workers[i].wrong;
            MPI_Comm_free(&workers[i].comm);
        }
        tap_ok(wrong == 0, "round %d: %d threads with %d calls each get their sums", round, THREADS,
               CALLS);
    }
    status = tap_end();
    MPI_Finalize();
    return status;
}
