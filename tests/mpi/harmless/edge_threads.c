/* edge_threads CASE: the level of threads that a program sees, and its threads. */
#include <dirent.h>

#include "tests/mpi/harmless/edge.h"

static int threads_of_this_process(void)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void tell_level(int provided)
{
    int level = -1, is_main = 0;

    MPI_Query_thread(&level);
    MPI_Is_thread_main(&is_main);
    edge_say("provided %d, queried %d, main %d", provided, level, is_main);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 4)));
    MPI_Query_thread(&level);
    edge_say("queried again %d", level);
}

/* levels LEVEL: as the argument asks; "init" for MPI_Init. */
static void levels(void)
{
    const char *asked = edge.argc > 2 ? edge.argv[2] : "init";
    int provided = -1;

    if (strcmp(asked, "init") == 0)
        MPI_Init(NULL, NULL);
    else
        MPI_Init_thread(NULL, NULL, atoi(asked), &provided);
    edge_begin(MPI_COMM_WORLD);
    tell_level(provided);
    MPI_Finalize();
}

/* The user asks for more, by MPICH's own means. */
static void level_of_environment(void)
{
    setenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_SERIALIZED", 1);
    MPI_Init(NULL, NULL);
    edge_begin(MPI_COMM_WORLD);
    tell_level(-1);
    MPI_Finalize();
}

static void async_progress(void)
{
    int provided = -1;

    setenv("MPIR_CVAR_ASYNC_PROGRESS", "1", 1);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    edge_begin(MPI_COMM_WORLD);
    tell_level(provided);
    edge_say("threads: %d", threads_of_this_process());
    MPI_Finalize();
}

static void threads_counted(void)
{
    int before = threads_of_this_process();

    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 9)));
    edge_say("as many threads as before: %s", edge_yes(threads_of_this_process() == before));
}

static const struct edge_case cases[] = {
    {"levels", EDGE_NONE, levels},
    {"level-env", EDGE_NONE, level_of_environment},
    {"async-progress", EDGE_NONE, async_progress},
    {"threads", EDGE_INIT, threads_counted},
};

EDGE_MAIN(cases)
