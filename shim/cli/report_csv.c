/* Reports as comma-separated values. The rows are those of the JSON form, the columns those of its
 * legend, so that neither can differ from what is documented. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cli/report_forms.h"

int cli_page_write(void *ctx, const char *text, size_t len)
{
    struct cli_page *page = ctx;

    if (page->len + len + 1 > page->size) {
        size_t size = 2 * (page->len + len + 1);
        char *larger = realloc(page->text, size);

        if (larger == NULL)
            return -1;
        page->text = larger;
        page->size = size;
    }
    memcpy(page->text + page->len, text, len);
    page->len += len;
    page->text[page->len] = '\0';
    return 0;
}

/* ---- cells ---- */

static void print_quoted(const char *text)
{
    bool plain = strcspn(text, "\",\r\n") == strlen(text);

    if (plain) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

/* The shortest that reads back as the same. */
static void format_number(const json_t *value, char *text, size_t size)
{
    double real = json_number_value(value);

    if (json_is_integer(value)) {
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, real);
        if (strtod(text, NULL) == real)
            break;
    }
}

static void print_scalar(const json_t *value)
{
    char number[48];

    if (json_is_string(value)) {
        print_quoted(json_string_value(value));
    } else if (json_is_number(value)) {
        format_number(value, number, sizeof number);
        fputs(number, stdout);
    } else if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "true" : "false", stdout);
    }
}

static void print_cell(const json_t *value)
{
    const char *name, *gap = "";
    const json_t *part;

    if (!json_is_object(value)) {
        print_scalar(value);
        return;
    }
    json_object_foreach((json_t *)value, name, part)
    {
        printf("%s%s=", gap, name);
        print_scalar(part);
        gap = " ";
    }
}

/* ---- tables ---- */

enum { PARTS = 4 };
static const struct table {
    const char *parts[PARTS]; /* groups whose columns stand side by side */
} tables[CLI_CSVS] = {
    [CLI_CSV_LANES] = {{"lanes"}},
    [CLI_CSV_TENSORS] = {{"tensors"}},
    [CLI_CSV_SERIES] = {{"series"}},
    [CLI_CSV_SUMMARY] = {{"job", "calls", "bytes", "times"}},
};

static const struct ss_emit_group *group_of(const char *key)
{
    const struct ss_emit_group *const *groups;
    size_t n = ss_report_legend(&groups);

    for (size_t i = 0; i < n; i++)
        if (groups[i]->key != NULL && strcmp(groups[i]->key, key) == 0)
            return groups[i];
    return NULL;
}

/* A series is a table of its own. */
static bool has_column(const struct ss_emit_column *column)
{
    return column->key != NULL && strcmp(column->key, "series") != 0;
}

static void print_names(const struct table *table)
{
    fputs(table->parts[1] != NULL ? "file" : "file,rank", stdout);
    if (table == &tables[CLI_CSV_SERIES])
        fputs(",tensor", stdout);
    for (int p = 0; p < PARTS && table->parts[p] != NULL; p++) {
        const struct ss_emit_group *group = group_of(table->parts[p]);

        for (size_t i = 0; i < group->n; i++)
            if (has_column(&group->columns[i]))
                printf(",%s", group->columns[i].key);
    }
    fputs("\r\n", stdout);
}

static void print_cells(const char *part, const json_t *row)
{
    const struct ss_emit_group *group = group_of(part);

    for (size_t i = 0; i < group->n; i++) {
        if (!has_column(&group->columns[i]))
            continue;
        putchar(',');
        print_cell(json_object_get(row, group->columns[i].key));
    }
}

static void print_summary(const struct table *table, const struct cli_file *file,
                          const json_t *root)
{
    print_quoted(file->path);
    for (int p = 0; p < PARTS; p++)
        print_cells(table->parts[p], json_object_get(root, table->parts[p]));
    fputs("\r\n", stdout);
}

static void print_rows(const struct table *table, const struct cli_file *file, const json_t *root)
{
    const json_t *list = json_object_get(root, table->parts[0]);

    for (size_t i = 0; i < json_array_size(list); i++) {
        print_quoted(file->path);
        printf(",%d", file->report->job.rank);
        print_cells(table->parts[0], json_array_get(list, i));
        fputs("\r\n", stdout);
    }
}

/* One array of each column, turned. */
static void print_series(const struct cli_file *file, const json_t *tensor)
{
    const struct ss_emit_group *group = group_of("series");
    const json_t *series = json_object_get(tensor, "series");
    size_t n = json_array_size(json_object_get(series, group->columns[0].key));

    for (size_t i = 0; i < n; i++) {
        print_quoted(file->path);
        printf(",%d,", file->report->job.rank);
        print_cell(json_object_get(tensor, "tensor"));
        for (size_t c = 0; c < group->n; c++) {
            putchar(',');
            print_cell(json_array_get(json_object_get(series, group->columns[c].key), i));
        }
        fputs("\r\n", stdout);
    }
}

static void print_report(enum cli_csv which, const struct cli_file *file, const json_t *root)
{
    const json_t *tensors = json_object_get(root, "tensors");

    if (which == CLI_CSV_SUMMARY)
        print_summary(&tables[which], file, root);
    else if (which != CLI_CSV_SERIES)
        print_rows(&tables[which], file, root);
    else
        for (size_t i = 0; i < json_array_size(tensors); i++)
            print_series(file, json_array_get(tensors, i));
}

/* NULL after saying why. */
static json_t *json_of(const struct cli_file *file)
{
    struct cli_report *report = file->report;
    struct cli_page page = {NULL, 0, 0};
    json_error_t error = {.text = "out of memory"};
    json_t *root = NULL;

    if (ss_report_write(&report->stats, &report->job, SS_EMIT_JSON, cli_page_write, &page) == 0)
        root = json_loadb(page.text, page.len, 0, &error);
    if (root == NULL)
        fprintf(stderr, "sparseshim report: %s: %s\n", file->path, error.text);
    free(page.text);
    return root;
}

int cli_csv_print(enum cli_csv which, const struct cli_files *files)
{
    print_names(&tables[which]);
    for (size_t i = 0; i < files->n; i++) {
        json_t *root = json_of(&files->file[i]);

        if (root == NULL)
            return -1;
        print_report(which, &files->file[i], root);
        json_decref(root);
    }
    return 0;
}
