/* Ranks that are late on purpose, as in the measurements of eager-SGD (Li et al., PPoPP'20, section
 * 7), and how long such a run takes where nothing but that costs time.
 *
 *     one:A       in each step one rank, drawn, sleeps A ms before its allreduce
 *     skew:A:B    all ranks sleep, from A to B ms at even distances, shifted by a rank each step
 *     length:A    each rank sleeps A ms times the length of its batch, drawn, as a share of the
 *                 longest: most are short, a few are long
 */
#ifndef TESTS_APPS_LATE_H
#define TESTS_APPS_LATE_H

#include <time.h>

#include "tests/apps/app.h"

struct late {
    const char *spec; /* NULL: nobody is late */
    double pace;      /* ms that a step takes at least, without that */
    long seed;

    enum { LATE_NOBODY, LATE_ONE, LATE_SKEW, LATE_LENGTH } kind;
    double least, most; /* ms */
    int rank, ranks;
    double began;    /* the step at hand */
    double computed; /* seconds in all steps without sleep */
    long steps;
};

#define LATE_OPTIONS(late)                                                                         \
    TEXT("late", "WHAT", &(late)->spec,                                                            \
         "ranks sleep before they reduce: one:MS, skew:MS:MS or length:MS\n(tests/apps/late.h)"),  \
        NUMBER("pace", "MS", &(late)->pace, 0, 1e6,                                                \
               "a step takes at least MS ms, 0: as long as it takes")

static void late_open(struct late *l, long seed)
{
    char end;

    l->seed = seed;
    MPI_Comm_rank(MPI_COMM_WORLD, &l->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &l->ranks);
    if (!l->spec)
        l->kind = LATE_NOBODY;
    else if (sscanf(l->spec, "one:%lf%c", &l->most, &end) == 1)
        l->kind = LATE_ONE;
    else if (sscanf(l->spec, "skew:%lf:%lf%c", &l->least, &l->most, &end) == 2)
        l->kind = LATE_SKEW;
    else if (sscanf(l->spec, "length:%lf%c", &l->most, &end) == 1)
        l->kind = LATE_LENGTH;
    else
        fail("--late takes one:MS, skew:MS:MS or length:MS, not '%s'", l->spec);
    if (!(l->least >= 0 && l->most >= l->least && l->most <= 1e6))
        fail("--late takes milliseconds from 0 to 1000000, ascending, not '%s'", l->spec);
}

static uint64_t late_draw(const struct late *l, long step, int rank)
{
    uint64_t x = (uint64_t)l->seed * 0x9e3779b97f4a7c15 + (uint64_t)step * 1000003 + (uint64_t)rank;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* The length of a rank's batch over that of the longest: 1/8 to 1, 11/32 in the mean. */
static inline double late_length(const struct late *l, int rank, long step)
{
    double u = (double)(late_draw(l, step, rank) >> 11) / 0x1p53;

    return l->kind == LATE_LENGTH ? 0.125 + 0.875 * u * u * u : 1;
}

/* Milliseconds; steps count from 0. */
static double late_by(const struct late *l, int rank, long step)
{
    switch (l->kind) {
    case LATE_ONE:
        return late_draw(l, step, -1) % (unsigned)l->ranks == (unsigned)rank ? l->most : 0;
    case LATE_SKEW:
        return l->least + (l->most - l->least) * (double)((rank + step) % l->ranks) /
                              (double)(l->ranks > 1 ? l->ranks - 1 : 1);
    case LATE_LENGTH:
        return l->most * late_length(l, rank, step);
    default:
        return 0;
    }
}

static void late_sleep(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};

    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    if (seconds > 0)
        nanosleep(&t, NULL);
}

/* A step begins, and is about to reduce. */
static void late_begin(struct late *l)
{
    l->began = MPI_Wtime();
}

static void late_wait(struct late *l)
{
    double took = MPI_Wtime() - l->began, pace = l->pace / 1e3;

    l->computed += took > pace ? took : pace;
    late_sleep((took < pace ? pace - took : 0) + late_by(l, l->rank, l->steps++) / 1e3);
}

/* ---- what such a run takes ---- */

enum { LATE_RANKS = 64, LATE_QUEUE = 64 };

/* Whose arrival begins the round of a step: of the ranks' arrivals. */
static double late_starts(const struct late *l, const char *quorum, bool full, long step,
                          const double *arrival)
{
    double least = arrival[0], most = arrival[0];

    for (int r = 1; r < l->ranks; r++) {
        least = arrival[r] < least ? arrival[r] : least;
        most = arrival[r] > most ? arrival[r] : most;
    }
    if (full || strcmp(quorum, "all") == 0)
        return most;
    if (strcmp(quorum, "solo") == 0)
        return least;
    return arrival[late_draw(l, step, -2) % (unsigned)l->ranks];
}

/* Seconds of all steps on a machine where a step takes `compute` seconds, an allreduce nothing, and
 * a rank has at most `queue` results waiting; every period-th step waits for all ranks. */
static double late_model(const struct late *l, const char *quorum, double compute, long queue,
                         long period)
{
    static double arrival[LATE_QUEUE + 1][LATE_RANKS], back[LATE_RANKS];
    double round = 0, last = 0;

    memset(back, 0, sizeof back);
    for (long step = 0; step < l->steps; step++) {
        double *now = arrival[step % (queue + 1)];
        const double *then = arrival[(step + 1) % (queue + 1)]; /* `queue` steps ago */

        for (int r = 0; r < l->ranks; r++)
            now[r] = back[r] + compute + late_by(l, r, step) / 1e3;
        double begun = late_starts(l, quorum, step % period == 0, step, now);
        round = begun > round ? begun : round;
        for (int r = 0; r < l->ranks && step >= queue; r++)
            round = then[r] > round ? then[r] : round;
        for (int r = 0; r < l->ranks; r++)
            back[r] = now[r] > round ? now[r] : round;
    }
    for (int r = 0; r < l->ranks; r++)
        last = back[r] > last ? back[r] : last;
    return last;
}

/* Returns the value of "NAME=" in SPARSESHIM_TEST, or the standard. */
static long late_setting(const char *name, long standard, long most)
{
    const char *list = getenv("SPARSESHIM_TEST");
    const char *text = list ? strstr(list, name) : NULL;
    long value = text ? strtol(text + strlen(name), NULL, 10) : 0;

    return value > 0 && value <= most ? value : standard;
}

/* The model of this run, with what it is told by SPARSESHIM_QUORUM and its like. Collective. */
static double late_model_seconds(const struct late *l)
{
    const char *quorum = getenv("SPARSESHIM_QUORUM");
    double compute = l->computed / (double)(l->steps > 0 ? l->steps : 1), mean;

    PMPI_Allreduce(&compute, &mean, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (l->ranks > LATE_RANKS)
        return 0;
    return late_model(l, quorum ? quorum : "all", mean / l->ranks,
                      late_setting("quorum_staleness=", 8, LATE_QUEUE),
                      late_setting("quorum_period=", 64, 1000000));
}

#endif
