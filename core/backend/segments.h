/* A backend made of vectors of the host. Its one vector is their concatenation; they stay where
 * they are. The algorithms of merged calls have their result in it. Inputs and residuals are not in
 * this backend, which lacks the functions for them. */
#ifndef CORE_BACKEND_SEGMENTS_H
#define CORE_BACKEND_SEGMENTS_H

#include "core/backend/backend.h"

struct ss_segment {
    unsigned char *at;
    uint64_t first, n; /* elements, in the concatenation */
};

struct ss_segments {
    struct ss_backend backend;
    const struct ss_segment *list; /* borrowed; ascending, without gaps or empty segments */
    unsigned count;
    unsigned char *base; /* address of element 0; the addresses after it are never read */
};

/* Makes the backend of a list of segments. */
void ss_segments_init(struct ss_segments *s, const struct ss_segment *list, unsigned count);

#endif
