/* A long vector of a backend that passes through the host piece by piece. While the caller sums
 * piece i on the host, piece i + 1 is copied to the host and the sum of piece i - 1 back.
 *
 * If a copy fails, `status` is an error and no more copies start. The caller still gets room for
 * every piece, filled with zeros, so that it can take part in the sums to the end.
 */
#ifndef CORE_BACKEND_PIECES_H
#define CORE_BACKEND_PIECES_H

#include "core/backend/staged.h"

/* Numbers of pieces on the host at the same time. If input and result are apart, each has two. In
 * place, one piece comes, one is summed and one goes back. */
enum { SS_PIECES_APART = 2, SS_PIECES_IN_PLACE = 3 };

struct ss_pieces {
    const char *send; /* NULL: in place */
    char *recv;
    size_t bytes, piece; /* bytes of the vector and of a piece */
    struct ss_staged in[SS_PIECES_APART], out[SS_PIECES_IN_PLACE];
    int status;
};

/* Makes room and starts the copies of the first pieces. A `status` below zero starts none. Returns
 * SS_OK or SS_ERR_MEMORY. */
int ss_pieces_open(struct ss_pieces *p, struct ss_backend *backend, const void *send, void *recv,
                   size_t bytes, size_t piece, int status);

/* Returns true if piece `number` or its room is not ready for the sum. */
bool ss_pieces_comes(struct ss_pieces *p, size_t number);
/* Return the input of the sum, NULL if in place, and the room for the result. */
const void *ss_pieces_in(const struct ss_pieces *p, size_t number);
void *ss_pieces_out(const struct ss_pieces *p, size_t number);

/* Returns true if ss_pieces_take_back must wait: the room that it needs still holds a piece on its
 * way back. */
bool ss_pieces_has(struct ss_pieces *p, size_t number);
/* Copies the sum of a piece back, and starts the copy of a later one. */
void ss_pieces_take_back(struct ss_pieces *p, size_t number);

/* Returns true if a copy is under way. */
bool ss_pieces_go(struct ss_pieces *p);
/* Frees the room. Called when no copy is under way. */
void ss_pieces_close(struct ss_pieces *p);

#endif
