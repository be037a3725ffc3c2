/* nb_order [--times N] [--count N] [--key 1]: legal orders of nonblocking allreduces and other
 * calls in which an operation must move while its rank is blocked somewhere else.
 */
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { LIMIT = 100, REQUESTS = 200, WAVES = 65 };

static int count, times;

static uint64_t next_seed(void)
{
    static uint64_t seed = 1000;
    return seed++;
}

static struct nb_call make(MPI_Comm comm)
{
    uint64_t seed = next_seed();
    static const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT};

    return nb_make(comm, types[seed % 3], count, (enum nb_input)(seed / 3 % NB_INPUTS), seed % 2,
                   seed);
}

/* Rank 0 waits for a message that rank 2 sends only when the sum has arrived there. */
static void sum_arrives_while_a_rank_is_in_recv(MPI_Comm comm, const char *where)
{
    bool good = true;

    nb_within(LIMIT, "Iallreduce; Recv; Wait against Iallreduce; Wait; Send, %s", where);
    for (int i = 0; i < times; i++) {
        struct nb_call call = make(comm);
        int token = i;

        nb_post(&call, comm);
        if (tap.rank == 0) {
            MPI_Recv(&token, 1, MPI_INT, 2 % tap.size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            good = good && token == -i;
        }
        MPI_Wait(&call.request, MPI_STATUS_IGNORE);
        good = nb_finish(&call, "beside Recv") && good;
        if (tap.rank == 2) {
            token = -i;
            MPI_Send(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        }
    }
    tap_ok(good, "%d times, %s: Iallreduce; Recv; Wait against Iallreduce; Wait; Send", times,
           where);
}

/* Every rank but 0 enters the other collective only when it has the sum. */
static void sum_arrives_while_a_rank_is_in(const char *name, MPI_Comm a, MPI_Comm b)
{
    bool good = true;

    nb_within(LIMIT, "Iallreduce; %s; Wait against Iallreduce; Wait; %s", name, name);
    for (int i = 0; i < times / 4 + 1; i++) {
        struct nb_call call = make(a), other = make(b);
        int value = tap.rank == 0 ? i : -1;

        nb_post(&call, a);
        if (tap.rank != 0)
            MPI_Wait(&call.request, MPI_STATUS_IGNORE);
        if (strcmp(name, "Allreduce") == 0)
            nb_reduce(&other, b);
        else if (strcmp(name, "Barrier") == 0)
            MPI_Barrier(b);
        else if (strcmp(name, "small Allreduce") == 0)
            MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MAX, b);
        else
            MPI_Bcast(&value, 1, MPI_INT, 1 % tap.size, b);
        if (tap.rank == 0)
            MPI_Wait(&call.request, MPI_STATUS_IGNORE);
        good = nb_finish(&call, name) && good;
        if (strcmp(name, "Allreduce") == 0)
            good = nb_right(&other, "blocking") && good;
        if (strcmp(name, "small Allreduce") == 0)
            good = good && value == i;
        nb_drop(&other);
    }
    tap_ok(good, "I(A); %s(B); Wait(A) against I(A); Wait(A); %s(B)%s", name, name,
           a == b ? ", one communicator" : "");
}

/* Returns the position of operation i in this rank's list of requests. Ranks use different
 * orders. */
static int place_of(int i, int requests)
{
    if (tap.rank % 2)
        return requests - 1 - i;
    return (i * 7 + tap.rank * 13) % requests;
}

/* Calls MPI_Waitall over allreduces on two communicators and messages, which odd ranks post
 * last. */
static void waitall_takes_all_kinds(MPI_Comm a, MPI_Comm b, int sums, int messages)
{
    int requests = sums + 2 * messages, right = (tap.rank + 1) % tap.size;
    int left = (tap.rank + tap.size - 1) % tap.size;
    MPI_Request *request = input_alloc((size_t)requests * sizeof *request);
    struct nb_call *call = input_alloc((size_t)sums * sizeof *call);
    int *token = input_alloc(2 * (size_t)messages * sizeof *token + 1);
    bool good = true;

    nb_within(LIMIT, "Waitall over %d allreduces and %d messages", sums, 2 * messages);
    for (int i = 0; i < requests; i++)
        request[i] = MPI_REQUEST_NULL;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < messages && turn == tap.rank % 2; i++) {
            token[i] = tap.rank * 1000 + i;
            token[messages + i] = -1;
            MPI_Isend(&token[i], 1, MPI_INT, right, i, MPI_COMM_WORLD,
                      &request[place_of(sums + i, requests)]);
            MPI_Irecv(&token[messages + i], 1, MPI_INT, left, i, MPI_COMM_WORLD,
                      &request[place_of(sums + messages + i, requests)]);
        }
        for (int i = 0; i < sums && turn == 0; i++) {
            call[i] = make(i % 3 ? a : b);
            nb_post(&call[i], i % 3 ? a : b);
            request[place_of(i, requests)] = call[i].request;
        }
    }
    nb_wait_all(requests, request);
    for (int i = 0; i < sums; i++) {
        call[i].request = request[place_of(i, requests)];
        good = nb_finish(&call[i], "Waitall") && good;
    }
    for (int i = 0; i < messages; i++)
        good = good && token[messages + i] == left * 1000 + i;
    tap_ok(good, "one Waitall over %d allreduces and %d messages", sums, 2 * messages);
    free(request);
    free(call);
    free(token);
}

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

/* Rank 0 alone has a key with a copy function, and comes late to the call in which the ranks meet;
 * the broadcast behind it keeps its place on every rank. */
static void a_key_of_one_rank_leaves_the_order(void)
{
    struct nb_call call[3];
    MPI_Request request;
    bool good = true;
    int key = MPI_KEYVAL_INVALID, word = tap.rank == 0 ? 42 : 0;

    nb_within(LIMIT, "a key on rank 0; Iallreduce, Ibcast while the ranks meet");
    if (tap.rank == 0)
        MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    for (int i = 0; i < 3; i++)
        call[i] = make(MPI_COMM_WORLD);
    nb_post(&call[0], MPI_COMM_WORLD);
    MPI_Wait(&call[0].request, MPI_STATUS_IGNORE);
    good = nb_finish(&call[0], "before the ranks meet") && good;
    if (tap.rank == 0)
        usleep(200000);
    nb_post(&call[1], MPI_COMM_WORLD);
    nb_post(&call[2], MPI_COMM_WORLD);
    MPI_Ibcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    for (int i = 1; i < 3; i++) {
        MPI_Wait(&call[i].request, MPI_STATUS_IGNORE);
        good = nb_finish(&call[i], "while the ranks meet") && good;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    tap_ok(good && word == 42, "a key of one rank leaves the order of collectives");
    if (tap.rank == 0)
        MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv)
{
    MPI_Comm a, b;
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    times = (int)nb_option(argc, argv, "--times", 200);
    count = (int)nb_option(argc, argv, "--count", 4096);
    if (tap.size < 3) {
        fprintf(stderr, "nb_order needs 3 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (nb_option(argc, argv, "--key", 0)) {
        a_key_of_one_rank_leaves_the_order();
        status = tap_end();
        MPI_Finalize();
        return status;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &a);
    MPI_Comm_dup(MPI_COMM_WORLD, &b);
    sum_arrives_while_a_rank_is_in_recv(MPI_COMM_WORLD, "on the world");
    sum_arrives_while_a_rank_is_in("Allreduce", a, b);
    sum_arrives_while_a_rank_is_in("Allreduce", a, a);
    sum_arrives_while_a_rank_is_in("small Allreduce", a, b);
    sum_arrives_while_a_rank_is_in("Barrier", a, b);
    sum_arrives_while_a_rank_is_in("Bcast", a, b);
    waitall_takes_all_kinds(a, b, REQUESTS, 50);
    waitall_takes_all_kinds(MPI_COMM_WORLD, MPI_COMM_WORLD, WAVES, 0);
    waitall_takes_all_kinds(a, MPI_COMM_WORLD, 2 * WAVES, 3);
    sum_arrives_while_a_rank_is_in_recv(a, "on a duplicate");
    nb_within(LIMIT, "MPI_Finalize");
    MPI_Comm_free(&a);
    MPI_Comm_free(&b);
    status = tap_end();
    MPI_Finalize();
    return status;
}
