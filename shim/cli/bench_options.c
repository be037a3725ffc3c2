/* The command line of sparseshim bench. */
#include "shim/cli/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "shim/cli/cli.h"

enum { BLOCKS = 10, CALLS = 3, WARM = 40, LIMIT = 600 };

static bool add(struct bench_list *list, const char *text, size_t length)
{
    if (list->items == BENCH_LIST || length == 0 || length >= BENCH_NAME)
        return false;
    snprintf(list->item[list->items++], BENCH_NAME, "%.*s", (int)length, text);
    return true;
}

/* Words in one spelling, so that they can be compared. */
static bool spell(char item[BENCH_NAME], size_t row)
{
    char *shown = cfg_canonical(row, item);
    bool good = shown != NULL && strlen(shown) < BENCH_NAME;
    if (good)
        snprintf(item, BENCH_NAME, "%s", shown);
    free(shown);
    return good;
}

/* Values separated by commas, each as the option of the library takes it. */
static int read_list(struct bench_list *list, const char *option, const char *name,
                     const char *text)
{
    list->items = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (!add(list, at, length))
            return cli_usage_error("bench", "%s=%s: 1 to %d values, separated by commas", option,
                                   text, BENCH_LIST);
        char *objection = cfg_objection(cfg_find(name), list->item[list->items - 1]);
        if (objection != NULL) {
            int status = cli_usage_error("bench", "%s: %s", option, objection);
            free(objection);
            return status;
        }
        if (!spell(list->item[list->items - 1], cfg_find(name)))
            return cli_usage_error("bench", "%s=%s: a value is too long", option, text);
        at += length;
        if (*at == '\0')
            return CLI_OK;
    }
}

static int read_counts(struct bench_list *list, const char *text)
{
    int status = read_list(list, "--count", "MIN_COUNT", text);
    uint64_t count = 0;

    for (size_t i = 0; i < list->items && status == CLI_OK; i++) {
        if (!cfg_number_count(list->item[i], &count) || count < 1 || count > INT_MAX)
            return cli_usage_error("bench", "--count=%s: elements, 1 to %d, such as 64Ki or 4Mi",
                                   list->item[i], INT_MAX);
        snprintf(list->item[i], BENCH_NAME, "%" PRIu64, count);
    }
    return status;
}

static int read_whole(int *value, const char *option, const char *text, int most)
{
    char *end;
    long v = strtol(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || v < 1 || v > most)
        return cli_usage_error("bench", "%s=%s: a whole number, 1 to %d", option, text, most);
    *value = (int)v;
    return CLI_OK;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

static int read_plot(struct bench_asked *a, const char *text)
{
    if (!ends_in(text, ".png") && !ends_in(text, ".svg"))
        return cli_usage_error("bench", "--plot=%s: a file that ends in .png or .svg", text);
    if (strchr(text, '\'') != NULL) /* gnuplot's quotes */
        return cli_usage_error("bench", "--plot=%s: a path without quotes", text);
    a->plot = text;
    return CLI_OK;
}

static int read_choice(bool *value, const char *option, const char *text, const char *no,
                       const char *yes)
{
    *value = strcasecmp(text, yes) == 0;
    return *value || strcasecmp(text, no) == 0
               ? CLI_OK
               : cli_usage_error("bench", "%s=%s: %s or %s", option, text, no, yes);
}

enum option {
    COUNT,
    DENSITY,
    ALGORITHM,
    VALUES,
    MODE,
    TYPE,
    BLOCK,
    CALL,
    WARMUP,
    LIMITED,
    CSV,
    JSON,
    PLOT,
    OPTIONS
};
static const char *const names[OPTIONS] = {
    "--count", "--density", "--algorithm", "--value-type", "--mode", "--type", "--blocks",
    "--calls", "--warm",    "--limit",     "--csv",        "--json", "--plot"};

static int take(struct bench_asked *a, enum option which, const char *text)
{
    int seconds = 0, status = CLI_OK;

    switch (which) {
    case COUNT:
        return read_counts(&a->counts, text);
    case DENSITY:
        return read_list(&a->density, "--density", "DENSITY", text);
    case ALGORITHM:
        return read_list(&a->algorithm, "--algorithm", "ALGORITHM", text);
    case VALUES:
        return read_list(&a->values, "--value-type", "VALUE_TYPE", text);
    case MODE:
        return read_choice(&a->topk, "--mode", text, "exact", "topk");
    case TYPE:
        return read_choice(&a->is_double, "--type", text, "float", "double");
    case BLOCK:
        return read_whole(&a->blocks, "--blocks", text, 1000);
    case CALL:
        return read_whole(&a->calls, "--calls", text, 1000000);
    case WARMUP:
        return read_whole(&a->warm, "--warm", text, 1000000);
    case LIMITED:
        status = read_whole(&seconds, "--limit", text, 1000000);
        a->limit = (unsigned)seconds;
        return status;
    case CSV:
        a->csv = text;
        return CLI_OK;
    case JSON:
        a->json = text;
        return CLI_OK;
    default:
        return read_plot(a, text);
    }
}

struct parsing {
    struct bench_asked *asked;
    struct cfg *cfg;
};

static int read_option(void *ctx, int argc, char **argv, int *at)
{
    const struct parsing *p = ctx;
    char *argument = argv[*at];
    const char *value;
    int own = cli_own_option("bench", names, OPTIONS, argc, argv, at, &value);

    if (own >= 0)
        return value != NULL ? take(p->asked, (enum option)own, value) : CLI_USAGE;
    if (strncmp(argument, "--", 2) != 0)
        return cli_usage_error("bench", "%s is not known; `sparseshim help bench` lists what is",
                               argument);
    return cli_set_option("bench", p->cfg, argument + 2, false);
}

/* What only one of the two modes has. */
static int check(struct bench_asked *a)
{
    double share;

    for (size_t i = 0; i < a->density.items && !a->topk; i++)
        if (!cfg_number_share(a->density.item[i], &share))
            return cli_usage_error("bench", "--density=%s is for --mode=topk; a share such as 0.01",
                                   a->density.item[i]);
        else
            snprintf(a->density.item[i], BENCH_NAME, "%.9g", share);
    for (size_t i = 0; i < a->values.items && !a->topk; i++)
        if (strcmp(a->values.item[i], "same") != 0)
            return cli_usage_error("bench", "--value-type=%s is for --mode=topk",
                                   a->values.item[i]);
    for (size_t i = 0; i < a->algorithm.items && !a->topk; i++)
        if (strcmp(a->algorithm.item[i], "oktopk") == 0 ||
            strcmp(a->algorithm.item[i], "gtopk") == 0)
            return cli_usage_error("bench", "--algorithm=%s is for --mode=topk",
                                   a->algorithm.item[i]);
    return CLI_OK;
}

static bool names_own(const char *word)
{
    size_t length = strcspn(word, "=");

    for (int i = 0; i < OPTIONS; i++)
        if (strlen(names[i]) == length && strncmp(word, names[i], length) == 0)
            return true;
    return false;
}

/* "--min-count=5", but not one in the middle, which may be the launcher's: "--timeout=60 -n 2". */
static bool sets_option(char **word)
{
    char name[64];
    size_t length = strcspn(*word, "=");
    bool option = strncmp(*word, "--", 2) == 0 && (*word)[length] == '=' && length < sizeof name;

    for (char **behind = word + 1; *behind != NULL; behind++)
        option = option && strncmp(*behind, "--", 2) == 0;
    if (!option)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)length - 2, *word + 2);
    return cfg_find(name) != SIZE_MAX;
}

/* What stands behind the launcher's own words would go to the launcher. */
static int check_launcher(char **launcher)
{
    if (*launcher == NULL)
        return cli_usage_error("bench", "no launcher given; usage: sparseshim bench [--count LIST] "
                                        "[--density LIST] [--algorithm LIST] ... -- mpirun -n 8");
    for (char **word = launcher + 1; *word != NULL; word++)
        if (names_own(*word) || sets_option(word))
            return cli_usage_error(
                "bench",
                "%s stands behind the launcher, %s: options go before it, as in "
                "sparseshim bench %s ... -- mpirun -n 8 (a launcher's own option "
                "of this name: in a script that is named here)",
                *word, *launcher, *word);
    return CLI_OK;
}

int bench_parse(struct bench_asked *a, int argc, char **argv)
{
    struct parsing p = {a, cfg_load()};
    int first;

    if (p.cfg == NULL) {
        fprintf(stderr, "sparseshim bench: out of memory\n");
        return CLI_CANNOT_RUN;
    }
    *a = (struct bench_asked){.blocks = BLOCKS, .calls = CALLS, .warm = WARM, .limit = LIMIT};
    (void)read_counts(&a->counts, "4Mi");
    (void)read_list(&a->density, "--density", "DENSITY", "0.01");
    (void)read_list(&a->algorithm, "--algorithm", "ALGORITHM", "auto");
    (void)read_list(&a->values, "--value-type", "VALUE_TYPE", "same");
    int status = cli_options(argc, argv, read_option, &p, &first);
    cfg_free(p.cfg);
    if (status == CLI_OK)
        status = check(a);
    a->launcher = argv + first;
    return status == CLI_OK ? check_launcher(a->launcher) : status;
}
