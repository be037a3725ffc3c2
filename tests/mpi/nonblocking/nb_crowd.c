/* nb_crowd: nonblocking sums where ranks have more communicators than the library serves.
 *
 *   nb_crowd pairs    rank 0 shares 66 communicators with one other rank each
 *   nb_crowd crossed  communicators are made by twos; rank 0 posts its sums on the second one first
 *   nb_crowd chain    the same, each made from the one before
 *   nb_crowd churn    communicators are made and freed, with others alive meanwhile
 */
#include "tests/mpi/nonblocking/births.h"

enum { MOST = 70, COUNT = 3000, DEADLINE = 100 };

static struct birth born[MOST];
static int births, calls;
static struct sum sums[BIRTHS_SUMS];

static void take(MPI_Comm comm, const char *maker)
{
    struct birth *b = &born[births++];

    b->comm = comm;
    b->maker = maker;
    MPI_Comm_rank(comm, &b->rank);
    MPI_Comm_size(comm, &b->size);
}

/* Makes the next communicator of all ranks, in one way after another. */
static const struct birth *make(MPI_Comm from)
{
    static const char *const names[] = {"dup", "split", "create"};
    MPI_Comm comm;
    MPI_Group group;

    if (births % 3 == 0) {
        MPI_Comm_dup(from, &comm);
    } else if (births % 3 == 1) {
        MPI_Comm_split(from, 0, tap.rank, &comm);
    } else {
        MPI_Comm_group(from, &group);
        MPI_Comm_create(from, group, &comm);
        MPI_Group_free(&group);
    }
    take(comm, names[births % 3]);
    return &born[births - 1];
}

static void end_all(void)
{
    while (births > 0)
        births_end(&born[--births]);
}

/* Posts five calls, of which one is never served: results of others show if they change places. */
static void post_five(struct sum *five, const struct birth *b, int first)
{
    for (int i = 0; i < 5; i++)
        births_post(&five[i], b, i == 3 ? MPI_MAX : MPI_SUM, COUNT, first + i);
}

static bool five_sums(const struct birth *b)
{
    post_five(sums, b, calls += 5);
    return births_wait(sums, 5, b);
}

/* Posts calls on two communicators, and on rank 0 on the second one first; those of one are in the
 * same order on all ranks. Waits for all at once. */
static bool crossed(const struct birth *a, const struct birth *b)
{
    const struct birth *of[2] = {a, b};
    const int first = calls += 10;
    MPI_Request request[10];
    bool right = true;

    for (int turn = 0; turn < 2; turn++) {
        const int which = tap.rank == 0 ? 1 - turn : turn;

        post_five(&sums[5 * which], of[which], first + 5 * which);
    }
    for (int i = 0; i < 10; i++)
        request[i] = sums[i].request;
    nb_wait_all(10, request);
    for (int i = 0; i < 10; i++)
        right = births_right(&sums[i], of[i / 5]) && right;
    return right;
}

/* Makes first exchanges in blocking sums, where none was made before. */
static bool blocking(void)
{
    bool right = true;

    for (int i = 0; i < births; i++)
        right = births_blocking(&sums[0], &born[i], ++calls) && five_sums(&born[i]) && right;
    return right;
}

/* ---- scenarios ---- */

static MPI_Comm pair_of(int other, bool by_group)
{
    const int ranks[2] = {0, other};
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group all, two;

    if (!by_group) {
        MPI_Comm_split(MPI_COMM_WORLD, tap.rank == 0 || tap.rank == other ? 1 : MPI_UNDEFINED, 0,
                       &comm);
    } else if (tap.rank == 0 || tap.rank == other) {
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, 2, ranks, &two);
        MPI_Comm_create_group(MPI_COMM_WORLD, two, other, &comm);
        MPI_Group_free(&two);
        MPI_Group_free(&all);
    }
    return comm;
}

static void check_pairs(void)
{
    const struct birth *a, *b;
    const struct birth world = {MPI_COMM_WORLD, tap.rank, tap.size, "world"};
    bool right = true;

    nb_within(DEADLINE, "rank 0 in 66 pairs");
    for (int pair = 0; pair < 66; pair++) {
        MPI_Comm comm = pair_of(1 + pair % (tap.size - 1), pair % 4 < 2);

        calls = 10 * pair;
        if (comm == MPI_COMM_NULL)
            continue;
        take(comm, "pair");
        right = five_sums(&born[births - 1]) && right;
    }
    tap_ok(right, "rank 0 is in 66 pairs");
    calls = 0;
    right = true;
    nb_within(DEADLINE, "behind the pairs, on MPI_COMM_WORLD");
    for (int i = 0; i < 2; i++)
        right = five_sums(&world) && right;
    tap_ok(right, "behind the pairs: sums of all ranks on MPI_COMM_WORLD");
    nb_within(DEADLINE, "behind the pairs, on new communicators");
    a = make(MPI_COMM_WORLD);
    b = make(MPI_COMM_WORLD);
    tap_ok(crossed(a, b), "behind the pairs: sums on new communicators, crossed");
    tap_ok(crossed(a, b), "and again");
    right = births_blocking(&sums[0], a, ++calls) && births_blocking(&sums[0], b, ++calls);
    tap_ok(crossed(a, b) && right, "and behind blocking sums");
    end_all();
}

/* Up to 69 communicators are alive: one that all ranks use alike first, so that the limit of 64
 * falls between the two of a pair. */
static void check_crossed(bool chain)
{
    bool right;
    int first_wrong = 0;

    nb_within(DEADLINE, "crossed sums");
    right = five_sums(make(MPI_COMM_WORLD));
    while (births + 2 <= 69) {
        const struct birth *a = make(chain ? born[births - 1].comm : MPI_COMM_WORLD);
        const struct birth *b = make(chain ? a->comm : MPI_COMM_WORLD);

        nb_within(DEADLINE, "crossed sums on two communicators behind %d", births - 2);
        right = crossed(a, b) && right;
        if (!right && first_wrong == 0)
            first_wrong = births;
    }
    tap_ok(right, "crossed sums on the last two of up to 69 communicators");
    if (first_wrong)
        fprintf(stderr, "rank %d: wrong first with %d communicators\n", tap.rank, first_wrong);
    nb_within(DEADLINE, "blocking sums on 69 communicators");
    tap_ok(blocking(), "blocking and nonblocking sums on all of them");
    end_all();
}

static void check_churn(void)
{
    bool right = true;

    for (int round = 0; round < 4; round++) {
        nb_within(DEADLINE, "round %d of making and freeing", round);
        while (births + 2 <= 24) {
            const struct birth *a = make(MPI_COMM_WORLD), *b = make(a->comm);

            right = crossed(a, b) && right;
        }
        /* those made first stay longest */
        while (births > 4 + round)
            births_end(&born[--births]);
    }
    tap_ok(right, "crossed sums on communicators that are made and freed");
    tap_ok(blocking(), "blocking and nonblocking sums on the last of them");
    end_all();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    births_begin(&argc, &argv, true);
    if (strcmp(what, "pairs") == 0)
        check_pairs();
    else if (strcmp(what, "churn") == 0)
        check_churn();
    else
        check_crossed(strcmp(what, "chain") == 0);
    return births_finalize();
}
