/* The search for the parameter of a Rice code, by whoever counts the bits: four neighbouring
 * parameters at a time, downhill from that of the mean gap. C and CUDA C++, where RICE_SEARCH
 * stands before each function; a host has nothing there but that they are inline. */
#ifndef CORE_WIRE_RICE_SEARCH_H
#define CORE_WIRE_RICE_SEARCH_H

#include <stdbool.h>

#ifndef RICE_SEARCH
#define RICE_SEARCH static inline
#endif

struct ss_rice_search {
    unsigned most;           /* parameter */
    unsigned low, at;        /* the four that are looked at, the best of them: 4, none */
    unsigned parameter;      /* the best of all, */
    unsigned long long best; /* and its bits */
    bool up, down;           /* where it may go on */
};

/* middle: the logarithm of the mean gap. */
RICE_SEARCH void ss_rice_search_start(struct ss_rice_search *s, unsigned middle, unsigned most)
{
    s->most = most;
    s->low = middle > 2 ? middle - 2 : 0;
    s->low = s->low > most - 3 ? most - 3 : s->low;
    s->at = 4;
    s->parameter = 0;
    s->best = ~0ULL;
    s->up = s->down = true;
}

/* Of low + c; c goes from 0 to 3. */
RICE_SEARCH void ss_rice_search_counted(struct ss_rice_search *s, unsigned c,
                                        unsigned long long bits)
{
    if (bits >= s->best)
        return;
    s->best = bits;
    s->parameter = s->low + c;
    s->at = c;
}

/* To the next four; false: the best is found. */
RICE_SEARCH bool ss_rice_search_on(struct ss_rice_search *s)
{
    s->down = s->down && s->at == 0 && s->low > 0;
    s->up = s->up && s->at == 3 && s->low < s->most - 3 && !s->down;
    if (s->down)
        s->low = s->low > 4 ? s->low - 4 : 0;
    else if (s->up)
        s->low = s->low + 4 > s->most - 3 ? s->most - 3 : s->low + 4;
    s->at = 4;
    return s->down || s->up;
}

#endif
