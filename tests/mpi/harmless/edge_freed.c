/* Callbacks of a communicator that is freed (tests/t/harmless.t). */
#include "tests/mpi/harmless/edge.h"

static int sums_on_it(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)keyval, (void)value, (void)extra;
    edge_say("callback: sums %s", edge_yes(edge_sums(comm, 2, 5)));
    return MPI_SUCCESS;
}

static int failures;

static int fails_once(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    return failures++ ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static void when_freed(MPI_Comm comm, MPI_Comm_delete_attr_function *function)
{
    int keyval;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, function, &keyval, NULL);
    MPI_Comm_set_attr(comm, keyval, NULL);
    MPI_Comm_free_keyval(&keyval);
}

/* Set before the first call on the communicator on one rank alone, on all, behind it. */
static void ended_with_sums(int (*end)(MPI_Comm *))
{
    for (int i = 0; i < 3; i++) {
        bool before = i == 1 || (i == 0 && edge.rank == 0);
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (before)
            when_freed(comm, sums_on_it);
        edge_both("freed soon", comm);
        if (!before)
            when_freed(comm, sums_on_it);
        end(&comm);
        edge_say("null %s", edge_yes(comm == MPI_COMM_NULL));
    }
}

static void freed_with_sums(void)
{
    ended_with_sums(MPI_Comm_free);
}

static void disconnected_with_sums(void)
{
    ended_with_sums(MPI_Comm_disconnect);
}

/* The callback makes the first calls; the next communicator may get the handle. */
static void freed_with_first_sums(void)
{
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    when_freed(comm, sums_on_it);
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, edge.rank == 0, edge.rank, &comm);
    edge_both("the next", comm);
    MPI_Comm_free(&comm);
}

/* A gather below MIN_COUNT, with a list as long as the communicator. */
static void small_gather(MPI_Comm comm)
{
    int size, rank, counts[16], displs[16], in = 7, out[16] = {0};

    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < size && i < 16; i++)
        counts[i] = 1, displs[i] = i;
    MPI_Allgatherv(&in, 1, MPI_INT, out, counts, displs, MPI_INT, comm);
    edge_say("small gather %s", edge_yes(out[0] == 7 && out[size - 1] == 7));
}

static int gathers_on_it(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)keyval, (void)value, (void)extra;
    small_gather(comm);
    return MPI_SUCCESS;
}

/* Frees communicators with small gathers in callbacks; the next communicator with the handle is
 * smaller. */
static void freed_with_gathers(void)
{
    MPI_Comm comm;

    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        when_freed(comm, gathers_on_it);
        if (i > 0)
            small_gather(comm);
        MPI_Comm_free(&comm);
        MPI_Comm_split(MPI_COMM_WORLD, edge.rank == 0, edge.rank, &comm);
        small_gather(comm);
        MPI_Comm_free(&comm);
    }
}

/* Lets a single rank free a small communicator whose callback gathers on it. A larger communicator
 * that all ranks make afterwards may have the handle there. */
static void freed_alone(void)
{
    MPI_Comm alone, next;
    float *all = input_alloc(sizeof(float) * (size_t)edge.count * (size_t)edge.size);

    if (edge.rank == 0) {
        MPI_Comm_dup(MPI_COMM_SELF, &alone);
        when_freed(alone, gathers_on_it);
        MPI_Comm_free(&alone);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &next);
    for (int i = 0; i < 4; i++) {
        int n = edge.count * 3 / 4; /* too few for one rank, enough for two */
        edge_fill(next, edge.in, 6);
        MPI_Allgather(edge.in, n, MPI_FLOAT, all, n, MPI_FLOAT, next);
    }
    edge_say("gathered %s",
             edge_yes(memcmp(all + edge.rank * (edge.count * 3 / 4), edge.in, 4000) == 0));
    MPI_Comm_free(&next);
    free(all);
}

/* A communicator that lives on since a callback has failed, set before its first call, behind it,
 * or with small calls alone. */
static void free_fails(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; i++) {
        MPI_Comm comm;

        failures = 0;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (i == 0)
            when_freed(comm, fails_once);
        small_gather(comm);
        if (i < 2)
            edge_both("freed soon", comm);
        if (i > 0)
            when_freed(comm, fails_once);
        edge_say("freed %s", edge_yes(MPI_Comm_free(&comm) == MPI_SUCCESS));
        if (comm == MPI_COMM_NULL)
            continue;
        small_gather(comm);
        edge_both("lives on", comm);
        edge_say("freed %s", edge_yes(MPI_Comm_free(&comm) == MPI_SUCCESS));
    }
}

static const struct edge_case cases[] = {
    {"freed", EDGE_INIT, freed_with_sums},
    {"disconnected", EDGE_INIT, disconnected_with_sums},
    {"freed-gathers", EDGE_INIT, freed_with_gathers},
    {"freed-alone", EDGE_INIT, freed_alone},
    {"freed-first", EDGE_INIT, freed_with_first_sums},
    {"free-fails", EDGE_INIT, free_fails},
};

EDGE_MAIN(cases)
