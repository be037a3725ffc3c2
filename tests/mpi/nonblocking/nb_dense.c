/* nb_dense [--times N] [--late MS]: operations whose ranks come late, in different orders, or
 * for the first time on a communicator. With dense inputs, for which the vote says dense, each has
 * a dense leg, and legs of one size must not be mistaken for each other.
 */
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 3000, LIMIT = 60, COMMS = 12, MOST_WARM = 3 };

static uint64_t seed = 1;
static int times;

static struct nb_call make(MPI_Comm comm, enum nb_input input)
{
    seed++;
    return nb_make(comm, MPI_FLOAT, COUNT, input, seed % 2, seed);
}

/* Posts, waits for and checks calls on comm: the first of all is its first contact. */
static bool warm_up(MPI_Comm comm, int calls)
{
    bool good = true;

    for (int i = 0; i < calls; i++) {
        struct nb_call call = make(comm, i % 2 ? NB_SPARSE : NB_DENSE);
        nb_post(&call, comm);
        MPI_Wait(&call.request, MPI_STATUS_IGNORE);
        good = nb_finish(&call, "warm-up") && good;
    }
    return good;
}

/* Two calls, of which two ranks delay different ones: what arrives first differs from rank to rank.
 */
static void two_in_flight(MPI_Comm a, MPI_Comm b, bool opposite, const char *where)
{
    bool good = true;

    nb_within(LIMIT, "two dense calls in flight, %s", where);
    for (int i = 0; i < times; i++) {
        struct nb_call first = make(a, NB_DENSE), second = make(b, NB_DENSE);
        bool swapped = opposite && tap.rank % 2;
        /* Late with both, late with the second, never late; who is which changes. */
        int role = (tap.rank + i) % 3;

        if (role == 0)
            nb_user_code(0.004);
        if (swapped)
            nb_post(&second, b);
        else
            nb_post(&first, a);
        if (role == 1)
            nb_user_code(0.004);
        if (swapped)
            nb_post(&first, a);
        else
            nb_post(&second, b);
        if (i % 2) {
            MPI_Wait(&second.request, MPI_STATUS_IGNORE);
            MPI_Wait(&first.request, MPI_STATUS_IGNORE);
        } else {
            MPI_Wait(&first.request, MPI_STATUS_IGNORE);
            MPI_Wait(&second.request, MPI_STATUS_IGNORE);
        }
        good = nb_finish(&first, where) && good;
        good = nb_finish(&second, where) && good;
    }
    tap_ok(good, "two dense calls of one size in flight, %s", where);
}

/* Dense and sparse ones in flight together: the dense legs skip those that were planned sparse. */
static void mixed_in_flight(MPI_Comm comm)
{
    enum { CALLS = 9 };
    bool good = true;

    nb_within(LIMIT, "dense and sparse calls in flight");
    for (int i = 0; i < times; i++) {
        struct nb_call call[CALLS];
        for (int c = 0; c < CALLS; c++) {
            call[c] = make(comm, (enum nb_input)(input_word(7, i, (uint64_t)c) % NB_INPUTS));
            nb_post(&call[c], comm);
            if ((tap.rank + c + i) % 5 == 0)
                nb_user_code(0.001);
        }
        for (int c = 0; c < CALLS; c++) {
            int which = tap.rank % 2 ? CALLS - 1 - c : c;
            MPI_Wait(&call[which].request, MPI_STATUS_IGNORE);
            good = nb_finish(&call[which], "dense and sparse") && good;
        }
    }
    tap_ok(good, "dense and sparse calls of one size in flight on one communicator");
}

/* The first call of a communicator returns though rank 0 is held up until it has been posted. */
static void first_contact_while_a_peer_is_blocked(int warm)
{
    bool good = true;

    nb_within(LIMIT, "a peer is blocked elsewhere, %d calls before", warm);
    for (int i = 0; i < times; i++) {
        MPI_Comm comm, other;
        struct nb_call call[3];
        int token = 0;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
        good = warm_up(comm, warm) && good;
        for (int c = 0; c < 3; c++)
            call[c] = make(comm, i % 2 ? NB_SPARSE : NB_DENSE);

        if (tap.rank == 0) { /* in Recv of what is sent after the peer's Iallreduce */
            MPI_Recv(&token, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            nb_post(&call[0], comm);
        } else {
            nb_post(&call[0], comm);
            if (tap.rank == 1)
                MPI_Send(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        }
        if (tap.rank == 0) /* in Barrier of another communicator */
            MPI_Barrier(other);
        nb_post(&call[1], comm);
        if (tap.rank != 0)
            MPI_Barrier(other);
        nb_post(&call[2], comm);
        if (tap.rank == 0) /* in Recv of what is sent when the peer has the sums */
            MPI_Recv(&token, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int c = 0; c < 3; c++)
            MPI_Wait(&call[c].request, MPI_STATUS_IGNORE);
        if (tap.rank == 1)
            MPI_Send(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        for (int c = 0; c < 3; c++)
            good = nb_finish(&call[c], "a peer is blocked") && good;
        MPI_Comm_free(&comm);
        MPI_Comm_free(&other);
    }
    tap_ok(good, "after %d calls on it, calls on a communicator while a peer is blocked elsewhere",
           warm);
}

static void communicators_are_freed_before_the_wait(int warm)
{
    bool good = true;

    nb_within(LIMIT, "Iallreduce; Comm_free; Wait, %d calls before", warm);
    for (int i = 0; i < times; i++) {
        MPI_Comm comm;
        struct nb_call call[2];

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        good = warm_up(comm, warm) && good;
        for (int c = 0; c < 2; c++) {
            call[c] = make(comm, (enum nb_input)((i + c) % NB_INPUTS));
            nb_post(&call[c], comm);
        }
        MPI_Comm_free(&comm);
        for (int c = 0; c < 2; c++) {
            MPI_Wait(&call[(c + i) % 2].request, MPI_STATUS_IGNORE);
            good = nb_finish(&call[(c + i) % 2], "freed") && good;
        }
    }
    tap_ok(good, "Iallreduce; Comm_free; Wait after %d calls on the communicator", warm);
}

static void a_rank_is_in_user_code(double seconds)
{
    bool good = true;

    nb_within(LIMIT, "a rank in user code for %g s", seconds);
    for (int late = 0; late < tap.size && late < 3; late++) {
        struct nb_call call[2] = {make(MPI_COMM_WORLD, NB_DENSE), make(MPI_COMM_WORLD, NB_SPARSE)};
        for (int c = 0; c < 2; c++)
            nb_post(&call[c], MPI_COMM_WORLD);
        if (tap.rank == late)
            nb_user_code(seconds);
        for (int c = 0; c < 2; c++) {
            MPI_Wait(&call[c].request, MPI_STATUS_IGNORE);
            good = nb_finish(&call[c], "user code") && good;
        }
    }
    tap_ok(good, "a rank is in its own code for %g s with calls pending", seconds);
}

static void many_communicators_in_opposite_order(void)
{
    MPI_Comm comm[COMMS];
    bool good = true;

    nb_within(LIMIT, "%d communicators in opposite order", COMMS);
    for (int c = 0; c < COMMS; c++)
        MPI_Comm_split(MPI_COMM_WORLD, c % 3 ? 0 : tap.rank % 2, c % 2 ? -tap.rank : tap.rank,
                       &comm[c]);
    for (int i = 0; i < MOST_WARM + 2; i++) {
        struct nb_call call[COMMS];
        MPI_Request request[COMMS];

        for (int c = 0; c < COMMS; c++) {
            int which = tap.rank % 2 ? COMMS - 1 - c : c;
            call[which] = nb_make(comm[which], MPI_DOUBLE, COUNT, (enum nb_input)(i % NB_INPUTS),
                                  i % 2, (uint64_t)(100000 + 100 * i + which));
            nb_post(&call[which], comm[which]);
            request[(which + tap.rank) % COMMS] = call[which].request;
        }
        nb_wait_all(COMMS, request);
        for (int c = 0; c < COMMS; c++) {
            call[c].request = request[(c + tap.rank) % COMMS];
            good = nb_finish(&call[c], "many communicators") && good;
        }
    }
    for (int c = 0; c < COMMS; c++)
        MPI_Comm_free(&comm[c]);
    tap_ok(good, "%d communicators at once, in opposite order on different ranks", COMMS);
}

/* MPI refuses a call on rank 0 alone, between the first call on a communicator and those in which
 * the ranks meet. A Wait for the first of these needs the others, whichever call is native. */
static void a_rank_makes_a_wrong_call(int warm)
{
    bool good = true;

    nb_within(LIMIT, "a rank's wrong call after %d calls", warm);
    for (int i = 0; i < times; i++) {
        struct nb_call call[4];
        MPI_Comm comm;
        int here = tap.rank, *all = malloc((size_t)tap.size * sizeof *all);

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        good = warm_up(comm, warm) && good;
        if (tap.rank == 0)
            good =
                MPI_Reduce_scatter_block(&here, all, 1, MPI_DATATYPE_NULL, MPI_SUM, comm) && good;
        for (int c = 0; c < 4; c++) {
            call[c] = make(comm, i % 2 ? NB_SPARSE : NB_DENSE);
            nb_post(&call[c], comm);
        }
        MPI_Allgather(&here, 1, MPI_INT, all, 1, MPI_INT, comm);
        for (int c = 0; c < 4; c++) {
            MPI_Wait(&call[c].request, MPI_STATUS_IGNORE);
            good = nb_finish(&call[c], "beside a wrong call") && good;
        }
        for (int r = 0; r < tap.size; r++)
            good = good && all[r] == r;
        MPI_Comm_free(&comm);
        free(all);
    }
    tap_ok(good, "after %d calls on it, a call that MPI refuses on one rank", warm);
}

int main(int argc, char **argv)
{
    MPI_Comm a, b;
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    times = (int)nb_option(argc, argv, "--times", 10);
    if (tap.size < 2) {
        fprintf(stderr, "nb_dense needs 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &a);
    MPI_Comm_dup(MPI_COMM_WORLD, &b);
    many_communicators_in_opposite_order();
    two_in_flight(a, a, false, "on one communicator");
    two_in_flight(a, b, false, "on two communicators");
    two_in_flight(a, b, true, "on two communicators in opposite order");
    mixed_in_flight(a);
    first_contact_while_a_peer_is_blocked(0);
    first_contact_while_a_peer_is_blocked(1);
    first_contact_while_a_peer_is_blocked(MOST_WARM);
    communicators_are_freed_before_the_wait(0);
    communicators_are_freed_before_the_wait(1);
    communicators_are_freed_before_the_wait(MOST_WARM);
    a_rank_makes_a_wrong_call(0);
    a_rank_makes_a_wrong_call(1);
    a_rank_makes_a_wrong_call(MOST_WARM);
    a_rank_is_in_user_code((double)nb_option(argc, argv, "--late", 300) / 1000);
    nb_within(LIMIT, "MPI_Finalize");
    MPI_Comm_free(&a);
    MPI_Comm_free(&b);
    status = tap_end();
    MPI_Finalize();
    return status;
}
