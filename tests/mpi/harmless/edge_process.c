/* edge_process CASE: processes: forked, replaced, spawned; signals and files. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/mpi/harmless/edge.h"

/* ---- fork and exec ---- */

static int run_child(void (*body)(void))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        body();
        _exit(5);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void child_exits(void)
{
    exit(6); /* with its exit handlers */
}

static void child_runs_a_program(void)
{
    execlp("sh", "sh", "-c", "echo child of a rank; exit 4", (char *)NULL);
}

static void child_says(void)
{
    edge_say("child");
}

static void forks(void)
{
    for (int round = 0; round < 3; round++) {
        edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)),
                 edge_yes(edge_isum(MPI_COMM_WORLD, 3)));
        edge_say("child %d", run_child(child_says));
        edge_say("child %d", run_child(child_exits));
        edge_say("child %d", run_child(child_runs_a_program));
        edge_say("shell %d", WEXITSTATUS(system("echo shell; exit 3")));
    }
}

static void forks_while_pending(void)
{
    MPI_Request request;

    edge_sums(MPI_COMM_WORLD, 2, 1);
    for (int round = 0; round < 3; round++) {
        edge_fill(MPI_COMM_WORLD, edge.in, 3);
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        edge_say("child %d", run_child(child_says));
        edge_say("child %d", run_child(child_runs_a_program));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        edge_say("nonblocking %s", edge_yes(edge_right(MPI_COMM_WORLD, edge.out, 3)));
    }
}

/* A rank is replaced by another program after MPI_Finalize. */
static void replaced(void)
{
    MPI_Init(NULL, NULL);
    edge_begin(MPI_COMM_WORLD);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 3)));
    MPI_Finalize();
    execlp("sh", "sh", "-c", "echo replaced; exit 8", (char *)NULL);
}

/* ---- signals ---- */

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

/* A timer whose signals interrupt whatever is going on. */
static void interrupted(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    bool good = true;

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < 20; round++)
        good = edge_sum(MPI_COMM_WORLD, 1) && edge_isum(MPI_COMM_WORLD, 2) && good;
    setitimer(ITIMER_REAL, &never, NULL);
    edge_say("sums %s, interrupted %s", edge_yes(good), edge_yes(alarms > 0));
}

/* Signals are blocked in the program's threads and waited for: nobody else takes them. */
static void awaited(void)
{
    sigset_t set, pending;
    struct timespec second = {.tv_sec = 5};
    int given;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL); /* in threads of the MPI library, too */
    MPI_Init_thread(NULL, NULL, edge.argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &given);
    edge_begin(MPI_COMM_WORLD);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 3)));
    kill(getpid(), SIGUSR1);
    sigpending(&pending);
    edge_say("pending %d, awaited %s", sigismember(&pending, SIGUSR1),
             edge_yes(sigtimedwait(&set, NULL, &second) == SIGUSR1));
    MPI_Finalize();
}

static void handlers_stay(void)
{
    int changed = 0;
    struct sigaction before[32], after;
    sigset_t mask, now;

    MPI_Barrier(MPI_COMM_WORLD);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int s = 1; s < 32; s++)
        sigaction(s, NULL, &before[s]);
    edge_sums(MPI_COMM_WORLD, 4, 1);
    edge_isum(MPI_COMM_WORLD, 1);
    for (int s = 1; s < 32; s++) {
        sigaction(s, NULL, &after);
        changed += after.sa_handler != before[s].sa_handler;
    }
    sigprocmask(SIG_SETMASK, NULL, &now);
    edge_say("handlers changed %d, mask kept %s", changed,
             edge_yes(memcmp(&mask, &now, sizeof mask) == 0));
}

/* ---- files ---- */

static int files_open(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static void files(void)
{
    int before;

    MPI_Barrier(MPI_COMM_WORLD);
    before = files_open();
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 3)));
    edge_say("files opened: %d", files_open() - before);
}

/* Standard error is another file now, and nobody writes to it. */
static void error_output_closed(void)
{
    char path[] = "/tmp/edge-XXXXXX";
    int fd;

    close(STDERR_FILENO);
    fd = mkstemp(path);
    unlink(path);
    edge_say("the next file is standard error: %s", edge_yes(fd == STDERR_FILENO));
    edge_sums(MPI_COMM_WORLD, 3, 1);
    edge_isum(MPI_COMM_WORLD, 3);
    MPI_Pcontrol(2);
    edge_say("bytes in it: %d", (int)lseek(fd, 0, SEEK_END));
}

/* ---- limits ---- */

/* No more threads, files or locked memory are to be had once MPI is up. */
static void limited(void)
{
    struct rlimit none = {0, 0};
    struct rlimit files = {64, 64};

    setrlimit(RLIMIT_MEMLOCK, &none);
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_CORE, &none);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 3)));
}

/* ---- dynamic processes ---- */

static void child_of_a_spawn(MPI_Comm parent)
{
    MPI_Comm merged;

    edge_say("spawned: sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    MPI_Intercomm_merge(parent, 1, &merged);
    edge_say("spawned: merged sums %s, nonblocking %s", edge_yes(edge_sums(merged, 4, 5)),
             edge_yes(edge_isum(merged, 9)));
    edge_say("spawned: merged sums %s", edge_yes(edge_sums(merged, 2, 10)));
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&parent);
}

static void spawns(void)
{
    MPI_Comm parent, children, merged, copy;
    int errors[2], err;

    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        child_of_a_spawn(parent);
        return;
    }
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 3)));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    err = MPI_Comm_spawn(edge.argv[0], edge.argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                         &children, errors);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (err != MPI_SUCCESS) { /* Debian's MPICH 4.0.2 (ch4:ucx) spawns nothing */
        edge_say("no processes can be spawned: %s", edge_class(err));
        return;
    }
    MPI_Intercomm_merge(children, 0, &merged);
    edge_say("merged sums %s, nonblocking %s", edge_yes(edge_sums(merged, 4, 5)),
             edge_yes(edge_isum(merged, 9)));
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    edge_say("sums %s, %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)),
             edge_yes(edge_sums(copy, 3, 1)));
    edge_say("merged sums %s", edge_yes(edge_sums(merged, 2, 10)));
    MPI_Comm_free(&copy);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&children);
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)));
}

/* Two worlds meet by a port. */
static void connects(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, inter, merged;
    int side = edge.rank % 2;

    MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (edge.rank == 0 && MPI_Open_port(MPI_INFO_NULL, port) != MPI_SUCCESS)
        port[0] = '\0';
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    edge_say("sums %s", edge_yes(edge_sums(half, 3, 1)));
    if (!port[0]) { /* as above */
        edge_say("no port can be opened");
        MPI_Comm_free(&half);
        return;
    }
    if (side == 0)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
    MPI_Intercomm_merge(inter, side, &merged);
    edge_say("merged sums %s, nonblocking %s", edge_yes(edge_sums(merged, 4, 5)),
             edge_yes(edge_isum(merged, 9)));
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&inter);
    if (edge.rank == 0)
        MPI_Close_port(port);
    MPI_Comm_free(&half);
}

static const struct edge_case cases[] = {
    {"forks", EDGE_INIT, forks},       {"forks-pending", EDGE_INIT, forks_while_pending},
    {"replaced", EDGE_NONE, replaced}, {"interrupted", EDGE_INIT, interrupted},
    {"awaited", EDGE_NONE, awaited},   {"handlers-stay", EDGE_INIT, handlers_stay},
    {"files", EDGE_INIT, files},       {"closed", EDGE_INIT, error_output_closed},
    {"limited", EDGE_INIT, limited},   {"spawn", EDGE_INIT, spawns},
    {"connect", EDGE_INIT, connects},
};

EDGE_MAIN(cases)
