/* The exchange of one call: what its streams need of it, whatever they carry and whichever call it
 * belongs to. First member of struct ss_coll (core/coll/coll.h). */
#ifndef CORE_STREAM_EXCHANGE_H
#define CORE_STREAM_EXCHANGE_H

#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/net/transport.h"
#include "core/place/place.h"
#include "core/stream/work.h"
#include "core/wire/wire.h"

struct ss_agree;
struct ss_in;

/* Sends under way: a slot each. A slot's own header serves error messages, so that a failing rank
 * needs no memory to say so. */
enum { SS_SEND_SLOTS = 32, SS_RECV_WINDOW = 16 };

/* Chunks that a place decodes without being waited for: it keeps copies of those that it has not
 * come to. */
enum { SS_DECODING_MOST = 32 };
struct ss_send_slot {
    struct ss_request request;
    int dst;
    _Alignas(8) unsigned char header[SS_WIRE_HEADER];
};

struct ss_exchange {
    struct ss_transport *t;
    struct ss_work *work;
    struct ss_mem *mem;
    struct ss_place *place; /* of input and result */
    ss_ticket ticket;       /* what it waits for there, if anything */
    atomic_int refused;     /* a rank whose message was malformed, as it found, plus 1; 0: none */
    unsigned decoding;      /* chunks that it was given since it was last waited for */
    enum ss_coding coding;
    enum ss_type type;
    size_t esize;    /* bytes of an element */
    uint64_t n;      /* elements of the index space */
    uint32_t number; /* of its vote on the communicator, for headers alone; 0: none */

    bool moved; /* the step under way has brought it further */
    int failed; /* first failure of this call on this rank, < 0 */
    int failed_peer;
    enum ss_phase failed_phase;

    struct ss_in *open;         /* incoming flows that are not finished */
    struct ss_agree *agreement; /* under way, or NULL */
    struct ss_send_slot slots[SS_SEND_SLOTS];
    size_t arena_used; /* bytes of work->arena that hold messages */
    uint64_t bytes_sent;
    uint64_t phase_sent[SS_PHASES], phase_received[SS_PHASES]; /* bytes, headers included */
    struct ss_spans spans;
};

/* A stream in work space. */
struct ss_stream {
    uint32_t *idx;
    void *val;
    size_t nnz;
    size_t capacity;
    bool stays;      /* idx and val are in the place, */
    uint64_t lo, hi; /* all indices being in this range */
};

/* Remembers the first failure; from here on error headers go out and what comes in is dropped. */
void ss_fail(struct ss_exchange *x, int status, int peer, enum ss_phase phase);

/* Of x->ticket: SS_OK, SS_PENDING or SS_ERR_DEVICE. The second form: no longer to be waited for,
 * the exchange having failed where it is an error. */
int ss_exchange_poll(struct ss_exchange *x);
bool ss_settle(struct ss_exchange *x, enum ss_phase phase);
static inline bool ss_settled(struct ss_exchange *x, enum ss_phase phase)
{
    return (x->ticket == 0 && x->refused == 0) || ss_settle(x, phase);
}

static inline double ss_now(const struct ss_exchange *x)
{
    return x->t->ops->now(x->t);
}

/* Spans that are booked. Begin: the time, for its end. End: books the seconds since then; the time.
 * Next: one ends where the other begins. */
static inline double ss_span_begin(struct ss_exchange *x, enum ss_span span)
{
    double now = ss_now(x);

    if (x->spans.trace)
        ss_spans_begin(&x->spans, span, NULL, -1, now);
    return now;
}
static inline double ss_span_end(struct ss_exchange *x, enum ss_span span, double begin)
{
    double now = ss_now(x);

    *ss_span_booked(&x->spans.times, span) += now - begin;
    if (x->spans.trace)
        ss_spans_end(&x->spans, span, now);
    return now;
}
static inline double ss_span_next(struct ss_exchange *x, enum ss_span span, double begin,
                                  enum ss_span next)
{
    double now = ss_span_end(x, span, begin);

    if (x->spans.trace)
        ss_spans_begin(&x->spans, next, NULL, -1, now);
    return now;
}
/* The span of a call or of a round. */
static inline void ss_trace_open(struct ss_exchange *x, struct ss_trace *trace, const char *name)
{
    if (ss_spans_open(&x->spans, trace, name))
        ss_spans_begin(&x->spans, SS_SPAN_CALL, NULL, -1, ss_now(x));
}
/* The others, and those that end without being booked: without a trace not even the clock is asked.
 */
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

struct ss_send_slot *ss_send_slot_free(struct ss_exchange *x); /* NULL: none is */
/* Posts msg, or, when that is refused, an error header in its place, so that the receiver does not
 * wait for ever: false. */
bool ss_send_post(struct ss_exchange *x, struct ss_send_slot *slot, int dst, enum ss_phase phase,
                  unsigned round, const void *msg, size_t len);
int ss_send_raw(struct ss_exchange *x, int dst, enum ss_phase phase, unsigned round,
                const void *msg,
                size_t len); /* SS_PENDING: no slot free; < 0: an error header went instead */
int ss_send_error(struct ss_exchange *x, int dst, enum ss_phase phase, unsigned round);
int ss_sends_reap(struct ss_exchange *x); /* SS_OK when none is under way */

/* Gives up all that is under way. */
void ss_exchange_cancel(struct ss_exchange *x);
/* The phase it is in, and in *peer whom it waits for; *peer stays where that is nobody. */
enum ss_phase ss_exchange_waiting(const struct ss_exchange *x, int *peer);

#endif
