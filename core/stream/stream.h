/* Streams in the work space: slices, appended chunks, room. */
#ifndef CORE_STREAM_STREAM_H
#define CORE_STREAM_STREAM_H

#include "core/stream/exchange.h"

/* Returns the slice of a stream with indices in [lo, hi). */
struct ss_stream ss_stream_slice(const struct ss_stream *s, size_t esize, uint64_t lo, uint64_t hi);
/* Appends the entries of a decoded chunk, without the zeros of a dense chunk. If the stream has no
 * room for them, the message was malformed and the call fails. */
void ss_stream_append(struct ss_exchange *x, int src, struct ss_stream *s,
                      const struct ss_chunk *chunk);
/* Makes room for `entries` in the stream pair `which` of the work space. Returns SS_OK or
 * SS_ERR_MEMORY. */
int ss_stream_reserve(struct ss_exchange *x, struct ss_stream *s, int which, uint64_t entries);
/* Makes room for `entries` in the rank's own stream; its first `keep` entries stay. Returns SS_OK
 * or SS_ERR_MEMORY. */
int ss_stream_reserve_own(struct ss_exchange *x, struct ss_stream *own, size_t entries,
                          size_t keep);

#endif
