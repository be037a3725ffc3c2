#include "shim/cli/watched_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/cli/cli.h"

enum { POLL_MS = 200, LOOK_EVERY = 10 /* polls */, GRACE_MS = 10000, OWN_MS = 3000 };

static const int noted[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE};
enum { NOTED = sizeof noted / sizeof *noted };

static volatile sig_atomic_t interrupted; /* a signal, or 0 */

static void note(int signal_number)
{
    interrupted = signal_number;
}

/* What the caller of this process ignores, as nohup does, stays so. Without SIGCHLD the status of a
 * job would be lost. */
void cli_watch_signals(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART}, former;

    sigemptyset(&action.sa_mask);
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < NOTED; i++)
        if (sigaction(noted[i], NULL, &former) == 0 && former.sa_handler != SIG_IGN)
            sigaction(noted[i], &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(void)
{
    const struct timespec t = {.tv_nsec = POLL_MS * 1000000L};

    nanosleep(&t, NULL);
}

/* Why it is to be ended now, else CLI_BY_ITSELF. A signal of the terminal has reached the job as
 * well: it gets some time of its own. */
static enum cli_ending reason(const struct cli_watched_job *job, double begin, unsigned *polls,
                              unsigned *since)
{
    bool terminal = interrupted == SIGINT || interrupted == SIGQUIT;

    if (interrupted && (!terminal || ++*since >= OWN_MS / POLL_MS))
        return CLI_INTERRUPTED;
    if (!interrupted && ++*polls % LOOK_EVERY == 0 && job->enough(job->ctx))
        return CLI_ENOUGH;
    return !interrupted && job->limit > 0 && now() - begin >= job->limit ? CLI_LATE : CLI_BY_ITSELF;
}

/* Waits for it, and ends it. Its status as waitpid has it. */
static int wait_for(const struct cli_watched_job *job, pid_t pid, enum cli_ending *ending)
{
    int status = 0;
    unsigned polls = 0, signalled = 0, ended = 0;
    double begin = now();

    while (waitpid(pid, &status, WNOHANG) == 0) {
        nap();
        if (*ending != CLI_BY_ITSELF) {
            if (++ended == GRACE_MS / POLL_MS)
                kill(pid, SIGKILL);
            continue;
        }
        *ending = reason(job, begin, &polls, &signalled);
        if (*ending != CLI_BY_ITSELF)
            kill(pid, SIGTERM);
    }
    if (interrupted)
        *ending = CLI_INTERRUPTED;
    return status;
}

static int redirect(const struct cli_watched_job *job)
{
    int in = open("/dev/null", O_RDONLY);
    int out = open(job->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);

    if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0) {
        fprintf(stderr, "sparseshim %s: %s: %s\n", job->verb, job->output, strerror(errno));
        return CLI_CANNOT_RUN;
    }
    if (in > STDERR_FILENO)
        close(in);
    if (out > STDERR_FILENO)
        close(out);
    return CLI_OK;
}

/* What goes wrong before is told here, what the command says goes where it is to go. */
static int become(const struct cli_watched_job *job)
{
    int status = job->prepare ? job->prepare(job->ctx) : CLI_OK;

    if (status == CLI_OK && job->output != NULL)
        status = redirect(job);
    return status == CLI_OK ? cli_become(job->verb, job->command) : status;
}

int cli_watch_job(const struct cli_watched_job *job, enum cli_ending *ending)
{
    *ending = CLI_BY_ITSELF;
    pid_t pid = fork();

    if (pid < 0) {
        fprintf(stderr, "sparseshim %s: no process: %s\n", job->verb, strerror(errno));
        return CLI_CANNOT_RUN;
    }
    if (pid == 0)
        _exit(become(job));
    int status = wait_for(job, pid, ending);
    if (*ending == CLI_ENOUGH || *ending == CLI_LATE)
        return 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
