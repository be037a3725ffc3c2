/* The folder that a job works in, and copies of it. */
#ifndef SHIM_CLI_TRY_FOLDER_H
#define SHIM_CLI_TRY_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct trial_folder {
    char source[PATH_MAX]; /* absolute */
    bool here;             /* no copies: jobs work in it */
    /* Beside it, or with `here` in it, for reports and outputs; copies begin with its name. That
     * they lie beside their source keeps links such as ../data. */
    char base[PATH_MAX - 32];
};

/* cwd NULL: the current folder. With copies it must hold at most `most` bytes, which must be free
 * beside it. CLI_OK, or the exit status after saying why not. */
int trial_folder_open(struct trial_folder *f, const char *cwd, bool here, uint64_t most);

/* Where a job of this name is to work: a copy made now, or the folder itself. */
int trial_folder_copy(const struct trial_folder *f, const char *name, char path[PATH_MAX]);

/* Removes that copy. */
void trial_folder_remove(const struct trial_folder *f, const char *path);

/* Removes the base and all that is in it. */
void trial_folder_close(const struct trial_folder *f);

#endif
