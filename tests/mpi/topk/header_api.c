/* The promises of shim/sparseshim.h, to a program that runs with and without the library.
 *
 *     header_api use [D]    under MODE=topk, DENSITY=D (0.1), or MODE=quant (1)
 *     header_api inactive   under another mode
 *     header_api bare       without the library */
#include "shim/sparseshim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/support/tap.h"

enum { N = 4000 };

static float buffer[N];
static double job_density;
static int calls;

/* Whole numbers, so that sums are exact; sizes differ widely, and ranks do not cancel. */
static void fill(float *x, int step)
{
    for (int i = 0; i < N; i++) {
        unsigned h = (unsigned)(i * 40503 + step * 977 + tap.rank * 101) * 2654435761u;
        x[i] = (float)((int)(h >> 24) - 128) * (float)(1 + (i % 7 == 0) * 15);
    }
}

/* Makes the calls from one call site, to which they return. */
__attribute__((noinline)) static void sum(const float *in, float *out)
{
    MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    calls++;
}

static bool exact(const float *in, const float *out)
{
    float truth[N];

    PMPI_Allreduce(in, truth, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return memcmp(truth, out, sizeof truth) == 0;
}

static struct sparseshim_stats stats_of(const void *result, int which)
{
    struct sparseshim_stats stats;

    memset(&stats, 0, sizeof stats);
    if (sparseshim_stats(result, which, &stats) != SPARSESHIM_OK)
        stats.state = -1;
    return stats;
}

/* Returns true if the inputs are the results plus the residuals. */
static bool balances(const double *in, const double *out, const float *result)
{
    float mine[N], all[N];

    if (sparseshim_read_residual(result, 0, mine, N) != SPARSESHIM_OK)
        return false;
    PMPI_Allreduce(mine, all, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++)
        if (in[i] != out[i] + (double)all[i])
            return false;
    return true;
}

/* Calls before the registration are of another tensor. */
static bool any_is_sent(const float *out)
{
    for (int which = 0; which < sparseshim_tensors(out); which++) {
        struct sparseshim_stats stats = stats_of(out, which);
        if (stats.state == SPARSESHIM_REGISTERED && stats.topk_calls > 0)
            return true;
    }
    return false;
}

static void ranks_that_differ(const float *in)
{
    static float out[N];
    bool all_exact = true;

    sparseshim_drop_residual(NULL); /* else that of the buffer used before comes along */
    if (tap.rank == 0)
        sparseshim_register(out, N, 0);
    for (int step = 0; step < 12; step++) {
        sum(in, out);
        all_exact = all_exact && exact(in, out);
    }
    tap_ok(all_exact, "registered on one rank only: every call is exact");
    sparseshim_register(out, N, 0);
    for (int step = 0; step < 6; step++)
        sum(in, out);
    tap_ok(any_is_sent(out), "registered on all ranks after that: it is sent as top-k");
}

static void wrong_arguments(const float *unknown)
{
    struct sparseshim_stats stats;
    float residual[N];

    tap_ok(sparseshim_register(NULL, N, 0) == SPARSESHIM_BAD_ARGUMENT &&
               sparseshim_register(unknown, 0, 0) == SPARSESHIM_BAD_ARGUMENT &&
               sparseshim_register(unknown, N, -0.1) == SPARSESHIM_BAD_ARGUMENT &&
               sparseshim_register(unknown, N, 1.1) == SPARSESHIM_BAD_ARGUMENT &&
               sparseshim_register(unknown, N, (double)NAN) == SPARSESHIM_BAD_ARGUMENT &&
               sparseshim_scale_residual(NULL, (double)INFINITY) == SPARSESHIM_BAD_ARGUMENT &&
               sparseshim_stats(unknown, -1, &stats) == SPARSESHIM_BAD_ARGUMENT &&
               sparseshim_stats(unknown, 0, NULL) == SPARSESHIM_BAD_ARGUMENT,
           "what makes no sense is refused");
    tap_ok(sparseshim_unregister(unknown) == SPARSESHIM_NO_TENSOR &&
               sparseshim_set_density(unknown, 0.5) == SPARSESHIM_NO_TENSOR &&
               sparseshim_tensors(unknown) == 0 &&
               sparseshim_stats(unknown, 0, &stats) == SPARSESHIM_NO_TENSOR &&
               sparseshim_scale_residual(unknown, 2) == SPARSESHIM_NO_TENSOR &&
               sparseshim_drop_residual(unknown) == SPARSESHIM_NO_TENSOR &&
               sparseshim_read_residual(unknown, 0, residual, N) == SPARSESHIM_NO_TENSOR,
           "a buffer that was never used has no tensor");
}

static void residuals(void)
{
    static float before[N], after[N];
    struct sparseshim_stats stats = stats_of(buffer, 0);
    double square = 0;
    bool twice = true, zero = true;

    tap_ok(sparseshim_read_residual(buffer, 0, before, N - 1) == SPARSESHIM_BAD_ARGUMENT &&
               sparseshim_read_residual(buffer, 1, before, N) == SPARSESHIM_NO_TENSOR,
           "a residual is read whole, of a tensor that is there");
    sparseshim_read_residual(buffer, 0, before, N);
    for (int i = 0; i < N; i++)
        square += (double)before[i] * (double)before[i];
    tap_ok(square > 0 && fabs(sqrt(square) / stats.residual_norm - 1) < 1e-9,
           "its norm is that of the statistics");
    tap_ok(sparseshim_scale_residual(buffer, 2) == SPARSESHIM_OK, "it can be scaled");
    sparseshim_read_residual(buffer, 0, after, N);
    for (int i = 0; i < N; i++)
        twice = twice && after[i] == 2 * before[i];
    tap_ok(twice, "each entry is twice what it was");
    tap_ok(sparseshim_drop_residual(NULL) == SPARSESHIM_OK, "all can be dropped");
    sparseshim_read_residual(buffer, 0, after, N);
    for (int i = 0; i < N; i++)
        zero = zero && after[i] == 0;
    tap_ok(zero && stats_of(buffer, 0).residual_norm == 0, "nothing is left of it");
}

/* Registered in main, before MPI_Init. */
static void early(void)
{
    static float in[N], all[N];
    static double went_in[N], came_out[N];
    struct sparseshim_stats stats;

    for (int step = 0; step < 30; step++) {
        fill(in, step);
        sum(in, buffer);
        PMPI_Allreduce(in, all, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < N; i++) {
            came_out[i] += (double)buffer[i];
            went_in[i] += (double)all[i];
        }
    }
    stats = stats_of(buffer, 0);
    tap_note("%d calls, %d top-k, asked %g, selected %g, residual %g, input %g, \"%s\"",
             (int)stats.calls, (int)stats.topk_calls, stats.density_asked, stats.density_selected,
             stats.residual_norm, stats.input_norm, stats.reason);
    tap_ok(sparseshim_tensors(buffer) == 1 && stats.state == SPARSESHIM_REGISTERED,
           "a buffer registered before MPI_Init is sent as top-k");
    tap_ok(stats.count == N && stats.element_size == 4 && stats.calls == 29 &&
               stats.topk_calls == 29 && fabs(stats.density_asked - job_density) < 1e-9 &&
               stats.density_selected > 0.3 * job_density &&
               stats.density_selected < fmin(2 * job_density, 1.000001) && stats.input_norm > 0 &&
               stats.reason[0] == '\0',
           "from the first call that is not the first on its communicator, at the job's density");
    tap_ok(balances(went_in, came_out, buffer), "what did not arrive stands in the residuals");
}

static void density(void)
{
    static float in[N];
    struct sparseshim_stats before = stats_of(buffer, 0), after;
    double asked;

    tap_ok(sparseshim_set_density(buffer, 0.5) == SPARSESHIM_OK, "its density can be set");
    fill(in, 0);
    sum(in, buffer);
    after = stats_of(buffer, 0);
    asked = after.density_asked * (double)after.topk_calls -
            before.density_asked * (double)before.topk_calls;
    tap_ok(fabs(asked - 0.5) < 1e-9, "and holds from the next call on");
}

static void registration(void)
{
    static float in[N];
    struct sparseshim_stats stats;
    bool all_exact = true;

    tap_ok(sparseshim_unregister(buffer) == SPARSESHIM_OK, "it can be unregistered");
    for (int step = 0; step < 6; step++) {
        fill(in, step);
        sum(in, buffer);
        all_exact = all_exact && exact(in, buffer);
    }
    stats = stats_of(buffer, 0);
    tap_ok(all_exact && stats.state == SPARSESHIM_EXACT && stats.reason[0],
           "and is exact from then on");
    tap_ok(sparseshim_scale_residual(buffer, 2) == SPARSESHIM_NO_RESIDUAL, "without a residual");
    tap_ok(sparseshim_register(buffer, N, 0.2) == SPARSESHIM_OK, "it can be registered again");
    for (int step = 0; step < 4; step++)
        sum(in, buffer);
    tap_ok(stats_of(buffer, 0).state == SPARSESHIM_REGISTERED, "and is sent as top-k once more");
}

static void use(void)
{
    static float in[N], unknown[N];

    early();
    density();
    residuals();
    registration();
    fill(in, 1);
    ranks_that_differ(in);
    wrong_arguments(unknown);
}

static bool all_return(int code)
{
    static float x[4];
    struct sparseshim_stats stats;

    return sparseshim_register(x, 4, 0) == code && sparseshim_identify(x, 4, 1) == code &&
           sparseshim_unregister(x) == code && sparseshim_set_density(x, 0.1) == code &&
           sparseshim_tensors(x) == code && sparseshim_stats(x, 0, &stats) == code &&
           sparseshim_scale_residual(x, 2) == code && sparseshim_drop_residual(x) == code &&
           sparseshim_read_residual(x, 0, x, 4) == code;
}

static void without(int code, const char *what)
{
    static float in[N], out[N];

    tap_ok(all_return(code), "every function says that the library is %s", what);
    for (int step = 0; step < 3; step++) {
        fill(in, step);
        sum(in, out);
        tap_ok(exact(in, out), "the program runs, step %d", step);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "bare";
    job_density = argc > 2 ? atof(argv[2]) : 0.1;
    bool using = strcmp(mode, "use") == 0;
    int first = using ? sparseshim_register(buffer, N, 0) : 0, last;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    tap_ok(first == SPARSESHIM_OK, "buffers can be registered before MPI_Init");
    if (using)
        use();
    else if (strcmp(mode, "inactive") == 0)
        without(SPARSESHIM_NOT_ACTIVE, "not active");
    else
        without(SPARSESHIM_NOT_LOADED, "not loaded");
    MPI_Finalize();
    last = using ? sparseshim_tensors(NULL) : SPARSESHIM_NOT_ACTIVE;
    if (tap.rank == 0)
        printf("%s %d - after MPI_Finalize the library is not active\n",
               last == SPARSESHIM_NOT_ACTIVE ? "ok" : "not ok", ++tap.checks);
    tap.failed += last != SPARSESHIM_NOT_ACTIVE;
    return tap_end();
}
