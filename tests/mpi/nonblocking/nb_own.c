/* A program at MPI_THREAD_MULTIPLE with code of its own that MPI may run: operators and attribute
 * keys, made or used while a nonblocking sum is in flight. A rank then blocks in MPI_Recv or in a
 * blocking reduction, and needs nothing but progress of the sum: the other ranks wait for the sum
 * and then come to their next call. Operators and callbacks run in the program's thread alone.
 *
 *     nb_own SCENE [FORM [RANK]]
 *
 * FORM: the reduction with an operator of the program's; RANK: the one that blocks.
 */
#include "tests/mpi/support/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 70000, SMALL = 500, ROOT = 0, TAG = 7, MOST = 8, SECONDS = 20 };

static _Thread_local bool mine; /* this thread is the program's */
static atomic_int elsewhere, runs;

static void note(void)
{
    atomic_fetch_add(&runs, 1);
    if (!mine)
        atomic_fetch_add(&elsewhere, 1);
}

static void own_sum(void *in, void *inout, int *n, MPI_Datatype *type)
{
    int elements = 1;

    note();
    if (*type != MPI_INT)
        elements = 2;
    for (int i = 0; i < *n * elements; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static int on_copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    note();
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    note();
    return MPI_SUCCESS;
}

/* ---- sums of the library's, with few elements not zero ---- */

struct sum {
    MPI_Request request;
    float values[COUNT];
};
static struct sum sums[2];

static void fill(float *x, int call)
{
    memset(x, 0, COUNT * sizeof *x);
    for (int i = call; i < COUNT; i += 997)
        x[i] = (float)(tap.rank + 1);
}

static bool is_sum(const float *x, int call)
{
    float all = (float)(tap.size * (tap.size + 1) / 2);

    for (int i = 0; i < COUNT; i++)
        if (x[i] != (i >= call && (i - call) % 997 == 0 ? all : 0))
            return false;
    return true;
}

static void start(int k, MPI_Comm comm)
{
    fill(sums[k].values, k);
    MPI_Iallreduce(MPI_IN_PLACE, sums[k].values, COUNT, MPI_FLOAT, MPI_SUM, comm, &sums[k].request);
}

static bool finish(int k)
{
    MPI_Wait(&sums[k].request, MPI_STATUS_IGNORE);
    return is_sum(sums[k].values, k);
}

/* Blocking calls first, so that the communicator takes nonblocking ones over. */
static bool meet(MPI_Comm comm)
{
    bool right = true;

    for (int k = 0; k < 3; k++) {
        fill(sums[0].values, k);
        MPI_Allreduce(MPI_IN_PLACE, sums[0].values, COUNT, MPI_FLOAT, MPI_SUM, comm);
        right = right && is_sum(sums[0].values, k);
    }
    return right;
}

/* ---- reductions with an operator of the program's ---- */

enum form { ALLREDUCE, REDUCE, SCAN, EXSCAN, BLOCK, SCATTER };
static const char *const forms[] = {"allreduce", "reduce", "scan", "exscan", "block", "scatter"};

static MPI_Op op = MPI_OP_NULL;
static MPI_Datatype type = MPI_INT;
static int in[SMALL * MOST], out[SMALL * MOST], counts[MOST];

static void fill_own(void)
{
    if (op == MPI_OP_NULL) /* the sum before it has been started: it is made sparse */
        MPI_Op_create(own_sum, 1, &op);
    for (int i = 0; i < SMALL * tap.size; i++) {
        in[i] = tap.rank + i;
        out[i] = -1;
    }
    for (int r = 0; r < tap.size; r++)
        counts[r] = SMALL / (type == MPI_INT ? 1 : 2);
}

static void post_own(enum form form, MPI_Comm comm, MPI_Request *request)
{
    const int n = SMALL / (type == MPI_INT ? 1 : 2);

    fill_own();
    if (form == ALLREDUCE)
        MPI_Iallreduce(in, out, n, type, op, comm, request);
    else if (form == REDUCE)
        MPI_Ireduce(in, out, n, type, op, ROOT, comm, request);
    else if (form == SCAN)
        MPI_Iscan(in, out, n, type, op, comm, request);
    else if (form == EXSCAN)
        MPI_Iexscan(in, out, n, type, op, comm, request);
    else if (form == BLOCK)
        MPI_Ireduce_scatter_block(in, out, n, type, op, comm, request);
    else
        MPI_Ireduce_scatter(in, out, counts, type, op, comm, request);
    memset(counts, 0, sizeof counts);
}

static void reduce_own(enum form form, MPI_Comm comm)
{
    fill_own();
    if (form == ALLREDUCE)
        MPI_Allreduce(in, out, SMALL, type, op, comm);
    else if (form == REDUCE)
        MPI_Reduce(in, out, SMALL, type, op, ROOT, comm);
    else if (form == SCAN)
        MPI_Scan(in, out, SMALL, type, op, comm);
    else if (form == EXSCAN)
        MPI_Exscan(in, out, SMALL, type, op, comm);
    else if (form == BLOCK)
        MPI_Reduce_scatter_block(in, out, SMALL, type, op, comm);
    else
        MPI_Reduce_scatter(in, out, counts, type, op, comm);
}

static bool is_own_sum(enum form form)
{
    const int first = form == BLOCK || form == SCATTER ? tap.rank * SMALL : 0;
    const int ranks = form == SCAN ? tap.rank + 1 : form == EXSCAN ? tap.rank : tap.size;

    if ((form == REDUCE && tap.rank != ROOT) || (form == EXSCAN && tap.rank == 0))
        return true;
    for (int i = 0; i < SMALL; i++)
        if (out[i] != ranks * (first + i) + ranks * (ranks - 1) / 2)
            return false;
    return true;
}

/* ---- scenes ---- */

static bool blocks; /* this rank does */
static int blocked; /* it is that one */

/* The blocked rank waits for a message of each other rank, which has come so far. */
static void receive(void)
{
    int word;

    for (int r = 0; r < tap.size; r++)
        if (r != blocked)
            MPI_Recv(&word, 1, MPI_INT, r, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void go_on(void)
{
    MPI_Send(&(int){0}, 1, MPI_INT, blocked, TAG, MPI_COMM_WORLD);
}

static void be_late(void)
{
    if (!blocks)
        usleep(50000);
}

/* An operator or key that nobody uses. */
static bool made(const char *what)
{
    MPI_Comm copy;
    int keyval;

    start(0, MPI_COMM_WORLD);
    if (strcmp(what, "operator") == 0) {
        MPI_Op_create(own_sum, 1, &op);
    } else {
        MPI_Comm_create_keyval(on_copy, on_delete, &keyval, NULL);
        if (strcmp(what, "attached") == 0) {
            MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &keyval);
            MPI_Comm_dup(MPI_COMM_SELF, &copy);
            MPI_Comm_free(&copy);
        }
    }
    if (blocks) {
        receive();
        return finish(0);
    }
    be_late();
    if (!finish(0))
        return false;
    go_on();
    return true;
}

/* Lets the other ranks wait for one of three calls before they go on. */
static bool posted(enum form form, bool wait_for_own, bool with_more)
{
    MPI_Request own;
    bool right = true;

    start(0, MPI_COMM_WORLD);
    post_own(form, MPI_COMM_WORLD, &own);
    if (with_more)
        start(1, MPI_COMM_WORLD);
    if (blocks) {
        receive();
    } else {
        be_late();
        if (with_more)
            right = finish(1);
        else if (!wait_for_own)
            right = finish(0);
        else
            MPI_Wait(&own, MPI_STATUS_IGNORE);
        go_on();
    }
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    right = finish(0) && is_own_sum(form) && right;
    return with_more ? finish(1) && right : right;
}

/* Lets the other ranks come to the operator's call once the sum is there. */
static bool late(enum form form)
{
    MPI_Request own;
    bool right = true;

    start(0, MPI_COMM_WORLD);
    if (!blocks) {
        be_late();
        right = finish(0);
        go_on();
    }
    post_own(form, MPI_COMM_WORLD, &own);
    if (blocks)
        receive();
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    return finish(0) && is_own_sum(form) && right;
}

static bool blocking(enum form form)
{
    bool right;

    start(0, MPI_COMM_WORLD);
    if (blocks) {
        reduce_own(form, MPI_COMM_WORLD);
        return is_own_sum(form) && finish(0);
    }
    be_late();
    right = finish(0);
    reduce_own(form, MPI_COMM_WORLD);
    return right && is_own_sum(form);
}

/* The operator's call is first; it may have ended for MPI, but nobody has asked. */
static bool before(enum form form)
{
    MPI_Request own;
    bool right = true;

    post_own(form, MPI_COMM_WORLD, &own);
    start(0, MPI_COMM_WORLD);
    if (blocks) {
        receive();
    } else {
        be_late();
        right = finish(0);
        go_on();
    }
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    return finish(0) && is_own_sum(form) && right;
}

/* Operator and datatype are freed while the call waits for its turn. */
static bool freed(enum form form)
{
    bool right;

    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Request own;
    start(0, MPI_COMM_WORLD);
    post_own(form, MPI_COMM_WORLD, &own);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    right = op == MPI_OP_NULL && type == MPI_DATATYPE_NULL;
    type = MPI_INT;
    if (blocks) {
        receive();
    } else {
        be_late();
        right = finish(0) && right;
        go_on();
    }
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    return finish(0) && is_own_sum(form) && right;
}

/* Makes the call while the sum on the world is in flight, on a communicator without first exchange.
 * The rank waits for the call before it blocks. */
static bool other_comm(enum form form)
{
    MPI_Comm comm;
    MPI_Request own;
    bool right;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    post_own(form, comm, &own);
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    right = is_own_sum(form);
    start(0, MPI_COMM_WORLD);
    if (blocks) {
        receive();
    } else {
        be_late();
        right = finish(0) && right;
        go_on();
    }
    MPI_Comm_free(&comm);
    return finish(0) && right;
}

/* A reduction of one rank is under way: no operator runs in it. */
static bool alone(enum form form)
{
    const int n = SMALL / 2;
    MPI_Request own;
    bool right = true;

    start(0, MPI_COMM_WORLD);
    fill_own();
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    if (form == SCAN)
        MPI_Iscan(in, out, n, type, op, MPI_COMM_SELF, &own);
    else if (form == REDUCE)
        MPI_Ireduce(in, out, n, type, op, 0, MPI_COMM_SELF, &own);
    else
        MPI_Iallreduce(in, out, n, type, op, MPI_COMM_SELF, &own);
    if (blocks) {
        receive();
    } else {
        be_late();
        right = finish(0);
        go_on();
    }
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    return finish(0) && memcmp(in, out, SMALL * sizeof *in) == 0 && right;
}

static int on_type_delete(MPI_Datatype deleted, int keyval, void *value, void *extra)
{
    (void)deleted, (void)keyval, (void)value, (void)extra;
    note();
    return MPI_SUCCESS;
}

/* Lets threads of the library come no more: sets an attribute on a datatype, or starts a persistent
 * request. MPI_COMM_WORLD hears of the key or of the operator in a blocking sum before. */
static bool heard(bool by_key)
{
    MPI_Request persistent;
    MPI_Datatype pair;
    bool right;
    int keyval;

    if (by_key)
        MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_type_delete, &keyval, NULL);
    else
        MPI_Op_create(own_sum, 1, &op);
    right = meet(MPI_COMM_WORLD);
    if (by_key) {
        MPI_Type_contiguous(2, MPI_INT, &pair);
        MPI_Type_set_attr(pair, keyval, &keyval);
        MPI_Type_free(&pair);
    } else {
        MPI_Recv_init(in, 1, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &persistent);
        MPI_Start(&persistent);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        MPI_Request_free(&persistent);
    }
    start(0, MPI_COMM_WORLD);
    if (blocks) {
        receive();
    } else {
        be_late();
        right = finish(0) && right;
        go_on();
    }
    return finish(0) && right;
}

static MPI_Comm threads_comm;
static enum form threads_form;

static void *reduce_in_thread(void *result)
{
    MPI_Request own;

    mine = true;
    post_own(threads_form, threads_comm, &own);
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    *(bool *)result = is_own_sum(threads_form);
    reduce_own(threads_form, threads_comm);
    *(bool *)result = is_own_sum(threads_form) && *(bool *)result;
    return NULL;
}

/* A second thread of the program's uses the operator while the first is in MPI_Wait. */
static bool threads(enum form form)
{
    pthread_t thread;
    bool right, others = false;

    MPI_Comm_dup(MPI_COMM_WORLD, &threads_comm);
    threads_form = form;
    start(0, MPI_COMM_WORLD);
    if (blocks)
        usleep(50000);
    pthread_create(&thread, NULL, reduce_in_thread, &others);
    right = finish(0);
    pthread_join(thread, NULL);
    MPI_Comm_free(&threads_comm);
    return right && others;
}

/* The reduction comes first of all, on a communicator of its own: the library serves nothing yet.
 * Then the ranks meet in nonblocking sums, while one of them computes. */
static bool early(enum form form)
{
    MPI_Comm comm;
    MPI_Request own;
    bool right;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (blocks)
        post_own(form, comm, &own);
    start(0, MPI_COMM_WORLD);
    right = finish(0);
    if (!blocks) {
        usleep(50000);
        post_own(form, comm, &own);
        usleep(100000);
    }
    start(0, MPI_COMM_WORLD);
    if (blocks)
        usleep(300000);
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    right = finish(0) && is_own_sum(form) && right;
    MPI_Comm_free(&comm);
    return right;
}

static bool play(const char *scene, enum form form)
{
    if (strcmp(scene, "operator") == 0 || strcmp(scene, "keyval") == 0 ||
        strcmp(scene, "attached") == 0)
        return made(scene);
    if (strcmp(scene, "sum") == 0)
        return posted(form, false, false);
    if (strcmp(scene, "own") == 0)
        return posted(form, true, false);
    if (strcmp(scene, "more") == 0)
        return posted(form, true, true);
    if (strcmp(scene, "late") == 0)
        return late(form);
    if (strcmp(scene, "blocking") == 0)
        return blocking(form);
    if (strcmp(scene, "before") == 0)
        return before(form);
    if (strcmp(scene, "freed") == 0)
        return freed(form);
    if (strcmp(scene, "other") == 0)
        return other_comm(form);
    if (strcmp(scene, "alone") == 0)
        return alone(form);
    if (strcmp(scene, "type") == 0 || strcmp(scene, "persistent") == 0)
        return heard(strcmp(scene, "type") == 0);
    if (strcmp(scene, "threads") == 0)
        return threads(form);
    if (strcmp(scene, "early") == 0)
        return early(form);
    return false;
}

int main(int argc, char **argv)
{
    const char *scene = argc > 1 ? argv[1] : "operator";
    enum form form = ALLREDUCE;
    int provided;
    bool right = true;

    for (int f = 0; argc > 2 && f <= SCATTER; f++)
        if (strcmp(argv[2], forms[f]) == 0)
            form = (enum form)f;
    blocked = argc > 3 ? atoi(argv[3]) : 0;
    alarm(SECONDS);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mine = true;
    tap_begin(MPI_COMM_WORLD);
    blocks = tap.rank == blocked;
    if (strcmp(scene, "early") != 0) {
        right = meet(MPI_COMM_WORLD);
        start(0, MPI_COMM_WORLD);
        right = finish(0) && right;
    }
    right = play(scene, form) && right;
    tap_ok(right, "%s, %s: sums are right", scene, forms[form]);
    for (int k = 0; k < 12 && right; k++) { /* as many as are voted on */
        start(0, MPI_COMM_WORLD);
        right = finish(0);
    }
    tap_ok(right, "sums behind it are right");
    tap_ok(atomic_load(&elsewhere) == 0, "own code runs in no thread but the program's");
    MPI_Finalize();
    return tap_end();
}
