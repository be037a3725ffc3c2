#include "core/report/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 48 /* bytes that hold any number */ };

static void flush(struct ss_json *j)
{
    if (j->used > 0 && j->status == 0)
        j->status = j->write(j->ctx, j->buffer, j->used);
    j->used = 0;
}

static void byte(struct ss_json *j, char c)
{
    if (j->used == sizeof j->buffer)
        flush(j);
    j->buffer[j->used++] = c;
}

static void put(struct ss_json *j, const char *text)
{
    while (*text)
        byte(j, *text++);
}

/* ---- values ---- */

/* Returns the bytes of the UTF-8 character at s, 0 where there is none (Unicode 15, table 3-7). */
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

/* Control characters of both sets neither reach a terminal nor break a string. */
static void put_foreign(struct ss_json *j, const char *s, bool quoted)
{
    while (*s) {
        size_t length = utf8_length(s);
        unsigned char c = (unsigned char)*s;
        unsigned char second = length == 2 ? (unsigned char)s[1] : 0;
        bool c1 = c == 0xc2 && length == 2 && second < 0xa0;

        if (c < 0x20 || c == 0x7f || c1) {
            char escape[8];

            snprintf(escape, sizeof escape, "\\u%04x", c1 ? (unsigned)second : (unsigned)c);
            put(j, escape);
            s += length;
            continue;
        }
        if (quoted && (c == '"' || c == '\\'))
            byte(j, '\\');
        if (length == 0) {
            byte(j, '?');
            s++;
        }
        while (length-- > 0)
            byte(j, *s++);
    }
}

/* printf writes the decimal point of the program's locale, which may have several bytes. */
static void put_number(struct ss_json *j, const char *number)
{
    bool in_point = false;

    for (; *number; number++) {
        bool plain = strchr("0123456789-+e", *number);

        if (plain)
            byte(j, *number);
        else if (!in_point)
            byte(j, '.');
        in_point = !plain;
    }
}

/* ---- members ---- */

static void member(struct ss_json *j, const char *key)
{
    bool flat = j->flat[j->depth - 1];

    put(j, j->empty ? "" : flat ? ", " : ",");
    if (!flat) {
        byte(j, '\n');
        for (int i = 0; i < j->depth; i++)
            put(j, "  ");
    }
    j->empty = false;
    if (key) {
        byte(j, '"');
        put(j, key);
        put(j, "\": ");
    }
}

static void open_one(struct ss_json *j, char open, char close, bool flat)
{
    byte(j, open);
    j->close[j->depth] = close;
    j->flat[j->depth++] = flat;
    j->empty = true;
}

void ss_json_begin(struct ss_json *json, ss_json_write *write, void *ctx)
{
    json->write = write;
    json->ctx = ctx;
    json->status = json->depth = 0;
    json->used = 0;
    open_one(json, '{', '}', false);
}

int ss_json_end(struct ss_json *json)
{
    ss_json_close(json);
    byte(json, '\n');
    flush(json);
    return json->status;
}

void ss_json_object(struct ss_json *json, const char *key)
{
    bool flat = !key || json->flat[json->depth - 1];

    member(json, key);
    open_one(json, '{', '}', flat);
}

void ss_json_array(struct ss_json *json, const char *key)
{
    bool flat = json->flat[json->depth - 1];

    member(json, key);
    open_one(json, '[', ']', flat);
}

void ss_json_close(struct ss_json *json)
{
    json->depth--;
    if (!json->empty && !json->flat[json->depth]) {
        byte(json, '\n');
        for (int i = 0; i < json->depth; i++)
            put(json, "  ");
    }
    byte(json, json->close[json->depth]);
    json->empty = false;
}

void ss_json_text(struct ss_json *json, const char *key, const char *text)
{
    if (!text) {
        ss_json_null(json, key);
        return;
    }
    member(json, key);
    byte(json, '"');
    put_foreign(json, text, true);
    byte(json, '"');
}

void ss_json_flag(struct ss_json *json, const char *key, bool flag)
{
    member(json, key);
    put(json, flag ? "true" : "false");
}

void ss_json_count(struct ss_json *json, const char *key, uint64_t count)
{
    char number[NUMBER];

    snprintf(number, sizeof number, "%" PRIu64, count);
    member(json, key);
    put(json, number);
}

void ss_json_integer(struct ss_json *json, const char *key, int64_t integer)
{
    char number[NUMBER];

    snprintf(number, sizeof number, "%" PRId64, integer);
    member(json, key);
    put(json, number);
}

/* Writes the shortest of 15 to 17 digits that reads back as the same double. */
void ss_json_real(struct ss_json *json, const char *key, double real)
{
    char number[NUMBER];

    if (!isfinite(real)) {
        ss_json_null(json, key);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, real);
        if (strtod(number, NULL) == real)
            break;
    }
    member(json, key);
    put_number(json, number);
}

void ss_json_short(struct ss_json *json, const char *key, double real)
{
    char number[NUMBER];

    if (!isfinite(real)) {
        ss_json_null(json, key);
        return;
    }
    if (real > -1e15 && real < 1e15 && real == (double)(int64_t)real)
        snprintf(number, sizeof number, "%.0f", real);
    else
        snprintf(number, sizeof number, "%.6g", real);
    member(json, key);
    put_number(json, number);
}

void ss_json_null(struct ss_json *json, const char *key)
{
    member(json, key);
    put(json, "null");
}

int ss_json_line(ss_json_write *write, void *ctx, const char *text)
{
    struct ss_json j = {.write = write, .ctx = ctx};

    put_foreign(&j, text, false);
    byte(&j, '\n');
    flush(&j);
    return j.status;
}
