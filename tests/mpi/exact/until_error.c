/* until_error [COUNT [alone]]: calls until one returns an error. It must be the same call on every
 * rank, later calls must not hang, and a sum is right wherever MPI_SUCCESS was returned. At the end
 * another communicator sums, unless `alone` is given.
 *
 * Run with tests/preload/failing.c preloaded; without it no call fails. Prints "failed at call N".
 */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { CALLS = 6 };

static int handled;

static void count_errors(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    handled++;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 3000, status;
    float *in = input_alloc((size_t)count * sizeof *in);
    float *out = input_alloc((size_t)count * sizeof *out);
    int failed_at = 0, first, last, errors = 0;
    bool sums_right = true, class_right = true;
    MPI_Comm work;
    MPI_Errhandler handler;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    MPI_Comm_create_errhandler(count_errors, &handler);
    PMPI_Comm_dup(MPI_COMM_WORLD, &work);
    MPI_Comm_set_errhandler(work, handler);
    for (int call = 1; call <= CALLS; call++) {
        int code, class;
        input_fill_whole(in, count, (uint64_t)call, tap.rank);
        code = MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, work);
        if (code == MPI_SUCCESS) {
            sums_right = sums_right && input_is_whole_sum(out, count, (uint64_t)call, tap.size);
        } else {
            errors++;
            failed_at = failed_at ? failed_at : call;
            class_right = class_right && MPI_Error_class(code, &class) == MPI_SUCCESS;
        }
    }
    PMPI_Allreduce(&failed_at, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    PMPI_Allreduce(&failed_at, &last, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    tap_ok(sums_right, "every call that succeeded gives the sum");
    tap_ok(last == 0 || (first > 0 && last - first <= 1),
           "a failure reaches every rank in its call or the next");
    tap_ok(errors == 0 || errors == CALLS - failed_at + 1, "every call after it fails too");
    tap_ok(handled == errors, "the communicator's error handler was called once for each");
    tap_ok(class_right, "the codes are codes of the MPI library");
    tap_note("failed at call %d", first);

    if (argc < 3) {
        input_fill_whole(in, count, 77, tap.rank);
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        tap_ok(input_is_whole_sum(out, count, 77, tap.size), "another communicator still sums");
    }
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&work);
    status = tap_end();
    MPI_Finalize();
    free(in);
    free(out);
    return status;
}
