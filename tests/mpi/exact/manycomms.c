/* manycomms WANTED: as many communicators alive at once as the MPI library grants, up to WANTED,
 * each used for two eligible calls, then for one more; then freed, and another one used. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 64, CALLS = 2 };

static bool calls_give_sums(MPI_Comm comm, uint64_t seed, int calls)
{
    float in[COUNT], out[COUNT];
    bool good = true;
    for (int call = 0; call < calls; call++) {
        input_fill_whole(in, COUNT, seed, tap.rank);
        good = MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS &&
               input_is_whole_sum(out, COUNT, seed, tap.size) && good;
    }
    return good;
}

int main(int argc, char **argv)
{
    int wanted = argc > 1 ? atoi(argv[1]) : 2100, made = 0, status;
    MPI_Comm *comms = input_alloc((size_t)wanted * sizeof(MPI_Comm)), late;
    bool good = true;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (made < wanted && MPI_Comm_dup(MPI_COMM_WORLD, &comms[made]) == MPI_SUCCESS)
        made++;
    tap_note("%d of %d communicators were granted", made, wanted);
    tap_ok(made > 1000, "more than a thousand communicators are alive");
    for (int i = 0; i < made; i++)
        good = calls_give_sums(comms[i], (uint64_t)i, CALLS) && good;
    tap_ok(good, "%d calls on each give the sum", CALLS);
    good = true;
    for (int i = 0; i < made; i++)
        good = calls_give_sums(comms[made - 1 - i], (uint64_t)i, 1) && good;
    tap_ok(good, "one more on each, last made first, gives the sum");
    for (int i = 0; i < made; i++)
        MPI_Comm_free(&comms[i]);
    good = MPI_Comm_dup(MPI_COMM_WORLD, &late) == MPI_SUCCESS && calls_give_sums(late, 99, CALLS);
    tap_ok(good, "a communicator made after all were freed gives the sum");
    if (good)
        MPI_Comm_free(&late);
    free(comms);
    status = tap_end();
    MPI_Finalize();
    return status;
}
