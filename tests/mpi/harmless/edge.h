/* Shared by the programs at the edges of MPI (tests/t/harmless.t). Each is a legal program whose
 * exit status and output are compared with and without the library. Its output therefore depends
 * only on what MPI promises and its bare library does: never on time, addresses or counts of
 * elements. */
#ifndef TESTS_MPI_EDGE_H
#define TESTS_MPI_EDGE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/mpi/support/input.h"

/* Elements of a call: by default more than the default of MIN_COUNT. */
enum { EDGE_COUNT = 70000 };

/* levels of a case: MPI_Init; the case initialises MPI itself */
enum { EDGE_INIT = -1, EDGE_NONE = -2 };

/* A case runs at MPI_THREAD_MULTIPLE if "-multiple" follows its name. */
struct edge_case {
    const char *name;
    int level; /* for MPI_Init_thread, or one of the above */
    void (*run)(void);
};

struct edge {
    int rank, size; /* in the world */
    int count;
    float *in, *out;
    int argc;
    char **argv;
};

static struct edge edge;

/* Writes a line to standard output in one write, so that lines of ranks do not mix. */
__attribute__((format(printf, 1, 2))) static inline void edge_say(const char *format, ...)
{
    char line[512];
    va_list args;
    int n = snprintf(line, sizeof line, "[%d] ", edge.rank);

    va_start(args, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    if ((size_t)n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(3);
}

static inline const char *edge_yes(bool holds)
{
    return holds ? "yes" : "no";
}

static inline const char *edge_class(int code)
{
    static __thread char text[MPI_MAX_ERROR_STRING];
    int class = code, length;

    if (code == MPI_SUCCESS)
        return "success";
    MPI_Error_class(code, &class);
    MPI_Error_string(class, text, &length);
    return text;
}

static inline void edge_fill(MPI_Comm comm, float *in, uint64_t seed)
{
    int rank;

    PMPI_Comm_rank(comm, &rank);
    input_fill_whole(in, edge.count, seed, rank);
}

static inline bool edge_right(MPI_Comm comm, const float *out, uint64_t seed)
{
    int size;

    PMPI_Comm_size(comm, &size);
    return input_is_whole_sum(out, edge.count, seed, size);
}

/* Makes an eligible allreduce. Returns true if it gave the sum. */
static inline bool edge_sum(MPI_Comm comm, uint64_t seed)
{
    edge_fill(comm, edge.in, seed);
    memset(edge.out, 0x55, sizeof(float) * (size_t)edge.count);
    return MPI_Allreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS &&
           edge_right(comm, edge.out, seed);
}

static inline bool edge_sums(MPI_Comm comm, int calls, uint64_t seed)
{
    bool good = true;

    for (int i = 0; i < calls; i++)
        good = edge_sum(comm, seed + (uint64_t)i) && good;
    return good;
}

/* Makes it as a nonblocking call, followed by its wait. */
static inline bool edge_isum(MPI_Comm comm, uint64_t seed)
{
    MPI_Request request;

    edge_fill(comm, edge.in, seed);
    memset(edge.out, 0x55, sizeof(float) * (size_t)edge.count);
    return MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, comm, &request) ==
               MPI_SUCCESS &&
           MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && edge_right(comm, edge.out, seed);
}

static inline void edge_both(const char *what, MPI_Comm comm)
{
    edge_say("%s: sums %s, nonblocking %s", what, edge_yes(edge_sums(comm, 3, 1)),
             edge_yes(edge_isum(comm, 4)));
}

static inline float *edge_buffer(void)
{
    return input_alloc(sizeof(float) * (size_t)edge.count);
}

/* Fills in `edge` after MPI_Init. */
static inline void edge_begin(MPI_Comm world)
{
    const char *count = getenv("EDGE_COUNT");

    edge.count = count ? atoi(count) : EDGE_COUNT;
    MPI_Comm_rank(world, &edge.rank);
    MPI_Comm_size(world, &edge.size);
    edge.in = edge_buffer();
    edge.out = edge_buffer();
}

/* Runs the case that the first argument names. */
static inline int edge_main(int argc, char **argv, const struct edge_case *cases, size_t n)
{
    int given;

    edge.argc = argc;
    edge.argv = argv;
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(cases[i].name);
        const char *more =
            argc < 2 || strncmp(argv[1], cases[i].name, length) != 0 ? "another" : argv[1] + length;
        const bool multiple = strcmp(more, "-multiple") == 0;

        if (*more && !multiple)
            continue;
        if (cases[i].level == EDGE_NONE) {
            cases[i].run();
            return 0;
        }
        if (cases[i].level == EDGE_INIT && !multiple)
            MPI_Init(&argc, &argv);
        else
            MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : cases[i].level, &given);
        edge_begin(MPI_COMM_WORLD);
        cases[i].run();
        MPI_Finalize();
        return 0;
    }
    fprintf(stderr, "no such case\n");
    return 2;
}

#define EDGE_MAIN(cases)                                                                           \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return edge_main(argc, argv, cases, sizeof cases / sizeof *cases);                         \
    }

#endif
