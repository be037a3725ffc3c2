/* Outgoing streams. */
#ifndef CORE_STREAM_OUT_H
#define CORE_STREAM_OUT_H

#include "core/stream/exchange.h"

/* A slice of a stream or a dense range, cut into chunks. Each chunk is encoded once and sent to
 * `ndst` ranks: dst, dst + 1, ... mod P. Receivers are served in groups as wide as a receiver's
 * window: all chunks go to one group, then, from the arena, to the next. If each chunk went to all
 * ranks at once, the slots would fill with messages to ranks that do not receive yet. */
struct ss_out {
    bool dense;
    /* dense: elements are quantized to `values`: gradient + residual, or, if gradient is NULL, val,
     * which is rounded. The errors stay in the residual; their squares are added to *square. */
    enum ss_values values; /* SS_VALUES_SAME: not */
    const unsigned char *gradient;
    unsigned char *residual;
    double *square;
    const uint32_t *breaks; /* NULL, or the ends of ranges, which have chunks of their own */
    bool dense_in_backend;  /* dense: val is in the backend */
    bool in_backend;        /* sparse: idx, val and error are in the backend, which encodes them */
    bool asked;             /* the backend is encoding */
    struct ss_part part;
    size_t end;
    const uint32_t *idx;
    unsigned char *val;                 /* written only if it is rounded */
    const struct ss_rounding *rounding; /* NULL: values travel unchanged */
    unsigned char *error;               /* rounding errors, parallel to val, or NULL */
    size_t nnz;                         /* entries; dense: elements */
    uint32_t first;                     /* dense: index of the first element */
    size_t pos;                         /* number of entries encoded */
    int dst;
    int ndst;
    unsigned phase;
    unsigned round;
    int group; /* first and end of the receivers being served, as offsets from dst */
    int group_end;
    int next;        /* next receiver of the current chunk */
    int erred;       /* receiver that got an error header when its send was refused, -1: none */
    void *opened;    /* host copy of the next dense chunk; NULL: not requested */
    const void *msg; /* current chunk, NULL: none */
    size_t len;
    bool last;
    bool ahead;        /* encode all chunks before the first is posted */
    bool encoded;      /* all chunks lie in the arena, one after the other */
    size_t stored;     /* offset of the first chunk in the arena */
    size_t stored_end; /* end of the last encoded chunk */
    size_t replay;     /* offset of the next chunk to send again, when all are encoded */
    bool erring;       /* sends error headers instead */
    bool done;         /* everything is posted */
};

/* Returns the most bytes of the arena that a stream of `entries` entries takes. */
size_t ss_arena_bound(enum ss_type type, uint64_t entries);

/* Starts sending the stream s. */
void ss_out_stream(struct ss_out *o, struct ss_stream s, enum ss_phase phase, unsigned round,
                   int dst, int ndst);
/* Starts sending the messages in the arena from byte `begin` to `end`. */
void ss_out_messages(struct ss_out *o, size_t begin, size_t end, enum ss_phase phase,
                     unsigned round, int dst, int ndst);
/* Starts encoding parts of a stream that stays in the backend into the arena, under x->ticket.
 * ends[i] becomes the end of part i in bytes from the first part. `error` is parallel to the
 * stream. */
void ss_out_encode_parts(struct ss_exchange *x, const struct ss_stream *s,
                         const struct ss_rounding *how, void *error, enum ss_phase phase,
                         const struct ss_part *parts, size_t count, size_t *ends);
/* Starts sending n elements at val as first, first + 1, ... If `dense_in_backend`, val is in the
 * backend. */
void ss_out_elements(struct ss_out *o, void *val, bool dense_in_backend, uint64_t first, uint64_t n,
                     enum ss_phase phase, unsigned round, int dst, int ndst);

/* Quantizes the elements of `o`, just started, on the host (core/compute/quantize.h). */
void ss_out_quantize(struct ss_out *o, enum ss_values values, const void *gradient, void *residual,
                     double *square);
/* Quantizes elements that are levels already, to the same bits, if each range that was quantized
 * ends at one of the ascending `breaks`. `zeros` takes the errors of a chunk. */
void ss_out_quantize_again(struct ss_out *o, enum ss_values values, const uint32_t *breaks,
                           void *zeros, double *square);
/* Returns the most bytes of the arena that n quantized elements take. */
size_t ss_arena_quantized(enum ss_values values, uint64_t n);

/* Rounds values of `o`, just started, in place while they are encoded. Writes the rounding errors
 * to `error` (parallel to the values, or NULL). Does nothing if `how` is SS_VALUES_SAME. */
void ss_out_round(struct ss_out *o, const struct ss_rounding *how, void *error);
/* Starts to encode all of `o`, just started, before anything is posted. A stream on the host is
 * encoded at once; a dense range in a remote backend may take until ss_out_ahead returns true.
 * Afterwards the values are rounded and may change. */
void ss_out_encode_ahead(struct ss_exchange *x, struct ss_out *o);
/* Returns true if everything is encoded or nothing was to be encoded ahead. */
bool ss_out_ahead(struct ss_exchange *x, struct ss_out *o);
int ss_out_step(struct ss_exchange *x, struct ss_out *o);

#endif
