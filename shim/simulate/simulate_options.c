/* Options of `sparseshim simulate`. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "shim/simulate/simulate.h"

/* Copies the next of several values, separated by commas, into item, or "" if it is too long.
 * Returns false after the last. */
static bool next_item(const char **list, char item[64])
{
    if (*list == NULL)
        return false;
    size_t length = strcspn(*list, ",");
    snprintf(item, 64, "%.*s", length < 64 ? (int)length : 0, *list);
    *list = (*list)[length] == ',' ? *list + length + 1 : NULL;
    return true;
}

/* ---- lists ---- */

static bool add_rank(struct sim_asked *a, uint64_t rank)
{
    if (rank < 2 || rank > SS_TRIAL_RANKS || a->ranks == SIM_LIST)
        return false;
    a->rank[a->ranks++] = (int)rank;
    return true;
}

/* Adds the ranks of "8", of "2..4096" (doubling from the first on) or of "2..9:1" (in steps). */
static bool add_ranks(struct sim_asked *a, char *item)
{
    char *upto = strstr(item, ".."), *by = strchr(item, ':');
    uint64_t first = 0, last, step = 0;
    bool good = true;

    if (by != NULL && upto != NULL && by > upto) {
        *by = '\0';
        good = cfg_number_count(by + 1, &step) && step > 0;
    }
    if (upto != NULL)
        *upto = '\0';
    good = good && cfg_number_count(item, &first);
    last = first;
    good = good && (upto == NULL || cfg_number_count(upto + 2, &last)) && first >= 2;
    good = good && first <= last && last <= SS_TRIAL_RANKS;
    for (uint64_t r = first; good && r <= last; r = step > 0 ? r + step : 2 * r)
        good = add_rank(a, r);
    return good;
}

static int in_order(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

static bool read_ranks(struct sim_asked *a, const char *text)
{
    char item[64];
    size_t kept = 0;

    a->ranks = 0;
    while (next_item(&text, item))
        if (!add_ranks(a, item))
            return false;
    qsort(a->rank, a->ranks, sizeof a->rank[0], in_order);
    for (size_t i = 0; i < a->ranks; i++)
        if (i == 0 || a->rank[i] != a->rank[kept - 1])
            a->rank[kept++] = a->rank[i];
    a->ranks = kept;
    return kept > 0;
}

static bool read_counts(struct sim_asked *a, const char *text)
{
    char item[64];

    a->counts = 0;
    while (next_item(&text, item)) {
        uint64_t *count = &a->count[a->counts];
        if (a->counts++ == SIM_LIST || !cfg_number_count(item, count) || *count < 1 ||
            *count > SS_WINDOW)
            return false;
    }
    return a->counts > 0;
}

static bool read_densities(struct sim_asked *a, const char *text)
{
    char item[64];

    a->densities = 0;
    while (next_item(&text, item)) {
        double *density = &a->density[a->densities];
        if (a->densities++ == SIM_LIST || !cfg_number_share(item, density) || !(*density > 0) ||
            *density > 1)
            return false;
    }
    return a->densities > 0;
}

static bool add_algorithm(struct sim_asked *a, const char *name)
{
    for (int i = 0; i < SS_ALGORITHMS; i++) {
        enum ss_algorithm id = (enum ss_algorithm)i;
        bool listed = strcmp(name, "all") == 0 && id != SS_AUTO;
        if (!listed && strcmp(name, ss_algorithm_name(id)) != 0)
            continue;
        if (a->algorithms == SS_ALGORITHMS)
            return false;
        a->algorithm[a->algorithms++] = id;
        if (!listed)
            return true;
    }
    return strcmp(name, "all") == 0;
}

static bool read_algorithms(struct sim_asked *a, const char *text)
{
    char item[64];

    a->algorithms = 0;
    while (next_item(&text, item))
        if (!add_algorithm(a, item))
            return false;
    return a->algorithms > 0;
}

/* ---- single values ---- */

static bool read_alpha(struct sim_asked *a, const char *text)
{
    return cfg_number_seconds(text, &a->alpha);
}

static bool read_per_host(struct sim_asked *a, const char *text)
{
    uint64_t value;
    bool good = cfg_number_count(text, &value) && value >= 1 && value <= SS_TRIAL_RANKS;

    a->per_host = good ? (int)value : 0;
    return good;
}

static bool read_beta(struct sim_asked *a, const char *text)
{
    return cfg_number_seconds(text, &a->beta);
}

static bool read_compute(struct sim_asked *a, const char *text)
{
    return cfg_number_share(text, &a->compute);
}

static bool read_overlap(struct sim_asked *a, const char *text)
{
    return cfg_number_share(text, &a->overlap) && a->overlap <= 1;
}

static bool read_memory(struct sim_asked *a, const char *text)
{
    return cfg_number_bytes(text, &a->memory) && a->memory > 0;
}

static bool read_time(struct sim_asked *a, const char *text)
{
    return cfg_number_seconds(text, &a->seconds) && a->seconds > 0;
}

/* ---- the table ---- */

#define WORD(id, word) ", " #word

static const struct option {
    const char *name;
    bool (*read)(struct sim_asked *asked, const char *text);
    const char *standard;
    const char *allowed;
} options[] = {
    {"ranks", read_ranks, "2..64",
     "numbers from 2 to 4096, such as 8; 2..4096, which doubles; 2..9:1, in steps of 1; several, "
     "separated by commas"},
    {"count", read_counts, "4Mi", "elements, 1 to 1Gi, several separated by commas"},
    {"density", read_densities, "0.01",
     "shares above 0, up to 1, such as 0.01 or 1%, several separated by commas"},
    {"algorithm", read_algorithms, "all",
     "all, auto" SS_ALGORITHM_LIST(WORD) ", dense; several separated by commas"},
    {"ranks-per-host", read_per_host, "1", "a number from 1 to 4096"},
    {"alpha", read_alpha, "2us", "seconds per message, 0 or more, such as 2us"},
    {"beta", read_beta, "1e-10", "seconds per byte, 0 or more, such as 8e-9"},
    {"compute", read_compute, "0", "a factor from 0, such as 1 or 2.5"},
    {"overlap", read_overlap, "0", "a share from 0 to 1"},
    {"memory", read_memory, "2GiB", "bytes, such as 2GiB"},
    {"time", read_time, "5s", "seconds, more than 0, such as 5s"},
};
enum { OPTIONS = sizeof options / sizeof options[0] };

static const struct option *find(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

/* Prints a message in one write and returns SIM_USAGE. */
__attribute__((format(printf, 1, 2))) static int usage_error(const char *format, ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "sparseshim simulate: %s\n", text);
    return SIM_USAGE;
}

static int unknown(const char *argument)
{
    const char *near = NULL;
    size_t best = SIZE_MAX;
    char typed[64];

    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    for (size_t i = 0; i < OPTIONS; i++)
        if (cfg_nearer(typed, options[i].name, &best))
            near = options[i].name;
    return usage_error("%s; `sparseshim help simulate` lists the options",
                       CFG_NOT_KNOWN("--", typed, near));
}

/* Reads --NAME=VALUE or --NAME VALUE. Sets *i to the last word of the option. */
static int read_option(struct sim_asked *asked, int argc, char **argv, int *i)
{
    const char *argument = argv[*i];
    size_t length = strncmp(argument, "--", 2) == 0 ? strcspn(argument + 2, "=") : 0;
    const struct option *option = length > 0 ? find(argument + 2, length) : NULL;
    const char *value;

    if (length == 0)
        return usage_error("%s is no option; all it takes is --OPTION=VALUE", argument);
    if (option == NULL)
        return unknown(argument);
    if (argument[2 + length] == '=')
        value = argument + 3 + length;
    else if (*i + 1 < argc)
        value = argv[++*i];
    else
        return usage_error("--%s needs a value: %s", option->name, option->allowed);
    if (option->read(asked, value))
        return SIM_OK;
    return usage_error("--%s=%s: allowed are %s", option->name, value, option->allowed);
}

int sim_read_options(struct sim_asked *asked, int argc, char **argv)
{
    int status = SIM_OK;

    memset(asked, 0, sizeof *asked);
    for (size_t i = 0; i < OPTIONS; i++)
        options[i].read(asked, options[i].standard);
    for (int i = 1; i < argc && status == SIM_OK; i++)
        status = read_option(asked, argc, argv, &i);
    return status;
}
