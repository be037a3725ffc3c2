/* What calls below MIN_COUNT cost on top of the MPI library, on one rank.
 *
 *     bench_small_calls [multiple]   nanoseconds: the wrapped name against PMPI_, in alternating
 *                                    blocks of one run; medians and quartiles of the difference
 *     bench_small_calls count CALLS [other] [LARGE]
 *                                    makes CALLS calls of each kind in a function wrapped_NAME, for
 *                                    a counter of instructions, with and without a preloaded
 *                                    library; on a communicator other than MPI_COMM_WORLD; after an
 *                                    allgather of LARGE elements there
 *     bench_small_calls memory       nanoseconds of MPI_Allreduce by where its buffers lie, before
 *                                    and after a driver of CUDA's is loaded, where there is one
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/bench/measure.h"

enum { BLOCKS = 41, CALLS = 20000 };

static float static_in[4], static_out[4];
static float *in = static_in, *out = static_out;
static int counts[1] = {2}, displs[1] = {0};
static MPI_Comm comm;
static MPI_Request request = MPI_REQUEST_NULL;

#define BOTH(X, name, ...) X(name, MPI_##name(__VA_ARGS__), PMPI_##name(__VA_ARGS__))
/* A nonblocking call with its MPI_Wait. */
#define WAITED(X, name, ...)                                                                       \
    X(name, (MPI_##name(__VA_ARGS__, &request), WAIT), (PMPI_##name(__VA_ARGS__, &request), WAIT))
#define WAIT         MPI_Wait(&request, MPI_STATUS_IGNORE)
#define REDUCTION    in, out, 2, MPI_FLOAT, MPI_SUM
#define GATHER       in, 2, MPI_FLOAT, out, 2, MPI_FLOAT
#define SLICES       in, 2, MPI_FLOAT, out, counts, displs, MPI_FLOAT
#define LARGE_SLICES in, 2, MPI_FLOAT, out, large_counts, large_displs, MPI_FLOAT
#define KINDS(X)                                                                                   \
    BOTH(X, Allreduce, REDUCTION, comm)                                                            \
    WAITED(X, Iallreduce, REDUCTION, comm)                                                         \
    BOTH(X, Allgather, GATHER, comm)                                                               \
    WAITED(X, Iallgather, GATHER, comm)                                                            \
    BOTH(X, Allgatherv, SLICES, comm)                                                              \
    WAITED(X, Iallgatherv, SLICES, comm)                                                           \
    BOTH(X, Reduce_scatter_block, REDUCTION, comm)                                                 \
    BOTH(X, Reduce_scatter, in, out, counts, MPI_FLOAT, MPI_SUM, comm)                             \
    BOTH(X, Reduce, REDUCTION, 0, comm)                                                            \
    BOTH(X, Wait, &request, MPI_STATUS_IGNORE)                                                     \
    LARGE_KINDS(X)
#if MPI_VERSION >= 4
static MPI_Count large_counts[1] = {2};
static MPI_Aint large_displs[1] = {0};
#define LARGE_KINDS(X)                                                                             \
    BOTH(X, Allreduce_c, REDUCTION, comm)                                                          \
    WAITED(X, Iallreduce_c, REDUCTION, comm)                                                       \
    BOTH(X, Allgather_c, GATHER, comm)                                                             \
    WAITED(X, Iallgather_c, GATHER, comm)                                                          \
    BOTH(X, Allgatherv_c, LARGE_SLICES, comm)                                                      \
    WAITED(X, Iallgatherv_c, LARGE_SLICES, comm)                                                   \
    BOTH(X, Reduce_scatter_block_c, REDUCTION, comm)                                               \
    BOTH(X, Reduce_scatter_c, in, out, large_counts, MPI_FLOAT, MPI_SUM, comm)                     \
    BOTH(X, Reduce_c, REDUCTION, 0, comm)
#else
#define LARGE_KINDS(X)
#endif

#define FUNCTIONS(name, wrapped, bare)                                                             \
    static void wrapped_##name(int n)                                                              \
    {                                                                                              \
        for (int i = 0; i < n; i++) {                                                              \
            wrapped;                                                                               \
        }                                                                                          \
    }                                                                                              \
    static void bare_##name(int n)                                                                 \
    {                                                                                              \
        for (int i = 0; i < n; i++) {                                                              \
            bare;                                                                                  \
        }                                                                                          \
    }
KINDS(FUNCTIONS)

typedef void calls(int n);
static const struct kind {
    const char *name;
    calls *wrapped, *bare;
} kinds[] = {
#define ROW(name, wrapped, bare) {#name, wrapped_##name, bare_##name},
    KINDS(ROW)};
enum { COUNT = sizeof kinds / sizeof kinds[0] };

static double block(calls *make)
{
    double begin = MPI_Wtime();

    make(CALLS);
    return (MPI_Wtime() - begin) / CALLS * 1e9;
}

static void measure(const struct kind *k, const char *name)
{
    static double shim[BLOCKS], bare[BLOCKS], difference[BLOCKS];

    block(k->wrapped);
    block(k->bare);
    for (int i = 0; i < BLOCKS; i++) {
        bare[i] = block(k->bare);
        shim[i] = block(k->wrapped);
        difference[i] = shim[i] - bare[i];
    }
    printf("%-24s bare %6.1f ns, preloaded %6.1f ns, difference %5.1f ns (quartiles %.1f, %.1f)\n",
           name, measure_median(bare, BLOCKS), measure_median(shim, BLOCKS),
           measure_median(difference, BLOCKS), measure_quantile(difference, BLOCKS, 0.25),
           measure_quantile(difference, BLOCKS, 0.75));
}

/* MPI_Allreduce comes first among the kinds. */
static void by_memory(const char *when)
{
    float on_stack[8], *heap = malloc(8 * sizeof *heap);
    float *mapped =
        mmap(NULL, 8 * sizeof *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct {
        const char *name;
        float *at;
    } places[] = {{"data", static_in}, {"stack", on_stack}, {"heap", heap}, {"mapped", mapped}};

    memset(on_stack, 0, sizeof on_stack);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char name[64];

        in = places[i].at;
        out = places[i].at == static_in ? static_out : in + 4;
        snprintf(name, sizeof name, "%s, %s", places[i].name, when);
        measure(&kinds[0], name);
    }
    in = static_in;
    out = static_out;
    munmap(mapped, 8 * sizeof *mapped);
    free(heap);
}

static void allgather(int n)
{
    float *own = calloc((size_t)n, sizeof *own), *all;
    int size;

    MPI_Comm_size(comm, &size);
    all = calloc((size_t)n * (size_t)size, sizeof *all);
    if (!own || !all)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allgather(own, n, MPI_FLOAT, all, n, MPI_FLOAT, comm);
    free(own);
    free(all);
}

static void measure_memory(void)
{
    void *driver;

    by_memory("no CUDA");
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver)
        by_memory(dlsym(driver, "test_driver") ? "test driver" : "CUDA");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "single";
    bool multiple = strcmp(what, "multiple") == 0;
    int provided;

    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    comm = MPI_COMM_WORLD;
    if (strcmp(what, "memory") == 0) {
        measure_memory();
    } else if (argc > 2) {
        if (argc > 3 && strcmp(argv[3], "other") == 0)
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (argc > 4)
            allgather(atoi(argv[4]));
        for (int i = 0; i < COUNT; i++)
            kinds[i].wrapped(atoi(argv[2]));
    } else {
        printf("thread level %s\n", provided == MPI_THREAD_MULTIPLE ? "multiple" : "single");
        for (int i = 0; i < COUNT; i++)
            measure(&kinds[i], kinds[i].name);
    }
    MPI_Finalize();
    return 0;
}
