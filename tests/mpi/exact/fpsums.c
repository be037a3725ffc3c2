/* clang-format off */
/* Sums of floats in a floating-point environment of the program's own, and exceptions that they
 * leave. Threads of the library may move nonblocking calls: it runs at MPI_THREAD_MULTIPLE.
 *
 *     fpsums mode MODE RANK  upward, downward, zero, overflow (trapped) or divbyzero (trapped) on
 *                            that rank alone, -1: on all: sums are the MPI library's, the environment
 *                            is kept, another thread's does not count
 *     fpsums control WHAT    x87 or flush: nothing changes
 *     fpsums intervals       bounds of sums, by rounding outward
 *     fpsums between         a mode is set between MPI_Iallreduce and MPI_Wait
 *     fpsums message         a rank waits for a message that comes behind another's MPI_Wait
 *     fpsums own             the same behind reductions with an operator of the program's
 *     fpsums raised WHERE    exceptions of sums that overflow: everywhere; or somewhere, as the MPI
 *                            library raises them where it adds up; or as the result says
 *     fpsums quiet           none of sums that do not, nor where Inf or NaN went in
 *     fpsums trapped         a sum that overflows while that is trapped: the program's handler ends it
 *     fpsums itrapped        the same, nonblocking
 */
/* clang-format on */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/support/tap.h"
#include "tests/support/fp_settings.h"

enum { N = 30000, EVERY = 40, HUGE_AT = 3 * EVERY };
static const int looked_at = FE_OVERFLOW | FE_INVALID;

union buffer {
    float f[N];
    double d[N];
};
static union buffer in, out, native;

/* A call: kind, type, in place, nonblocking. */
enum kind { ALLREDUCE, REDUCE, SCATTER, KINDS };
struct form {
    enum kind kind;
    bool wide, in_place, nonblocking;
};

static const char *name_of(struct form f)
{
    static char text[100];
    static const char *const kinds[] = {"allreduce", "reduce", "reduce_scatter_block"};

    snprintf(text, sizeof text, "%s of %s%s%s", kinds[f.kind], f.wide ? "double" : "float",
             f.in_place ? ", in place" : "", f.nonblocking ? ", nonblocking" : "");
    return text;
}

static bool exists(struct form f)
{
    return !f.nonblocking || f.kind == ALLREDUCE;
}

static void put(struct form f, int at, double value)
{
    if (f.wide)
        in.d[at] = value;
    else
        in.f[at] = (float)value;
}

/* Elements of the result that this rank has. */
static int have(struct form f)
{
    if (f.kind == SCATTER)
        return N / tap.size;
    return f.kind == REDUCE && tap.rank != 0 ? 0 : N;
}

/* Fills in a third and multiples of it, whose sums are rounded. */
static void fill(struct form f)
{
    fenv_t own;

    fegetenv(&own);
    fesetenv(FE_DFL_ENV);
    memset(&in, 0, sizeof in);
    for (int i = 0; i < N; i += EVERY)
        put(f, i, (double)(i + 1 + 7 * tap.rank) / 3 * (i % 3 ? 1 : -1));
    fesetenv(&own);
}

static void complete(MPI_Request *request, int how)
{
    int flag = 0, index;
    MPI_Status status[1];

    switch (how) {
    case 0:
        MPI_Wait(request, MPI_STATUS_IGNORE);
        break;
    case 1:
        MPI_Waitall(1, request, status);
        break;
    case 2:
        usleep(3000); /* ended by a thread of the library */
        while (!flag)
            MPI_Test(request, &flag, MPI_STATUS_IGNORE);
        break;
    default:
        while (!flag)
            MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE);
    }
}

static void call(struct form f, int how)
{
    const void *from = f.in_place ? MPI_IN_PLACE : &in;
    MPI_Datatype type = f.wide ? MPI_DOUBLE : MPI_FLOAT;
    MPI_Request request;

    memcpy(&out, &in, sizeof out);
    if (f.kind == REDUCE)
        MPI_Reduce(tap.rank == 0 ? from : &in, &out, N, type, MPI_SUM, 0, MPI_COMM_WORLD);
    else if (f.kind == SCATTER)
        MPI_Reduce_scatter_block(from, &out, N / tap.size, type, MPI_SUM, MPI_COMM_WORLD);
    else if (!f.nonblocking)
        MPI_Allreduce(from, &out, N, type, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Iallreduce(from, &out, N, type, MPI_SUM, MPI_COMM_WORLD, &request);
    if (f.nonblocking)
        complete(&request, how);
}

static void call_natively(struct form f)
{
    MPI_Datatype type = f.wide ? MPI_DOUBLE : MPI_FLOAT;

    if (f.kind == REDUCE)
        PMPI_Reduce(&in, &native, N, type, MPI_SUM, 0, MPI_COMM_WORLD);
    else if (f.kind == SCATTER)
        PMPI_Reduce_scatter_block(&in, &native, N / tap.size, type, MPI_SUM, MPI_COMM_WORLD);
    else
        PMPI_Allreduce(&in, &native, N, type, MPI_SUM, MPI_COMM_WORLD);
}

static bool is_native(struct form f)
{
    return memcmp(&out, &native, (size_t)have(f) * (f.wide ? 8 : 4)) == 0;
}

/* ---- modes ---- */

static void set(const char *what)
{
    if (strcmp(what, "upward") == 0)
        fesetround(FE_UPWARD);
    else if (strcmp(what, "downward") == 0)
        fesetround(FE_DOWNWARD);
    else if (strcmp(what, "zero") == 0)
        fesetround(FE_TOWARDZERO);
    else if (strcmp(what, "overflow") == 0)
        feenableexcept(FE_OVERFLOW);
    else if (strcmp(what, "divbyzero") == 0)
        feenableexcept(FE_DIVBYZERO);
#if defined(__x86_64__)
    else if (strcmp(what, "x87") == 0) /* round downward, extended precision, all masked */
        __asm__ volatile("fldcw %0" : : "m"((unsigned short){0x077f}));
#endif
    else
        fp_set(FP_FLUSH);
}

static atomic_int there; /* 0: not yet, 1: it has been set, 2: no longer needed */

static void wait_for(int state)
{
    while (atomic_load(&there) != state)
        usleep(100);
}

static void *set_there(void *what)
{
    set(what);
    atomic_store(&there, 1);
    wait_for(2);
    return NULL;
}

/* Rank by rank the MPI library gives the sum that rounds as that rank does, whatever the algorithm,
 * of two addends. */
static void modes(const char *what, int where)
{
    const bool here = where < 0 || where == tap.rank, compares = tap.size == 2;
    fenv_t before;
    pthread_t thread;
    static int counts[N], sums[N];
    bool whole = true;

    fegetenv(&before);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 8; i++) {
            const struct form f = {(enum kind)kind, i & 1, i & 2, i & 4};
            bool same, kept;

            if (!exists(f))
                continue;
            fill(f);
            if (here)
                set(what);
            const ss_fpenv set_here = fp_settings();
            call_natively(f);
            call(f, i % 3);
            kept = fp_settings() == set_here;
            fesetenv(&before);
            same = !compares || is_native(f);
            tap_ok(same && kept, "%s in mode %s: the MPI library's own", name_of(f), what);
        }
    for (int i = 0; i < N; i += EVERY)
        counts[i] = INT32_MAX;
    if (here)
        set(what);
    MPI_Allreduce(counts, sums, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    fesetenv(&before);
    for (int i = 0; i < N; i++)
        whole = whole && sums[i] == (int)((unsigned)counts[i] * (unsigned)tap.size);
    tap_ok(whole, "integers are added up as ever");
    pthread_create(&thread, NULL, set_there, (void *)(uintptr_t)what);
    wait_for(1);
    const struct form f = {ALLREDUCE, false, false, false};
    fill(f);
    call_natively(f);
    call(f, 0);
    tap_ok(!compares || is_native(f), "another thread's environment: equal results");
    atomic_store(&there, 2);
    pthread_join(thread, NULL);
}

static void controls(const char *what)
{
    const struct form f = {ALLREDUCE, true, false, false};
    fenv_t before;

    fegetenv(&before);
    fill(f);
    set(what);
    call(f, 0);
    fesetenv(&before);
    call_natively(f);
    tap_ok(tap.size != 2 || is_native(f), "%s changes nothing", what);
}

/* Sums of `wide` as long doubles, in default rounding. */
static void true_sums(long double *sums)
{
    static long double mine[N];

    for (int i = 0; i < N; i++)
        mine[i] = (long double)in.f[i];
    PMPI_Allreduce(mine, sums, N, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void intervals(void)
{
    static long double sums[N];
    static const int directions[] = {FE_DOWNWARD, FE_UPWARD};

    for (int nonblocking = 0; nonblocking < 2; nonblocking++)
        for (int d = 0; d < 2; d++) {
            const struct form f = {ALLREDUCE, false, false, nonblocking};
            int wrong = 0;

            for (int round = 0; round < 5; round++) {
                fill(f);
                for (int i = 0; i < N; i += EVERY)
                    in.f[i] *= 1 + (float)round / 7;
                true_sums(sums);
                fesetround(directions[d]);
                call(f, nonblocking ? 2 : 0);
                fesetround(FE_TONEAREST);
                for (int i = 0; i < N; i++)
                    wrong += d ? (long double)out.f[i] < sums[i] : (long double)out.f[i] > sums[i];
            }
            tap_ok(wrong == 0, "%s bounds hold, %s", d ? "upper" : "lower", name_of(f));
        }
}

static void between(void)
{
    const struct form f = {ALLREDUCE, false, false, true};
    MPI_Request request;
    bool holds;

    fill(f);
    call_natively(f);
    MPI_Iallreduce(&in, &out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    fesetround(FE_UPWARD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    holds = fegetround() == FE_UPWARD;
    fesetround(FE_TONEAREST);
    tap_ok(holds && (tap.size != 2 || is_native(f)),
           "a mode set behind MPI_Iallreduce is kept, and is not that of the sum");
}

/* A rank waits for a message, or for nothing: then threads of the library make the sum. */
static void message(bool waits)
{
    const struct form f = {ALLREDUCE, false, false, true};
    MPI_Request request;
    int word = 0;

    for (int round = 0; round < 10; round++) {
        bool same;

        fill(f);
        fesetround(FE_DOWNWARD);
        call_natively(f);
        MPI_Iallreduce(&in, &out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        if (!waits)
            usleep(20000);
        else if (tap.rank == 0)
            MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (waits && tap.rank == 1)
            MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        fesetround(FE_TONEAREST);
        same = is_native(f);
        tap_ok(same, "the sum comes along while a rank waits");
    }
}

static void add(void *from, void *to, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++)
        ((float *)to)[i] += ((float *)from)[i];
}

/* Nothing is served on the communicator of these reductions. */
static void beside_own(void)
{
    float one = 1, sum;
    MPI_Comm comm;
    MPI_Op op;
    MPI_Request request;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Op_create(add, 1, &op);
    fesetround(FE_UPWARD);
    for (int i = 0; i < 3; i++) {
        MPI_Iallreduce(&one, &sum, 1, MPI_FLOAT, op, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    fesetround(FE_TONEAREST);
    MPI_Op_free(&op);
    MPI_Comm_free(&comm);
    message(false);
}

/* ---- exceptions ---- */

/* Returns true if this rank must have raised the exception: it owns the reduced part that
 * overflows. */
static bool has(struct form f)
{
    return f.kind == SCATTER ? HUGE_AT / (N / tap.size) == tap.rank
                             : f.kind == ALLREDUCE || tap.rank == 0;
}

static bool is_finite_at(struct form f, int at)
{
    return isfinite(f.wide ? out.d[at] : (double)out.f[at]);
}

static void raised(const char *where)
{
    const bool somewhere = strcmp(where, "somewhere") == 0, result = strcmp(where, "result") == 0;

    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 32; i++) {
            const struct form f = {(enum kind)kind, i & 1, i & 2, i & 4};
            const bool negative = i & 8;
            int early, late, inexact;

            if (!exists(f))
                continue;
            fill(f);
            /* The third rank, if there is one, has no part in it. */
            if (tap.rank < 2)
                put(f, HUGE_AT, (negative ? -1 : 1) * (f.wide ? DBL_MAX : FLT_MAX));
            feclearexcept(FE_ALL_EXCEPT);
            call(f, i % 4);
            early = fetestexcept(FE_OVERFLOW) != 0;
            inexact = fetestexcept(FE_INVALID);
            if (somewhere)
                PMPI_Allreduce(MPI_IN_PLACE, &early, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
            if (result && f.kind == ALLREDUCE) /* one that left it may be late */
                early = early == !is_finite_at(f, HUGE_AT);
            feclearexcept(FE_ALL_EXCEPT);
            fill(f);
            call(f, i % 4);
            late = fetestexcept(looked_at);
            if (result && f.kind == ALLREDUCE)
                late = (late != 0) != !is_finite_at(f, HUGE_AT);
            tap_ok((early || !has(f)) && !inexact && !late,
                   "%s that overflows %s raises that, the next one nothing", name_of(f),
                   negative ? "down" : "up");
        }
}

static void quiet(void)
{
    static const double strange[] = {INFINITY, NAN, 0, 1e-320};

    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 32; i++) {
            const struct form f = {(enum kind)kind, i & 1, i & 2, i & 4};
            int seen;

            if (!exists(f))
                continue;
            fill(f);
            if (tap.rank == 0)
                put(f, HUGE_AT, strange[i >> 3]);
            put(f, 5 * EVERY, (f.wide ? DBL_MAX : FLT_MAX) / 8);
            feclearexcept(FE_ALL_EXCEPT);
            call(f, i % 4);
            seen = fetestexcept(looked_at);
            tap_ok(seen == 0, "%s with %g raises nothing", name_of(f), strange[i >> 3]);
        }
}

/* ---- traps that are met ---- */

static void overflow_here(struct form f)
{
    fill(f);
    if (tap.rank < 2)
        put(f, HUGE_AT, FLT_MAX);
}

static _Noreturn void met(int sig)
{
    (void)sig;
    static const char text[] = "the program's handler\n";

    _exit(write(STDOUT_FILENO, text, sizeof text - 1) > 0 ? 3 : 4);
}

static void trapped(bool nonblocking)
{
    const struct form f = {ALLREDUCE, false, false, nonblocking};

    overflow_here(f);
    signal(SIGFPE, met);
    feenableexcept(FE_OVERFLOW);
    call(f, nonblocking ? 2 : 0);
    fedisableexcept(FE_OVERFLOW);
    tap_ok(false, "it was trapped");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "raised", *mode = argc > 2 ? argv[2] : "upward";
    const struct form first = {ALLREDUCE, false, false, false};
    int level, status;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    tap_begin(MPI_COMM_WORLD);
    fill(first);
    call(first, 0); /* it is the first on its communicator */
    call(first, 0);
    if (strcmp(what, "mode") == 0)
        modes(mode, argc > 3 ? atoi(argv[3]) : -1);
    else if (strcmp(what, "control") == 0)
        controls(mode);
    else if (strcmp(what, "intervals") == 0)
        intervals();
    else if (strcmp(what, "between") == 0)
        between();
    else if (strcmp(what, "message") == 0)
        message(true);
    else if (strcmp(what, "own") == 0)
        beside_own();
    else if (strcmp(what, "raised") == 0)
        raised(mode);
    else if (strcmp(what, "quiet") == 0)
        quiet();
    else
        trapped(strcmp(what, "itrapped") == 0);
    fill(first);
    call(first, 0); /* sparse again */
    status = tap_end();
    MPI_Finalize();
    return status;
}
