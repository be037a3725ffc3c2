/* The reader of JSON, character by character. */
#include "shim/cli/json_read.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_DIGITS = 40 };

void cli_json_begin(struct cli_json *json, const char *text, size_t len, char *texts, char *error,
                    size_t error_size)
{
    *json = (struct cli_json){
        .start = text,
        .at = text,
        .end = text + len,
        .texts = texts,
        .error = error,
        .error_size = error_size,
    };
}

bool cli_json_fail(struct cli_json *json, const char *what)
{
    size_t line = 1, column = 1;

    if (json->failed)
        return false;
    json->failed = true;
    for (const char *p = json->start; p < json->at; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    if (json->error_size > 0)
        snprintf(json->error, json->error_size, "line %zu, column %zu: %s", line, column, what);
    return false;
}

static void skip_space(struct cli_json *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
}

/* The next byte after white space, or a null byte at the end. */
static char peek(struct cli_json *json)
{
    skip_space(json);
    return json->at < json->end ? *json->at : '\0';
}

static bool take(struct cli_json *json, char c)
{
    if (peek(json) != c || json->at == json->end)
        return false;
    json->at++;
    return true;
}

static bool take_word(struct cli_json *json, const char *word)
{
    size_t length = strlen(word);

    skip_space(json);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

bool cli_json_end(struct cli_json *json)
{
    skip_space(json);
    return json->at == json->end || cli_json_fail(json, "text after the end");
}

static bool read_hex(struct cli_json *json, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        static const char digits[] = "0123456789abcdef";
        char c = json->at < json->end ? *json->at : '\0';
        const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;

        if (!digit)
            return cli_json_fail(json, "four hexadecimal digits expected");
        *code = *code * 16 + (unsigned)(digit - digits);
    }
    return true;
}

/* A code point as UTF-8: at most 4 bytes for 12 of escapes, 3 for 6. */
static void store_code(struct cli_json *json, unsigned code)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    *json->texts++ = (char)(lead[length] | code >> 6 * (length - 1));
    for (int i = length - 2; i >= 0; i--)
        *json->texts++ = (char)(0x80 | (code >> 6 * i & 0x3f));
}

static bool read_unicode(struct cli_json *json)
{
    unsigned code, low;

    if (!read_hex(json, &code))
        return false;
    if (code == 0)
        return cli_json_fail(json, "null character in a string");
    if (code >= 0xd800 && code < 0xdc00) {
        if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
            return cli_json_fail(json, "half of a surrogate pair");
        json->at += 2;
        if (!read_hex(json, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return cli_json_fail(json, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return cli_json_fail(json, "half of a surrogate pair");
    }
    store_code(json, code);
    return true;
}

static bool read_escape(struct cli_json *json)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = json->at < json->end ? *json->at++ : '\0';
    const char *name = c ? strchr(names, c) : NULL;

    if (c == 'u')
        return read_unicode(json);
    if (!name)
        return cli_json_fail(json, "unknown escape");
    *json->texts++ = meanings[name - names];
    return true;
}

static bool read_string(struct cli_json *json, const char **text)
{
    if (!take(json, '"'))
        return cli_json_fail(json, "string expected");
    *text = json->texts;
    while (json->at < json->end && *json->at != '"') {
        char c = *json->at;

        if ((unsigned char)c < 0x20)
            return cli_json_fail(json, "control character in a string");
        json->at++;
        if (c != '\\')
            *json->texts++ = c;
        else if (!read_escape(json))
            return false;
    }
    if (json->at == json->end)
        return cli_json_fail(json, "string without an end");
    json->at++;
    *json->texts++ = '\0';
    return true;
}

bool cli_json_text(struct cli_json *json, const char **text)
{
    if (take_word(json, "null")) {
        *text = NULL;
        return true;
    }
    return read_string(json, text);
}

bool cli_json_bool(struct cli_json *json, bool *value)
{
    if (take_word(json, "true"))
        *value = true;
    else if (take_word(json, "false"))
        *value = false;
    else
        return cli_json_fail(json, "true or false expected");
    return true;
}

static bool is_digit(const struct cli_json *json)
{
    return json->at < json->end && *json->at >= '0' && *json->at <= '9';
}

bool cli_json_u64(struct cli_json *json, uint64_t *value)
{
    uint64_t sum = 0;

    skip_space(json);
    if (!is_digit(json))
        return cli_json_fail(json, "whole number expected");
    for (bool zero = *json->at == '0'; is_digit(json); json->at++) {
        unsigned digit = (unsigned)(*json->at - '0');

        if (zero && (sum > 0 || digit > 0))
            return cli_json_fail(json, "number with a leading 0");
        if (sum > (UINT64_MAX - digit) / 10)
            return cli_json_fail(json, "number too large");
        sum = 10 * sum + digit;
    }
    if (json->at < json->end && (*json->at == '.' || *json->at == 'e' || *json->at == 'E'))
        return cli_json_fail(json, "whole number expected");
    *value = sum;
    return true;
}

bool cli_json_i64(struct cli_json *json, int64_t *value)
{
    bool negative = take(json, '-');
    uint64_t magnitude = 0;

    if (negative && !is_digit(json))
        return cli_json_fail(json, "whole number expected");
    if (!cli_json_u64(json, &magnitude))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return cli_json_fail(json, "number too large");
    *value = (int64_t)(negative ? 0 - magnitude : magnitude);
    return true;
}

bool cli_json_int(struct cli_json *json, int *value)
{
    int64_t wide = 0;

    if (!cli_json_i64(json, &wide))
        return false;
    if (wide < INT_MIN || wide > INT_MAX)
        return cli_json_fail(json, "number too large");
    *value = (int)wide;
    return true;
}

/* Appends a run of digits to a number without its point. At least one must be there. */
static bool read_digits(struct cli_json *json, char *number, size_t *n)
{
    if (!is_digit(json))
        return cli_json_fail(json, "digit expected");
    for (; is_digit(json); json->at++) {
        if (*n == MAX_DIGITS)
            return cli_json_fail(json, "number of more than 40 digits");
        number[(*n)++] = *json->at;
    }
    return true;
}

static bool read_exponent(struct cli_json *json, int *exponent)
{
    bool negative = false;
    int sum = 0;

    if (json->at < json->end && (*json->at == '-' || *json->at == '+'))
        negative = *json->at++ == '-';
    if (!is_digit(json))
        return cli_json_fail(json, "digit expected");
    for (; is_digit(json); json->at++)
        sum = sum > 99999 ? sum : 10 * sum + (*json->at - '0');
    *exponent = negative ? -sum : sum;
    return true;
}

/* strtod gets whole digits and an exponent: no decimal point, which would depend on the locale. */
bool cli_json_f64(struct cli_json *json, double *value)
{
    char number[MAX_DIGITS + 24];
    size_t n = 0;
    int fraction = 0, exponent = 0;
    bool negative;

    if (take_word(json, "null")) {
        *value = NAN;
        return true;
    }
    negative = take(json, '-');
    if (!read_digits(json, number, &n))
        return false;
    if (n > 1 && number[0] == '0')
        return cli_json_fail(json, "number with a leading 0");
    if (json->at < json->end && *json->at == '.') {
        size_t before = n;

        json->at++;
        if (!read_digits(json, number, &n))
            return false;
        fraction = (int)(n - before);
    }
    if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
        json->at++;
        if (!read_exponent(json, &exponent))
            return false;
    }
    snprintf(number + n, sizeof number - n, "e%d", exponent - fraction);
    *value = negative ? -strtod(number, NULL) : strtod(number, NULL);
    return true;
}

bool cli_json_object(struct cli_json *json,
                     bool (*member)(struct cli_json *json, const char *key, void *ctx), void *ctx)
{
    if (!take(json, '{'))
        return cli_json_fail(json, "object expected");
    if (json->depth == MAX_DEPTH)
        return cli_json_fail(json, "more than 64 values nest");
    json->depth++;
    if (!take(json, '}')) {
        do {
            const char *key = NULL;

            if (!read_string(json, &key))
                return false;
            if (!take(json, ':'))
                return cli_json_fail(json, "\":\" expected");
            if (!member(json, key, ctx))
                return cli_json_fail(json, "value not understood");
        } while (take(json, ','));
        if (!take(json, '}'))
            return cli_json_fail(json, "\",\" or \"}\" expected");
    }
    json->depth--;
    return true;
}

bool cli_json_array(struct cli_json *json, bool (*element)(struct cli_json *json, void *ctx),
                    void *ctx)
{
    if (!take(json, '['))
        return cli_json_fail(json, "array expected");
    if (json->depth == MAX_DEPTH)
        return cli_json_fail(json, "more than 64 values nest");
    json->depth++;
    if (!take(json, ']')) {
        do {
            if (!element(json, ctx))
                return cli_json_fail(json, "value not understood");
        } while (take(json, ','));
        if (!take(json, ']'))
            return cli_json_fail(json, "\",\" or \"]\" expected");
    }
    json->depth--;
    return true;
}

static bool skip_member(struct cli_json *json, const char *key, void *ctx)
{
    (void)key;
    (void)ctx;
    return cli_json_skip(json);
}

static bool skip_element(struct cli_json *json, void *ctx)
{
    (void)ctx;
    return cli_json_skip(json);
}

bool cli_json_skip(struct cli_json *json)
{
    const char *text;
    double number;
    bool flag;

    switch (peek(json)) {
    case '{':
        return cli_json_object(json, skip_member, NULL);
    case '[':
        return cli_json_array(json, skip_element, NULL);
    case '"':
        return cli_json_text(json, &text);
    case 't':
    case 'f':
        return cli_json_bool(json, &flag);
    default:
        return cli_json_f64(json, &number); /* null too */
    }
}
