/* Numbers, texts, members and tables, written as text or as JSON through a small buffer. */
#include "core/report/emit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_WIDTH = 9, CELL_GAP = 2, NUMBER = 48 /* bytes that hold any number */ };

static void flush(struct ss_emit *e)
{
    if (e->used > 0 && e->status == 0)
        e->status = e->write(e->ctx, e->buffer, e->used);
    e->used = 0;
}

static void put_byte(struct ss_emit *e, char byte)
{
    if (e->measuring) {
        e->measured += ((unsigned char)byte & 0xc0) != 0x80; /* characters, not bytes */
        return;
    }
    if (e->used == sizeof e->buffer)
        flush(e);
    e->buffer[e->used++] = byte;
}

/* Text of our own: plain ASCII. */
static void put(struct ss_emit *e, const char *text)
{
    while (*text)
        put_byte(e, *text++);
}

static void put_spaces(struct ss_emit *e, size_t n)
{
    while (n-- > 0)
        put_byte(e, ' ');
}

/* Bytes of the UTF-8 character at s, 0 where there is none (Unicode 15, table 3-7). */
static size_t utf8_length(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t length = u[0] < 0x80 ? 1 : u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;

    if (u[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
        (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
        return 0;
    return length;
}

/* Text from elsewhere: control characters of both sets never reach a terminal, nor break a string.
 */
static void put_foreign(struct ss_emit *e, const char *s)
{
    while (*s) {
        size_t length = utf8_length(s);
        unsigned char c = (unsigned char)*s;
        unsigned char second = length == 2 ? (unsigned char)s[1] : 0;
        bool c1 = c == 0xc2 && length == 2 && second < 0xa0;

        if (length == 0) {
            put_byte(e, '?');
            s++;
            continue;
        }
        if (c < 0x20 || c == 0x7f || c1) {
            char escape[8];

            snprintf(escape, sizeof escape, "\\u%04x", c1 ? (unsigned)second : (unsigned)c);
            put(e, escape);
            s += length;
            continue;
        }
        if (e->form == SS_EMIT_JSON && (c == '"' || c == '\\'))
            put_byte(e, '\\');
        while (length-- > 0)
            put_byte(e, *s++);
    }
}

static void put_line(struct ss_emit *e, const char *s)
{
    for (; *s && *s != '\n' && *s != '\r'; s++) {
        char one[5] = {0};
        size_t length = utf8_length(s);

        memcpy(one, *s == '\t' ? " " : s, length > 0 ? length : 1);
        put_foreign(e, one);
        s += length > 0 ? length - 1 : 0;
    }
}

/* printf writes the decimal point of the application's locale, which may have several bytes. */
static void normalise_point(char *number)
{
    char *out = number;
    bool in_point = false;

    for (const char *p = number; *p; p++) {
        bool plain = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';

        if (plain)
            *out++ = *p;
        else if (!in_point)
            *out++ = '.';
        in_point = !plain;
    }
    *out = '\0';
}

static void put_count(struct ss_emit *e, uint64_t count, bool groups)
{
    char number[NUMBER];
    int n = snprintf(number, sizeof number, "%" PRIu64, count);

    for (int i = 0; i < n; i++) {
        if (groups && i > 0 && (n - i) % 3 == 0)
            put_byte(e, ',');
        put_byte(e, number[i]);
    }
}

/* Three digits, or all those before the point. v is finite. */
static void put_three(struct ss_emit *e, double v)
{
    char number[NUMBER];
    double bound = 9.995; /* below it, two decimals make three digits */
    int decimals = 2;

    if (v < 0) {
        put_byte(e, '-');
        v = -v;
    }
    if (v >= 999.5 && v < 1e15) {
        put_count(e, (uint64_t)(v + 0.5), true);
        return;
    }
    while (v < bound / 10 && decimals < 7) {
        bound /= 10;
        decimals++;
    }
    if (v >= 99.95)
        decimals = 0;
    else if (v >= 9.995)
        decimals = 1;
    if (v == 0)
        snprintf(number, sizeof number, "0");
    else if (v < 1e15 && decimals < 7)
        snprintf(number, sizeof number, "%.*f", decimals, v);
    else
        snprintf(number, sizeof number, "%.2e", v);
    normalise_point(number);
    put(e, number);
}

static void put_bytes(struct ss_emit *e, double v)
{
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB", " EB"};
    size_t unit = 0;

    while (v >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        v /= 1000;
        unit++;
    }
    if (unit == 0 && v >= 0 && v == (double)(uint64_t)v)
        put_count(e, (uint64_t)v, false);
    else
        put_three(e, v);
    put(e, units[unit]);
}

static void put_seconds(struct ss_emit *e, double v)
{
    static const char *const units[] = {" s", " ms", " us", " ns"};
    size_t unit = 0;

    while (v > 0 && v < 0.9995 && unit + 1 < sizeof units / sizeof *units) {
        v *= 1000;
        unit++;
    }
    put_three(e, v);
    put(e, units[unit]);
}

/* The shortest of 15 to 17 digits that reads back as the same double. */
static void put_json_number(struct ss_emit *e, double v)
{
    char number[NUMBER];

    if (!isfinite(v)) {
        put(e, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, v);
        if (strtod(number, NULL) == v)
            break;
    }
    normalise_point(number);
    put(e, number);
}

static void put_list_text(struct ss_emit *e, const struct ss_emit_value *v)
{
    bool first = true;

    for (int i = 0; i < v->as.list.n && v->kind == SS_V_COUNTS; i++) {
        if (v->as.list.counts[i] == 0)
            continue;
        put(e, first ? "" : ", ");
        put(e, v->as.list.name(i));
        put_byte(e, ' ');
        put_count(e, v->as.list.counts[i], true);
        first = false;
    }
}

static void put_list_json(struct ss_emit *e, const struct ss_emit_value *v)
{
    bool first = true;

    put_byte(e, '{');
    for (int i = 0; i < v->as.list.n; i++) {
        if (v->kind == SS_V_COUNTS ? v->as.list.counts[i] == 0 : v->as.list.sums[i] == 0)
            continue;
        put(e, first ? "\"" : ", \"");
        put(e, v->as.list.key(i));
        put(e, "\": ");
        if (v->kind == SS_V_COUNTS)
            put_count(e, v->as.list.counts[i], false);
        else
            put_json_number(e, v->as.list.sums[i]);
        first = false;
    }
    put_byte(e, '}');
}

static void put_integer(struct ss_emit *e, int64_t v)
{
    char number[NUMBER];

    snprintf(number, sizeof number, "%" PRId64, v);
    put(e, number);
}

static void put_human(struct ss_emit *e, const struct ss_emit_value *v)
{
    bool is_double = v->kind >= SS_V_MEAN && v->kind <= SS_V_FACTOR;

    if (is_double && !isfinite(v->kind == SS_V_SHARE ? 100 * v->as.number : v->as.number)) {
        put_byte(e, '-');
        return;
    }
    switch (v->kind) {
    case SS_V_TEXT:
        put_foreign(e, v->as.text ? v->as.text : "");
        break;
    case SS_V_LINE:
        put_line(e, v->as.text ? v->as.text : "");
        break;
    case SS_V_BOOL:
        put(e, v->as.flag ? "yes" : "no");
        break;
    case SS_V_INTEGER:
        put_integer(e, v->as.integer);
        break;
    case SS_V_COUNT:
        put_count(e, v->as.count, true);
        break;
    case SS_V_BYTES:
        put_bytes(e, (double)v->as.count);
        break;
    case SS_V_MEAN:
        put_bytes(e, v->as.number);
        break;
    case SS_V_SECONDS:
        put_seconds(e, v->as.number);
        break;
    case SS_V_SHARE:
        put_three(e, 100 * v->as.number);
        put(e, " %");
        break;
    case SS_V_FACTOR:
        put_three(e, v->as.number);
        break;
    case SS_V_SENTENCE:
        for (size_t i = 0; i < v->as.sentence.n; i++)
            put_human(e, &v->as.sentence.parts[i]);
        break;
    case SS_V_COUNTS:
    case SS_V_SUMS:
        put_list_text(e, v);
        break;
    }
}

static void put_raw(struct ss_emit *e, const struct ss_emit_value *v)
{
    switch (v->kind) {
    case SS_V_TEXT:
    case SS_V_LINE:
        if (!v->as.text) {
            put(e, "null");
            break;
        }
        put_byte(e, '"');
        put_foreign(e, v->as.text);
        put_byte(e, '"');
        break;
    case SS_V_BOOL:
        put(e, v->as.flag ? "true" : "false");
        break;
    case SS_V_INTEGER:
        put_integer(e, v->as.integer);
        break;
    case SS_V_COUNT:
    case SS_V_BYTES:
        put_count(e, v->as.count, false);
        break;
    case SS_V_MEAN:
    case SS_V_SECONDS:
    case SS_V_SHARE:
    case SS_V_FACTOR:
        put_json_number(e, v->as.number);
        break;
    case SS_V_SENTENCE:
        put_byte(e, '"');
        put_human(e, v);
        put_byte(e, '"');
        break;
    case SS_V_COUNTS:
    case SS_V_SUMS:
        put_list_json(e, v);
        break;
    }
}

/* Comma, new line and key of the next member. */
static void json_member(struct ss_emit *e, const char *key)
{
    put(e, e->empty ? "\n" : ",\n");
    put_spaces(e, 2 * (size_t)e->depth);
    e->empty = false;
    if (key) {
        put_byte(e, '"');
        put(e, key);
        put(e, "\": ");
    }
}

static void json_open(struct ss_emit *e, char bracket)
{
    put_byte(e, bracket);
    e->depth++;
    e->empty = true;
}

static void json_close(struct ss_emit *e, char bracket)
{
    e->depth--;
    if (!e->empty) {
        put_byte(e, '\n');
        put_spaces(e, 2 * (size_t)e->depth);
    }
    put_byte(e, bracket);
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
        put_byte(emit, '\n');
    }
    flush(emit);
    return emit->status;
}

void ss_emit_object_begin(struct ss_emit *emit, const char *key, const char *title)
{
    if (emit->form == SS_EMIT_JSON) {
        json_member(emit, key);
        json_open(emit, '{');
    } else if (title) {
        put_byte(emit, '\n');
        put(emit, title);
        put_byte(emit, '\n');
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
    put_spaces(e, CELL_GAP);
    put(e, label);
    put_spaces(e, length < LABEL_WIDTH ? LABEL_WIDTH - length : 1);
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
        put_raw(emit, &value);
    } else if (emit->form != SS_EMIT_JSON && shown(emit, column)) {
        put_label(emit, column->title);
        put_human(emit, &value);
        put_byte(emit, '\n');
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
    put_human(e, value);
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
            put_spaces(e, gap);
            put_human(e, &values[c]);
            gap = 0;
        }
        gap += CELL_GAP + ((column->style & SS_LEFT) ? fill : 0);
    }
    put_byte(e, '\n');
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
    put_byte(e, '\n');
    put(e, table->titles[view]);
    put_byte(e, '\n');
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
        put_byte(e, '{');
        for (size_t c = 0; c < table->column_count; c++) {
            if (!table->columns[c].key)
                continue;
            put(e, first ? "\"" : ", \"");
            put(e, table->columns[c].key);
            put(e, "\": ");
            put_raw(e, &values[c]);
            first = false;
        }
        put_byte(e, '}');
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
