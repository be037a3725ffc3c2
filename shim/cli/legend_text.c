/* The legend of reports, as text for a terminal and as a section of the manual page. */
#include <stdio.h>
#include <string.h>

#include "shim/cli/bench.h"
#include "shim/cli/report_forms.h"
#include "shim/cli/try_table.h"

enum { WIDTH = 96 };

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* As in the text, then as in JSON: "density (density_mean)". */
static void print_names(const struct ss_emit_column *column, const char *quote)
{
    const char *title = or_empty(column->title), *key = or_empty(column->key);

    if (*title == '\0' || strcmp(title, key) == 0)
        printf("%s%s", quote, *key != '\0' ? key : title);
    else if (*key == '\0')
        printf("%s%s", quote, title);
    else
        printf("%s%s (%s)", quote, title, key);
}

static void print_wrapped(const char *text)
{
    size_t used = WIDTH;

    for (size_t n; *text != '\0'; text += n) {
        n = strcspn(text, " ");
        if (used + 1 + n > WIDTH) {
            fputs("\n     ", stdout);
            used = 5;
        }
        printf(" %.*s", (int)n, text);
        used += 1 + n;
        n += text[n] == ' ';
    }
    putchar('\n');
}

static void print_plain(const struct ss_emit_group *group)
{
    printf("%s", group->title);
    if (group->key != NULL)
        printf(" (\"%s\" in JSON)", group->key);
    putchar('\n');
    for (size_t i = 0; i < group->n; i++) {
        print_names(&group->columns[i], "  ");
        fputs(group->columns[i].style & SS_RARE ? ", with --all" : "", stdout);
        print_wrapped(group->columns[i].legend);
    }
    putchar('\n');
}

static void print_roff(const struct ss_emit_group *group)
{
    printf(".SS %s\n", group->title);
    if (group->key != NULL)
        printf("\"%s\" in JSON.\n", group->key);
    for (size_t i = 0; i < group->n; i++) {
        fputs(".TP\n.B ", stdout);
        print_names(&group->columns[i], "");
        putchar('\n');
        for (const char *c = group->columns[i].legend; *c != '\0'; c++)
            fputs(*c == '-' ? "\\-" : (const char[]){*c, '\0'}, stdout);
        fputs(".\n", stdout);
    }
}

void cli_legend_print(bool roff)
{
    size_t (*const lists[])(const struct ss_emit_group *const **groups) = {
        ss_report_legend, cli_merge_legend, cli_compare_legend};
    const struct ss_emit_group *const *groups;

    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        size_t n = lists[l](&groups);

        for (size_t i = 0; i < n; i++)
            (roff ? print_roff : print_plain)(groups[i]);
    }
    (roff ? print_roff : print_plain)(&trial_group);
    (roff ? print_roff : print_plain)(&bench_group);
}
