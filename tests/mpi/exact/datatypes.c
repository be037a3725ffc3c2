/* clang-format off */
/* Predefined datatypes and what becomes of each, and types that ranks name differently.
 *
 *     datatypes list    the names of all, each with served or passed
 *     datatypes served  sums of those that are, and what the operators on bits make of integers
 *     datatypes passed  sums of the others
 *     datatypes names   each rank has another name for one type: the sums are right
 *     datatypes gone    handles of no type: the program ends as without the library
 *     datatypes wrong   handles that the MPI library refuses: the same errors, and the same handlers
 */
/* clang-format on */
#include <stdint.h>
#include <string.h>

#include "tests/mpi/support/tap.h"

enum { N = 30000, EVERY = 50, WIDEST = 32 };

static unsigned char in[N * WIDEST], out[N * WIDEST], native[N * WIDEST];

static const struct {
    const char *name;
    MPI_Datatype type;
    bool served;
} types[] = {
#define SERVED(name)                                                                               \
    {                                                                                              \
#name, name, true                                                                          \
    }
#define PASSED(name)                                                                               \
    {                                                                                              \
#name, name, false                                                                         \
    }
    SERVED(MPI_INT),
    SERVED(MPI_UNSIGNED),
    SERVED(MPI_LONG),
    SERVED(MPI_UNSIGNED_LONG),
    SERVED(MPI_LONG_LONG_INT),
    SERVED(MPI_UNSIGNED_LONG_LONG),
    SERVED(MPI_INT32_T),
    SERVED(MPI_INT64_T),
    SERVED(MPI_UINT32_T),
    SERVED(MPI_UINT64_T),
    SERVED(MPI_AINT),
    SERVED(MPI_OFFSET),
    SERVED(MPI_COUNT),
    SERVED(MPI_INTEGER),
    SERVED(MPI_INTEGER4),
    SERVED(MPI_INTEGER8),
    SERVED(MPI_FLOAT),
    SERVED(MPI_DOUBLE),
    SERVED(MPI_REAL),
    SERVED(MPI_REAL4),
    SERVED(MPI_REAL8),
    SERVED(MPI_DOUBLE_PRECISION),
    PASSED(MPI_CHAR),
    PASSED(MPI_SIGNED_CHAR),
    PASSED(MPI_UNSIGNED_CHAR),
    PASSED(MPI_BYTE),
    PASSED(MPI_WCHAR),
    PASSED(MPI_SHORT),
    PASSED(MPI_UNSIGNED_SHORT),
    PASSED(MPI_LONG_DOUBLE),
    PASSED(MPI_PACKED),
    PASSED(MPI_LB),
    PASSED(MPI_UB),
    PASSED(MPI_FLOAT_INT),
    PASSED(MPI_DOUBLE_INT),
    PASSED(MPI_LONG_INT),
    PASSED(MPI_SHORT_INT),
    PASSED(MPI_2INT),
    PASSED(MPI_LONG_DOUBLE_INT),
    PASSED(MPI_COMPLEX),
    PASSED(MPI_DOUBLE_COMPLEX),
    PASSED(MPI_LOGICAL),
    PASSED(MPI_2INTEGER),
    PASSED(MPI_2REAL),
    PASSED(MPI_2DOUBLE_PRECISION),
    PASSED(MPI_CHARACTER),
    PASSED(MPI_REAL16),
    PASSED(MPI_COMPLEX8),
    PASSED(MPI_COMPLEX16),
    PASSED(MPI_COMPLEX32),
    PASSED(MPI_INTEGER1),
    PASSED(MPI_INTEGER2),
    PASSED(MPI_INTEGER16),
    PASSED(MPI_INT8_T),
    PASSED(MPI_INT16_T),
    PASSED(MPI_UINT8_T),
    PASSED(MPI_UINT16_T),
    PASSED(MPI_C_BOOL),
    PASSED(MPI_C_FLOAT_COMPLEX),
    PASSED(MPI_C_DOUBLE_COMPLEX),
    PASSED(MPI_C_LONG_DOUBLE_COMPLEX),
    PASSED(MPIX_C_FLOAT16),
    PASSED(MPI_CXX_BOOL),
    PASSED(MPI_CXX_FLOAT_COMPLEX),
    PASSED(MPI_CXX_DOUBLE_COMPLEX),
    PASSED(MPI_CXX_LONG_DOUBLE_COMPLEX),
    PASSED(MPI_DATATYPE_NULL),
};
enum { TYPES = sizeof types / sizeof *types };

static const MPI_Op operators[] = {MPI_SUM, MPI_BOR, MPI_BXOR, MPI_LOR, MPI_LXOR};

enum { OPERATORS = sizeof operators / sizeof *operators };

static bool is_real(MPI_Datatype type)
{
    const MPI_Datatype reals[] = {MPI_FLOAT, MPI_DOUBLE, MPI_REAL,
                                  MPI_REAL4, MPI_REAL8,  MPI_DOUBLE_PRECISION};

    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (reals[i] == type)
            return true;
    return false;
}

/* Floats that are small whole numbers, and integers that overflow: both add up alike in any order.
 */
static void fill(MPI_Datatype type, bool real)
{
    int size;

    MPI_Type_size(type, &size);
    memset(in, 0, sizeof in);
    for (int i = 0; i < N; i += EVERY) {
        const int64_t number = real ? i + tap.rank : INT64_MAX / 3 * 2 + i - tap.rank;
        const float narrow = (float)number;
        const double wide = (double)number;
        const void *value = &number;

        if (real)
            value = size == 4 ? (const void *)&narrow : (const void *)&wide;
        memcpy(in + (size_t)i * (size_t)size, value, (size_t)size);
    }
}

static void serve(void)
{
    int taken = 0;

    for (int i = 0; i < TYPES && types[i].served; i++) {
        bool same = true;
        int size;

        MPI_Type_size(types[i].type, &size);
        fill(types[i].type, is_real(types[i].type));
        /* MPICH 4 takes LOR of floats on one rank, and fails in an assertion on several. */
        for (size_t o = 0; o < (is_real(types[i].type) ? 1 : OPERATORS); o++) {
            int bare = PMPI_Allreduce(in, native, N, types[i].type, operators[o], tap.comm);
            int err = MPI_Allreduce(in, out, N, types[i].type, operators[o], tap.comm);

            MPI_Error_class(bare, &bare);
            MPI_Error_class(err, &err);
            taken += bare == MPI_SUCCESS;
            same = same && err == bare &&
                   (err != MPI_SUCCESS || memcmp(out, native, (size_t)N * (size_t)size) == 0);
        }
        tap_ok(same, "%s: sums and operators as the MPI library has them", types[i].name);
    }
    tap_note("%d calls that the MPI library takes", taken);
}

static void pass(void)
{
    for (int i = 0; i < TYPES; i++) {
        if (types[i].served || types[i].type == MPIX_C_FLOAT16) /* MPICH cannot pack that */
            continue;
        const int bare = PMPI_Allreduce(in, native, N, types[i].type, MPI_SUM, tap.comm);
        const int err = MPI_Allreduce(in, out, N, types[i].type, MPI_SUM, tap.comm);

        tap_ok((err == MPI_SUCCESS) == (bare == MPI_SUCCESS), "%s: as without the library",
               types[i].name);
    }
}

/* ---- names ---- */

enum form { ALLREDUCE, IN_PLACE, REDUCE, SCATTER, NONBLOCKING, FORMS };
static const char *const forms[] = {"allreduce", "in place", "reduce", "reduce_scatter_block",
                                    "nonblocking"};

static void call(enum form form, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request;

    memcpy(out, in, sizeof out);
    switch (form) {
    case ALLREDUCE:
        MPI_Allreduce(in, out, N, type, op, MPI_COMM_WORLD);
        break;
    case IN_PLACE:
        MPI_Allreduce(MPI_IN_PLACE, out, N, type, op, MPI_COMM_WORLD);
        break;
    case REDUCE:
        MPI_Reduce(in, out, N, type, op, 0, MPI_COMM_WORLD);
        break;
    case SCATTER:
        MPI_Reduce_scatter_block(in, out, N / tap.size, type, op, MPI_COMM_WORLD);
        break;
    default:
        MPI_Iallreduce(in, out, N, type, op, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* `native` has the result with `type` on all ranks. */
static bool is_right(enum form form, size_t size)
{
    size_t elements = N, first = 0;

    if (form == SCATTER) {
        elements /= (size_t)tap.size;
        first = (size_t)tap.rank * elements;
    } else if (form == REDUCE && tap.rank != 0) {
        elements = 0;
    }
    return memcmp(out, native + first * size, elements * size) == 0;
}

/* names[rank % 3]; the first is one that all ranks could have. */
static void differ(const char *what, const MPI_Datatype *names, MPI_Op op, bool real)
{
    const MPI_Datatype mine = names[tap.rank % 3];
    int size;

    MPI_Type_size(names[0], &size);
    fill(names[0], real);
    PMPI_Allreduce(in, native, N, names[0], op, MPI_COMM_WORLD);
    for (int form = 0; form < FORMS; form++) {
        call((enum form)form, mine, op);
        tap_ok(is_right((enum form)form, (size_t)size), "%s: %s", what, forms[form]);
    }
    MPI_Allgather(in, N / 8, mine, out, N / 8, mine, MPI_COMM_WORLD);
    PMPI_Allgather(in, N / 8, names[0], native, N / 8, names[0], MPI_COMM_WORLD);
    tap_ok(memcmp(out, native, (size_t)(N / 8 * tap.size * size)) == 0, "%s: allgather", what);
}

static void names(void)
{
    MPI_Datatype real, wide, integer, longer;

    MPI_Type_create_f90_real(6, 37, &real);
    MPI_Type_create_f90_real(15, 307, &wide);
    MPI_Type_create_f90_integer(9, &integer);
    MPI_Type_create_f90_integer(18, &longer);
    differ("LONG, AINT, OFFSET", (MPI_Datatype[]){MPI_LONG, MPI_AINT, MPI_OFFSET}, MPI_SUM, false);
    differ("COUNT, INT64_T, INTEGER8", (MPI_Datatype[]){MPI_COUNT, MPI_INT64_T, MPI_INTEGER8},
           MPI_SUM, false);
    differ("UNSIGNED_LONG, COUNT, AINT", (MPI_Datatype[]){MPI_UNSIGNED_LONG, MPI_COUNT, MPI_AINT},
           MPI_BXOR, false);
    differ("UNSIGNED, INT, UINT32_T", (MPI_Datatype[]){MPI_UNSIGNED, MPI_INT, MPI_UINT32_T},
           MPI_LOR, false);
    differ("OFFSET, LONG_LONG, AINT", (MPI_Datatype[]){MPI_OFFSET, MPI_LONG_LONG, MPI_AINT},
           MPI_LXOR, false);
    differ("FLOAT, f90_real(6, 37), REAL", (MPI_Datatype[]){MPI_FLOAT, real, MPI_REAL}, MPI_SUM,
           true);
    differ("DOUBLE, f90_real(15, 307), REAL8", (MPI_Datatype[]){MPI_DOUBLE, wide, MPI_REAL8},
           MPI_SUM, true);
    differ("INT, f90_integer(9), INTEGER", (MPI_Datatype[]){MPI_INT, integer, MPI_INTEGER}, MPI_SUM,
           false);
    differ("LONG, f90_integer(18), COUNT", (MPI_Datatype[]){MPI_LONG, longer, MPI_COUNT}, MPI_BOR,
           false);
}

/* ---- handles that are refused ---- */

static int heard;

static void hear(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    heard++;
}

/* Error class, and what the handlers have heard. */
static bool is_refused_alike(MPI_Datatype type, MPI_Op op)
{
    int bare, err, before;

    heard = 0;
    bare = PMPI_Allreduce(in, native, N, type, op, MPI_COMM_WORLD);
    before = heard;
    heard = 0;
    err = MPI_Allreduce(in, out, N, type, op, MPI_COMM_WORLD);
    MPI_Error_class(bare, &bare);
    MPI_Error_class(err, &err);
    return err == bare && heard == before;
}

/* MPICH 4.0.2 may crash while it writes the error's text. */
static void gone(void)
{
    MPI_Datatype freed;

    MPI_Type_contiguous(4, MPI_INT, &freed);
    MPI_Type_commit(&freed);
    const MPI_Datatype before = freed;
    MPI_Type_free(&freed);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    tap_ok(is_refused_alike(before, MPI_SUM), "a type that was freed");
    tap_ok(is_refused_alike((MPI_Datatype)0x8c0001ff, MPI_SUM), "a handle that never was");
}

static void wrong(void)
{
    MPI_Datatype made, uncommitted, real, integer, small;
    MPI_Errhandler handler;

    MPI_Type_create_f90_real(6, 37, &real);
    MPI_Type_create_f90_integer(9, &integer);
    MPI_Type_create_f90_integer(4, &small);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Type_dup(MPI_INT, &made);
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    for (int turn = 0; turn < 2; turn++) {
        tap_ok(is_refused_alike(made, MPI_SUM), "a duplicate of MPI_INT");
        tap_ok(is_refused_alike(uncommitted, MPI_SUM), "a type that is not committed");
        tap_ok(is_refused_alike(MPI_DATATYPE_NULL, MPI_SUM), "MPI_DATATYPE_NULL");
        tap_ok(is_refused_alike(real, MPI_BOR), "f90_real(6, 37), MPI_BOR");
        tap_ok(is_refused_alike(real, MPI_OP_NULL), "f90_real(6, 37), MPI_OP_NULL");
        tap_ok(is_refused_alike(small, MPI_SUM), "f90_integer(4)");
        tap_ok(is_refused_alike(real, MPI_MAX), "f90_real(6, 37), MPI_MAX");
        tap_ok(is_refused_alike(MPI_INTEGER, MPI_LOR), "MPI_INTEGER, MPI_LOR");
        tap_ok(is_refused_alike(integer, MPI_LXOR), "f90_integer(9), MPI_LXOR");
        tap_ok(is_refused_alike(real, MPI_SUM), "f90_real(6, 37), MPI_SUM");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Type_free(&made);
    MPI_Type_free(&uncommitted);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "served";
    int level, status;

    if (strcmp(what, "list") == 0) {
        for (int i = 0; i < TYPES; i++)
            printf("%s %s\n", types[i].name, types[i].served ? "served" : "passed");
        return 0;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    tap_begin(MPI_COMM_WORLD);
    fill(MPI_FLOAT, true);
    MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, tap.comm); /* the first on its communicator */
    if (strcmp(what, "served") == 0 || strcmp(what, "passed") == 0)
        MPI_Comm_set_errhandler(tap.comm, MPI_ERRORS_RETURN);
    if (strcmp(what, "served") == 0)
        serve();
    else if (strcmp(what, "passed") == 0)
        pass();
    else if (strcmp(what, "names") == 0)
        names();
    else if (strcmp(what, "gone") == 0)
        gone();
    else
        wrong();
    fill(MPI_FLOAT, true);
    MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, tap.comm);
    status = tap_end();
    MPI_Finalize();
    return status;
}
