/* sparseshim info: the option table, printed. */
#include "shim/cli/cli.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

/* Prints words so that no line is longer than 78 characters, each line after `prefix`. */
static void print_wrapped(const char *prefix, const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > 78) {
            putchar('\n');
            column = 0;
        }
        if (column == 0)
            column = (size_t)printf("%s", prefix);
        else
            column += (size_t)printf(" ");
        column += (size_t)printf("%.*s", (int)word, text);
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_short(const struct cfg_row *row)
{
    char source[CLI_SOURCE];
    printf("SPARSESHIM_%-14s %-20s %s\n", row->name, row->value, cli_source(row, source));
}

static void print_full(const struct cfg_row *row)
{
    char source[CLI_SOURCE];
    printf("SPARSESHIM_%s=%s\n", row->name, row->value);
    print_wrapped("    ", row->doc);
    printf("    Allowed: %s\n", row->allowed);
    printf("    Default: %s\n", row->standard[0] != '\0' ? row->standard : "(empty)");
    printf("    Value from: %s\n", cli_source(row, source));
    if (row->shared)
        printf("    Must be equal on all ranks.\n");
    putchar('\n');
}

static void print_file(const struct cfg_row *row)
{
    int length = cfg_file_line(NULL, 0, row);
    char *line = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (line == NULL) {
        fprintf(stderr, "sparseshim info: out of memory\n");
        exit(CLI_NO);
    }
    cfg_file_line(line, (size_t)length + 1, row);
    print_wrapped("# ", row->doc);
    printf("# Allowed: %s\n", row->allowed);
    printf("# Default: %s\n", row->standard[0] != '\0' ? row->standard : "(empty)");
    if (row->shared)
        printf("# Must be equal on all ranks.\n");
    if (strcmp(row->name, "CONFIG") == 0)
        printf("# Only in the system's file or the environment:\n# %s\n\n", line);
    else
        printf("%s\n\n", line);
    free(line);
}

/* Text of a manual page: no escapes, no requests. */
static void print_roff_text(const char *text)
{
    for (const char *c = text; *c; c++) {
        if (c == text && (*c == '.' || *c == '\''))
            fputs("\\&", stdout);
        if (*c == '\\')
            fputs("\\e", stdout);
        else if (*c == '-')
            fputs("\\-", stdout);
        else
            putchar(*c);
    }
}

static void print_roff(const struct cfg_row *row)
{
    printf(".TP\n.B %s\n", row->name);
    print_roff_text(row->doc);
    fputs(row->shared ? "\nEqual on all ranks.\n" : "\n", stdout);
    fputs("Allowed: ", stdout);
    print_roff_text(row->allowed);
    fputs(".\nDefault: ", stdout);
    print_roff_text(row->standard[0] != '\0' ? row->standard : "empty");
    fputs(".\n", stdout);
}

/* After the options, where the text is for people. */
static void print_files(const struct cfg *cfg)
{
    const char *path;
    const char *found;
    char policy[2048];
    printf("\nFiles looked at, the later over the former and the environment over all:\n");
    for (size_t i = 0; (path = cfg_file(cfg, i, &found)) != NULL; i++)
        printf("  %s: %s\n", path, found);
    cfg_policy(cfg, policy, sizeof policy);
    printf("\nPolicy of the site, in %s: %s\n", cfg_file(cfg, 0, NULL), policy);
}

static const struct style {
    const char *flag;
    const char *head;
    const char *part[2]; /* before the options for users, and before those for experts */
    void (*print)(const struct cfg_row *row);
    bool files;
} styles[] = {
    {"", "", {"For users\n", "\nFor experts\n"}, print_short, true},
    {"-f", "", {"For users\n\n", "For experts\n\n"}, print_full, true},
    {"-c",
     "# Configuration of sparseshim: lines `name = value`; a # begins a comment.\n"
     "# The environment variable SPARSESHIM_NAME overrides what stands here.\n\n",
     {"# ---- For users ----\n\n", "# ---- For experts ----\n\n"},
     print_file,
     false},
    {"-r", "", {".SS For users\n", ".SS For experts\n"}, print_roff, false},
};

int cli_info(int argc, char **argv)
{
    const char *flag = argc > 1 ? argv[1] : "";
    const struct style *style = NULL;
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++)
        if (strcmp(styles[i].flag, flag) == 0)
            style = &styles[i];
    if (argc > 2 || style == NULL)
        return cli_usage_error("info", "%s is not allowed; allowed is one of -f, -c, -r",
                               CFG_SHOWN(argv[argc > 2 ? 2 : 1]));
    struct cfg *cfg = cfg_load();
    if (cfg == NULL) {
        fprintf(stderr, "sparseshim info: out of memory\n");
        return CLI_NO;
    }
    const char *problem;
    for (size_t i = 0; (problem = cfg_problem(cfg, i, NULL)) != NULL; i++)
        fprintf(stderr, "sparseshim: %s\n", problem);
    fputs(style->head, stdout);
    struct cfg_row row;
    for (size_t part = 0; part < 2; part++) {
        fputs(style->part[part], stdout);
        for (size_t i = 0; cfg_row(cfg, i, &row); i++)
            if (row.expert == (part == 1))
                style->print(&row);
    }
    if (style->files)
        print_files(cfg);
    int status = cfg_misread_policy(cfg) != NULL ? CLI_NO : CLI_OK;
    cfg_free(cfg);
    return status;
}
