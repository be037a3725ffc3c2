/* Outgoing streams. */
#ifndef CORE_STREAM_OUT_H
#define CORE_STREAM_OUT_H

#include "core/stream/exchange.h"

/* One stream slice or dense range, cut into chunks, each encoded once and sent to `ndst` ranks:
 * dst, dst + 1, ... mod P. They are served in groups as wide as a receiver's window: all chunks to
 * one group, then, from the arena, to the next. Chunk by chunk to all, the sends would fill the
 * slots with messages to ranks that do not listen yet. */
struct ss_out {
    bool dense;
    bool placed; /* dense: val is in the place */
    bool stays;  /* not dense: idx, val and error are, and are encoded there; */
    bool asked;  /* that is under way */
    struct ss_part part;
    size_t end;
    const uint32_t *idx;
    unsigned char *val;                 /* written only where it is rounded */
    const struct ss_rounding *rounding; /* NULL: values travel as they are */
    unsigned char *error;               /* parallel to val: what rounding took away, or NULL */
    size_t nnz;                         /* entries, or elements when dense */
    uint32_t first;                     /* dense: index of the first element */
    size_t pos;                         /* entries encoded */
    int dst;
    int ndst;
    unsigned phase;
    unsigned round;
    int group; /* first and past the last of the ndst that are being served */
    int group_end;
    int next;        /* the next of them to get the current chunk */
    int erred;       /* the one that got an error header where a send was refused, or -1 */
    void *opened;    /* placed: where the host finds the next chunk's elements; NULL: not asked */
    const void *msg; /* current chunk, NULL before it is taken */
    size_t len;
    bool last;
    bool ahead;        /* all is to be encoded before anything is posted */
    bool encoded;      /* all chunks lie in the arena, one after the other */
    size_t stored;     /* where the first of them lies there */
    size_t stored_end; /* behind the last one encoded */
    size_t replay;     /* the next to take, once all are encoded */
    bool erring;       /* sending error headers instead */
    bool done;         /* everything is posted */
};

/* Bytes of the arena that a stream of so many entries takes at most. */
size_t ss_arena_bound(enum ss_type type, uint64_t entries);

void ss_out_stream(struct ss_out *o, struct ss_stream s, enum ss_phase phase, unsigned round,
                   int dst, int ndst);
/* Messages of the arena, from byte `begin` to `end`. */
void ss_out_messages(struct ss_out *o, size_t begin, size_t end, enum ss_phase phase,
                     unsigned round, int dst, int ndst);
/* Starts to encode parts of a stream that stays in the place, into the arena: x->ticket; ends[i] is
 * then where those of part i end, counted from the first. `error` is parallel to the stream. */
void ss_out_encode_parts(struct ss_exchange *x, const struct ss_stream *s,
                         const struct ss_rounding *how, void *error, enum ss_phase phase,
                         const struct ss_part *parts, size_t count, size_t *ends);
/* n elements at val, of the host's or, placed, of the place; sent as first, first + 1, ... */
void ss_out_elements(struct ss_out *o, void *val, bool placed, uint64_t first, uint64_t n,
                     enum ss_phase phase, unsigned round, int dst, int ndst);

/* Values of `o`, just started, are rounded as they are encoded, in place; what that takes away goes
 * to error (parallel to them, or NULL). Nothing where `how` says SS_VALUES_SAME. */
void ss_out_round(struct ss_out *o, const struct ss_rounding *how, void *error);
/* Encodes all of a stream or dense range that was just started, before anything is posted. A stream
 * is encoded here; a dense range of a place that is not the host may take until ss_out_ahead says
 * so. From then on the values are rounded and may change. */
void ss_out_encode_ahead(struct ss_exchange *x, struct ss_out *o);
bool ss_out_ahead(struct ss_exchange *x, struct ss_out *o);
int ss_out_step(struct ss_exchange *x, struct ss_out *o);

#endif
