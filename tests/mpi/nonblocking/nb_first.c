/* nb_first: the first exchange of a program that makes nonblocking calls alone.
 *
 *   nb_first wild       a receive of MPI_ANY_TAG on MPI_COMM_WORLD is pending meanwhile
 *   nb_first attribute  MPI_COMM_WORLD has an attribute with a copy function, which nobody copies
 *   nb_first handler    the handler of a call's error waits for another call
 */
#include "tests/mpi/support/tap.h"

#include <string.h>

enum { COUNT = 2000, CALLS = 12, WORD = 77, WORD_TAG = 5 };

static int copies, errors;
static MPI_Comm second;

/* Makes sums of COUNT floats, of which one in ten is not zero. Returns true if all are right. */
static bool sums_are_right(MPI_Comm comm)
{
    static float in[COUNT], out[COUNT];
    bool right = true;
    int size;

    MPI_Comm_size(comm, &size);
    for (int i = 0; i < COUNT; i += 10)
        in[i] = (float)(i + 1);
    for (int call = 0; call < CALLS; call++) {
        MPI_Request request;

        memset(out, 0xff, sizeof out);
        MPI_Iallreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < COUNT; i++)
            right = right && out[i] == (float)size * in[i];
    }
    return right;
}

static void check_wild(void)
{
    const int word = WORD, next = (tap.rank + 1) % tap.size;
    int got = 0;
    bool right;
    MPI_Request request;
    MPI_Status status;

    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    right = sums_are_right(MPI_COMM_WORLD);
    MPI_Send(&word, 1, MPI_INT, next, WORD_TAG, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    tap_ok(right, "the sums are right");
    tap_ok(got == WORD && status.MPI_TAG == WORD_TAG, "the receive gets the program's message");
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    copies++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void check_attribute(void)
{
    int keyval;

    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &copies);
    tap_ok(sums_are_right(MPI_COMM_WORLD), "the sums are right");
    tap_ok(copies == 0, "the copy function does not run");
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    errors += sums_are_right(second);
}

/* The counts of one call differ between the ranks, which is an error on all of them. */
static void check_handler(void)
{
    static float in[COUNT], out[COUNT];
    MPI_Comm first;
    MPI_Errhandler handler;
    MPI_Request request;
    int code;

    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    sums_are_right(first);
    sums_are_right(second);
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(first, handler);
    MPI_Iallreduce(in, out, COUNT - tap.rank, MPI_FLOAT, MPI_SUM, first, &request);
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    tap_ok(errors == 1, "the handler is called once, and its own sums are right");
    tap_ok(code != MPI_SUCCESS, "MPI_Wait returns the error");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    if (strcmp(what, "wild") == 0)
        check_wild();
    else if (strcmp(what, "attribute") == 0)
        check_attribute();
    else if (strcmp(what, "handler") == 0)
        check_handler();
    int status = tap_end();
    MPI_Finalize();
    return status;
}
