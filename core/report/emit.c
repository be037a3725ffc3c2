/* Members and tables, written as text or as JSON. */
#include "core/report/emit.h"

#include <string.h>

#include "core/report/emit_impl.h"

enum { LABEL_WIDTH = 9, CELL_GAP = 2 };

/* Comma, new line and key of the next member. */
static void json_member(struct ss_emit *e, const char *key)
{
    ss_emit_put(e, e->empty ? "\n" : ",\n");
    ss_emit_spaces(e, 2 * (size_t)e->depth);
    e->empty = false;
    if (key) {
        ss_emit_byte(e, '"');
        ss_emit_put(e, key);
        ss_emit_put(e, "\": ");
    }
}

static void json_open(struct ss_emit *e, char bracket)
{
    ss_emit_byte(e, bracket);
    e->depth++;
    e->empty = true;
}

static void json_close(struct ss_emit *e, char bracket)
{
    e->depth--;
    if (!e->empty) {
        ss_emit_byte(e, '\n');
        ss_emit_spaces(e, 2 * (size_t)e->depth);
    }
    ss_emit_byte(e, bracket);
    e->empty = false;
}

void ss_emit_begin(struct ss_emit *emit, enum ss_emit_form form, ss_emit_write *write, void *ctx)
{
    emit->form = form;
    emit->write = write;
    emit->ctx = ctx;
    emit->status = 0;
    emit->depth = 0;
    emit->empty = true;
    emit->measuring = false;
    emit->measured = 0;
    emit->used = 0;
    if (form == SS_EMIT_JSON)
        json_open(emit, '{');
}

int ss_emit_end(struct ss_emit *emit)
{
    if (emit->form == SS_EMIT_JSON) {
        json_close(emit, '}');
        ss_emit_byte(emit, '\n');
    }
    ss_emit_flush(emit);
    return emit->status;
}

void ss_emit_object_begin(struct ss_emit *emit, const char *key, const char *title)
{
    if (emit->form == SS_EMIT_JSON) {
        json_member(emit, key);
        json_open(emit, '{');
    } else if (title) {
        ss_emit_byte(emit, '\n');
        ss_emit_put(emit, title);
        ss_emit_byte(emit, '\n');
    }
}

void ss_emit_object_end(struct ss_emit *emit)
{
    if (emit->form == SS_EMIT_JSON)
        json_close(emit, '}');
}

static void put_label(struct ss_emit *e, const char *label)
{
    size_t length = strlen(label);

    if (length == 0)
        return;
    ss_emit_spaces(e, CELL_GAP);
    ss_emit_put(e, label);
    ss_emit_spaces(e, length < LABEL_WIDTH ? LABEL_WIDTH - length : 1);
}

static bool shown(const struct ss_emit *e, const struct ss_emit_column *column)
{
    return column->title && (e->form == SS_EMIT_ALL || !(column->style & SS_RARE));
}

void ss_emit_kv(struct ss_emit *emit, const struct ss_emit_column *column,
                struct ss_emit_value value)
{
    if (emit->form == SS_EMIT_JSON && column->key) {
        json_member(emit, column->key);
        ss_emit_raw(emit, &value);
    } else if (emit->form != SS_EMIT_JSON && shown(emit, column)) {
        put_label(emit, column->title);
        ss_emit_human(emit, &value);
        ss_emit_byte(emit, '\n');
    }
}

void ss_emit_group(struct ss_emit *emit, const struct ss_emit_group *group,
                   const struct ss_emit_value *values)
{
    if (emit->form != SS_EMIT_JSON)
        return;
    ss_emit_object_begin(emit, group->key, NULL);
    for (size_t i = 0; i < group->n; i++)
        ss_emit_kv(emit, &group->columns[i], values[i]);
    ss_emit_object_end(emit);
}

static size_t width_of(struct ss_emit *e, const struct ss_emit_value *value)
{
    e->measuring = true;
    e->measured = 0;
    ss_emit_human(e, value);
    e->measuring = false;
    return e->measured;
}

static bool in_view(const struct ss_emit *e, const struct ss_emit_column *column, unsigned view)
{
    return shown(e, column) && (column->views >> view & 1);
}

/* One line of a text table; the gap before a cell is written with the cell, so that no line ends in
 * spaces. */
static void text_row(struct ss_emit *e, const struct ss_emit_table *table, unsigned view,
                     const size_t *widths, const struct ss_emit_value *values)
{
    size_t gap = CELL_GAP;

    for (size_t c = 0; c < table->column_count; c++) {
        const struct ss_emit_column *column = &table->columns[c];
        size_t width, fill;

        if (!in_view(e, column, view) || widths[c] == 0)
            continue;
        width = width_of(e, &values[c]);
        fill = widths[c] - (width < widths[c] ? width : widths[c]);
        gap += (column->style & SS_LEFT) ? 0 : fill;
        if (width > 0) {
            ss_emit_spaces(e, gap);
            ss_emit_human(e, &values[c]);
            gap = 0;
        }
        gap += CELL_GAP + ((column->style & SS_LEFT) ? fill : 0);
    }
    ss_emit_byte(e, '\n');
}

static void text_view(struct ss_emit *e, const struct ss_emit_table *table, unsigned view,
                      void *ctx)
{
    struct ss_emit_value values[SS_EMIT_COLUMNS];
    size_t widths[SS_EMIT_COLUMNS] = {0};
    size_t rows, titled = 0;

    for (rows = 0; table->row(ctx, rows, values); rows++) {
        for (size_t c = 0; c < table->column_count; c++) {
            size_t width = in_view(e, &table->columns[c], view) ? width_of(e, &values[c]) : 0;

            if (width > widths[c])
                widths[c] = width;
        }
    }
    if (rows == 0)
        return;

    for (size_t c = 0; c < table->column_count; c++) {
        size_t width;

        values[c] = ss_v_text(table->columns[c].title);
        width = widths[c] > 0 ? width_of(e, &values[c]) : 0; /* a column of nothing goes */
        titled += width;
        if (width > widths[c])
            widths[c] = width;
    }
    ss_emit_byte(e, '\n');
    ss_emit_put(e, table->titles[view]);
    ss_emit_byte(e, '\n');
    if (titled > 0)
        text_row(e, table, view, widths, values);
    for (size_t row = 0; table->row(ctx, row, values); row++)
        text_row(e, table, view, widths, values);
}

static void json_rows(struct ss_emit *e, const struct ss_emit_table *table, void *ctx)
{
    struct ss_emit_value values[SS_EMIT_COLUMNS];

    json_member(e, table->key);
    json_open(e, '[');
    for (size_t row = 0; table->row(ctx, row, values); row++) {
        bool first = true;

        json_member(e, NULL);
        ss_emit_byte(e, '{');
        for (size_t c = 0; c < table->column_count; c++) {
            if (!table->columns[c].key)
                continue;
            ss_emit_put(e, first ? "\"" : ", \"");
            ss_emit_put(e, table->columns[c].key);
            ss_emit_put(e, "\": ");
            ss_emit_raw(e, &values[c]);
            first = false;
        }
        ss_emit_byte(e, '}');
    }
    json_close(e, ']');
}

void ss_emit_table(struct ss_emit *emit, const struct ss_emit_table *table, void *ctx)
{
    if (emit->form == SS_EMIT_JSON) {
        json_rows(emit, table, ctx);
        return;
    }
    for (unsigned view = 0; view < SS_EMIT_VIEWS; view++)
        if (table->titles[view] && (emit->form == SS_EMIT_ALL || !(table->rare >> view & 1)))
            text_view(emit, table, view, ctx);
}
