/* edge_contact CASE: what a program may notice when the library first meets a communicator. */
#include <stdatomic.h>

#include "tests/mpi/harmless/edge.h"

enum { MANY = 1100, CALLS = 3 };

/* ---- attributes ---- */

static int copies, deletions;

static int frees(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    deletions++;
    free(value);
    return MPI_SUCCESS;
}

static int counts_copies(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    copies++;
    *(void **)copy = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int fails_to_copy(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)value, (void)copy;
    copies++;
    *flag = 0;
    return edge.rank == 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int counts_deletions(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    deletions++;
    return MPI_SUCCESS;
}

/* A first call of each kind, on a communicator of its own. */
static bool first_call(MPI_Comm comm, int kind)
{
    int n = edge.count, part = n / edge.size;
    float *all = input_alloc(sizeof(float) * (size_t)n * (size_t)edge.size);
    int counts[64], displs[64];
    bool good = true;
    MPI_Request request = MPI_REQUEST_NULL;

    for (int r = 0; r < edge.size; r++) {
        counts[r] = n;
        displs[r] = r * n;
    }
    edge_fill(comm, edge.in, 2);
    switch (kind) {
    case 0:
        good = edge_sum(comm, 2);
        break;
    case 1:
        good = edge_isum(comm, 2);
        break;
    case 2:
        MPI_Allgather(edge.in, n, MPI_FLOAT, all, n, MPI_FLOAT, comm);
        break;
    case 3:
        MPI_Iallgather(edge.in, n, MPI_FLOAT, all, n, MPI_FLOAT, comm, &request);
        break;
    case 4:
        MPI_Allgatherv(edge.in, n, MPI_FLOAT, all, counts, displs, MPI_FLOAT, comm);
        break;
    case 5:
        MPI_Iallgatherv(edge.in, n, MPI_FLOAT, all, counts, displs, MPI_FLOAT, comm, &request);
        break;
    case 6:
        MPI_Reduce(edge.in, edge.out, n, MPI_FLOAT, MPI_SUM, 0, comm);
        break;
    default:
        MPI_Reduce_scatter_block(edge.in, edge.out, part, MPI_FLOAT, MPI_SUM, comm);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (kind >= 2 && kind <= 5)
        good = memcmp(all + (size_t)edge.rank * (size_t)n, edge.in, sizeof(float) * (size_t)n) == 0;
    free(all);
    return good;
}

static void attributes_with(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *del)
{
    int keyval;

    MPI_Comm_create_keyval(copy, del, &keyval, NULL);
    for (int kind = 0; kind < 8; kind++) {
        MPI_Comm comm;
        void *value = malloc(100), *got = NULL;
        int flag = 0;
        bool first, sums, isums;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_attr(comm, keyval, value);
        first = first_call(comm, kind);
        sums = edge_sums(comm, CALLS, 10);
        isums = edge_isum(comm, 20);
        MPI_Comm_get_attr(comm, keyval, &got, &flag);
        edge_say("first call %d: %s, sums %s, nonblocking %s, attribute there: %s", kind,
                 edge_yes(first), edge_yes(sums), edge_yes(isums), edge_yes(flag && got == value));
        MPI_Comm_free(&comm);
        MPI_Barrier(MPI_COMM_WORLD);
        edge_say("copied %d times, deleted %d times", copies, deletions);
    }
    MPI_Comm_free_keyval(&keyval);
}

static void dup_fn(void)
{
    attributes_with(MPI_COMM_DUP_FN, frees);
}

static void copy_counts(void)
{
    attributes_with(counts_copies, counts_deletions);
}

static void copy_fails(void)
{
    attributes_with(fails_to_copy, counts_deletions);
}

/* On the world itself, from which the program then duplicates. */
static void world_attributes(void)
{
    int keyval;
    MPI_Comm comm;

    MPI_Comm_create_keyval(counts_copies, counts_deletions, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &copies);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &copies);
    edge_say("nonblocking %s, sums %s", edge_yes(edge_isum(MPI_COMM_WORLD, 1)),
             edge_yes(edge_sums(MPI_COMM_WORLD, CALLS, 2)));
    edge_say("copied %d, deleted %d", copies, deletions);
    for (int i = 0; i < 5; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        edge_say("nonblocking %s, sums %s", edge_yes(edge_isum(comm, 1)),
                 edge_yes(edge_sums(comm, CALLS, 2)));
        MPI_Comm_free(&comm);
    }
    edge_say("copied %d, deleted %d", copies, deletions);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    MPI_Comm_delete_attr(MPI_COMM_SELF, keyval);
    edge_say("copied %d, deleted %d", copies, deletions);
}

/* ---- many communicators ---- */

static int granted(MPI_Comm *comms, int wanted)
{
    int n = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (n < wanted && MPI_Comm_dup(MPI_COMM_WORLD, &comms[n]) == MPI_SUCCESS)
        n++;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return n;
}

/* All alive at once; `kind` bit 0: blocking first contacts, bit 1: nonblocking ones. */
static void many(int kind)
{
    static MPI_Comm comms[MANY];
    static MPI_Request requests[MANY];
    static float *outs[MANY];
    int got = granted(comms, MANY), wrong = 0;
    bool later = true;

    edge.count = edge.count > 1000 ? 66000 : edge.count;
    edge_fill(MPI_COMM_WORLD, edge.in, 3);
    for (int i = 0; i < got; i++) {
        if (kind == 1 || (kind == 3 && i % 2)) {
            wrong += !edge_sum(comms[i], 3);
            continue;
        }
        if (!outs[i % 64])
            outs[i % 64] = edge_buffer();
        MPI_Iallreduce(edge.in, outs[i % 64], edge.count, MPI_FLOAT, MPI_SUM, comms[i],
                       &requests[i]);
        if (i % 64 == 63 || kind == 3)
            for (int j = i - i % 64; j <= i; j++)
                if (requests[j] != MPI_REQUEST_NULL && (kind == 2 || j % 2 == 0))
                    MPI_Wait(&requests[j], MPI_STATUS_IGNORE);
    }
    for (int j = got - got % 64; j < got; j++)
        if (kind == 2)
            MPI_Wait(&requests[j], MPI_STATUS_IGNORE);
    if (kind != 1)
        wrong += !edge_right(MPI_COMM_WORLD, outs[0], 3);
    for (int i = 0; i < got; i += 50)
        later = edge_sum(comms[i], 5) && edge_isum(comms[i], 6) && later;
    edge_say("%d communicators, %d wrong, later calls %s", got, wrong, edge_yes(later));
    for (int i = 0; i < got; i++)
        MPI_Comm_free(&comms[i]);
}

static void many_blocking(void)
{
    many(1);
}

static void many_nonblocking(void)
{
    many(2);
}

static void many_both(void)
{
    many(3);
}

/* contexts LEFT: all but so many communicators that MPI grants are in use before the first call. */
static void contexts(void)
{
    static MPI_Comm comms[4096];
    int left = edge.argc > 2 ? atoi(edge.argv[2]) : 0;
    int got = granted(comms, 4096), n = got;

    while (n > 0 && n > got - left)
        MPI_Comm_free(&comms[--n]);
    edge_say("more than 2000 communicators: %s", edge_yes(got > 2000));
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, CALLS, 1)));
    edge_say("nonblocking %s", edge_yes(edge_isum(MPI_COMM_WORLD, 5)));
    edge_say("nonblocking %s", edge_yes(edge_isum(comms[0], 5)));
    edge_say("sums %s", edge_yes(edge_sums(comms[0], CALLS, 1)));
    edge_say("nonblocking %s", edge_yes(edge_isum(comms[1], 5)));
    edge_say("sums %s", edge_yes(edge_sums(comms[2], CALLS, 1)));
    for (int i = 0; i < n; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(comms[0], CALLS, 1)),
             edge_yes(edge_isum(comms[0], 7)));
    MPI_Comm_free(&comms[0]);
}

/* Ranks share different numbers of communicators: what is left differs from rank to rank. */
static void contexts_uneven(void)
{
    static MPI_Comm comms[4096];
    int n = 0;
    MPI_Comm pair;

    MPI_Comm_dup(MPI_COMM_WORLD, &pair);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (edge.rank == 0)
        while (n < 4096 && MPI_Comm_dup(MPI_COMM_SELF, &comms[n]) == MPI_SUCCESS)
            n++;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    edge_say("nonblocking %s", edge_yes(edge_isum(MPI_COMM_WORLD, 5)));
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, CALLS, 1)));
    edge_say("sums %s", edge_yes(edge_sums(pair, CALLS, 1)));
    edge_say("nonblocking %s", edge_yes(edge_isum(pair, 5)));
    while (n > 0)
        MPI_Comm_free(&comms[--n]);
    edge_say("sums %s", edge_yes(edge_sums(pair, CALLS, 1)));
    MPI_Comm_free(&pair);
}

/* Communicators used for calls first, then as many more as a program may have. */
static void contexts_after(void)
{
    static MPI_Comm comms[4096];
    int used = 20, n;

    n = granted(comms, used);
    for (int i = 0; i < n; i++)
        if (!edge_sums(comms[i], 2, 1) || !edge_isum(comms[i], 4))
            edge_say("a wrong sum");
    n += granted(comms + n, 1900 - n);
    edge_say("%d communicators", n);
    while (n > 0)
        MPI_Comm_free(&comms[--n]);
}

/* More communicators than MPI has at a time, one after the other, each freed with its first call
 * just done; `edge churn ATTRIBUTES`: with attributes that have callbacks. */
static void contexts_in_turn(void)
{
    int keyval, wrong = 0;
    bool attributes = edge.argc > 2;

    edge.count = edge.count > 1000 ? 66000 : edge.count;
    edge_fill(MPI_COMM_WORLD, edge.in, 3);
    if (attributes)
        MPI_Comm_create_keyval(counts_copies, counts_deletions, &keyval, NULL);
    for (int i = 0; i < 2500; i++) {
        MPI_Request request;
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (attributes)
            MPI_Comm_set_attr(comm, keyval, &copies);
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, comm, &request);
        if (i % 2)
            MPI_Comm_free(&comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (i % 2 == 0)
            MPI_Comm_free(&comm);
        if (i % 100 == 0)
            wrong += !edge_right(MPI_COMM_WORLD, edge.out, 3);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    edge_say("%d wrong, copied %d, deleted %d", wrong, copies, deletions);
    if (attributes)
        MPI_Comm_free_keyval(&keyval);
}

/* ---- error handlers ---- */

static atomic_int handled;

static void counts_errors(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

static MPI_Comm noisy;
static atomic_bool enough;
static int made;

static void *makes_errors(void *least)
{
    int x = 0;

    for (int i = 0; i < *(int *)least || !enough; i++, made++)
        MPI_Send(&x, 1, MPI_INT, 4711, 0, noisy);
    return NULL;
}

static bool contacts(int n)
{
    bool good = true;

    for (int i = 0; i < n; i++) {
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        good = (i % 2 ? edge_isum(comm, 3) : edge_sum(comm, 3)) && good;
        MPI_Comm_free(&comm);
    }
    return good;
}

static MPI_Errhandler count_errors_of(MPI_Comm comm)
{
    MPI_Errhandler handler;

    MPI_Comm_create_errhandler(counts_errors, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    return handler;
}

static void tell_errors(MPI_Errhandler handler, bool good)
{
    MPI_Errhandler got;

    MPI_Comm_get_errhandler(noisy, &got);
    edge_say("handled all errors %s, sums %s, the same handler %s", edge_yes(handled == made),
             edge_yes(good), edge_yes(got == handler));
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&handler);
}

/* A thread makes errors on MPI_COMM_SELF while this one makes first contacts with others. */
static void errors_on_self(void)
{
    MPI_Errhandler handler = count_errors_of(MPI_COMM_SELF);
    pthread_t thread;
    int least = 9000;
    bool good;

    noisy = MPI_COMM_SELF;
    pthread_create(&thread, NULL, makes_errors, &least);
    good = contacts(30);
    enough = true;
    pthread_join(thread, NULL);
    tell_errors(handler, good);
}

/* Does so on the communicator whose first contact it is. */
static void errors_on_the_same(void)
{
    int least = 300;

    for (int round = 0; round < 12; round++) {
        MPI_Errhandler handler;
        pthread_t thread;
        bool good;

        MPI_Comm_dup(MPI_COMM_WORLD, &noisy);
        handler = count_errors_of(noisy);
        enough = false;
        pthread_create(&thread, NULL, makes_errors, &least);
        if (edge.rank == round % edge.size)
            usleep(1000);
        good = round % 2 ? edge_isum(noisy, 3) : edge_sum(noisy, 3);
        good = edge_sum(noisy, 4) && good;
        enough = true;
        pthread_join(thread, NULL);
        tell_errors(handler, good);
        MPI_Comm_free(&noisy);
    }
}

static void handlers_are_kept(void)
{
    MPI_Errhandler mine, got;

    MPI_Comm_create_errhandler(counts_errors, &mine);
    for (int kind = 0; kind < 8; kind++) {
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, kind % 2 ? mine : MPI_ERRORS_RETURN);
        first_call(comm, kind);
        MPI_Comm_get_errhandler(comm, &got);
        edge_say("the same handler %s", edge_yes(got == (kind % 2 ? mine : MPI_ERRORS_RETURN)));
        if (got == mine)
            MPI_Errhandler_free(&got);
        MPI_Comm_get_errhandler(MPI_COMM_SELF, &got);
        edge_say("of self %s", edge_yes(got == MPI_ERRORS_ARE_FATAL));
        MPI_Comm_free(&comm);
    }
    MPI_Errhandler_free(&mine);
    edge_say("handled %d", handled);
}

/* The last reference to a handler is the communicator's own. */
static void handler_freed(void)
{
    for (int i = 0; i < 200; i++) {
        MPI_Errhandler mine;
        MPI_Comm comm;
        int x = 0;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_create_errhandler(counts_errors, &mine);
        MPI_Comm_set_errhandler(comm, mine);
        MPI_Errhandler_free(&mine);
        if (i % 20 == 0)
            first_call(comm, i / 20 % 8);
        MPI_Send(&x, 1, MPI_INT, 4711, 0, comm);
        MPI_Comm_free(&comm);
    }
    edge_say("handled %d", handled);
}

/* ---- the shape of what the program sees ---- */

static void names_and_info(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0, keys = 0, flag = 0, *value = NULL;
    MPI_Comm comm, copy;
    MPI_Info info;
    MPI_Request request;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    edge_sums(comm, CALLS, 1);
    edge_isum(comm, 5);
    MPI_Comm_get_name(comm, name, &length);
    edge_say("name \"%s\" of %d", name, length);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_nkeys(info, &keys);
    edge_say("info of %d keys", keys);
    MPI_Info_free(&info);
    MPI_Comm_set_name(comm, "mine");
    edge_sums(comm, CALLS, 1);
    MPI_Comm_get_name(comm, name, &length);
    edge_say("name \"%s\" of %d", name, length);
    MPI_Comm_idup(comm, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
    for (int key = 0; key < 6; key++) {
        static const int keys_of_mpi[] = {MPI_TAG_UB, MPI_HOST,          MPI_IO,
                                          MPI_APPNUM, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE};

        MPI_Comm_get_attr(MPI_COMM_WORLD, keys_of_mpi[key], &value, &flag);
        edge_say("attribute %d: %d", key, flag ? *value : -1);
    }
    MPI_Comm_free(&comm);
}

/* Messages of the program on the communicator of a first contact, of every tag, before and after.
 */
static void messages_beside(void)
{
    MPI_Comm comm;
    int next = (edge.rank + 1) % edge.size, flag = 0, wrong = 0;
    int got[64], sent[64];
    MPI_Request in[64], out[64];
    MPI_Status status;

    for (int kind = 0; kind < 8; kind++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int i = 0; i < 64; i++) {
            sent[i] = i + edge.rank;
            MPI_Irecv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &in[i]);
        }
        first_call(comm, kind);
        edge_sums(comm, 2, 1);
        for (int i = 0; i < 64; i++)
            MPI_Isend(&sent[i], 1, MPI_INT, next, i == 63 ? 0x5353 : i, comm, &out[i]);
        edge_isum(comm, 2);
        for (int i = 0; i < 64; i++) {
            MPI_Wait(&in[i], &status);
            MPI_Wait(&out[i], MPI_STATUS_IGNORE);
            wrong += got[i] != i + (edge.rank + edge.size - 1) % edge.size;
            wrong += status.MPI_TAG != (i == 63 ? 0x5353 : i);
        }
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
        edge_say("first call %d: %d wrong messages, one more to come: %d", kind, wrong, flag);
        MPI_Comm_free(&comm);
    }
}

static const struct edge_case cases[] = {
    {"dup-fn", EDGE_INIT, dup_fn},
    {"dup-fn-multiple", MPI_THREAD_MULTIPLE, dup_fn},
    {"copy-counts", EDGE_INIT, copy_counts},
    {"copy-counts-multiple", MPI_THREAD_MULTIPLE, copy_counts},
    {"copy-fails", EDGE_INIT, copy_fails},
    {"copy-fails-multiple", MPI_THREAD_MULTIPLE, copy_fails},
    {"world-attributes", EDGE_INIT, world_attributes},
    {"world-attributes-multiple", MPI_THREAD_MULTIPLE, world_attributes},
    {"many-blocking", EDGE_INIT, many_blocking},
    {"many-nonblocking", EDGE_INIT, many_nonblocking},
    {"many-nonblocking-multiple", MPI_THREAD_MULTIPLE, many_nonblocking},
    {"many-both-multiple", MPI_THREAD_MULTIPLE, many_both},
    {"contexts", EDGE_INIT, contexts},
    {"contexts-multiple", MPI_THREAD_MULTIPLE, contexts},
    {"contexts-uneven", EDGE_INIT, contexts_uneven},
    {"contexts-uneven-multiple", MPI_THREAD_MULTIPLE, contexts_uneven},
    {"contexts-after", EDGE_INIT, contexts_after},
    {"churn", EDGE_INIT, contexts_in_turn},
    {"churn-multiple", MPI_THREAD_MULTIPLE, contexts_in_turn},
    {"errors-self", MPI_THREAD_MULTIPLE, errors_on_self},
    {"errors-same", MPI_THREAD_MULTIPLE, errors_on_the_same},
    {"handlers-kept", EDGE_INIT, handlers_are_kept},
    {"handlers-kept-multiple", MPI_THREAD_MULTIPLE, handlers_are_kept},
    {"handler-freed", EDGE_INIT, handler_freed},
    {"handler-freed-multiple", MPI_THREAD_MULTIPLE, handler_freed},
    {"names", EDGE_INIT, names_and_info},
    {"messages", EDGE_INIT, messages_beside},
    {"messages-multiple", MPI_THREAD_MULTIPLE, messages_beside},
};

EDGE_MAIN(cases)
