/* PROGRAMS: the programs that are served. */
#include "config/config.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

bool cfg_serves(const char *patterns, const char *name)
{
    char pattern[NAME_MAX + 1];
    bool named = false, found = false;

    for (const char *p = patterns + strspn(patterns, " \t"); *p; p += strspn(p, " \t")) {
        size_t length = strcspn(p, " \t");
        bool out = *p == '!';
        snprintf(pattern, sizeof pattern, "%.*s", (int)(length - out), p + out);
        bool matches = length <= NAME_MAX && fnmatch(pattern, name, 0) == 0;
        if (out && matches)
            return false;
        named = named || !out;
        found = found || (!out && matches);
        p += length;
    }
    return found || !named;
}
