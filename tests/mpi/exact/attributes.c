/* attributes [one]: attributes whose copy callbacks count, fail everywhere, or fail on one rank. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 2000, CALLS = 4 };

static float in[COUNT], out[COUNT];
static int copies, deletions, handled;
static bool fail_here;

static int copy_callback(MPI_Comm comm, int keyval, void *extra, void *value, void *copied,
                         int *flag)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    copies++;
    if (fail_here)
        return MPI_ERR_OTHER;
    *(void **)copied = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_callback(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    deletions++;
    return MPI_SUCCESS;
}

static void count_errors(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    handled++;
}

static void sums_are_right(const char *name, bool fail, int keyval, MPI_Errhandler handler)
{
    MPI_Comm comm;
    bool good = true;
    int returned = MPI_SUCCESS;

    copies = deletions = handled = 0;
    fail_here = fail;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_set_attr(comm, keyval, &copies);
    for (int call = 0; call < CALLS; call++) {
        input_fill_whole(in, COUNT, 11, tap.rank);
        memset(out, 0x55, sizeof out);
        int code = MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm);
        returned = code ? code : returned;
        good = good && input_is_whole_sum(out, COUNT, 11, tap.size);
    }
    tap_ok(good && returned == MPI_SUCCESS, "%s: %d sums are right", name, CALLS);
    tap_ok(handled == 0, "%s: the application's error handler is not called", name);
    MPI_Comm_free(&comm);
    tap_ok(deletions >= 1 && copies <= 1, "%s: copied at most once, deleted with its communicator",
           name);
    tap_note("%s: %d copies, %d deletions on rank 0", name, copies, deletions);
    fail_here = false;
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    int keyval, status;
    bool one = argc > 1;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    MPI_Comm_create_errhandler(count_errors, &handler);
    MPI_Comm_create_keyval(copy_callback, delete_callback, &keyval, NULL);
    sums_are_right("a copy callback that counts", false, keyval, handler);
    sums_are_right("a copy callback that fails on every rank", true, keyval, handler);
    if (one)
        sums_are_right("a copy callback that fails on the last rank", tap.rank == tap.size - 1,
                       keyval, MPI_ERRORS_ARE_FATAL);
    sums_are_right("a copy callback that counts again", false, keyval, handler);
    MPI_Comm_free_keyval(&keyval);
    MPI_Errhandler_free(&handler);
    status = tap_end();
    MPI_Finalize();
    return status;
}
