/* The places of a process: one for each context whose memory was met. */
#ifndef GPU_PLACES_H
#define GPU_PLACES_H

#include "gpu/device.h"

struct ss_place;

/* The place of two buffers that lie there, ordered behind what the program has queued. NULL: they
 * have none in common, or it cannot be used: `why` (200 bytes) says so the first time and is left
 * alone else. Any thread may call. */
struct ss_place *gpu_places_find(const struct gpu_driver *driver, const struct gpu_where *a,
                                 const struct gpu_where *b, char *why);

/* gpu_place_trim of all of them. */
void gpu_places_trim(void);

#endif
