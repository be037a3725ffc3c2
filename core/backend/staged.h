/* Bytes of a backend, copied to the host for code that knows only the host, such as an MPI library:
 *
 *     ss_staged_make(&s, backend, at, bytes)    makes room on the host
 *     ss_staged_fetch(&s)                     copies there; then ss_staged_poll until SS_OK
 *     ... work on s.host ...
 *     ss_staged_store(&s, 0, bytes)           copies back; then ss_staged_poll until SS_OK
 *     ss_staged_free(&s)                      when no copy is under way
 *
 * No function waits.
 */
#ifndef CORE_BACKEND_STAGED_H
#define CORE_BACKEND_STAGED_H

#include "core/backend/backend.h"

struct ss_staged {
    struct ss_backend *backend; /* NULL: there is no copy */
    char *memory;               /* in the backend */
    size_t bytes;
    char *host;
    ss_ticket ticket; /* of the last copy */
};

/* Returns false if the host has no memory. */
bool ss_staged_make(struct ss_staged *s, struct ss_backend *backend, const void *memory,
                    size_t bytes);
/* Starts a copy of everything to the host. */
void ss_staged_fetch(struct ss_staged *s);
/* Starts a copy of a range of bytes back to the backend. */
void ss_staged_store(struct ss_staged *s, size_t from, size_t bytes);
/* Returns SS_OK if the last copy is done or none was started, SS_PENDING, or SS_ERR_DEVICE. */
int ss_staged_poll(const struct ss_staged *s);
/* Frees the room on the host. Does nothing if there is no copy. */
void ss_staged_free(struct ss_staged *s);

#endif
