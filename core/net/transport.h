/* The network as algorithms see it: nonblocking point-to-point messages of bytes between the ranks
 * of one communicator.
 *
 * Implementations are shim/mpi/mpi_transport.c (MPI on a private communicator) and core/sim/sim.h
 * (P ranks in one process under a virtual clock). Messages between two ranks with one tag arrive in
 * the order sent. Every message is bounded (SS_CHUNK_ENTRIES, core/wire/wire.h), so a receive is
 * posted with a buffer that holds the longest message, and reports the length when it is done.
 *
 * The functions are called in the default floating-point environment (core/base/fpenv.h); `outside`
 * is the environment of the caller. A function that may run code of the application does so between
 * ss_transport_out and ss_transport_back. An example is the progress of an MPI library, which may
 * run the application's operators.
 */
#ifndef CORE_NET_TRANSPORT_H
#define CORE_NET_TRANSPORT_H

#include "core/base/fpenv.h"
#include "core/net/host_layout.h"

/* Phases on the wire. */
enum ss_phase {
    SS_PHASE_VOTE,
    SS_PHASE_CALIBRATE,
    SS_PHASE_FOLD_IN,
    SS_PHASE_REDUCE,
    SS_PHASE_FOLD_OUT,
    SS_PHASE_GATHER,
    SS_PHASE_WORDS,
    SS_PHASE_BALANCE,
    SS_PHASE_KEEP,
    SS_PHASE_START,
    SS_PHASES
};
const char *ss_phase_name(enum ss_phase phase);

/* Position of a message in the protocol; a transport maps it to its own tags. */
struct ss_tag {
    uint32_t call;  /* number of the call on this communicator */
    unsigned phase; /* < SS_WIRE_PHASES */
    /* distinguished mod 64; messages of a phase between two ranks arrive in order */
    unsigned round;
};

/* A send or receive. Its owner does not move it until it is done. */
struct ss_request {
    bool active;  /* posted and not done */
    int status;   /* if done: SS_OK or SS_ERR_TRANSPORT */
    size_t bytes; /* if done, length of the received message in bytes */
    int slot;     /* private to the transport */
};

struct ss_transport {
    int rank;
    int size;
    const struct ss_transport_ops *ops;
    const struct ss_layout *layout; /* NULL: no host has several ranks, or not known */
    unsigned calls;                 /* call numbers that tags distinguish, 0: all */
    ss_fpenv outside;               /* the caller's environment while a call is stepped */
    /* Count of overflows in between and of messages with Inf or NaN. While it stays the same, sums
     * of finite inputs are finite. */
    uint64_t not_finite;
};

/* Returns the bytes of a message that stay on this rank's host: all `len` or none. */
static inline size_t ss_transport_inside(const struct ss_transport *t, int dst, size_t len)
{
    return t->layout && t->layout->host[dst] == t->layout->host[t->rank] ? len : 0;
}

/* Enters the caller's environment, before code that may be the application's. */
static inline void ss_transport_out(struct ss_transport *t)
{
    t->not_finite += ss_fpenv_raised(ss_fpenv_now()) & SS_OVERFLOW;
    ss_fpenv_leave(t->outside);
}

/* Returns to the default environment. */
static inline void ss_transport_back(struct ss_transport *t)
{
    t->outside = ss_fpenv_enter(); /* keeps the exceptions raised outside */
}

struct ss_transport_ops {
    /* Starts a send of len bytes; buf stays untouched until request->active is false. Returns
     * SS_OK, or an error < 0 with nothing started. */
    int (*send)(struct ss_transport *t, int dst, struct ss_tag tag, const void *buf, size_t len,
                struct ss_request *request);
    /* Starts a receive into buf of `capacity` bytes. A longer message ends the receive with
     * SS_ERR_TRANSPORT. */
    int (*recv)(struct ss_transport *t, int src, struct ss_tag tag, void *buf, size_t capacity,
                struct ss_request *request);
    /* Makes progress and sets active = false in requests that have completed. Never blocks. Returns
     * SS_OK or SS_ERR_TRANSPORT. */
    int (*poll)(struct ss_transport *t);
    /* Cancels a request. If the transport cannot cancel the message, its buffer stays in use until
     * the transport is closed. */
    void (*cancel)(struct ss_transport *t, struct ss_request *request);
    /* Returns seconds on a steady clock (virtual in the simulator). */
    double (*now)(struct ss_transport *t);
};

#endif
