/* Files written for the user. A file is never written through a link nor over a file of another
 * user, and only its user can read it (mode 0600) unless it existed before.
 *
 * Directories on the path, such as REPORT_DIR, may be links and belong to anybody: only the last
 * part of the path is checked.
 */
#ifndef SHIM_MPI_FILES_H
#define SHIM_MPI_FILES_H

#include <stdbool.h>
#include <stddef.h>

enum { SHIM_REASON = 128 }; /* characters of a reason */

/* Opens a file for appending, and creates it if it is missing. An existing file must be a regular
 * file of this user with a single name, or a character device (/dev/null, a terminal). /dev/stdout,
 * /dev/stderr, /dev/fd/N and /proc/self/fd/N name open descriptors of the process, pipes included.
 * Returns a descriptor above 2 that the caller closes, or -1 with the reason. */
int shim_file_append(const char *path, char reason[SHIM_REASON]);

/* Writes to a descriptor. Returns 0 or an errno. */
typedef int shim_file_fill(void *ctx, int fd);

/* Replaces the file `name` in `directory`, which is created (0700) if it is missing. Fills a file
 * of another name and renames it, so that the file is whole at any time. An existing file must be a
 * regular file of this user; its mode is kept. Returns false if the file was not replaced, with the
 * reason; *in_directory then says whether the directory or the file was the cause. */
bool shim_file_replace(const char *directory, const char *name, shim_file_fill *fill, void *ctx,
                       char reason[SHIM_REASON], bool *in_directory);

#endif
