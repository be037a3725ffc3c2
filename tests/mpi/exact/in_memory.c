/* in_memory [memory|messages|file|descriptors|kill OUTPUT]: sums of ranks on one host, which share
 * memory for each communicator: with several communicators, calls under way together, a child, and
 * an end that leaves no mapping.
 *
 * messages: no memory is expected. file, descriptors: nor is it for all ranks, since the first or
 * the last rank has reached its limit for files or descriptors meanwhile. kill: the last rank kills
 * itself when the memory is mapped and OUTPUT, a file of what mpirun prints, says so. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 200000, SMALL = 3000, CALLS = 3 };

static float in[COUNT], out[COUNT];

/* Returns the number of memories that this process has mapped. */
static int mappings(void)
{
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps && fgets(line, sizeof line, maps))
        found += strstr(line, "memfd:sparseshim") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* Returns true if some sums on a communicator are right. */
static bool sums(MPI_Comm comm)
{
    bool right = true;
    int rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int call = 0; call < CALLS; call++) {
        const int n = call % 2 ? COUNT : SMALL;
        input_fill_whole(in, n, (uint64_t)call, rank);
        MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, comm);
        right = right && input_is_whole_sum(out, n, (uint64_t)call, size);
    }
    return right;
}

/* As sums, of calls under way together and a blocking one after them. */
static bool sums_together(MPI_Comm comm)
{
    static float each[CALLS][SMALL], sum[CALLS][SMALL];
    MPI_Request requests[CALLS];
    bool right = true;

    for (int call = 0; call < CALLS; call++) {
        input_fill_whole(each[call], SMALL, (uint64_t)call, tap.rank);
        MPI_Iallreduce(each[call], sum[call], SMALL, MPI_FLOAT, MPI_SUM, comm, &requests[call]);
    }
    right = sums(comm);
    for (int call = 0; call < CALLS; call++)
        MPI_Wait(&requests[call], MPI_STATUS_IGNORE);
    for (int call = 0; call < CALLS; call++)
        right = right && input_is_whole_sum(sum[call], SMALL, (uint64_t)call, tap.size);
    return right;
}

/* Returns true if a child has no mapping. */
static bool child_is_apart(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(mappings());
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Lowers a limit of this process. */
static struct rlimit lower(int which, rlim_t most)
{
    struct rlimit former, limit;

    getrlimit(which, &former);
    limit = (struct rlimit){.rlim_cur = most, .rlim_max = former.rlim_max};
    if (setrlimit(which, &limit) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return former;
}

/* Makes the first sums, where a rank may have reached a limit. */
static bool first_sums(const char *mode)
{
    const bool file = strcmp(mode, "file") == 0 && tap.rank == 0;
    const bool descriptors = strcmp(mode, "descriptors") == 0 && tap.rank == tap.size - 1;
    const int which = file ? RLIMIT_FSIZE : RLIMIT_NOFILE, next = dup(0); /* the lowest free one */
    struct rlimit former;

    close(next);
    if (!file && !descriptors)
        return sums(MPI_COMM_WORLD);
    former = lower(which, file ? 4096 : (rlim_t)next);
    bool right = sums(MPI_COMM_WORLD);
    setrlimit(which, &former);
    return right;
}

/* Waits until a file has a second line of TAP, at most for 30 s. */
static void await_second_line(const char *name)
{
    char text[4096] = "";

    for (int i = 0; i < 3000 && !strstr(text, "ok 2 - "); i++) {
        FILE *file = fopen(name, "r");

        usleep(10000);
        text[file ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
        if (file)
            fclose(file);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "memory";
    const bool kills = strcmp(mode, "kill") == 0;
    const int expected = kills || strcmp(mode, "memory") == 0;
    const int more = strcmp(mode, "messages") != 0;
    int all[64] = {0}, to_all[64] = {0};
    MPI_Comm half, most;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    PMPI_Alltoall(to_all, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD); /* connects the ranks */
    tap_ok(first_sums(mode), "sums of all ranks");
    tap_ok(mappings() == expected, "%s", expected ? "they share memory" : "they share no memory");
    if (kills && tap.rank == tap.size - 1) {
        await_second_line(argc > 2 ? argv[2] : "");
        raise(SIGKILL);
    }
    tap_ok(child_is_apart(), "a child has no mapping");
    tap_ok(sums_together(MPI_COMM_WORLD), "calls under way together");

    MPI_Comm_split(MPI_COMM_WORLD, tap.rank % 2, -tap.rank, &half);
    MPI_Comm_split(MPI_COMM_WORLD, tap.rank == 0 ? MPI_UNDEFINED : 1, 0, &most);
    tap_ok(sums(half), "sums of every second rank");
    tap_ok(most == MPI_COMM_NULL || sums(most), "sums of all ranks but one");
    tap_ok(sums(half) && sums(MPI_COMM_WORLD), "sums on communicators in turn");
    tap_ok(mappings() == expected + more * (most == MPI_COMM_NULL ? 1 : 2),
           "each has its own memory");
    MPI_Comm_free(&half);
    if (most != MPI_COMM_NULL)
        MPI_Comm_free(&most);
    tap_ok(sums(MPI_COMM_WORLD) && mappings() == expected, "their memory ends with them");
    int status = tap_end();
    MPI_Finalize();
    return mappings() == 0 ? status : EXIT_FAILURE;
}
