/* The exchange of one call: the state that its streams share, whatever they carry. First member of
 * struct ss_coll (core/coll/coll.h). */
#ifndef CORE_STREAM_EXCHANGE_H
#define CORE_STREAM_EXCHANGE_H

#include "core/backend/backend.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/net/rank_subset.h"
#include "core/stream/work.h"
#include "core/wire/wire.h"

struct ss_word_exchange;
struct ss_in;

/* Most sends in flight, a slot each, and most ranks that a rank receives from at once. A slot holds
 * a header for error messages, so that a failing rank needs no memory to report its failure. */
enum { SS_SEND_SLOTS = 32, SS_RECV_WINDOW = 16 };

/* Most chunks that a backend decodes before the exchange waits for it. The backend keeps copies of
 * chunks that it has not decoded yet. */
enum { SS_DECODING_MOST = 32 };
struct ss_send_slot {
    struct ss_request request;
    int dst;
    _Alignas(8) unsigned char header[SS_WIRE_HEADER];
};

struct ss_exchange {
    struct ss_transport *t;
    /* Ranks among which the open streams are, by which they number their peers; NULL: all. While
     * such a stream is stepped, t is the transport of this subset. */
    const struct ss_subset *subset;
    struct ss_work *work;
    struct ss_mem *mem;
    struct ss_backend *backend; /* backend of input and result */
    ss_ticket ticket;           /* operation of the backend that the exchange waits for, 0: none */
    atomic_int refused; /* rank whose message the backend found malformed, plus 1; 0: none */
    unsigned decoding;  /* chunks given to the backend to decode since the exchange last waited */
    enum ss_coding coding;
    enum ss_type type;
    size_t esize;    /* bytes of an element */
    uint64_t n;      /* elements of the index space */
    uint32_t number; /* number of the vote on the communicator, for headers alone; 0: none */

    bool moved;      /* the current step has made progress */
    int shared_peer; /* rank that is waited for in shared memory, plus 1; 0: none */
    int failed;      /* status of the first failure on this rank, < 0 */
    int failed_peer;
    enum ss_phase failed_phase;

    struct ss_in *open;             /* incoming streams that are not finished */
    struct ss_word_exchange *words; /* word exchange in progress, or NULL */
    struct ss_send_slot slots[SS_SEND_SLOTS];
    size_t arena_used; /* bytes of work->arena that hold messages */
    uint64_t bytes_sent;
    uint64_t bytes_inside; /* those of bytes_sent that went to ranks of the same host */
    uint64_t phase_sent[SS_PHASES], phase_received[SS_PHASES]; /* bytes, headers included */
    struct ss_spans spans;
};

/* A stream in the work space. */
struct ss_stream {
    uint32_t *idx;
    void *val;
    size_t nnz;
    size_t capacity;
    bool in_backend; /* idx and val are in the backend */
    uint64_t lo, hi; /* range of all indices */
};

/* Records the first failure of the call. peer: a rank of x->t. From now on the rank sends error
 * headers and drops entries that it receives. */
void ss_fail(struct ss_exchange *x, int status, int peer, enum ss_phase phase);

/* Polls x->ticket. Returns SS_OK, SS_PENDING or SS_ERR_DEVICE. */
int ss_exchange_poll(struct ss_exchange *x);
/* Polls x->ticket. Returns false if it is pending. If it has ended with an error, the exchange
 * fails. */
bool ss_settle(struct ss_exchange *x, enum ss_phase phase);
static inline bool ss_settled(struct ss_exchange *x, enum ss_phase phase)
{
    return (x->ticket == 0 && x->refused == 0) || ss_settle(x, phase);
}

/* Returns the transport of the communicator, also while streams of a subset are stepped. */
static inline struct ss_transport *ss_exchange_all(const struct ss_exchange *x)
{
    return x->subset && x->t == &x->subset->t ? x->subset->all : x->t;
}

static inline double ss_now(const struct ss_exchange *x)
{
    return x->t->ops->now(x->t);
}

/* Begins a span that is booked. Returns the time, which ss_span_end takes. */
static inline double ss_span_begin(struct ss_exchange *x, enum ss_span span)
{
    double now = ss_now(x);

    if (x->spans.trace)
        ss_spans_begin(&x->spans, span, NULL, -1, now);
    return now;
}
/* Ends a span and books the seconds since `begin`. Returns the time. */
static inline double ss_span_end(struct ss_exchange *x, enum ss_span span, double begin)
{
    double now = ss_now(x);

    *ss_span_booked(&x->spans.times, span) += now - begin;
    if (x->spans.trace)
        ss_spans_end(&x->spans, span, now);
    return now;
}
/* Ends `span` and begins `next` at the same time, which it returns. */
static inline double ss_span_next(struct ss_exchange *x, enum ss_span span, double begin,
                                  enum ss_span next)
{
    double now = ss_span_end(x, span, begin);

    if (x->spans.trace)
        ss_spans_begin(&x->spans, next, NULL, -1, now);
    return now;
}
/* Opens the trace of a call or of a round. */
static inline void ss_trace_open(struct ss_exchange *x, struct ss_trace *trace, const char *name)
{
    if (ss_spans_open(&x->spans, trace, name))
        ss_spans_begin(&x->spans, SS_SPAN_CALL, NULL, -1, ss_now(x));
}
/* Begins a span that is traced but not booked. Without a trace the function does not read the
 * clock. */
static inline void ss_trace_begin(struct ss_exchange *x, enum ss_span span, const char *phase,
                                  int number)
{
    if (x->spans.trace)
        ss_spans_begin(&x->spans, span, phase, number, ss_now(x));
}
static inline void ss_trace_end(struct ss_exchange *x, enum ss_span span)
{
    if (x->spans.trace)
        ss_spans_end(&x->spans, span, ss_now(x));
}
static inline void *ss_at(void *base, size_t element, size_t esize)
{
    return (unsigned char *)base + element * esize;
}
static inline const void *ss_at_const(const void *base, size_t element, size_t esize)
{
    return (const unsigned char *)base + element * esize;
}

struct ss_tag ss_exchange_tag(const struct ss_exchange *x, enum ss_phase phase, unsigned round);
struct ss_wire_key ss_exchange_key(const struct ss_exchange *x, enum ss_phase phase);

/* Returns a free slot, NULL if all are in use. */
struct ss_send_slot *ss_send_slot_free(struct ss_exchange *x);
/* Counts a message to a rank of x->t. */
void ss_sent_count(struct ss_exchange *x, int dst, enum ss_phase phase, size_t len);
/* Posts msg. If the transport refuses it, posts an error header in its place, so that the receiver
 * does not wait for ever, and returns false. */
bool ss_send_post(struct ss_exchange *x, struct ss_send_slot *slot, int dst, enum ss_phase phase,
                  unsigned round, const void *msg, size_t len);
/* Posts msg in a free slot. Returns SS_PENDING if no slot is free, or an error < 0 if an error
 * header was posted instead. */
int ss_send_raw(struct ss_exchange *x, int dst, enum ss_phase phase, unsigned round,
                const void *msg, size_t len);
/* Posts an error header. Returns SS_PENDING if no slot is free. */
int ss_send_error(struct ss_exchange *x, int dst, enum ss_phase phase, unsigned round);
/* Collects sends that have completed. Returns SS_OK if none is in flight. */
int ss_sends_reap(struct ss_exchange *x);

/* Cancels all messages in flight. */
void ss_exchange_cancel(struct ss_exchange *x);
/* Returns the phase that the exchange is in. Sets *peer to the rank that it waits for, and leaves
 * *peer alone if there is none. */
enum ss_phase ss_exchange_waiting(const struct ss_exchange *x, int *peer);

#endif
