/* core's transport over MPI point-to-point on a private communicator: exact source and tag, never
 * wildcards.
 *
 * Messages are bounded, so receives are posted ahead with a buffer that holds the longest; a
 * matched probe is not needed.
 */
#ifndef SHIM_MPI_MPI_TRANSPORT_H
#define SHIM_MPI_MPI_TRANSPORT_H

#include <mpi.h>

#include "core/net/transport.h"

/* Of messages that are none of core's: no phase has it. */
enum { SHIM_TAG_CLOCK = 15 << 6 };

struct shim_transport {
    struct ss_transport base;
    MPI_Comm comm;      /* borrowed */
    unsigned call_bits; /* of the tag */

    /* Requests under way, dense: request i belongs to owners[i], NULL for sends that were given up.
     */
    int count;
    int capacity;
    MPI_Request *requests;
    struct ss_request **owners;
    bool *receives; /* request i is a receive */
    int *indices;
    MPI_Status *statuses;
};

/* Allocates. SS_OK or SS_ERR_MEMORY; ends with shim_transport_close. */
int shim_transport_open(struct shim_transport *t, int rank, int size);

/* Room for the messages of so many calls at once: false where memory is short. */
bool shim_transport_reserve(struct shim_transport *t, int calls);

/* Names the communicator; MPI_ERRORS_RETURN is set on it. Before the first message. */
void shim_transport_use(struct shim_transport *t, MPI_Comm comm);

/* Lets go of everything. False when given-up messages are still under way: their buffers must never
 * be freed. */
bool shim_transport_close(struct shim_transport *t);
/* Frees its memory and makes no call of MPI. */
void shim_transport_free(struct shim_transport *t);

#endif
