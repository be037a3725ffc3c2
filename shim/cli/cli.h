/* What the verbs of `sparseshim` share. One verb, one file. */
#ifndef SHIM_CLI_CLI_H
#define SHIM_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

enum cli_exit { CLI_OK = 0, CLI_NO = 1, CLI_USAGE = 2, CLI_CANNOT_RUN = 126, CLI_NOT_FOUND = 127 };

/* argv[0] is the verb. Returns the exit status. */
typedef int cli_function(int argc, char **argv);
cli_function cli_info;
cli_function cli_run;
cli_function cli_check;

/* "sparseshim VERB: " and the message to standard error, in one write; returns CLI_USAGE.
 * Rank 0 speaks for a `run` that a launcher starts once per rank. */
int cli_usage_error(const char *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns whether this process speaks about files for all ranks of a job on its host, which may
 * have other files than rank 0's. */
bool cli_speaks_for_host(void);

/* Becomes libexec/sparseshim/sparseshim-VERB, with argv[1] as its first argument; returns the exit
 * status where it cannot, after saying so. A file that begins with #! is run by python3. */
int cli_become_program(const char *verb, int argc, char **argv);

/* Becomes the program; returns the exit status where it cannot, after saying so. */
int cli_become(const char *verb, char **argv);

/* Absolute path of libsparseshim.so: where it was installed with this program, or built beside it,
 * else in ../lib of it. To be freed. NULL when it is in none of them, or memory is short. */
char *cli_find_library(void);

/* LD_PRELOAD with the library first, once, and then the other entries of `before` (NULL: none) as
 * they stand; an entry is the library if it has its file name. Only what must be first and is stays
 * before it. To be freed; NULL when memory is short. */
char *cli_preload(const char *library, const char *before);

/* Whether a path names the runtime of AddressSanitizer, which must be loaded before all others. */
bool cli_must_be_first(const char *path);

/* Whether a path names a libsparseshim.so. */
bool cli_is_library(const char *path);

/* The places where cli_find_library looks, as text for messages. To be freed; NULL when memory is
 * short. */
char *cli_library_places(void);

#endif
