/* clang-format off */
/* Programs with a floating-point environment of their own, in which sums of floats are the MPI
 * library's (but for flushing). Ours are sums of integers, gathers, sums whose environment is set
 * once they are posted, and those that follow when it is the default again. All sums are of small
 * integers, exact in any order, so that the MPI library itself raises nothing.
 *
 *     fptraps traps   invalid, division by zero and overflow are trapped from before MPI_Init on
 *     fptraps every   every exception is, while MPI is up (in MODE=topk with ALPHA or ALGORITHM
 *                     alone an inexact result: where measured times decide, the MPI library may add
 *                     shares of residuals)
 *     fptraps MODE    upward, downward, zero: rounding; flush: flush to zero, denormals are zero,
 *                     and x87 in double precision; set on rank 1 alone before MPI_Init
 */
/* clang-format on */
#include <fenv.h>
#include <stdint.h>
#include <string.h>

#include "shim/sparseshim.h"
#include "tests/mpi/support/tap.h"
#include "tests/support/fp_settings.h"

enum { N = 24000, CALLS = 6, STEPS = 12 };

/* Numbers of elements in 65536 that are not zero. */
static const uint32_t densities[] = {0, 30, 1300, 20000, 65536};
enum { DENSITIES = sizeof densities / sizeof *densities };

/* Traps, rounding, flushing; of x87 also the precision. */
struct environment {
    ss_fpenv vector;
    unsigned short x87;
};

static struct environment environment(void)
{
    struct environment e = {.vector = fp_settings()};

#if defined(__x86_64__)
    __asm__ volatile("fnstcw %0" : "=m"(e.x87));
#endif
    return e;
}

static struct environment wanted;
static int watched = FE_ALL_EXCEPT; /* the MPI library raises none of these */
static bool kept = true, silent = true, right = true;

static bool is_wanted(void)
{
    struct environment now = environment();

    return now.vector == wanted.vector && now.x87 == wanted.x87;
}

/* After each call. */
static void look(void)
{
    kept = kept && is_wanted();
    silent = silent && fetestexcept(watched) == 0;
}

static void *room(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

/* Integers: nothing that is done to them here rounds. */
static void fill(float *in, uint32_t density, int call)
{
    uint32_t random = (uint32_t)(call * 16 + tap.rank + 1) * 2654435761u;

    for (int i = 0; i < N; i++) {
        random = random * 1664525u + 1013904223u;
        in[i] = random >> 16 < density ? (float)(int)(random % 63) - 31 : 0;
    }
    feclearexcept(FE_ALL_EXCEPT);
}

/* Rounding downward, the MPI library makes 1 - 1 a -0. */
static bool is_sum(const float *in, const float *out)
{
    static float sum[N];
    bool is = true;

    PMPI_Reduce(in, sum, N, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Bcast(sum, N, MPI_FLOAT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++)
        is = is && sum[i] == out[i];
    return is;
}

/* ---- the calls ---- */

static void reduce_all(const float *in, float *out, bool exact)
{
    MPI_Request request;

    MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    look();
    right = right && (!exact || is_sum(in, out));
    feclearexcept(FE_ALL_EXCEPT);
    MPI_Iallreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    look();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    look();
    right = right && (!exact || is_sum(in, out));
    feclearexcept(FE_ALL_EXCEPT);
}

/* The environment is the default when the sum is made: all of it but the first step goes on in the
 * program's. */
static void post_before(const float *in, float *out, bool exact)
{
    MPI_Request request;
    fenv_t own;

    fegetenv(&own);
    fesetenv(FE_DFL_ENV);
    MPI_Iallreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    fesetenv(&own);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    look();
    right = right && (!exact || is_sum(in, out));
    feclearexcept(FE_ALL_EXCEPT);
}

static void add_integers(const float *in)
{
    static int numbers[N], sums[N], native[N];

    for (int i = 0; i < N; i++)
        numbers[i] = (int)in[i];
    feclearexcept(FE_ALL_EXCEPT);
    MPI_Allreduce(numbers, sums, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    look();
    PMPI_Allreduce(numbers, native, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    right = right && memcmp(sums, native, sizeof sums) == 0;
}

static void other_kinds(const float *in)
{
    static double wide[N], sums[N];
    float *all = room((size_t)tap.size * N * sizeof *all);

    MPI_Allgather(in, N, MPI_FLOAT, all, N, MPI_FLOAT, MPI_COMM_WORLD);
    look();
    right = right && memcmp(all + tap.rank * N, in, N * sizeof *in) == 0;
    MPI_Reduce_scatter_block(in, all, N / tap.size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    look();
    MPI_Reduce(in, all, N, MPI_FLOAT, MPI_SUM, tap.size - 1, MPI_COMM_WORLD);
    look();
    for (int i = 0; i < N; i++)
        wide[i] = in[i];
    MPI_Allreduce(wide, sums, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    look();
    free(all);
}

/* ---- operators of the program ---- */

static int operated, wrong_inside;

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    operated++;
    wrong_inside += !is_wanted();
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* Nonblocking reductions by an operator of the program go on inside of our calls. */
static void operators(const float *in, float *out, MPI_Comm other)
{
    int numbers[64] = {1}, sums[8][64];
    MPI_Request requests[8];
    MPI_Op op;

    MPI_Op_create(add, 1, &op);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++)
            MPI_Iallreduce(numbers, sums[i], 64, MPI_INT, op, other, &requests[i]);
        MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 8; i++)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        right = right && sums[7][0] == tap.size;
    }
    MPI_Allreduce(numbers, sums[0], 64, MPI_INT, op, other);
    MPI_Op_free(&op);
}

/* ---- sparseshim.h ---- */

static void api(const float *in, float *out)
{
    double infinite, nan;
    struct sparseshim_stats stats;
    uint64_t bits[] = {0x7ff0000000000000u, 0x7ff8000000000000u};
    float *residual = room(N * sizeof *residual);

    memcpy(&infinite, &bits[0], sizeof infinite);
    memcpy(&nan, &bits[1], sizeof nan);
    sparseshim_register(out, N, 0.01);
    for (int call = 0; call < 3; call++) {
        MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        look();
    }
    sparseshim_set_density(out, nan);
    sparseshim_set_density(out, 0.02);
    sparseshim_scale_residual(out, infinite);
    sparseshim_scale_residual(out, nan);
    sparseshim_scale_residual(out, 0.3);
    sparseshim_stats(out, 0, &stats);
    sparseshim_read_residual(out, 0, residual, N);
    sparseshim_unregister(out);
    look();
    free(residual);
}

/* ---- steps ---- */

/* Makes steps of two lanes, blocking and nonblocking, with new numbers in each step. MODE=topk then
 * has tensors, and the communicator hands records to the report when it is freed. */
static void steps(float *in, float *out, bool blocking, MPI_Comm own)
{
    static double wide[N], sums[N];
    MPI_Request requests[2];

    for (int step = 0; step < STEPS; step++) {
        fill(in, densities[3], STEPS * blocking + step);
        for (int i = 0; i < N; i++)
            wide[i] = in[i];
        if (blocking) {
            MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, own);
            MPI_Allreduce(wide, sums, N, MPI_DOUBLE, MPI_SUM, own);
        } else {
            MPI_Iallreduce(in, out, N, MPI_FLOAT, MPI_SUM, own, &requests[0]);
            MPI_Iallreduce(wide, sums, N, MPI_DOUBLE, MPI_SUM, own, &requests[1]);
            for (int i = 0; i < 2; i++)
                MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
        look();
    }
}

static void both_steps(float *in, float *out)
{
    MPI_Comm own;

    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    for (int i = 0; i < 3; i++) {
        steps(in, out, i != 1, own);
        if (i < 2)
            MPI_Pcontrol(2);
        look();
    }
    MPI_Comm_free(&own);
    look();
}

/* In the default environment. */
static void add_again(float *in, float *out, bool exact)
{
    for (int call = 0; call < CALLS; call++) {
        fill(in, densities[2], call);
        MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        right = right && (!exact || is_sum(in, out));
    }
}

/* ---- */

static void set(const char *what)
{
    if (strcmp(what, "traps") == 0)
        feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
    else if (strcmp(what, "every") == 0)
        feenableexcept(watched);
    else if (strcmp(what, "upward") == 0)
        fesetround(FE_UPWARD);
    else if (strcmp(what, "downward") == 0)
        fesetround(FE_DOWNWARD);
    else if (strcmp(what, "zero") == 0)
        fesetround(FE_TOWARDZERO);
    else
        fp_set(FP_FLUSH);
#if defined(__x86_64__)
    if (strcmp(what, "flush") == 0)
        __asm__ volatile("fldcw %0" : : "m"((unsigned short){0x27f}));
#endif
}

static bool is_rank_one(void)
{
    const char *rank = getenv("PMI_RANK");

    return rank && strcmp(rank, "1") == 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "traps", *mode = getenv("SPARSESHIM_MODE");
    bool exact = !mode || strcmp(mode, "topk") != 0, same;
    bool traps = strcmp(what, "traps") == 0, every = strcmp(what, "every") == 0;
    float *in = room(N * sizeof *in), *out = room(N * sizeof *out), *first;
    MPI_Comm other;
    fenv_t own;
    int status;

    if (!exact && !getenv("SPARSESHIM_ALPHA") && !getenv("SPARSESHIM_ALGORITHM"))
        watched &= ~(FE_INEXACT | FE_UNDERFLOW);
    if (traps || (!every && is_rank_one()))
        set(what);
    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    first = room((size_t)tap.size * N * sizeof *first);
    is_sum(in, out); /* connections are made */
    if (every)
        set(what);
    wanted = environment();
    fegetenv(&own);
    for (int d = 0; d < DENSITIES; d++)
        for (int call = 0; call < CALLS; call++) {
            fill(in, densities[d], call);
            reduce_all(in, out, exact);
            post_before(in, out, exact);
            add_integers(in);
            if (call < 2)
                other_kinds(in);
        }
    PMPI_Allgather(out, N, MPI_FLOAT, first, N, MPI_FLOAT, MPI_COMM_WORLD);
    same = memcmp(first, first + (tap.size - 1) * N, N * sizeof *first) == 0;
    fill(in, densities[2], 1);
    operators(in, out, other);
    both_steps(in, out);
    fill(in, densities[3], 2);
    api(in, out); /* residuals are whole numbers no longer */
    MPI_Pcontrol(2);
    look();
    fesetenv(FE_DFL_ENV);
    add_again(in, out, exact);
    fesetenv(&own);
    tap_ok(right, "%s: sums are right", what);
    tap_ok(same, "%s: all ranks have the same result", what);
    tap_ok(kept, "%s: after each call the environment is the program's", what);
    tap_ok(silent, "%s: no exception is left behind", what);
    tap_ok(operated > 0 && wrong_inside == 0, "%s: operators run in the program's environment",
           what);
    if (every) /* UCX computes in MPI_Finalize */
        fedisableexcept(FE_INEXACT | FE_UNDERFLOW);
    status = tap_end();
    MPI_Comm_free(&other);
    MPI_Finalize();
    free(first);
    free(out);
    free(in);
    return status;
}
