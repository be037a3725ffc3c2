/* nb_lone: calls that make a communicator, and that one rank makes in another way than the others.
 *
 *   nb_lone failed     one rank makes a call that fails first
 *   nb_lone copied     on one rank a copy callback makes the communicator that others make before
 *   nb_lone register   ranks leave different words in the upper half of the handle's register
 *   nb_lone wrapped    communicators are freed, and others get their handles; `nb_lone` runs with a
 *                      profiler that makes a duplicate by MPI_Comm_split
 *   nb_lone named      a communicator gets its name after it was made: a rule names it
 */
#include "tests/mpi/support/tap.h"

#include <string.h>

/* Communicators made in turn: more than are met at creation. */
enum { COUNT = 2000, MADE = 40, WORDS = 2 };

static MPI_Comm inner;

/* Returns true if a nonblocking and a blocking sum are right. */
static bool sums_are_right(MPI_Comm comm)
{
    static float in[COUNT], out[2][COUNT];
    MPI_Request request;
    bool right = true;
    int size;

    MPI_Comm_size(comm, &size);
    for (int i = 0; i < COUNT; i += 50)
        in[i] = (float)(i + 1);
    memset(out, 0xff, sizeof out);
    MPI_Iallreduce(in, out[0], COUNT, MPI_FLOAT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(in, out[1], COUNT, MPI_FLOAT, MPI_SUM, comm);
    for (int i = 0; i < COUNT; i++)
        right = right && out[0][i] == (float)size * in[i] && out[1][i] == (float)size * in[i];
    return right;
}

/* Makes and frees communicators from `from`. Returns true if all sums on them are right. */
static bool made_from(MPI_Comm from)
{
    bool right = true;

    for (int i = 0; i < MADE; i++) {
        MPI_Comm made;

        MPI_Comm_dup(from, &made);
        right = sums_are_right(made) && right;
        MPI_Comm_free(&made);
    }
    return right;
}

static void check_failed(void)
{
    MPI_Comm none = MPI_COMM_NULL;
    int err = MPI_SUCCESS;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (tap.rank == 0)
        err = MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &none);
    tap_ok(tap.rank != 0 || err != MPI_SUCCESS || none == MPI_COMM_NULL, "the call fails");
    tap_ok(made_from(MPI_COMM_WORLD), "sums on later communicators are right");
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    static bool is_inside;

    (void)keyval, (void)extra, (void)in, (void)out;
    *flag = 0;
    if (!is_inside && inner == MPI_COMM_NULL) {
        is_inside = true;
        MPI_Comm_dup(comm, &inner);
    }
    return MPI_SUCCESS;
}

static void check_copied(void)
{
    MPI_Comm base, made;
    int keyval;

    inner = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &base);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    if (tap.rank == 0)
        MPI_Comm_set_attr(base, keyval, NULL);
    else
        MPI_Comm_dup(base, &inner);
    MPI_Comm_dup(base, &made);
    tap_ok(sums_are_right(inner) && sums_are_right(made), "sums on both are right");
    tap_ok(made_from(inner), "sums on communicators made from the inner one are right");
    MPI_Comm_free(&made);
    MPI_Comm_free(&inner);
    MPI_Comm_free(&base);
}

/* A handle of 4 bytes and a number share a register when they are passed by value. */
struct both {
    MPI_Comm comm;
    int number;
};

static __attribute__((noinline)) int dup_of(struct both both, MPI_Comm *made)
{
    return MPI_Comm_dup(both.comm, made);
}

static void check_register(void)
{
    bool right = true;

    for (int i = 0; i < WORDS; i++) {
        MPI_Comm made;

        dup_of((struct both){MPI_COMM_WORLD, tap.rank + i}, &made);
        right = sums_are_right(made) && right;
        MPI_Comm_free(&made);
    }
    tap_ok(right, "sums are right");
}

static void check_wrapped(void)
{
    bool right = made_from(MPI_COMM_WORLD);

    for (int i = 0; i < MADE; i++) {
        MPI_Comm made;
        MPI_Request request;

        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        right = sums_are_right(made) && right;
        MPI_Comm_free(&made);
    }
    tap_ok(right, "sums are right");
}

static void check_named(void)
{
    MPI_Comm made;

    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Comm_set_name(made, "gradients");
    for (int i = 0; i < MADE; i++)
        tap_ok(sums_are_right(made), "sums are right");
    MPI_Comm_free(&made);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*check)(void);
    } checks[] = {{"failed", check_failed},
                  {"copied", check_copied},
                  {"register", check_register},
                  {"wrapped", check_wrapped},
                  {"named", check_named}};
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (argc > 1 && strcmp(argv[1], checks[i].name) == 0)
            checks[i].check();
    int status = tap_end();
    MPI_Finalize();
    return status;
}
