/* Explains an empty or poor report. */
#include <stdarg.h>
#include <stdio.h>

#include "core/report/report.h"

typedef unsigned long long ull;

struct page {
    ss_report_sentence *sentences;
    size_t n, most;
};

__attribute__((format(printf, 2, 3))) static void say(struct page *page, const char *format, ...)
{
    va_list args;

    if (page->n == page->most)
        return;
    va_start(args, format);
    vsnprintf(page->sentences[page->n++], sizeof(ss_report_sentence), format, args);
    va_end(args);
}

/* No allreduce was called. */
static void say_unseen(struct page *page, const struct ss_report_scene *scene, uint64_t others)
{
    if (others > 0)
        say(page, "no MPI_Allreduce was seen, only %llu other collective calls", (ull)others);
    else
        say(page, "no MPI_Allreduce or other collective that is served was seen; `sparseshim check "
                  "PROGRAM` says what a program calls");
    if (scene->before)
        say(page,
            "%s defines MPI_Allreduce as well and comes before libsparseshim.so: preload "
            "libsparseshim.so in front of it",
            scene->before);
    if (scene->python)
        say(page,
            "lower-case mpi4py calls such as comm.allreduce send pickled objects and never "
            "call MPI_Allreduce; comm.Allreduce, with arrays, does; PyTorch with gloo or nccl "
            "makes no MPI call: see sparseshim(7), PyTorch");
}

/* Allreduces on communicators of one rank and calls that no MIN_COUNT makes eligible are not in
 * small_calls. */
static void say_small(struct page *page, const struct ss_stats *stats, uint64_t calls,
                      uint64_t seen, uint64_t min_count)
{
    if (stats->small_largest == 0)
        say(page,
            "%llu of %llu calls have fewer elements than MIN_COUNT=%llu, and a lower one would "
            "make none of them eligible: their datatype, operator, buffer or communicator is not "
            "served, or they are nonblocking and not taken over",
            (ull)calls, (ull)seen, (ull)min_count);
    else
        say(page,
            "%llu of %llu calls have fewer elements than MIN_COUNT=%llu; the largest that could be "
            "served have %llu: MIN_COUNT=%llu would make the %llu calls of that size eligible",
            (ull)calls, (ull)seen, (ull)min_count, (ull)stats->small_largest,
            (ull)stats->small_largest, (ull)stats->small_calls);
}

/* Explains why the calls that were seen were passed on. */
static void say_passed(struct page *page, struct ss_stats *stats, uint64_t seen, uint64_t min_count)
{
    static const struct {
        enum ss_reason reason;
        const char *text;
    } reasons[] = {
        {SS_WHY_TYPE, "have a datatype or operator that is not served (served are float, double, "
                      "integers of 4 and 8 bytes, MPI_SUM)"},
        {SS_WHY_BUFFER,
         "have a buffer that is not served (NULL, one for sending and receiving, or parts of "
         "different sizes)"},
        {SS_WHY_COMMUNICATOR,
         "are on a communicator that is not served (of one rank, between two groups, "
         "or beyond those that are kept)"},
    };
    uint64_t small = atomic_load(&stats->passed[SS_WHY_SMALL]);

    if (small > 0)
        say_small(page, stats, small, seen, min_count);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        uint64_t calls = atomic_load(&stats->passed[reasons[i].reason]);

        if (calls > 0)
            say(page, "%llu of %llu calls %s", (ull)calls, (ull)seen, reasons[i].text);
    }
}

/* Tells the option that would serve more nonblocking calls, or why no option would. */
static void say_nonblocking(struct page *page, struct ss_stats *stats)
{
    uint64_t level = atomic_load(&stats->passed[SS_WHY_NONBLOCKING]);
    uint64_t before = atomic_load(&stats->passed[SS_WHY_BEFORE_BLOCKING]);
    uint64_t callbacks = atomic_load(&stats->passed[SS_WHY_CALLBACKS]);

    if (level > 0)
        say(page,
            "%llu nonblocking calls passed through, since a rank does not run at "
            "MPI_THREAD_MULTIPLE or PROGRESS is off: PROGRESS=watchdog or thread would raise the "
            "program to that level and take over those that are eligible",
            (ull)level);
    if (before > 0)
        say(page,
            "%llu nonblocking calls passed through, since no eligible blocking call on their "
            "communicator came before: PROGRESS=watchdog or thread would take them over",
            (ull)before);
    if (callbacks > 0)
        say(page,
            "%llu nonblocking calls passed through, since a rank has operators or attribute "
            "callbacks of its own, which must not run in a thread of the library",
            (ull)callbacks);
}

static void say_limited(struct page *page, struct ss_stats *stats,
                        const struct ss_report_scene *scene)
{
    uint64_t calls = atomic_load(&stats->passed[SS_WHY_LIMIT]);

    if (calls > 0)
        say(page,
            "%llu calls passed through, since MAX_MEMORY (%zu bytes) is too small for them: "
            "MAX_MEMORY=%zuMi would do",
            (ull)calls, scene->memory, (stats->memory_need >> 20) + 1);
}

size_t ss_report_why(struct ss_stats *stats, const struct ss_report_scene *scene,
                     ss_report_sentence *sentences, size_t most)
{
    struct page page = {sentences, 0, most};
    uint64_t seen = atomic_load(&stats->seen);
    uint64_t allreduces = atomic_load(&stats->allreduces);

    bool some =
        ss_stats_eligible(stats) > 0 && (scene->ranks != 1 || atomic_load(&stats->sparse) > 0);

    if (scene->policy)
        say(&page, "the site's policy cannot be understood: %s", scene->policy);
    else if (scene->programs)
        say(&page, "this program is not among PROGRAMS=%s", scene->programs);
    pthread_mutex_lock(&stats->lock);
    if (!some) {
        say(&page, scene->ranks == 1 ? "nothing was to be made sparse: the job has one rank"
                                     : "no call was eligible");
        if (allreduces == 0)
            say_unseen(&page, scene, seen);
        say_passed(&page, stats, seen, scene->min_count);
    }
    if (scene->ranks != 1)
        say_nonblocking(&page, stats);
    say_limited(&page, stats, scene);
    pthread_mutex_unlock(&stats->lock);
    return page.n;
}
