/* The buffers of a call that are in device memory: the call is served there, or it gets copies of
 * them on the host. */
#ifndef SHIM_TASK_STAGED_CALL_H
#define SHIM_TASK_STAGED_CALL_H

#include "core/base/types.h"
#include "core/place/pieces.h"
#include "gpu/door.h"
#include "shim/device/span.h"
#include "shim/mpi/state.h"

enum shim_copies {
    SHIM_COPIES_NONE,
    SHIM_COPIES_COMING, /* to the host */
    SHIM_COPIES_FILLED, /* by the buffers, then by the call */
    SHIM_COPIES_GOING   /* the result, to its buffer */
};

struct shim_staged {
    const void *send; /* the buffers, as the program gave them */
    void *recv;
    struct shim_span send_span, recv_span; /* what the call touches of them */
    int slices;                            /* of an allgatherv with gaps between them; else 0 */
    struct ss_place *place;                /* of both, if the call is served there; else NULL */
    struct ss_staged in, out;              /* copies; of a buffer on the host there is none */
    bool filled; /* the copy of the receive buffer begins with its content */
    enum shim_copies copies;
    struct ss_pieces pieces; /* of a buffer that the MPI library gets piece by piece */
    bool failed;             /* a copy could not be made, filled or written back: `why` */
    char why[GPU_WHY];
};

/* Asks MPI about the call, for the last time: the program may free its communicator while the call
 * is under way. Returns false if MPI will not accept it. */
bool shim_staged_begin(struct shim_staged *s, const struct shim_call *call);

/* Sets `place` if one place can serve the call. May wait for the device: no lock may be held. */
void shim_staged_place(struct shim_staged *s, const struct shim_call *call, enum ss_type type);
/* Measures the costs of the place, once. To be called behind a blocking call as well: a place that
 * was busy at the beginning is idle then. */
void shim_staged_learn(const struct shim_staged *s);

/* Makes room for the copies and replaces the buffers of the call by it. Returns false if that
 * fails. Waits for the device only if there is no place. */
bool shim_staged_make(struct shim_staged *s, struct shim_call *call);
/* Start the copies to the host and back. joined: the call will be in place, and what it reduces
 * stands in the receive buffer. call: as the program made it, or with copies. */
void shim_staged_fetch(struct shim_staged *s, bool joined);
void shim_staged_store(struct shim_staged *s, const struct shim_call *call);
/* Returns SS_OK, SS_PENDING, or an error, with `why`. */
int shim_staged_poll(struct shim_staged *s);
/* Waits. Returns false after an error. */
bool shim_staged_finish(struct shim_staged *s);
/* Makes and fills the copies, unless that is done. Waits. Returns false after an error. Does
 * nothing to a call on buffers of the host. */
bool shim_staged_fill(struct shim_call *call, bool joined);

/* Frees the copies; none may be under way. */
void shim_staged_free(struct shim_staged *s);

/* Returns the MPI code of what has failed, raised on the call's communicator. */
int shim_staged_failed(uintptr_t comm, const struct shim_staged *s);

#endif
