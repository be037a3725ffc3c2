/* The legend of reports, as text for a terminal and as a section of the manual page. */
#include <stdio.h>
#include <string.h>

#include "shim/cli/report_forms.h"

enum { WIDTH = 96, NAME = 96 };

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* As in the text, then as in JSON: "density (density_mean)". */
static void name(const struct ss_emit_column *column, char *text, size_t size)
{
    const char *title = or_empty(column->title), *key = or_empty(column->key);

    if (*title == '\0' || strcmp(title, key) == 0)
        snprintf(text, size, "%s", *key != '\0' ? key : title);
    else if (*key == '\0')
        snprintf(text, size, "%s", title);
    else
        snprintf(text, size, "%s (%s)", title, key);
}

/* Where two columns of a group have one name, the one is for the text. */
static const char *where(const struct ss_emit_group *group, size_t i)
{
    char own[NAME], other[NAME];
    const struct ss_emit_column *c = &group->columns[i];

    name(c, own, sizeof own);
    for (size_t j = 0; j < group->n; j++) {
        name(&group->columns[j], other, sizeof other);
        if (j != i && strcmp(own, other) == 0)
            return c->key == NULL ? ", in the text" : c->title == NULL ? ", in JSON" : "";
    }
    return "";
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
    char text[NAME];

    printf("%s", group->title);
    if (group->key != NULL)
        printf(" (\"%s\" in JSON)", group->key);
    putchar('\n');
    for (size_t i = 0; i < group->n; i++) {
        name(&group->columns[i], text, sizeof text);
        printf("  %s%s%s", text, where(group, i),
               group->columns[i].style & SS_RARE ? ", with --all" : "");
        print_wrapped(group->columns[i].legend);
    }
    putchar('\n');
}

static void print_roff_text(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '^')
            fputs("\\(ha", stdout);
        else
            putchar(*text);
}

static void print_roff(const struct ss_emit_group *group)
{
    char text[NAME];

    printf(".SS %s\n", group->title);
    if (group->key != NULL)
        printf("\"%s\" in JSON.\n", group->key);
    for (size_t i = 0; i < group->n; i++) {
        name(&group->columns[i], text, sizeof text);
        fputs(".TP\n.B ", stdout);
        print_roff_text(text);
        printf("\\fR%s%s\n", where(group, i),
               group->columns[i].style & SS_RARE ? ", with \\-\\-all" : "");
        print_roff_text(group->columns[i].legend);
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
}
