/* Finds the name that a mistyped one may have meant. */
#include "config/parts.h"

#include <stdio.h>
#include <string.h>

/* Levenshtein distance. Words longer than any name are far from everything. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t row[LONGEST + 1];
    size_t n = strlen(b);
    if (n > LONGEST || strlen(a) > LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            char two[2][2] = {{a[i - 1], '\0'}, {b[j - 1], '\0'}};
            size_t replaced = diagonal + (cfg_same(two[0], two[1]) ? 0 : 1);
            size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[n];
}

/* Compares a word of four letters or more with how a name begins: MAX_MEM with MAX_MEMORY. */
static bool is_beginning(const char *typed, const char *name)
{
    size_t n = strlen(typed);
    char begin[64];
    snprintf(begin, sizeof begin, "%.*s", (int)(n < sizeof begin ? n : sizeof begin), name);
    return n >= 4 && cfg_same(typed, begin);
}

bool cfg_nearer(const char *typed, const char *name, size_t *best)
{
    size_t d = distance(typed, name);
    if (is_beginning(typed, name) && d > 2)
        d = 2;
    if (d >= *best || d > 1 + strlen(typed) / 4)
        return false;
    *best = d;
    return true;
}

const char *cfg_nearest(const char *typed)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < CFG_ROWS; i++)
        if (cfg_nearer(typed, cfg_table[i].name, &best))
            nearest = cfg_table[i].name;
    return nearest;
}

const char *cfg_not_known(char text[CFG_UNKNOWN], const char *prefix, const char *name,
                          const char *near)
{
    int n = snprintf(text, CFG_UNKNOWN, "%s%s is not known", prefix, CFG_SHOWN(name));

    if (near != NULL && near[0] != '\0')
        snprintf(text + n, (size_t)(CFG_UNKNOWN - n), " (did you mean %s%s?)", prefix, near);
    return text;
}
