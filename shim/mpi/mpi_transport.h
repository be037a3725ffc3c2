/* Implements core's transport with MPI point-to-point messages on a private communicator. Source
 * and tag are always exact.
 *
 * Messages are bounded, so receives are posted ahead with a buffer that holds the longest. Matched
 * probes are not needed.
 */
#ifndef SHIM_MPI_MPI_TRANSPORT_H
#define SHIM_MPI_MPI_TRANSPORT_H

#include "core/net/transport.h"
#include "shim/mpi/mpi_names.h"

/* Tag of messages that are not core's; no phase has it. */
enum { SHIM_TAG_CLOCK = 15 << 6 };

struct shim_transport {
    struct ss_transport base;
    MPI_Comm comm;      /* borrowed */
    unsigned call_bits; /* bits of the tag that hold the call */

    /* Requests in flight, without gaps: request i belongs to owners[i], which is NULL for cancelled
     * sends. */
    int count;
    int capacity;
    void *requests; /* as the MPI library lays them out */
    struct ss_request **owners;
    bool *receives;      /* request i is a receive */
    unsigned idle_polls; /* polls in a row without a request */
    int *indices;
    void *statuses;
};

/* Allocates the tables. Returns SS_OK or SS_ERR_MEMORY; shim_transport_close frees them. */
int shim_transport_open(struct shim_transport *t, int rank, int size);

/* Makes room for the messages of `calls` calls at once. Returns false if memory is short. */
bool shim_transport_reserve(struct shim_transport *t, int calls);

/* Sets the communicator, whose error handler is MPI_ERRORS_RETURN. Called before the first
 * message. */
void shim_transport_use(struct shim_transport *t, MPI_Comm comm);

/* Frees everything. Returns false if cancelled messages are still in flight: their buffers must
 * never be freed. */
bool shim_transport_close(struct shim_transport *t);
/* Frees the tables without an MPI call. */
void shim_transport_free(struct shim_transport *t);

#endif
