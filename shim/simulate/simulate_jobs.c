/* Makes several rows of a simulation at a time, each in a process of its own. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/simulate/simulate.h"

struct made {
    struct sim_family family;
    struct sim_row row;
};

struct worker {
    pid_t pid; /* 0: none */
    int in;
};

static struct ss_trial of_algorithm(const struct ss_trial *trial, enum ss_algorithm algorithm)
{
    struct ss_trial t = *trial;

    t.algorithm = algorithm;
    return t;
}

static void work(const struct sim_asked *asked, const struct ss_trial *trial,
                 const struct sim_family *family, int out)
{
    struct made made;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    memset(&made, 0, sizeof made);
    made.family = *family;
    sim_row_make(asked, trial, &made.family, &made.row);
    _exit(write(out, &made, sizeof made) == sizeof made ? 0 : 1);
}

static bool start(const struct sim_asked *asked, const struct ss_trial *trial,
                  const struct sim_family *family, struct worker *worker)
{
    int ends[2];

    if (pipe(ends) != 0)
        return false;
    fflush(NULL);
    worker->pid = fork();
    if (worker->pid == 0)
        work(asked, trial, family, ends[1]);
    close(ends[1]);
    worker->in = ends[0];
    if (worker->pid > 0)
        return true;
    close(ends[0]);
    worker->pid = 0;
    return false;
}

static void failed(const struct ss_trial *trial, struct sim_row *row)
{
    *row = (struct sim_row){.source = SIM_SIMULATED, .status = -100, .ran = trial->algorithm};
}

static void finish(const struct ss_trial *trial, struct worker *worker, struct sim_family *family,
                   struct sim_row *row)
{
    struct made made;

    if (read(worker->in, &made, sizeof made) == sizeof made) {
        *family = made.family;
        *row = made.row;
    } else {
        failed(trial, row);
    }
    close(worker->in);
    while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    worker->pid = 0;
}

/* Returns the first process that has output; -1 if none is running. */
static int wait_for_one(const struct worker *workers, size_t count)
{
    struct pollfd fds[SS_ALGORITHMS];
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        fds[i] = (struct pollfd){.fd = workers[i].pid > 0 ? workers[i].in : -1, .events = POLLIN};
        any = any || workers[i].pid > 0;
    }
    while (any && poll(fds, (nfds_t)count, -1) < 0 && errno == EINTR)
        ;
    for (size_t i = 0; any && i < count; i++)
        if (fds[i].revents != 0)
            return (int)i;
    return -1;
}

void sim_rows_make(const struct sim_asked *asked, const struct ss_trial *trial,
                   struct sim_family *families, struct sim_row *rows)
{
    struct worker workers[SS_ALGORITHMS] = {{0}};
    size_t started = 0, busy = 0;

    while (started < asked->algorithms || busy > 0) {
        if (started < asked->algorithms && busy < asked->jobs) {
            size_t i = started++;
            struct ss_trial t = of_algorithm(trial, asked->algorithm[i]);
            if (start(asked, &t, &families[i], &workers[i]))
                busy++;
            else
                failed(&t, &rows[i]);
            continue;
        }
        int i = wait_for_one(workers, asked->algorithms);
        if (i < 0)
            return;
        struct ss_trial t = of_algorithm(trial, asked->algorithm[i]);
        finish(&t, &workers[i], &families[i], &rows[i]);
        busy--;
    }
}
