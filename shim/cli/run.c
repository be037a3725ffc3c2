/* sparseshim run: sets the preload and the options, then becomes the program. */
#include "shim/cli/cli.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

static int put(const char *name, const char *value, bool dry)
{
    if (dry)
        printf("%s=%s\n", name, value);
    if (setenv(name, value, 1) == 0)
        return CLI_OK;
    perror("sparseshim run: environment");
    return CLI_CANNOT_RUN;
}

/* "; did you mean --NAME?" where a name is near, else nothing. */
static void hint(const struct cfg *cfg, const char *typed, char *text, size_t size)
{
    struct cfg_row row;
    const char *near = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; cfg_row(cfg, i, &row); i++)
        if (cfg_nearer(typed, row.name, &best))
            near = row.name;
    text[0] = '\0';
    if (near != NULL)
        snprintf(text, size, "; did you mean --%s?", near);
    for (; *text != '\0'; text++)
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
}

/* argument is what follows the two dashes: "mode=observe". */
static int set_option(const struct cfg *cfg, const char *argument, bool dry)
{
    char name[64];
    char variable[80];
    size_t length = strcspn(argument, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
             argument);
    size_t i = cfg_find(name);
    struct cfg_row row;
    if (i == SIZE_MAX || !cfg_row(cfg, i, &row)) {
        char meant[96];
        hint(cfg, name, meant, sizeof meant);
        return cli_usage_error("run", "--%s is not known%s (`sparseshim info` lists the options)",
                               name, meant);
    }
    if (argument[length] != '=')
        return cli_usage_error("run", "--%s needs a value: --%s=VALUE (allowed: %s)", name, name,
                               row.allowed);
    const char *value = argument + length + 1;
    char *objection = cfg_objection(i, value);
    if (objection != NULL) {
        cli_usage_error("run", "%s", objection);
        free(objection);
        return CLI_USAGE;
    }
    snprintf(variable, sizeof variable, "SPARSESHIM_%s", row.name);
    return put(variable, value, dry);
}

/* Puts the library in front of whatever is preloaded already: a profiler that stood before it would
 * take the calls. */
static int set_preload(bool dry)
{
    char *library = cli_find_library();
    if (library == NULL) {
        char *places = cli_library_places();
        fprintf(stderr, "sparseshim run: libsparseshim.so is not in %s\n",
                places != NULL ? places : "its places");
        free(places);
        return CLI_CANNOT_RUN;
    }
    int status = CLI_CANNOT_RUN;
    char *preload = NULL;
    if (strpbrk(library, ": ") != NULL) {
        fprintf(
            stderr,
            "sparseshim run: %s cannot be preloaded: LD_PRELOAD allows no ':' and no blank in a "
            "path\n",
            library);
        goto done;
    }
    preload = cli_preload(library, getenv("LD_PRELOAD"));
    if (preload != NULL)
        status = put("LD_PRELOAD", preload, dry);
done:
    free(preload);
    free(library);
    return status;
}

static int become(char **argv, bool dry)
{
    if (dry) {
        printf("exec");
        for (; *argv != NULL; argv++)
            printf(" %s", *argv);
        putchar('\n');
        return CLI_OK;
    }
    execvp(argv[0], argv);
    int error = errno;
    fprintf(stderr, "sparseshim run: %s cannot be run: %s\n", argv[0], strerror(error));
    return error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_RUN;
}

int cli_run(int argc, char **argv)
{
    int status = CLI_OK;
    int first = 1;
    bool dry = false;
    struct cfg *cfg = cfg_load();
    if (cfg == NULL) {
        fprintf(stderr, "sparseshim run: out of memory\n");
        return CLI_CANNOT_RUN;
    }
    for (; first < argc && argv[first][0] == '-' && status == CLI_OK; first++) {
        if (strcmp(argv[first], "--") == 0) {
            first++;
            break;
        }
        if (strcmp(argv[first], "-n") == 0)
            dry = true;
        else if (strncmp(argv[first], "--", 2) == 0)
            status = set_option(cfg, argv[first] + 2, dry);
        else
            status = cli_usage_error("run", "%s is not known; allowed are -n and --OPTION=VALUE",
                                     argv[first]);
    }
    if (status == CLI_OK && first >= argc)
        status = cli_usage_error("run", "no program given; usage: sparseshim run [-n] "
                                        "[--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]");
    if (status == CLI_OK)
        status = set_preload(dry);
    cfg_free(cfg);
    return status == CLI_OK ? become(argv + first, dry) : status;
}
