/* From text to value. Syntax is checked here, character by character; strtod only ever sees
 * "DIGITSeEXPONENT", which holds no radix character, so that the locale of the program the library
 * lives in makes no difference. */
#include "config/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char cfg_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool cfg_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

bool cfg_same(const char *a, const char *b)
{
    for (;; a++, b++) {
        char x = *a == '-' ? '_' : cfg_lower(*a);
        char y = *b == '-' ? '_' : cfg_lower(*b);
        if (x != y)
            return false;
        if (x == '\0')
            return true;
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* 0.DIGITS is not stored as such: the value is DIGITS times ten to the exponent. */
struct decimal {
    char digits[64]; /* without leading or trailing zeros; empty for zero */
    size_t n;
    int exponent;
};

static const char *scan_exponent(const char *s, int *exponent)
{
    const char *p = s + 1;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    if (!is_digit(*p))
        return s; /* not an exponent: left to the reader of the suffix */
    int e = 0;
    for (; is_digit(*p); p++) {
        if (e > 9999)
            return NULL;
        e = 10 * e + (*p - '0');
    }
    *exponent += negative ? -e : e;
    return p;
}

/* Returns where the number ends, NULL where there is none or it has too many digits. */
static const char *scan_decimal(const char *s, struct decimal *out)
{
    bool any = false;
    bool point = false;
    *out = (struct decimal){.n = 0};
    for (;; s++) {
        if (*s == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(*s))
            break;
        any = true;
        if (point)
            out->exponent--;
        if (*s == '0' && out->n == 0)
            continue;
        if (out->n == sizeof out->digits)
            return NULL;
        out->digits[out->n++] = *s;
    }
    if (!any)
        return NULL;
    while (out->n > 0 && out->digits[out->n - 1] == '0') {
        out->n--;
        out->exponent++;
    }
    return *s == 'e' || *s == 'E' ? scan_exponent(s, &out->exponent) : s;
}

static const char *skip_blanks(const char *s)
{
    while (cfg_blank(*s))
        s++;
    return s;
}

/* Suffix of a count or size: K M G T P for powers of 1000, Ki Mi ... for powers of 1024, then B
 * where bytes are meant. */
static bool scan_magnitude(const char *s, bool bytes, int *power_of_ten, int *power_of_two)
{
    static const char letters[] = "kmgtp";
    const char *letter = *s != '\0' ? strchr(letters, cfg_lower(*s)) : NULL;
    *power_of_ten = 0;
    *power_of_two = 0;
    if (letter != NULL) {
        int steps = (int)(letter - letters) + 1;
        s++;
        if (cfg_lower(*s) == 'i') {
            *power_of_two = 10 * steps;
            s++;
        } else {
            *power_of_ten = 3 * steps;
        }
    }
    if (bytes && cfg_lower(*s) == 'b')
        s++;
    return *s == '\0';
}

/* Exact: a value that is no whole number, or is above 2^64 - 1, is refused. */
static bool parse_whole(const char *text, bool bytes, uint64_t *out)
{
    struct decimal d;
    int tens;
    int twos;
    const char *behind = scan_decimal(text, &d);
    if (behind == NULL || !scan_magnitude(skip_blanks(behind), bytes, &tens, &twos))
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < d.n; i++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(d.digits[i] - '0'), &value))
            return false;
    if (value == 0) {
        *out = 0;
        return true;
    }
    /* 10^e = 5^e 2^e: fives are divided out first, twos may still come from the suffix. */
    int e = d.exponent + tens;
    twos += e;
    for (; e < 0; e++) {
        if (value % 5 != 0)
            return false;
        value /= 5;
    }
    for (; e > 0; e--)
        if (__builtin_mul_overflow(value, 5u, &value))
            return false;
    for (; twos < 0; twos++) {
        if (value % 2 != 0)
            return false;
        value /= 2;
    }
    for (; twos > 0; twos--)
        if (__builtin_mul_overflow(value, 2u, &value))
            return false;
    *out = value;
    return true;
}

/* A suffix of a number and its power of ten. */
struct unit {
    const char *suffix;
    int exponent;
};

/* Correctly rounded whatever the suffix, so that 20us and 2e-5 are the same number. */
static bool to_double(const struct decimal *d, int exponent, double *out)
{
    char plain[sizeof d->digits + 32];
    snprintf(plain, sizeof plain, "%.*se%d", (int)d->n, d->digits, d->exponent + exponent);
    double value = d->n == 0 ? 0.0 : strtod(plain, NULL);
    if (!isfinite(value) || (value == 0.0 && d->n > 0))
        return false;
    *out = value;
    return true;
}

static bool parse_seconds(const char *text, double *out)
{
    static const struct unit units[] = {{"", 0}, {"s", 0}, {"ms", -3}, {"us", -6}, {"ns", -9}};
    struct decimal d;
    const char *behind = scan_decimal(text, &d);
    if (behind == NULL)
        return false;
    behind = skip_blanks(behind);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        if (strcmp(behind, units[u].suffix) == 0)
            return to_double(&d, units[u].exponent, out);
    return false;
}

static bool parse_bool(const char *text, bool *out)
{
    static const char *const words[] = {"off", "on", "0", "1", "no", "yes", "false", "true"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (cfg_same(words[i], text)) {
            *out = i % 2 == 1;
            return true;
        }
    }
    return false;
}

static bool parse_choice(const char *allowed, const char *text, unsigned *out)
{
    for (unsigned n = 0; *allowed != '\0'; n++) {
        char word[32];
        size_t length = strcspn(allowed, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, allowed);
        if (cfg_same(word, text)) {
            *out = n;
            return true;
        }
        allowed += length;
        allowed += strspn(allowed, ", ");
    }
    return false;
}

static bool printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

/* "0.01" or "1%": the exponent is that of the share. */
static bool scan_share(const char *text, struct decimal *d)
{
    const char *behind = scan_decimal(text, d);
    if (behind == NULL)
        return false;
    if (*behind == '%') {
        d->exponent -= 2;
        behind++;
    }
    return *behind == '\0';
}

void cfg_share_text(char *text, size_t size, const char *percentage)
{
    static const char zeros[] = "0000000000000000000000000000000000000000";
    struct decimal d;
    int decimals;
    if (!scan_share(percentage, &d))
        return;
    decimals = -d.exponent;
    if (decimals < (int)d.n) /* the share is 1 */
        snprintf(text, size, "%.*s", (int)d.n, d.digits);
    else if (decimals - (int)d.n < (int)sizeof zeros)
        snprintf(text, size, "0.%.*s%.*s", decimals - (int)d.n, zeros, (int)d.n, d.digits);
    else
        snprintf(text, size, "%.*se%d", (int)d.n, d.digits, d.exponent);
}

/* "0.01", "1%" or "4/512". */
static bool parse_share(const char *text, struct cfg_share *out)
{
    struct cfg_share share = {0};
    const char *slash = strchr(text, '/');
    struct decimal d;
    char left[32];

    if (slash == NULL) {
        if (!scan_share(text, &d) || !to_double(&d, 0, &share.density))
            return false;
        *out = share;
        return share.density > 0.0 && share.density <= 1.0;
    }
    if ((size_t)(slash - text) >= sizeof left)
        return false;
    snprintf(left, sizeof left, "%.*s", (int)(slash - text), text);
    if (!parse_whole(left, false, &share.k) || !parse_whole(slash + 1, false, &share.bucket))
        return false;
    *out = share;
    return share.k > 0 && share.k <= share.bucket;
}

bool cfg_parse(const struct cfg_option *option, const char *text, union cfg_value *value)
{
    bool standard = cfg_same(text, option->standard);
    union cfg_value v = {.whole = 0};
    bool good = false;
    switch (option->type) {
    case CFG_BOOL:
        good = parse_bool(text, &v.on);
        break;
    case CFG_CHOICE:
        good = parse_choice(option->allowed, text, &v.choice);
        break;
    case CFG_TEXT:
        good = printable(text);
        break;
    case CFG_COUNT:
        good = parse_whole(text, false, &v.whole);
        break;
    case CFG_SHARE:
        good = parse_share(text, &v.share);
        break;
    case CFG_MERGE:
        if (cfg_same(text, "auto"))
            v.whole = SS_MERGE_AUTO;
        good = v.whole > 0 || standard || (parse_whole(text, true, &v.whole) && v.whole > 0);
        break;
    case CFG_SIZE:
        good = standard || (parse_whole(text, true, &v.whole) && v.whole > 0);
        break;
    case CFG_MEASURED:
        if (standard)
            v.real = -1.0;
        good = standard || parse_seconds(text, &v.real);
        break;
    case CFG_TIMEOUT:
        v.real = 0.0;
        good = standard || (parse_seconds(text, &v.real) && v.real > 0.0);
        break;
    }
    if (good)
        *value = v;
    return good;
}

bool cfg_number_count(const char *text, uint64_t *out)
{
    return parse_whole(text, false, out);
}

bool cfg_number_bytes(const char *text, uint64_t *out)
{
    return parse_whole(text, true, out);
}

bool cfg_number_seconds(const char *text, double *out)
{
    return parse_seconds(text, out);
}

bool cfg_number_share(const char *text, double *out)
{
    struct decimal d;

    return scan_share(text, &d) && to_double(&d, 0, out);
}
