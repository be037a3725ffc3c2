#include "core/tensor/series.h"

#include <stdlib.h>
#include <string.h>

static void halve(struct ss_series *s)
{
    for (size_t i = 0; 2 * i < s->n; i++)
        s->point[i] = s->point[2 * i];
    s->n = (s->n + 1) / 2;
    s->every *= 2;
}

void ss_series_add(struct ss_series *s, const struct ss_series_point *point)
{
    if (s->every == 0)
        s->every = 1;
    if (s->n == SS_SERIES_POINTS)
        halve(
            s); /* SS_SERIES_POINTS is even, so that this call is still due at twice the distance */
    s->point[s->n++] = *point;
    s->seen++;
}

struct ss_series *ss_series_copy(const struct ss_series *s)
{
    size_t size = offsetof(struct ss_series, point) + s->n * sizeof *s->point;
    struct ss_series *copy = s->n > 0 ? malloc(size) : NULL;

    if (copy)
        memcpy(copy, s, size);
    return copy;
}
