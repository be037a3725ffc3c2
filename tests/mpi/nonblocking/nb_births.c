/* nb_births: nonblocking sums on communicators made in every way, with what may come between them.
 *
 *   nb_births fourth [MAKER|all [KIND|all]]  five calls, the fourth of another kind
 *   nb_births operator [MAKER|all]  rank 0 makes an operator behind the first sum
 *   nb_births type [MAKER|all]      rank 0 gives a datatype an attribute with a delete function
 *   nb_births keyval [MAKER|all]    rank 0 gives MPI_COMM_SELF one
 *   nb_births copy [MAKER|all]      MPI_COMM_WORLD has an attribute with a copy function
 *   nb_births free [MAKER|all]      communicators are freed with a sum in flight
 *   nb_births served [MAKER|all]    only sums, of another count for each maker
 *
 * Rank 0 is late by some milliseconds between the calls, which changes no result. The programs ask
 * for MPI_THREAD_MULTIPLE, but for "served".
 */
#include "tests/mpi/nonblocking/births.h"

enum { SMALL = 10, DEADLINE = 100 };

static struct sum sums[BIRTHS_SUMS];
static const char *only_maker = "all", *only_kind = "all";
static int calls, copies;

/* Makes rank 0 late. The order of the calls fails then if anything depends on it. */
static void late(void)
{
    if (tap.rank == 0)
        nb_user_code(0.004);
}

/* ---- five calls, the fourth of another kind ---- */

static MPI_Request fourth_request;
static double fourth_word;
static MPI_Comm fourth_comm;

static bool end_request(const struct birth *b)
{
    (void)b;
    return MPI_Wait(&fourth_request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

static bool wrong_word(const struct birth *b, double expected)
{
    if (fourth_word == expected)
        return false;
    fprintf(stderr, "%s: rank %d: the fourth call gives %g, not %g\n", b->maker, b->rank,
            fourth_word, expected);
    return true;
}

static void begin_sum(const struct birth *b)
{
    births_post(&sums[3], b, MPI_SUM, BIRTHS_COUNT, ++calls);
}

static void begin_small(const struct birth *b)
{
    births_post(&sums[3], b, MPI_SUM, SMALL, ++calls);
}

static void begin_max(const struct birth *b)
{
    births_post(&sums[3], b, MPI_MAX, BIRTHS_COUNT, ++calls);
}

static bool end_sum(const struct birth *b)
{
    return births_wait(&sums[3], 1, b);
}

static void begin_double(const struct birth *b)
{
    fourth_word = b->rank + 1;
    MPI_Iallreduce(MPI_IN_PLACE, &fourth_word, 1, MPI_DOUBLE, MPI_SUM, b->comm, &fourth_request);
}

static bool end_double(const struct birth *b)
{
    return end_request(b) && !wrong_word(b, b->size * (b->size + 1) / 2);
}

static void begin_barrier(const struct birth *b)
{
    MPI_Ibarrier(b->comm, &fourth_request);
}

static void begin_bcast(const struct birth *b)
{
    fourth_word = b->rank == 0 ? 4711 : 0;
    MPI_Ibcast(&fourth_word, 1, MPI_DOUBLE, 0, b->comm, &fourth_request);
}

static bool end_bcast(const struct birth *b)
{
    return end_request(b) && !wrong_word(b, 4711);
}

static void begin_dup(const struct birth *b)
{
    MPI_Comm_dup(b->comm, &fourth_comm);
}

static void begin_split(const struct birth *b)
{
    MPI_Comm_split(b->comm, b->rank % 2, 0, &fourth_comm);
}

static bool end_comm(const struct birth *b)
{
    int size;

    (void)b;
    MPI_Comm_size(fourth_comm, &size);
    MPI_Comm_free(&fourth_comm);
    return size >= 1;
}

static void begin_blocking(const struct birth *b)
{
    fourth_word = b->rank + 1;
    MPI_Allreduce(MPI_IN_PLACE, &fourth_word, 1, MPI_DOUBLE, MPI_SUM, b->comm);
    fourth_request = MPI_REQUEST_NULL;
}

static const struct kind {
    const char *name;
    void (*begin)(const struct birth *b);
    bool (*end)(const struct birth *b);
} kinds[] = {
    {"max", begin_max, end_sum},
    {"sum", begin_sum, end_sum},
    {"small", begin_small, end_sum},
    {"double", begin_double, end_double},
    {"barrier", begin_barrier, end_request},
    {"bcast", begin_bcast, end_bcast},
    {"blocking", begin_blocking, end_double},
    {"dup", begin_dup, end_comm},
    {"split", begin_split, end_comm},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool chosen(const char *name, const char *only)
{
    return strcmp(only, "all") == 0 || strcmp(only, name) == 0;
}

static bool five_calls(const struct birth *b, const struct kind *kind)
{
    bool right;

    for (int i = 0; i < 3; i++) {
        if (i > 0)
            late();
        births_post(&sums[i], b, MPI_SUM, BIRTHS_COUNT, ++calls);
    }
    kind->begin(b);
    births_post(&sums[4], b, MPI_SUM, BIRTHS_COUNT, ++calls);
    right = births_wait(sums, 3, b);
    right = kind->end(b) && right;
    right = births_wait(&sums[4], 1, b) && right;
    return right;
}

/* Makes calls of all sorts on a communicator that a blocking sum may have made a first exchange
 * on. */
static bool blocking_and_more(const struct birth *b, const struct kind *kind)
{
    bool right = births_blocking(&sums[0], b, ++calls);

    return five_calls(b, kind) && right;
}

static void fourth_of(const struct births_maker *maker, const struct kind *kind, bool more)
{
    struct birth b;
    bool right;

    nb_within(DEADLINE, "%s, fourth is %s", maker->name, kind->name);
    b = births_make(maker);
    right = five_calls(&b, kind);
    if (more)
        right = blocking_and_more(&b, kind) && right;
    births_end(&b);
    tap_ok(right, "%s: five calls, the fourth is %s", maker->name, kind->name);
}

/* MPI_Comm_dup of what MPI_Dist_graph_create made sometimes hangs in Open MPI 4.1. */
static bool hangs_bare(const struct births_maker *maker, const struct kind *kind)
{
#ifdef OPEN_MPI
    return maker->make == births_dist_graph && kind->begin == begin_dup;
#else
    (void)maker, (void)kind;
    return false;
#endif
}

/* Each maker has a parent of its own: the library need not serve all that is made from one. */
static void check_fourth(void)
{
    for (int m = 0; m < BIRTHS_MAKERS; m++) {
        if (!chosen(births_makers[m].name, only_maker))
            continue;
        MPI_Comm_dup(MPI_COMM_WORLD, &births_parent);
        for (int k = 0; k < KINDS; k++)
            if (chosen(kinds[k].name, only_kind) && !hangs_bare(&births_makers[m], &kinds[k]))
                fourth_of(&births_makers[m], &kinds[k], k == m % KINDS);
        MPI_Comm_free(&births_parent);
    }
}

/* ---- callbacks on rank 0 alone, behind the first sum ---- */

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *len; i++)
        ((float *)inout)[i] += ((const float *)in)[i];
}

static int deleted_type(MPI_Datatype type, int keyval, void *value, void *extra)
{
    (void)type, (void)keyval, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static void make_operator(void)
{
    MPI_Op op;

    MPI_Op_create(add, 1, &op);
}

static void make_type(void)
{
    MPI_Datatype type;
    int keyval;

    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, deleted_type, &keyval, NULL);
    MPI_Type_contiguous(2, MPI_FLOAT, &type);
    MPI_Type_commit(&type);
    MPI_Type_set_attr(type, keyval, &copies);
}

static void make_keyval(void)
{
    int keyval;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &copies);
}

/* Makes all communicators and the first sum on each, then the callback, then more sums. */
static void check_callback(void (*make)(void))
{
    struct birth born[BIRTHS_MAKERS];
    bool right[BIRTHS_MAKERS];

    for (int m = 0; m < BIRTHS_MAKERS; m++) {
        if (!chosen(births_makers[m].name, only_maker))
            continue;
        nb_within(DEADLINE, "%s, the first sum", births_makers[m].name);
        born[m] = births_make(&births_makers[m]);
        births_post(&sums[0], &born[m], MPI_SUM, BIRTHS_COUNT, ++calls);
        right[m] = births_wait(sums, 1, &born[m]);
        MPI_Barrier(born[m].comm);
    }
    if (tap.rank == 0)
        make();
    for (int m = 0; m < BIRTHS_MAKERS; m++) {
        if (!chosen(births_makers[m].name, only_maker))
            continue;
        nb_within(DEADLINE, "%s, behind the callback", births_makers[m].name);
        late();
        for (int i = 0; i < 3; i++)
            births_post(&sums[i], &born[m], MPI_SUM, i < 2 ? BIRTHS_COUNT : SMALL, ++calls);
        right[m] = births_wait(sums, 3, &born[m]) && right[m];
        right[m] = blocking_and_more(&born[m], &kinds[m % KINDS]) && right[m];
        births_end(&born[m]);
        tap_ok(right[m], "%s: rank 0 has a callback behind the first sum", births_makers[m].name);
    }
}

/* ---- a copy function of MPI_COMM_WORLD ---- */

static int copied(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    copies++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void check_copy(void)
{
    int keyval;

    MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &copies);
    for (int m = 0; m < BIRTHS_MAKERS; m++) {
        struct birth b;
        int born;
        bool right;

        if (!chosen(births_makers[m].name, only_maker))
            continue;
        nb_within(DEADLINE, "%s, with a copy function", births_makers[m].name);
        copies = 0;
        b = births_make(&births_makers[m]);
        born = copies;
        right = five_calls(&b, &kinds[m % 2]);
        right = births_blocking(&sums[0], &b, ++calls) && right;
        tap_ok(right, "%s: sums are right with a copy function", b.maker);
        tap_ok(copies == born, "%s: no sum runs the copy function", b.maker);
        tap_ok(born == births_makers[m].copies, "%s: the copy function runs as it would", b.maker);
        births_end(&b);
    }
}

/* ---- MPI_Comm_free ---- */

/* Rank 0 sends a word behind its MPI_Comm_free; the second sum of the others comes behind that. */
static void check_free(void)
{
    for (int m = 1; m < BIRTHS_MAKERS; m++) {
        int word = 0;
        struct birth b;
        bool right;

        if (!chosen(births_makers[m].name, only_maker))
            continue;
        nb_within(DEADLINE, "%s, freed with a sum in flight", births_makers[m].name);
        b = births_make(&births_makers[m]);
        births_post(&sums[0], &b, MPI_SUM, BIRTHS_COUNT, ++calls);
        right = births_wait(sums, 1, &b);
        if (tap.rank > 0)
            MPI_Recv(&word, 1, MPI_INT, 0, m, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        births_post(&sums[1], &b, MPI_SUM, BIRTHS_COUNT, ++calls);
        MPI_Comm_free(&b.comm);
        for (int r = 1; r < tap.size && tap.rank == 0; r++)
            MPI_Send(&word, 1, MPI_INT, r, m, MPI_COMM_WORLD);
        right = births_wait(&sums[1], 1, &b) && right;
        tap_ok(right, "%s: freed with a sum in flight, which others post later", b.maker);
    }
}

/* ---- sums that are served ---- */

/* The report tells by the count how many of these were made sparse. */
static void check_served(void)
{
    for (int m = 0; m < BIRTHS_MAKERS; m++) {
        struct birth b;
        bool right = true;

        if (!chosen(births_makers[m].name, only_maker))
            continue;
        nb_within(DEADLINE, "%s, only sums", births_makers[m].name);
        b = births_make(&births_makers[m]);
        for (int step = 0; step < 2; step++) {
            for (int i = 0; i < 5; i++)
                births_post(&sums[i], &b, MPI_SUM, BIRTHS_COUNT - m, ++calls);
            right = births_wait(sums, 5, &b) && right;
        }
        births_end(&b);
        tap_ok(right, "%s: %d floats, %s", b.maker, BIRTHS_COUNT - m,
               births_makers[m].served ? "served" : "may pass");
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    only_maker = argc > 2 ? argv[2] : only_maker;
    only_kind = argc > 3 ? argv[3] : only_kind;
    births_begin(&argc, &argv, strcmp(what, "served") != 0);
    if (strcmp(what, "fourth") == 0)
        check_fourth();
    else if (strcmp(what, "operator") == 0)
        check_callback(make_operator);
    else if (strcmp(what, "type") == 0)
        check_callback(make_type);
    else if (strcmp(what, "keyval") == 0)
        check_callback(make_keyval);
    else if (strcmp(what, "copy") == 0)
        check_copy();
    else if (strcmp(what, "free") == 0)
        check_free();
    else if (strcmp(what, "served") == 0)
        check_served();
    return births_finalize();
}
