/* What a recipe sees of the network: nonblocking point-to-point of bytes between the ranks of one
 * communicator.
 *
 * Implementations: shim/ (MPI on a private communicator) and core/sim/sim.h (P ranks in one process
 * under a virtual clock). Messages between two ranks with one tag arrive in the order sent. Every
 * message is bounded (core/wire/wire.h, SS_CHUNK_ENTRIES), so a receive is posted with a buffer
 * that holds the longest and tells the length when done.
 *
 * Its functions are called in the default floating-point environment (core/base/fpenv.h); `outside`
 * is the caller's. One that enters other people's code, as the progress of an MPI library may run
 * the application's operators, does so between ss_transport_out and ss_transport_back.
 */
#ifndef CORE_NET_TRANSPORT_H
#define CORE_NET_TRANSPORT_H

#include "core/base/fpenv.h"
#include "core/base/types.h"

/* Phases on the wire. */
enum ss_phase {
    SS_PHASE_VOTE,
    SS_PHASE_CALIBRATE,
    SS_PHASE_FOLD_IN,
    SS_PHASE_REDUCE,
    SS_PHASE_FOLD_OUT,
    SS_PHASE_GATHER,
    SS_PHASE_AGREE,
    SS_PHASE_BALANCE,
    SS_PHASE_KEEP,
    SS_PHASE_ACTIVATE,
    SS_PHASES
};
const char *ss_phase_name(enum ss_phase phase);

/* Position of a message in the protocol; a transport maps it to its own tags. */
struct ss_tag {
    uint32_t call;  /* number of the call on this communicator */
    unsigned phase; /* < SS_WIRE_PHASES */
    unsigned round; /* told apart mod 64; messages of one phase between two ranks arrive in order */
};

/* A send or receive under way; lives in its owner's struct and does not move until done. */
struct ss_request {
    bool active;  /* posted and not yet done */
    int status;   /* once done: SS_OK or SS_ERR_TRANSPORT */
    size_t bytes; /* once done, receives: length of the message */
    int slot;     /* the transport's own */
};

struct ss_transport {
    int rank;
    int size;
    const struct ss_transport_ops *ops;
    unsigned calls;   /* numbers of calls that it tells apart, 0: all */
    ss_fpenv outside; /* while a call is being stepped */
    uint64_t doubts;  /* times that arithmetic between has overflowed, and messages with Inf or
                         NaN: while it stays the same, sums of finite inputs are finite */
};

static inline void ss_transport_out(struct ss_transport *t)
{
    t->doubts += ss_fpenv_raised(ss_fpenv_now()) & SS_OVERFLOW;
    ss_fpenv_leave(t->outside);
}

static inline void ss_transport_back(struct ss_transport *t)
{
    t->outside = ss_fpenv_enter(); /* with what that code has raised */
}

struct ss_transport_ops {
    /* Starts a send of len bytes; buf stays untouched until request->active is false. SS_OK, or < 0
     * and nothing was started. */
    int (*send)(struct ss_transport *t, int dst, struct ss_tag tag, const void *buf, size_t len,
                struct ss_request *request);
    /* Starts a receive into buf of `capacity` bytes. A longer message ends it with
     * SS_ERR_TRANSPORT. */
    int (*recv)(struct ss_transport *t, int src, struct ss_tag tag, void *buf, size_t capacity,
                struct ss_request *request);
    /* Makes progress and marks the requests that completed (active = false). Never blocks. SS_OK,
     * or SS_ERR_TRANSPORT. */
    int (*poll)(struct ss_transport *t);
    /* Gives a request up; its buffer may be in use until the transport is closed where a transport
     * cannot take a message back. */
    void (*cancel)(struct ss_transport *t, struct ss_request *request);
    /* Seconds on a steady clock (virtual under the simulator). */
    double (*now)(struct ss_transport *t);
};

#endif
