/* A place made of pieces of the host: its one vector is the concatenation of vectors that lie
 * where they lie. Recipes of merged calls have their result in it. Inputs and residuals are not in
 * it: it has none of the functions for them. */
#ifndef CORE_PLACE_SEGMENTS_H
#define CORE_PLACE_SEGMENTS_H

#include "core/place/place.h"

struct ss_segment {
    unsigned char *at;
    uint64_t first, n; /* elements, in the concatenation */
};

struct ss_segments {
    struct ss_place place;
    const struct ss_segment *list; /* borrowed; ascending, without gaps and empty ones */
    unsigned count;
    unsigned char *base; /* stands for element 0; what follows are addresses that nobody reads */
};

void ss_segments_init(struct ss_segments *s, const struct ss_segment *list, unsigned count);

#endif
