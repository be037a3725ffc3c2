/* Calls of every kind around the eligible one: COMM_SELF, intercommunicators, user operations,
 * derived types, other operators, counts of MPI_Count, subcommunicators. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 2000 };

static float in[COUNT], out[COUNT];

static void eligible_call_between(const char *where)
{
    static uint64_t seed = 100;
    seed++;
    input_fill_whole(in, COUNT, seed, tap.rank);
    MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    tap_ok(input_is_whole_sum(out, COUNT, seed, tap.size), "a sum on COMM_WORLD %s", where);
}

static void self_returns_the_input(void)
{
    bool good = true;
    for (int call = 0; call < 3; call++) {
        input_fill_fractions(in, COUNT, 7, tap.rank);
        memset(out, 0x55, sizeof out);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
        good = good && memcmp(in, out, sizeof in) == 0;
    }
    tap_ok(good, "COMM_SELF gives the input back");
}

static void allreduce_c_sums_like_allreduce(void)
{
#if MPI_VERSION >= 4
    bool good = true;
    for (int call = 0; call < 3; call++) {
        input_fill_whole(in, COUNT, 20, tap.rank);
        MPI_Allreduce_c(in, out, (MPI_Count)COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        good = good && input_is_whole_sum(out, COUNT, 20, tap.size);
        memcpy(out, in, sizeof out);
        MPI_Allreduce_c(MPI_IN_PLACE, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        good = good && input_is_whole_sum(out, COUNT, 20, tap.size);
    }
    tap_ok(good, "MPI_Allreduce_c gives the sum, in place too");
#endif
}

/* Both groups sum; each side receives the sum of the other. */
static void intercommunicators_exchange_sums(void)
{
    MPI_Comm half, inter;
    int side = tap.rank % 2, remote;
    bool good = true;

    if (tap.size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, side, tap.rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 42, &inter);
    MPI_Comm_remote_size(inter, &remote);
    for (int call = 0; call < 3; call++) {
        input_fill_whole(in, COUNT, 30, tap.rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, inter);
        for (int i = 0; i < COUNT; i++) {
            int sum = 0;
            for (int r = 1 - side; r < tap.size; r += 2)
                sum += input_whole(30, r, (uint64_t)i);
            good = good && out[i] == (float)sum;
        }
    }
    tap_ok(good && remote > 0, "an intercommunicator gives the sum of the other group");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void largest_magnitude(void *a, void *b, int *n, MPI_Datatype *type)
{
    float *x = a, *y = b;
    (void)type;
    for (int i = 0; i < *n; i++)
        y[i] = x[i] * x[i] > y[i] * y[i] ? x[i] : y[i];
}

static void user_operations_are_left_alone(void)
{
    MPI_Op op;
    bool good = true;

    MPI_Op_create(largest_magnitude, 1, &op);
    for (int call = 0; call < 3; call++) {
        input_fill_whole(in, COUNT, 40, tap.rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, op, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++) {
            int largest = 0;
            for (int r = 0; r < tap.size; r++) {
                int x = input_whole(40, r, (uint64_t)i);
                largest = abs(x) > largest ? abs(x) : largest;
            }
            good = good && (int)(out[i] * out[i]) == largest * largest;
        }
    }
    tap_ok(good, "a user operation is called");
    MPI_Op_free(&op);
}

static void add_pairs(void *a, void *b, int *n, MPI_Datatype *type)
{
    float *x = a, *y = b;
    (void)type;
    for (int i = 0; i < 2 * *n; i++)
        y[i] += x[i];
}

static void derived_types_are_left_alone(void)
{
    MPI_Datatype pair, same;
    MPI_Op op;
    int class, native_class;
    bool good = true;

    MPI_Type_contiguous(2, MPI_FLOAT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(add_pairs, 1, &op);
    for (int call = 0; call < 3; call++) {
        input_fill_whole(in, COUNT, 50, tap.rank);
        MPI_Allreduce(in, out, COUNT / 2, pair, op, MPI_COMM_WORLD);
        good = good && input_is_whole_sum(out, COUNT, 50, tap.size);
    }
    tap_ok(good, "pairs of floats under a user operation");
    MPI_Op_free(&op);
    MPI_Type_free(&pair);

    /* A duplicate of MPI_FLOAT is another handle, which a predefined operation refuses. */
    MPI_Type_dup(MPI_FLOAT, &same);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Allreduce(in, out, COUNT, same, MPI_SUM, MPI_COMM_WORLD), &class);
    MPI_Error_class(PMPI_Allreduce(in, out, COUNT, same, MPI_SUM, MPI_COMM_WORLD), &native_class);
    tap_ok(class == native_class, "a duplicated MPI_FLOAT gives what the MPI library gives");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Type_free(&same);
}

static void other_operators_are_left_alone(void)
{
    static const struct {
        MPI_Op op;
        const char *name;
    } ops[] = {{MPI_MAX, "MAX"}, {MPI_MIN, "MIN"}, {MPI_PROD, "PROD"}};
    float native[COUNT];

    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        input_fill_whole(in, COUNT, 60 + o, tap.rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, ops[o].op, MPI_COMM_WORLD);
        PMPI_Allreduce(in, native, COUNT, MPI_FLOAT, ops[o].op, MPI_COMM_WORLD);
        tap_ok(memcmp(out, native, sizeof out) == 0, "MPI_%s is bit for bit native", ops[o].name);
    }
}

static void other_types_are_left_alone(void)
{
    static const struct {
        MPI_Datatype type;
        const char *name;
    } types[] = {{MPI_SHORT, "SHORT"},   {MPI_UNSIGNED, "UNSIGNED"},
                 {MPI_INT8_T, "INT8_T"}, {MPI_C_FLOAT_COMPLEX, "C_FLOAT_COMPLEX"},
                 {MPI_BYTE, "BYTE"},     {MPI_C_BOOL, "C_BOOL"}};
    enum { N = 500 };
    unsigned char a[N * 8], b[N * 8], native[N * 8];

    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        MPI_Op op = types[t].type == MPI_BYTE     ? MPI_BXOR
                    : types[t].type == MPI_C_BOOL ? MPI_LOR
                                                  : MPI_SUM;
        int size;
        MPI_Type_size(types[t].type, &size);
        memset(a, 0, sizeof a);
        for (int i = tap.rank; i < N; i += 7)
            a[i * size] = 1;
        memset(b, 0x55, sizeof b);
        memset(native, 0x55, sizeof native);
        MPI_Allreduce(a, b, N, types[t].type, op, MPI_COMM_WORLD);
        PMPI_Allreduce(a, native, N, types[t].type, op, MPI_COMM_WORLD);
        tap_ok(memcmp(b, native, sizeof b) == 0, "MPI_%s is bit for bit native", types[t].name);
    }
}

static void subcommunicators_sum_their_own(void)
{
    MPI_Comm half;
    bool good = true;
    int colour = tap.rank < (tap.size + 1) / 2;

    MPI_Comm_split(MPI_COMM_WORLD, colour, -tap.rank, &half);
    for (int call = 0; call < 4; call++) {
        input_fill_whole(in, COUNT, 70, tap.rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, half);
        for (int i = 0; i < COUNT; i++) {
            int sum = 0;
            for (int r = 0; r < tap.size; r++)
                sum += (r < (tap.size + 1) / 2) == colour ? input_whole(70, r, (uint64_t)i) : 0;
            good = good && out[i] == (float)sum;
        }
    }
    tap_ok(good, "halves of the world, ranks reversed, sum their own");
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    eligible_call_between("before anything else");
    eligible_call_between("again");
    self_returns_the_input();
    allreduce_c_sums_like_allreduce();
    intercommunicators_exchange_sums();
    eligible_call_between("after an intercommunicator");
    user_operations_are_left_alone();
    derived_types_are_left_alone();
    other_operators_are_left_alone();
    other_types_are_left_alone();
    subcommunicators_sum_their_own();
    eligible_call_between("at the end");
    status = tap_end();
    MPI_Finalize();
    return status;
}
