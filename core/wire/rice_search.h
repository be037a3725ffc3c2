/* The search for the parameter of a Rice code. The caller counts bits for four neighbouring
 * parameters at a time; the search starts at the parameter of the mean gap and walks downhill.
 * Compiles as C and as CUDA C++, where RICE_SEARCH holds the qualifiers of each function. */
#ifndef CORE_WIRE_RICE_SEARCH_H
#define CORE_WIRE_RICE_SEARCH_H

#include <stdbool.h>

#ifndef RICE_SEARCH
#define RICE_SEARCH static inline
#endif

struct ss_rice_search {
    unsigned most; /* largest parameter allowed */
    /* first of the four parameters being tried; index of the best of them, 4: none */
    unsigned low, at;
    unsigned parameter;      /* best parameter so far */
    unsigned long long best; /* bits of the code with it */
    bool up, down;           /* directions in which the search may go on */
};

/* Starts the search. `middle` is the logarithm of the mean gap. */
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

/* Reports the bits with parameter low + c, c from 0 to 3. */
RICE_SEARCH void ss_rice_search_counted(struct ss_rice_search *s, unsigned c,
                                        unsigned long long bits)
{
    if (bits >= s->best)
        return;
    s->best = bits;
    s->parameter = s->low + c;
    s->at = c;
}

/* Moves on to the next four parameters. Returns false if the best is found. */
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
