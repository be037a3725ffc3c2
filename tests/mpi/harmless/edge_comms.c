/* edge_comms CASE: communicators of every kind, and requests. */
#include "tests/mpi/harmless/edge.h"

/* ---- communicators ---- */

static void topologies(void)
{
    int dims[2] = {edge.size, 1}, periods[2] = {1, 0}, remain[2] = {1, 0};
    int next = (edge.rank + 1) % edge.size, weight = 1, status = -1;
    int index[64], edges[64];
    MPI_Comm comm, sub;

    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &comm);
    edge_both("cartesian", comm);
    MPI_Topo_test(comm, &status);
    edge_say("topology %d", status == MPI_CART);
    MPI_Cart_sub(comm, remain, &sub);
    edge_both("its part", sub);
    MPI_Comm_free(&sub);
    MPI_Comm_free(&comm);
    for (int r = 0; r < edge.size; r++) {
        index[r] = r + 1;
        edges[r] = (r + 1) % edge.size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, edge.size, index, edges, 0, &comm);
    edge_both("graph", comm);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &next, &weight, 1, &next, &weight,
                                   MPI_INFO_NULL, 0, &comm);
    edge_both("distributed graph", comm);
    MPI_Topo_test(comm, &status);
    edge_say("topology %d", status == MPI_DIST_GRAPH);
    MPI_Comm_free(&comm);
}

static void parts(void)
{
    MPI_Comm comm, copy;
    MPI_Group world, group;
    MPI_Info info;
    int ranks[64], n = 0;

    MPI_Comm_split(MPI_COMM_WORLD, edge.rank == 0 ? MPI_UNDEFINED : 1, -edge.rank, &comm);
    edge_say("left out %s", edge_yes(comm == MPI_COMM_NULL));
    if (comm != MPI_COMM_NULL) {
        edge_both("split", comm);
        MPI_Comm_free(&comm);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    edge_both("of one node", comm);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(comm, info, &copy);
    edge_both("with assertions", copy);
    MPI_Comm_free(&copy);
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int r = edge.size - 1; r >= 0; r--)
        ranks[n++] = r;
    MPI_Group_incl(world, n, ranks, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &comm);
    edge_both("of a group", comm);
    MPI_Comm_free(&comm);
    MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    edge_both("created", comm);
    MPI_Comm_disconnect(&comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    edge_both("alone", MPI_COMM_SELF);
}

/* Sums, reductions and gathers between two groups. */
static void between_groups(void)
{
    MPI_Comm half, inter, merged;
    int side = edge.rank % 2, remote, n = edge.count;
    float *all = input_alloc(sizeof(float) * (size_t)n * (size_t)edge.size);
    MPI_Request request;

    MPI_Comm_split(MPI_COMM_WORLD, side, edge.rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 42, &inter);
    MPI_Comm_remote_size(inter, &remote);
    for (int turn = 0; turn < 3; turn++) {
        int root = side == 0 ? edge.rank == 0 ? MPI_ROOT : MPI_PROC_NULL : 0;
        bool right = true;

        for (int i = 0; i < n; i++)
            edge.in[i] = (float)(edge.rank + 1);
        for (int i = 0; i < n * edge.size; i++)
            all[i] = -1;
        MPI_Allreduce(edge.in, edge.out, n, MPI_FLOAT, MPI_SUM, inter);
        edge_say("sum %g", (double)edge.out[n - 1]);
        MPI_Iallreduce(edge.in, edge.out, n, MPI_FLOAT, MPI_SUM, inter, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        edge_say("nonblocking %g", (double)edge.out[n - 1]);
        edge.out[0] = -1;
        MPI_Reduce(edge.in, edge.out, n, MPI_FLOAT, MPI_SUM, root, inter);
        edge_say("reduced %g", (double)edge.out[0]);
        MPI_Allgather(edge.in, n, MPI_FLOAT, all, n, MPI_FLOAT, inter);
        for (int r = 0; r < remote; r++)
            right = right && all[r * n] == (float)(1 - side + 2 * r + 1);
        MPI_Iallgather(edge.in, n, MPI_FLOAT, all, n, MPI_FLOAT, inter, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        edge_say("gathered %s, next %g", edge_yes(right),
                 (double)(remote < edge.size ? all[remote * n] : -1));
    }
    MPI_Intercomm_merge(inter, side, &merged);
    edge_both("merged", merged);
    edge_both("half", half);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    free(all);
}

static int copies, deletions;

static int on_copy(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    copies++;
    *(void **)copy = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    deletions++;
    return MPI_SUCCESS;
}

/* The program's own MPI_Comm_idup, with sums between it and its completion. */
static void own_idup(void)
{
    int keyval;
    MPI_Comm base;

    MPI_Comm_create_keyval(on_copy, on_delete, &keyval, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &base);
    MPI_Comm_set_attr(base, keyval, &keyval);
    for (int turn = 0; turn < 4; turn++) {
        MPI_Comm copy;
        MPI_Request request, sum;

        MPI_Comm_idup(base, &copy, &request);
        edge_fill(base, edge.in, 3);
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, base, &sum);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&sum, MPI_STATUS_IGNORE);
        edge_say("nonblocking %s", edge_yes(edge_right(base, edge.out, 3)));
        edge_both("base", base);
        edge_both("copy", copy);
        MPI_Comm_free(&copy);
        edge_say("copied %d, deleted %d", copies, deletions);
    }
    MPI_Comm_free(&base);
    MPI_Comm_free_keyval(&keyval);
    edge_say("copied %d, deleted %d", copies, deletions);
}

static void persistent(void)
{
#if MPI_VERSION >= 4
    MPI_Request request;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Allreduce_init(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL,
                       &request);
    for (int turn = 0; turn < 5; turn++) {
        edge_fill(comm, edge.in, (uint64_t)turn);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        edge_say("persistent %s", edge_yes(edge_right(comm, edge.out, (uint64_t)turn)));
        edge_both("between", comm);
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&comm);
#endif
}

/* ---- requests ---- */

static void tell_status(const char *what, const MPI_Status *status)
{
    int cancelled = -1, count = -1, elements = -1;

    MPI_Test_cancelled(status, &cancelled);
    MPI_Get_count(status, MPI_FLOAT, &count);
    MPI_Get_elements(status, MPI_FLOAT, &elements);
    edge_say("%s: source %d, tag %d, cancelled %d, count %d, elements %d", what, status->MPI_SOURCE,
             status->MPI_TAG, cancelled, count, elements);
}

static MPI_Request start(MPI_Comm comm, int kind, float *out)
{
    MPI_Request request;

    edge_fill(comm, edge.in, 3);
    if (kind == 0)
        MPI_Iallreduce(edge.in, out, edge.count, MPI_FLOAT, MPI_SUM, comm, &request);
    else
        MPI_Iallgather(edge.in, edge.count, MPI_FLOAT, out, edge.count, MPI_FLOAT, comm, &request);
    return request;
}

/* Every way to complete one, and what the status says. */
static void statuses(void)
{
    float *out = input_alloc(sizeof(float) * (size_t)edge.count * (size_t)edge.size);

    for (int kind = 0; kind < 2; kind++)
        for (int turn = 0; turn < 3; turn++) {
            MPI_Status status, three[3];
            MPI_Request request, list[3];
            int flag = 0, index = -1, done = 0, indices[3];

            memset(&status, 0x11, sizeof status);
            request = start(MPI_COMM_WORLD, kind, out);
            MPI_Wait(&request, &status);
            tell_status("wait", &status);
            edge_say("null %s", edge_yes(request == MPI_REQUEST_NULL));
            MPI_Wait(&request, &status);
            tell_status("wait for nothing", &status);
            memset(&status, 0x11, sizeof status);
            request = start(MPI_COMM_WORLD, kind, out);
            while (!flag)
                MPI_Request_get_status(request, &flag, &status);
            tell_status("get_status", &status);
            memset(&status, 0x11, sizeof status);
            MPI_Test(&request, &flag, &status);
            tell_status("test", &status);
            edge_say("done %d, null %s", flag, edge_yes(request == MPI_REQUEST_NULL));
            memset(three, 0x11, sizeof three);
            list[0] = list[2] = MPI_REQUEST_NULL;
            list[1] = start(MPI_COMM_WORLD, kind, out);
            MPI_Waitany(3, list, &index, &three[0]);
            edge_say("index %d", index);
            tell_status("waitany", &three[0]);
            memset(three, 0x11, sizeof three);
            list[0] = start(MPI_COMM_WORLD, kind, out);
            MPI_Waitsome(3, list, &done, indices, three);
            edge_say("some %d, index %d", done, indices[0]);
            tell_status("waitsome", &three[0]);
            memset(three, 0x11, sizeof three);
            list[2] = start(MPI_COMM_WORLD, kind, out);
            MPI_Waitall(3, list, three);
            tell_status("waitall", &three[2]);
            for (flag = 0, list[1] = start(MPI_COMM_WORLD, kind, out); !flag;)
                MPI_Testall(3, list, &flag, three);
            tell_status("testall", &three[1]);
        }
    free(out);
}

/* Errors for requests of collectives, which cannot be cancelled or freed. */
static void cancel_and_free(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 4; turn++) {
        MPI_Request request = start(MPI_COMM_WORLD, 0, edge.out);
        MPI_Status status;
        int cancelled = -1, code;

        code = MPI_Cancel(&request);
        edge_say("cancel: %s", edge_class(code));
        code = MPI_Request_free(&request);
        edge_say("free: %s, null %s", edge_class(code), edge_yes(request == MPI_REQUEST_NULL));
        if (request != MPI_REQUEST_NULL) {
            code = MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &cancelled);
            edge_say("wait: %s, cancelled %d, sum %s", edge_class(code), cancelled,
                     edge_yes(edge_right(MPI_COMM_WORLD, edge.out, 3)));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    edge_both("then", MPI_COMM_WORLD);
}

/* Cancel and free of the program's own point-to-point requests. */
static void other_requests(void)
{
    int x = 0, next = (edge.rank + 1) % edge.size;
    MPI_Request request, persistent_send;
    MPI_Status status;
    int cancelled = -1, flag = -1;

    edge_sums(MPI_COMM_WORLD, 2, 1);
    edge_isum(MPI_COMM_WORLD, 2);
    MPI_Irecv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &request);
    MPI_Request_get_status(request, &flag, &status);
    edge_say("pending %d", flag);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    edge_say("cancelled %d", cancelled);
    MPI_Isend(&x, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    edge_say("freed %s", edge_yes(request == MPI_REQUEST_NULL));
    MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send_init(&x, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &persistent_send);
    MPI_Start(&persistent_send);
    MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&persistent_send, MPI_STATUS_IGNORE);
    MPI_Request_get_status(persistent_send, &flag, &status);
    edge_say("inactive %d", flag);
    MPI_Request_free(&persistent_send);
    MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
    edge_say("null %d", flag);
}

/* Hundreds at once, completed from the last to the first. */
static void many_requests(void)
{
    enum { MANY = 300 };
    static MPI_Request requests[MANY];
    static float small[MANY][10];
    float *outs[4];

    for (int i = 0; i < 4; i++)
        outs[i] = edge_buffer();
    edge_fill(MPI_COMM_WORLD, edge.in, 3);
    for (int i = 0; i < MANY; i++) {
        bool large = i % 75 == 50;

        MPI_Iallreduce(edge.in, large ? outs[i / 75] : small[i], large ? edge.count : 10, MPI_FLOAT,
                       MPI_SUM, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = MANY; i-- > 0;)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; i++) {
        edge_say("nonblocking %s", edge_yes(edge_right(MPI_COMM_WORLD, outs[i], 3)));
        free(outs[i]);
    }
}

/* Lets the other rank make its call only after a message that this rank sends after its own call.
 */
static void waits_elsewhere(void)
{
    int x = 0;

    for (int turn = 0; turn < 6; turn++) {
        MPI_Comm comm;
        MPI_Request request;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (turn % 2)
            edge_sum(comm, 1);
        if (edge.rank != 0)
            MPI_Recv(&x, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
        edge_fill(comm, edge.in, 3);
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, comm, &request);
        for (int r = 1; edge.rank == 0 && r < edge.size; r++)
            MPI_Send(&x, 1, MPI_INT, r, 1, comm);
        MPI_Barrier(comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        edge_say("nonblocking %s", edge_yes(edge_right(comm, edge.out, 3)));
        MPI_Comm_free(&comm);
    }
}

/* On communicators of their own, in another order on each rank. */
static void any_order(void)
{
    enum { N = 8 };
    MPI_Comm comms[N];
    MPI_Request requests[N];
    float *outs[N];

    for (int i = 0; i < N; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        outs[i] = edge_buffer();
    }
    for (int turn = 0; turn < 4; turn++) {
        edge_fill(MPI_COMM_WORLD, edge.in, 3);
        for (int k = 0; k < N; k++) {
            int i = (k * (edge.rank % 2 ? 3 : 1) + edge.rank) % N;

            MPI_Iallreduce(edge.in, outs[i], edge.count, MPI_FLOAT, MPI_SUM, comms[i],
                           &requests[i]);
        }
        for (int k = 0; k < N; k++)
            MPI_Wait(&requests[(k + edge.rank) % N], MPI_STATUS_IGNORE);
        for (int i = 0; i < N; i++)
            edge_say("nonblocking %s", edge_yes(edge_right(comms[i], outs[i], 3)));
    }
    for (int i = 0; i < N; i++) {
        MPI_Comm_free(&comms[i]);
        free(outs[i]);
    }
}

/* ---- threads ---- */

static void *receives(void *into)
{
    MPI_Recv(into, 1, MPI_INT, MPI_ANY_SOURCE, 17, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

/* Lets a thread block in a receive while another thread sums. */
static void beside_a_receive(void)
{
    pthread_t thread;
    int x = 3, got = 0;

    pthread_create(&thread, NULL, receives, &got);
    for (int i = 0; i < 5; i++)
        edge_both("beside", MPI_COMM_WORLD);
    MPI_Send(&x, 1, MPI_INT, (edge.rank + 1) % edge.size, 17, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    edge_say("received %d", got);
}

static void *one_of_many(void *comm)
{
    float *in = edge_buffer(), *out = edge_buffer();
    bool good = true;

    for (int i = 0; i < 10; i++) {
        MPI_Request request;

        edge_fill(*(MPI_Comm *)comm, in, 3);
        MPI_Allreduce(in, out, edge.count, MPI_FLOAT, MPI_SUM, *(MPI_Comm *)comm);
        good = edge_right(*(MPI_Comm *)comm, out, 3) && good;
        MPI_Iallreduce(in, out, edge.count, MPI_FLOAT, MPI_SUM, *(MPI_Comm *)comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        good = edge_right(*(MPI_Comm *)comm, out, 3) && good;
    }
    edge_say("a thread's sums %s", edge_yes(good));
    free(in);
    free(out);
    return NULL;
}

static void threads_of_their_own(void)
{
    MPI_Comm comms[4];
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, one_of_many, &comms[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        MPI_Comm_free(&comms[i]);
}

/* Makes the calls in several threads, one after the other. */
static void threads_in_turn(void)
{
    static MPI_Comm world = MPI_COMM_WORLD;
    pthread_t thread;

    for (int i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, one_of_many, &world);
        pthread_join(thread, NULL);
    }
}

static const struct edge_case cases[] = {
    {"topologies", EDGE_INIT, topologies},
    {"topologies-multiple", MPI_THREAD_MULTIPLE, topologies},
    {"parts", EDGE_INIT, parts},
    {"parts-multiple", MPI_THREAD_MULTIPLE, parts},
    {"groups", EDGE_INIT, between_groups},
    {"groups-multiple", MPI_THREAD_MULTIPLE, between_groups},
    {"idup", EDGE_INIT, own_idup},
    {"idup-multiple", MPI_THREAD_MULTIPLE, own_idup},
    {"persistent", EDGE_INIT, persistent},
    {"persistent-multiple", MPI_THREAD_MULTIPLE, persistent},
    {"statuses", EDGE_INIT, statuses},
    {"statuses-multiple", MPI_THREAD_MULTIPLE, statuses},
    {"cancel", EDGE_INIT, cancel_and_free},
    {"cancel-multiple", MPI_THREAD_MULTIPLE, cancel_and_free},
    {"others", EDGE_INIT, other_requests},
    {"others-multiple", MPI_THREAD_MULTIPLE, other_requests},
    {"many", EDGE_INIT, many_requests},
    {"many-multiple", MPI_THREAD_MULTIPLE, many_requests},
    {"elsewhere", EDGE_INIT, waits_elsewhere},
    {"elsewhere-multiple", MPI_THREAD_MULTIPLE, waits_elsewhere},
    {"order", EDGE_INIT, any_order},
    {"order-multiple", MPI_THREAD_MULTIPLE, any_order},
    {"receive-multiple", MPI_THREAD_MULTIPLE, beside_a_receive},
    {"threads-multiple", MPI_THREAD_MULTIPLE, threads_of_their_own},
    {"turns", MPI_THREAD_SERIALIZED, threads_in_turn},
};

EDGE_MAIN(cases)
