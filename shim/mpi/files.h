/* Files that we write for the user: never through a link, never over a file of somebody else, and
 * for the user's eyes alone (mode 0600) unless the file was there before.
 *
 * Directories on the way, REPORT_DIR among them, may be links and belong to anybody: what is kept
 * safe is the last part of the path. */
#ifndef SHIM_MPI_FILES_H
#define SHIM_MPI_FILES_H

#include <stdbool.h>
#include <stddef.h>

enum { SHIM_REASON = 128 }; /* characters of a reason */

/* Opens a file to append to. Makes it where it is missing; where it is there it must be a regular
 * file of this user with no second name, or a character device (/dev/null, a terminal).
 * /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N name what the process has open, pipes
 * included. Returns a descriptor above 2 for the caller to close, or -1 with the reason. */
int shim_file_append(const char *path, char reason[SHIM_REASON]);

/* Writes to a descriptor; returns 0 or an errno. */
typedef int shim_file_fill(void *ctx, int fd);

/* Writes the file `name` anew in `directory`, which is made (0700) where it is missing: fills a
 * file of another name, then renames it, so that there is a whole file at any time. What stands
 * there must be a regular file of this user, whose mode is kept. Returns whether it was done; if
 * not, what stood there still stands, and *in_directory tells whether the file or the directory is
 * in the way. */
bool shim_file_replace(const char *directory, const char *name, shim_file_fill *fill, void *ctx,
                       char reason[SHIM_REASON], bool *in_directory);

#endif
