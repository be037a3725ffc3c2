/* A job that a verb starts, looks after and ends. */
#ifndef SHIM_CLI_WATCHED_JOB_H
#define SHIM_CLI_WATCHED_JOB_H

#include <stdbool.h>

struct cli_watched_job {
    const char *verb; /* in messages */
    char **command;   /* ends in NULL */
    /* Path of the file that takes what the job prints, its standard input being empty then; NULL:
     * both as they are here. */
    const char *output;
    unsigned limit; /* seconds after which it is ended; 0: none */
    /* In the process of the job, before it becomes the command: CLI_OK, or its exit status. */
    int (*prepare)(void *ctx);
    /* Every two seconds: whether the job may be ended. */
    bool (*enough)(void *ctx);
    void *ctx;
};

enum cli_ending {
    CLI_BY_ITSELF,
    CLI_ENOUGH,     /* ended here, since enough was seen */
    CLI_LATE,       /* ended here, at its limit */
    CLI_INTERRUPTED /* this process got SIGINT, SIGQUIT, SIGHUP, SIGTERM or SIGPIPE */
};

/* From now to the end of this process such signals are noted only, so that what it makes can be
 * removed: to be called before that is made, and before cli_watch_job. */
void cli_watch_signals(void);
bool cli_interrupted(void);

/* Runs it to its end: SIGTERM first, SIGKILL 10 s later. The exit status of the command, 128 and
 * more by a signal; 0 where it was ended here; CLI_CANNOT_RUN where no process can be had, after
 * saying so. */
int cli_watch_job(const struct cli_watched_job *job, enum cli_ending *ending);

#endif
