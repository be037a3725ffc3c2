/* Values of users in messages. */
#include "config/parts.h"

#include <stdio.h>
#include <string.h>

enum { MOST_SHOWN = 60 };

static bool follows(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t cfg_printable(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    if (s[0] >= 0x20 && s[0] < 0x7f)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4 || !follows(s[1]))
        return 0;
    if (s[0] < 0xe0)
        return s[0] == 0xc2 && s[1] < 0xa0 ? 0 : 2; /* U+0080 to U+009F are control characters */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) || !follows(s[2]))
        return 0;
    if (s[0] < 0xf0)
        return 3;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90) || !follows(s[3]))
        return 0;
    return 4;
}

const char *cfg_quote(char text[CFG_QUOTED], const char *value)
{
    char *to = text;

    for (int i = 0; i < MOST_SHOWN && *value != '\0'; i++) {
        const size_t n = cfg_printable(value);

        if (n == 0)
            to += sprintf(to, "\\x%02x", (unsigned)(unsigned char)*value);
        for (size_t j = 0; j < n; j++)
            *to++ = value[j];
        value += n > 0 ? n : 1;
    }
    if (*value != '\0') {
        memcpy(to, "...", 3);
        to += 3;
    }
    *to = '\0';
    return text;
}
