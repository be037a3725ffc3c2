/* Streams in work space: slices, what is received appended, room. */
#ifndef CORE_STREAM_STREAM_H
#define CORE_STREAM_STREAM_H

#include "core/stream/exchange.h"

/* The slice of a stream with indices in [lo, hi). */
struct ss_stream ss_stream_slice(const struct ss_stream *s, size_t esize, uint64_t lo, uint64_t hi);
/* Appends a decoded chunk's entries; zeros of dense chunks are left out. A stream without room for
 * them is a malformed message: the call fails. */
void ss_stream_append(struct ss_exchange *x, int src, struct ss_stream *s,
                      const struct ss_chunk *chunk);
/* Makes room for `entries` in stream pair `which` of the work space. */
int ss_stream_reserve(struct ss_exchange *x, struct ss_stream *s, int which, uint64_t entries);
/* Makes room for `entries` in the own stream, whose first `keep` stay. */
int ss_stream_reserve_own(struct ss_exchange *x, struct ss_stream *own, size_t entries,
                          size_t keep);

#endif
