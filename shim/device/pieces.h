/* A vector in device memory that the MPI library is to reduce a piece at a time: while it has one,
 * the next comes to the host and the last one's result goes back, so that few images are needed,
 * however long the vector is. */
#ifndef SHIM_DEVICE_PIECES_H
#define SHIM_DEVICE_PIECES_H

#include "gpu/staging.h"
#include "shim/mpi/state.h"

/* Pieces on the host at once: in place one that comes, one that is reduced and one that goes; else
 * two of either buffer. */
enum { SHIM_PIECES_APART = 2, SHIM_PIECES_IN_PLACE = 3 };

struct shim_pieces {
    const char *send; /* of the device; NULL: in place */
    char *recv;
    size_t bytes, piece; /* of all; of one, a multiple of the elements */
    struct gpu_image *in[SHIM_PIECES_APART], *out[SHIM_PIECES_IN_PLACE];
    bool moved;  /* some of what is copied had when it was polled last */
    bool failed; /* nothing is copied any more, and what is summed means nothing */
    char why[GPU_STAGING_WHY];
};

/* Host memory for pieces that cannot be copied, of SS_PIECE bytes each: the sums are formed all the
 * same, for no rank may be missing in them. Once there it stays. */
bool shim_pieces_reserve(void);

/* Makes the images; send NULL: in place. What is copied comes behind what the program has queued by
 * now. To be called without a lock: it may wait for the driver. */
void shim_pieces_take(struct shim_pieces *p, const void *send, void *recv, size_t bytes,
                      size_t piece);

/* Then, as all that follows, without waiting: the first pieces are under way when it returns. */
void shim_pieces_open(struct shim_pieces *p);

/* Nothing can be copied: zeros are summed, in place. */
void shim_pieces_give_up(struct shim_pieces *p, size_t bytes, size_t piece);

/* Whether the piece is still on its way to the host, or its room there is not free. Never waits. */
bool shim_pieces_comes(struct shim_pieces *p, size_t number);

/* What is to be summed, NULL: in place; and where to. */
const void *shim_pieces_in(const struct shim_pieces *p, size_t number);
void *shim_pieces_out(const struct shim_pieces *p, size_t number);

/* Whether the room of the piece that is fetched when this one is taken back still holds a result on
 * its way. Never waits. */
bool shim_pieces_holds(struct shim_pieces *p, size_t number);

/* It has been summed, before any later one; no room is held up. */
void shim_pieces_take_back(struct shim_pieces *p, size_t number);

/* Whether anything is still on its way: results, and what comes in vain where copies have failed.
 */
bool shim_pieces_go(struct shim_pieces *p);

/* Nothing is under way. */
void shim_pieces_close(struct shim_pieces *p);

#endif
