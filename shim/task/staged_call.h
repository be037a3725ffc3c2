/* Buffers of a call in device memory. The call is served there, or gets copies of the buffers on
 * the host. */
#ifndef SHIM_TASK_STAGED_CALL_H
#define SHIM_TASK_STAGED_CALL_H

#include "core/backend/pieces.h"
#include "core/base/types.h"
#include "gpu/door.h"
#include "shim/device/span.h"
#include "shim/mpi/state.h"

enum shim_copies {
    SHIM_COPIES_NONE,
    SHIM_COPIES_COMING, /* the input comes to the host */
    SHIM_COPIES_FILLED, /* the copies hold the input, later the result */
    SHIM_COPIES_GOING   /* the result goes to its buffer */
};

struct shim_staged {
    const void *send; /* buffers, as the program gave them */
    void *recv;
    struct shim_span send_span, recv_span; /* bytes of the buffers that the call touches */
    /* slices of an allgatherv with gaps between them; else 0 */
    int slices;
    /* backend of both buffers if the call is served there; else NULL */
    struct ss_backend *backend;
    struct ss_staged in, out; /* copies; none for a buffer on the host */
    bool filled;              /* the copy of the receive buffer begins with its content */
    enum shim_copies copies;
    struct ss_pieces pieces; /* pieces of buffers that the MPI library sums one after the other */
    /* a copy could not be made, filled or written back, for the reason in `why` */
    bool failed;
    char why[GPU_WHY];
};

/* Records the buffers of a call. Asks MPI about the call for the last time, since the program may
 * free its communicator while the call is under way. Returns false if MPI will not accept the
 * call. */
bool shim_staged_begin(struct shim_staged *s, const struct shim_call *call);

/* Sets `backend` if one backend can serve the call. May wait for the device, so that the caller
 * holds no lock. */
void shim_staged_backend(struct shim_staged *s, const struct shim_call *call, enum ss_type type);
/* Measures the costs of the backend, once. Called after a blocking call as well, since a backend
 * that was busy before the call is idle after it. */
void shim_staged_learn(const struct shim_staged *s);

/* Makes room for the copies and puts it in the call in place of the buffers. Returns false if that
 * fails. Waits for the device only if the call has no backend. */
bool shim_staged_make(struct shim_staged *s, struct shim_call *call);
/* Start the copies to the host and back. joined: the call will be in place, and its input stands in
 * the receive buffer. call: as the program made it, or with copies. */
void shim_staged_fetch(struct shim_staged *s, bool joined);
void shim_staged_store(struct shim_staged *s, const struct shim_call *call);
/* Returns SS_OK, SS_PENDING or an error; sets `why` after an error. */
int shim_staged_poll(struct shim_staged *s);
/* Waits until the copies have ended. Returns false after an error. */
bool shim_staged_finish(struct shim_staged *s);
/* Makes and fills the copies, unless that is done, and waits for them. Returns false after an
 * error. Returns true at once for a call on buffers of the host. */
bool shim_staged_fill(struct shim_call *call, bool joined);

/* Frees the copies; none may be under way. */
void shim_staged_free(struct shim_staged *s);

/* Raises the failure in `why` on the call's communicator and returns its MPI code. */
int shim_staged_failed(uintptr_t comm, const struct shim_staged *s);

#endif
