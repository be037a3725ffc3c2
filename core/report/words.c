#include "core/report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *ss_word_count(char *word, uint64_t count)
{
    char digits[SS_WORD];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, count);
    char *to = word;

    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return word;
}

/* printf writes the decimal point of the program's locale, which may have several bytes. */
static void set_point(char *number)
{
    char *to = number;

    for (const char *from = number; *from; from++)
        if (strchr("0123456789-+e", *from))
            *to++ = *from;
        else if (to == number || to[-1] != '.')
            *to++ = '.';
    *to = '\0';
}

/* Returns the digits behind the point that make three in all. */
static int decimals_of(double v)
{
    double bound = 9.995;
    int decimals = 2;

    if (v >= bound)
        return v >= 99.95 ? 0 : 1;
    for (; v < bound / 10 && decimals < 7; bound /= 10)
        decimals++;
    return decimals;
}

static const char *three_digits(char *word, double v, const char *unit)
{
    int decimals = decimals_of(fabs(v));

    if (!isfinite(v))
        return memcpy(word, "-", sizeof "-");
    if (v >= 999.5 && v < 1e15) {
        ss_word_count(word, (uint64_t)(v + 0.5));
    } else {
        if (v == 0)
            memcpy(word, "0", sizeof "0");
        else if (v > -1e15 && v < 1e15 && decimals < 7)
            snprintf(word, SS_WORD, "%.*f", decimals, v);
        else
            snprintf(word, SS_WORD, "%.2e", v);
        set_point(word);
    }
    strncat(word, unit, SS_WORD - strlen(word) - 1);
    return word;
}

const char *ss_word_bytes(char *word, double bytes)
{
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB", " EB"};
    size_t unit = 0;

    while (bytes >= 999.5 && isfinite(bytes) && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1000;
        unit++;
    }
    if (unit > 0 || !isfinite(bytes) || bytes < -1e15 || bytes != (double)(long)bytes)
        return three_digits(word, bytes, units[unit]);
    snprintf(word, SS_WORD, "%.0f B", bytes);
    return word;
}

const char *ss_word_seconds(char *word, double seconds)
{
    static const char *const units[] = {" s", " ms", " us", " ns"};
    size_t unit = 0;

    while (seconds > 0 && seconds < 0.9995 && unit + 1 < sizeof units / sizeof *units) {
        seconds *= 1000;
        unit++;
    }
    return three_digits(word, seconds, units[unit]);
}

const char *ss_word_share(char *word, double fraction)
{
    return three_digits(word, 100 * fraction, " %");
}

const char *ss_word_factor(char *word, double factor)
{
    return three_digits(word, factor, "");
}

const char *ss_word_fewer(char *word, double ratio)
{
    const bool more = ratio < 1;

    return three_digits(word, more ? 1 / ratio : ratio, more ? " times more" : " times fewer");
}
