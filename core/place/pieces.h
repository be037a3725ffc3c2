/* A long vector of a place that passes through the host a piece at a time: while the caller sums
 * piece i on the host, piece i + 1 is copied to the host and the sum of piece i - 1 back.
 *
 * If a copy fails, `status` is an error and no more copies start. The caller still gets room for
 * every piece, filled with zeros, so that it can take part in the sums to the end. */
#ifndef CORE_PLACE_PIECES_H
#define CORE_PLACE_PIECES_H

#include "core/place/staged.h"

/* Pieces on the host at once: two of each buffer; in place one that comes, one that is summed and
 * one that goes back. */
enum { SS_PIECES_APART = 2, SS_PIECES_IN_PLACE = 3 };

struct ss_pieces {
    const char *send; /* NULL: in place */
    char *recv;
    size_t bytes, piece; /* of the vector, of a piece */
    struct ss_staged in[SS_PIECES_APART], out[SS_PIECES_IN_PLACE];
    int status;
};

/* Makes room and starts the copies of the first pieces. A `status` below zero starts none. Returns
 * SS_OK or SS_ERR_MEMORY. */
int ss_pieces_open(struct ss_pieces *p, struct ss_place *place, const void *send, void *recv,
                   size_t bytes, size_t piece, int status);

/* Whether piece `number` or its room is not ready to be summed. */
bool ss_pieces_comes(struct ss_pieces *p, size_t number);
/* The input of the sum, NULL if in place, and its result. */
const void *ss_pieces_in(const struct ss_pieces *p, size_t number);
void *ss_pieces_out(const struct ss_pieces *p, size_t number);

/* Whether ss_pieces_take_back has to wait for the room of a piece that still goes back. */
bool ss_pieces_holds(struct ss_pieces *p, size_t number);
/* Copies the sum of a piece back, and starts the copy of a later one. */
void ss_pieces_take_back(struct ss_pieces *p, size_t number);

/* Whether any copy is under way; if none is, ss_pieces_close frees the room. */
bool ss_pieces_go(struct ss_pieces *p);
void ss_pieces_close(struct ss_pieces *p);

#endif
