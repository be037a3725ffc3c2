/* costs: the network is measured once for a group of ranks, also where communicators over several
 * groups take turns. Measuring takes messages, so a communicator over known ranks sends fewer.
 *
 * Run with tests/preload/failing.c preloaded, which counts them. */
#include <dlfcn.h>

#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 1024 };

typedef long failing_sends_function(void);

static failing_sends_function *failing_sends;

/* Messages sent for the first two eligible calls on a new communicator over the same ranks. */
static long messages_on(MPI_Comm group)
{
    static float in[COUNT], out[COUNT];
    long before = failing_sends();
    int rank, size;
    MPI_Comm comm;

    PMPI_Comm_dup(group, &comm);
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    for (uint64_t call = 0; call < 2; call++) {
        input_fill_whole(in, COUNT, call, rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm);
        if (!input_is_whole_sum(out, COUNT, call, size))
            return -1;
    }
    MPI_Comm_free(&comm);
    return failing_sends() - before;
}

int main(int argc, char **argv)
{
    MPI_Comm groups[3];
    long first[3];
    int status;

    *(void **)&failing_sends = dlsym(RTLD_DEFAULT, "failing_sends");
    if (!failing_sends) {
        fputs("costs: tests/preload/failing.c is not preloaded\n", stderr);
        return 1;
    }
    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    groups[0] = MPI_COMM_WORLD;
    PMPI_Comm_split(MPI_COMM_WORLD, tap.rank % 2, tap.rank, &groups[1]);
    PMPI_Comm_split(MPI_COMM_WORLD, 0, -tap.rank, &groups[2]); /* the same ranks, turned round */
    for (int g = 0; g < 3; g++)
        first[g] = messages_on(groups[g]);
    tap_note("messages of rank 0 at first: %ld, %ld, %ld", first[0], first[1], first[2]);
    for (int turn = 0; turn < 3; turn++)
        for (int g = 0; g < 3; g++) {
            long now = messages_on(groups[g]);

            tap_ok(now >= 0 && first[g] >= 0, "sums are right, group %d, turn %d", g, turn);
            tap_ok(now < first[g == 2 ? 0 : g], "nothing is measured again, group %d, turn %d", g,
                   turn);
        }
    MPI_Comm_free(&groups[1]);
    MPI_Comm_free(&groups[2]);
    status = tap_end();
    MPI_Finalize();
    return status;
}
