/* Numbers and texts, written for people or as JSON through a small buffer. */
#include "core/report/emit_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 48 /* bytes that hold any number */ };

void ss_emit_flush(struct ss_emit *e)
{
    if (e->used > 0 && e->status == 0)
        e->status = e->write(e->ctx, e->buffer, e->used);
    e->used = 0;
}

void ss_emit_byte(struct ss_emit *e, char byte)
{
    if (e->measuring) {
        e->measured += ((unsigned char)byte & 0xc0) != 0x80; /* characters, not bytes */
        return;
    }
    if (e->used == sizeof e->buffer)
        ss_emit_flush(e);
    e->buffer[e->used++] = byte;
}

void ss_emit_put(struct ss_emit *e, const char *text)
{
    while (*text)
        ss_emit_byte(e, *text++);
}

void ss_emit_spaces(struct ss_emit *e, size_t n)
{
    while (n-- > 0)
        ss_emit_byte(e, ' ');
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
            ss_emit_byte(e, '?');
            s++;
            continue;
        }
        if (c < 0x20 || c == 0x7f || c1) {
            char escape[8];

            snprintf(escape, sizeof escape, "\\u%04x", c1 ? (unsigned)second : (unsigned)c);
            ss_emit_put(e, escape);
            s += length;
            continue;
        }
        if (e->form == SS_EMIT_JSON && (c == '"' || c == '\\'))
            ss_emit_byte(e, '\\');
        while (length-- > 0)
            ss_emit_byte(e, *s++);
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
            ss_emit_byte(e, ',');
        ss_emit_byte(e, number[i]);
    }
}

/* Three digits, or all those before the point. v is finite. */
static void put_three(struct ss_emit *e, double v)
{
    char number[NUMBER];
    double bound = 9.995; /* below it, two decimals make three digits */
    int decimals = 2;

    if (v < 0) {
        ss_emit_byte(e, '-');
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
    ss_emit_put(e, number);
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
    ss_emit_put(e, units[unit]);
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
    ss_emit_put(e, units[unit]);
}

/* The shortest of 15 to 17 digits that reads back as the same double. */
static void put_json_number(struct ss_emit *e, double v)
{
    char number[NUMBER];

    if (!isfinite(v)) {
        ss_emit_put(e, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, v);
        if (strtod(number, NULL) == v)
            break;
    }
    normalise_point(number);
    ss_emit_put(e, number);
}

static void put_list_text(struct ss_emit *e, const struct ss_emit_value *v)
{
    bool first = true;

    for (int i = 0; i < v->as.list.n && v->kind == SS_V_COUNTS; i++) {
        if (v->as.list.counts[i] == 0)
            continue;
        ss_emit_put(e, first ? "" : ", ");
        ss_emit_put(e, v->as.list.name(i));
        ss_emit_byte(e, ' ');
        put_count(e, v->as.list.counts[i], true);
        first = false;
    }
}

static void put_list_json(struct ss_emit *e, const struct ss_emit_value *v)
{
    bool first = true;

    ss_emit_byte(e, '{');
    for (int i = 0; i < v->as.list.n; i++) {
        if (v->kind == SS_V_COUNTS ? v->as.list.counts[i] == 0 : v->as.list.sums[i] == 0)
            continue;
        ss_emit_put(e, first ? "\"" : ", \"");
        ss_emit_put(e, v->as.list.key(i));
        ss_emit_put(e, "\": ");
        if (v->kind == SS_V_COUNTS)
            put_count(e, v->as.list.counts[i], false);
        else
            put_json_number(e, v->as.list.sums[i]);
        first = false;
    }
    ss_emit_byte(e, '}');
}

/* Of six digits, whole numbers of all. */
static void put_short(struct ss_emit *e, double v)
{
    char number[NUMBER];

    if (!isfinite(v)) {
        ss_emit_put(e, "null");
        return;
    }
    if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v)
        snprintf(number, sizeof number, "%.0f", v);
    else
        snprintf(number, sizeof number, "%.6g", v);
    normalise_point(number);
    ss_emit_put(e, number);
}

static void put_arrays(struct ss_emit *e, const struct ss_emit_value *v)
{
    if (!v->as.arrays.ctx) {
        ss_emit_put(e, "null");
        return;
    }
    for (size_t c = 0; c < v->as.arrays.n_columns; c++) {
        ss_emit_put(e, c == 0 ? "{\"" : ", \"");
        ss_emit_put(e, v->as.arrays.columns[c].key);
        ss_emit_put(e, "\": [");
        for (size_t i = 0; i < v->as.arrays.n; i++) {
            ss_emit_put(e, i == 0 ? "" : ", ");
            put_short(e, v->as.arrays.at(v->as.arrays.ctx, c, i));
        }
        ss_emit_byte(e, ']');
    }
    ss_emit_byte(e, '}');
}

static void put_integer(struct ss_emit *e, int64_t v)
{
    char number[NUMBER];

    snprintf(number, sizeof number, "%" PRId64, v);
    ss_emit_put(e, number);
}

void ss_emit_human(struct ss_emit *e, const struct ss_emit_value *v)
{
    bool is_double = v->kind >= SS_V_MEAN && v->kind <= SS_V_FACTOR;

    if (is_double && !isfinite(v->kind == SS_V_SHARE ? 100 * v->as.number : v->as.number)) {
        ss_emit_byte(e, '-');
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
        ss_emit_put(e, v->as.flag ? "yes" : "no");
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
        ss_emit_put(e, " %");
        break;
    case SS_V_FACTOR:
        put_three(e, v->as.number);
        break;
    case SS_V_SENTENCE:
        for (size_t i = 0; i < v->as.sentence.n; i++)
            ss_emit_human(e, &v->as.sentence.parts[i]);
        break;
    case SS_V_COUNTS:
    case SS_V_SUMS:
        put_list_text(e, v);
        break;
    case SS_V_ARRAYS:
        break;
    }
}

void ss_emit_raw(struct ss_emit *e, const struct ss_emit_value *v)
{
    switch (v->kind) {
    case SS_V_TEXT:
    case SS_V_LINE:
        if (!v->as.text) {
            ss_emit_put(e, "null");
            break;
        }
        ss_emit_byte(e, '"');
        put_foreign(e, v->as.text);
        ss_emit_byte(e, '"');
        break;
    case SS_V_BOOL:
        ss_emit_put(e, v->as.flag ? "true" : "false");
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
        ss_emit_byte(e, '"');
        ss_emit_human(e, v);
        ss_emit_byte(e, '"');
        break;
    case SS_V_COUNTS:
    case SS_V_SUMS:
        put_list_json(e, v);
        break;
    case SS_V_ARRAYS:
        put_arrays(e, v);
        break;
    }
}
