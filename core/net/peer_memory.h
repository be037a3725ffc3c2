/* Memory of the other ranks of a host, which a rank reads through the kernel (process_vm_readv).
 *
 * A rank shows a buffer before a vote, so that all ranks know after the vote that they may read it.
 * The rank hides the buffer before the program gets it back. A reader looks again when it has read
 * all: if the buffer is hidden by then, the program may have changed it. */
#ifndef CORE_NET_PEER_MEMORY_H
#define CORE_NET_PEER_MEMORY_H

#include "core/base/types.h"

/* What a rank shows. */
struct ss_shown {
    uint64_t call;    /* number of the call, 0: nothing */
    uint64_t address; /* of the buffer */
};

struct ss_peer {
    uint64_t process; /* number that the system gives it */
    uint64_t shown;   /* address of its struct ss_shown */
};

struct ss_peers {
    struct ss_shown shown; /* by this rank */
    uint64_t process;      /* this rank's */
    struct ss_peer peer[]; /* each rank of the communicator */
};

/* Creates the peers of a communicator, owned by the caller; NULL if memory is short. The caller
 * fills in `peer`. */
struct ss_peers *ss_peers_create(int size);
void ss_peers_free(struct ss_peers *p);
/* Returns this rank as the others are to know it. */
struct ss_peer ss_peers_own(const struct ss_peers *p);

/* Shows a buffer for a call. Returns false if the system cannot read the buffer for others. */
bool ss_peers_show(struct ss_peers *p, uint64_t call, const void *buffer, size_t bytes);
/* Hides the buffer that is shown for a call. */
void ss_peers_hide(struct ss_peers *p, uint64_t call);

/* Return false if the rank has ended, or if it shows nothing for that call. Sets *address to that
 * of the buffer. */
bool ss_peers_look(const struct ss_peers *p, int rank, uint64_t call, uint64_t *address);
/* Reads `bytes` bytes of the buffer from byte `from` on. */
bool ss_peers_read(const struct ss_peers *p, int rank, uint64_t call, size_t from, void *to,
                   size_t bytes);

#endif
