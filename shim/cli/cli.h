/* What the verbs of `sparseshim` share. One verb, one file. */
#ifndef SHIM_CLI_CLI_H
#define SHIM_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

enum cli_exit {
    CLI_HELP = -1, /* asked for among the options: main prints it, and ends with 0 */
    CLI_OK = 0,
    CLI_NO = 1,
    CLI_USAGE = 2,
    CLI_FAILED = 3, /* a job that a verb has started */
    CLI_CANNOT_RUN = 126,
    CLI_NOT_FOUND = 127
};

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

/* "--help" or "-h". */
bool cli_asks_for_help(const char *argument);

/* What run and learn do to the environment of a program, CLI_OK or the exit status after saying
 * why not; dry: also printed. put: a variable. option: of "mode=observe". preload: the library in
 * front of whatever is preloaded already, since a profiler that stood before it would take the
 * calls. */
struct cfg;
int cli_put(const char *verb, const char *name, const char *value, bool dry);
int cli_set_option(const char *verb, const struct cfg *cfg, const char *argument, bool dry);
int cli_set_preload(const char *verb, bool dry);

/* The options of a verb that starts a command: take sees each argument that begins with '-', up to
 * "--", and leaves *at on the last word it used. *first: where the command begins; argc: nowhere.
 * CLI_OK, CLI_HELP, or what take returned. */
typedef int cli_take(void *ctx, int argc, char **argv, int *at);
int cli_options(int argc, char **argv, cli_take *take, void *ctx, int *first);

/* Which of the names, such as "--steps", argv[*at] gives a value, "--steps=N" or "--steps N"; -1:
 * none. *at comes to stand on its last word; *value: NULL where it is missing, after saying so. */
int cli_own_option(const char *verb, const char *const *names, int n, int argc, char **argv,
                   int *at, const char **value);

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
