/* Runs of a simulation. Each has a process of its own, which is killed if it takes too much. A run
 * that would take too much is not made: its row is extrapolated or refused. */
#include "shim/simulate/simulate.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- one run ---- */

struct report {
    int status;
    struct ss_trial_result result;
};

static void run_here(const struct ss_trial *trial, int out)
{
    struct report report;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(&report, 0, sizeof report);
    report.status = ss_trial_run(trial, &report.result);
    _exit(write(out, &report, sizeof report) == sizeof report ? 0 : 1);
}

/* Returns the bytes that a process has in memory now. */
static uint64_t resident(pid_t pid)
{
    char path[64];
    unsigned long long all, here = 0;

    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%llu %llu", &all, &here) != 2)
        here = 0;
    if (f)
        fclose(f);
    return here * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Returns the seconds of a processor that a process has taken. */
static double taken(pid_t pid)
{
    clockid_t clock;
    struct timespec t;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits until the process reports. Kills it if it takes too much memory or time. */
static enum sim_end watch(pid_t pid, int in, uint64_t memory, double seconds)
{
    enum { LOOK_MS = 20 };
    struct pollfd fd = {.fd = in, .events = POLLIN};
    enum sim_end end = SIM_RAN;

    while (end == SIM_RAN && poll(&fd, 1, LOOK_MS) <= 0)
        if (taken(pid) > seconds)
            end = SIM_OVER_TIME;
        else if (resident(pid) > memory)
            end = SIM_OVER_MEMORY;
    if (end != SIM_RAN)
        kill(pid, SIGKILL);
    return end;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void collect(pid_t pid, int in, struct sim_run *run)
{
    struct report report;
    struct rusage usage = {0};
    int status;

    if (run->end == SIM_RAN && read(in, &report, sizeof report) != sizeof report) {
        run->end = SIM_FAILED;
        run->status = -100;
    } else if (run->end == SIM_RAN) {
        run->status = report.status;
        run->result = report.result;
        if (report.status == SS_ERR_MEMORY)
            run->end = SIM_OVER_MEMORY;
        else if (report.status != SS_OK)
            run->end = SIM_FAILED;
    }
    while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR)
        ;
    run->memory = (uint64_t)usage.ru_maxrss * 1024;
    run->seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

void sim_run(const struct ss_trial *trial, uint64_t memory, double seconds, struct sim_run *run)
{
    int ends[2];

    *run = (struct sim_run){.end = SIM_FAILED, .status = -100};
    if (pipe(ends) != 0)
        return;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_here(trial, ends[1]);
    close(ends[1]);
    if (pid > 0) {
        run->end = watch(pid, ends[0], memory, seconds);
        collect(pid, ends[0], run);
    }
    close(ends[0]);
}

/* ---- memory and time of a run ---- */

/* Extrapolates from the growth of the last two runs, at least with the number of ranks; after only
 * one run, with its square. */
static double expected(double before, double last, const struct sim_family *f, int ranks)
{
    double power = 2, times = (double)ranks / f->last.ranks;

    if (f->before > 0 && before > 0)
        power = log(last / before) / log((double)f->last.ranks / f->before);
    return last * pow(times, fmax(power, 1));
}

/* Returns the least bytes of a run. Each rank has an input, a result and, in MODE=topk, a residual,
 * and RANK bytes besides. In MODE=exact the run has one more vector, the sum that the result is
 * compared with. */
static double least_memory(const struct ss_trial *t)
{
    enum { RANK = 200000 };
    double vector = (double)t->entries.n * sizeof(float);
    bool topk = ((SS_GLOBAL_ALGORITHMS | SS_WHOLE_ALGORITHMS) >> t->algorithm & 1) != 0;
    double vectors = topk ? 3.0 * t->ranks : 2.0 * t->ranks + 1;

    return t->algorithm == SS_DENSE ? 0 : vector * vectors + (double)t->ranks * RANK;
}

static void bytes_text(char *text, size_t size, double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;

    while (bytes >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, "%.3g %s", bytes, units[unit]);
}

static void too_long(const struct sim_asked *asked, int ranks, double seconds, char *why,
                     size_t size)
{
    if (seconds > 0)
        snprintf(why, size, "%d ranks would take about %.3g s (--time=%g)", ranks, seconds,
                 asked->seconds);
    else
        snprintf(why, size, "%d ranks take more than %g s (--time)", ranks, asked->seconds);
}

static void too_large(const struct sim_asked *asked, int ranks, double bytes, char *why,
                      size_t size)
{
    char need[32], limit[32];

    bytes_text(need, sizeof need, bytes);
    bytes_text(limit, sizeof limit, (double)asked->memory);
    snprintf(why, size, "%d ranks need %s%s (--memory=%s)", ranks,
             bytes > (double)asked->memory ? "about " : "more than ",
             bytes > (double)asked->memory ? need : limit, limit);
}

/* The estimate of the time is rough, so that a run that may be just too long is tried. */
static const double ROUGHLY = 2;

/* Returns true if a run is worth its start; else sets family->why. */
static bool worth_trying(const struct sim_asked *asked, const struct ss_trial *t,
                         struct sim_family *f)
{
    double memory = least_memory(t), seconds = 0;

    if (f->last.ranks > 0) {
        double grown = expected((double)f->before_memory, (double)f->run.memory, f, t->ranks);
        seconds = expected(f->before_seconds, f->run.seconds, f, t->ranks);
        memory = fmax(memory, grown);
    }
    if (memory > (double)asked->memory)
        too_large(asked, t->ranks, memory, f->why, sizeof f->why);
    else if (seconds > ROUGHLY * asked->seconds)
        too_long(asked, t->ranks, seconds, f->why, sizeof f->why);
    return f->why[0] == '\0';
}

/* Makes the run unless it is too large. Returns true if the run ended, with a result or a failure.
 */
static bool try_run(const struct sim_asked *asked, const struct ss_trial *t, struct sim_family *f,
                    struct sim_run *run)
{
    if (f->why[0] != '\0' || !worth_trying(asked, t, f))
        return false;
    sim_run(t, asked->memory, asked->seconds, run);
    if (run->end == SIM_OVER_TIME)
        too_long(asked, t->ranks, 0, f->why, sizeof f->why);
    if (run->end == SIM_OVER_MEMORY)
        too_large(asked, t->ranks, 0, f->why, sizeof f->why);
    if (run->end != SIM_RAN)
        return run->end == SIM_FAILED;
    f->before = f->last.ranks;
    f->before_seconds = f->run.seconds;
    f->before_memory = f->run.memory;
    f->last = *t;
    f->run = *run;
    return true;
}

/* ---- rows ---- */

static void take_result(const struct ss_trial *t, const struct sim_run *run, struct sim_row *row)
{
    const struct ss_trial_result *r = &run->result;

    row->source = SIM_SIMULATED;
    row->status = run->status;
    row->seconds = r->seconds;
    row->bytes_max = (double)r->bytes_max;
    row->bytes_mean = (double)r->bytes_sum / t->ranks;
    row->bytes_host = (double)r->outside_max;
    row->messages = (double)r->messages_max;
    row->rounds = (double)r->rounds;
    row->memory = (double)r->memory;
    row->result_nnz = (double)r->result_nnz;
    row->checksum = r->checksum;
    row->ran = r->ran;
}

/* Scales the largest run by the cost model's estimates for both. */
static void extrapolate(const struct ss_trial *t, const struct sim_family *f, struct sim_row *row)
{
    const struct ss_trial_result *r = &f->run.result;
    struct ss_trial_estimate from, to;
    double bytes;

    ss_trial_predict(&f->last, &from);
    ss_trial_predict(t, &to);
    bytes = to.bytes / from.bytes;
    row->source = SIM_EXTRAPOLATED;
    row->seconds = r->seconds * to.seconds / from.seconds;
    row->bytes_max = (double)r->bytes_max * bytes;
    row->bytes_mean = (double)r->bytes_sum / f->last.ranks * bytes;
    row->result_nnz = to.result_nnz;
    row->ran = t->algorithm;
    snprintf(row->note, sizeof row->note, "from %d ranks; %s", f->last.ranks, f->why);
}

void sim_row_make(const struct sim_asked *asked, const struct ss_trial *trial, struct sim_family *f,
                  struct sim_row *row)
{
    struct ss_trial dense = *trial, smaller = *trial;
    struct ss_trial_estimate limit;
    struct sim_run run;

    dense.algorithm = SS_DENSE;
    ss_trial_predict(&dense, &limit);
    *row = (struct sim_row){.dense_seconds = limit.seconds, .ran = trial->algorithm};
    for (smaller.ranks = 2; smaller.ranks < trial->ranks; smaller.ranks *= 4)
        if (smaller.ranks > f->last.ranks)
            try_run(asked, &smaller, f, &run);
    if (try_run(asked, trial, f, &run)) {
        take_result(trial, &run, row);
    } else if (f->last.ranks > 0) {
        extrapolate(trial, f, row);
    } else {
        row->source = SIM_REFUSED;
        snprintf(row->note, sizeof row->note, "%s", f->why);
    }
}
