/* Shared by the verbs of `sparseshim`, each in a file of its own. */
#ifndef SHIM_CLI_CLI_H
#define SHIM_CLI_CLI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum cli_exit { CLI_OK = 0, CLI_NO = 1, CLI_USAGE = 2, CLI_CANNOT_RUN = 126, CLI_NOT_FOUND = 127 };

/* argv[0] is the verb. Returns the exit status. */
typedef int cli_function(int argc, char **argv);
cli_function cli_info;
cli_function cli_run;
cli_function cli_check;

/* Prints "sparseshim VERB: " and the message to standard error, in one write; returns CLI_USAGE. If
 * a launcher starts `run` once per rank, only rank 0 prints. */
int cli_usage_error(const char *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns true for the process of each host that prints messages about files, which may differ
 * between hosts. */
bool cli_speaks_for_host(void);

/* Executes libexec/sparseshim/sparseshim-VERB, with argv[1] as its first argument. A file that
 * begins with #! is run by python3. If it cannot, prints a message and returns the exit status. */
int cli_become_program(const char *verb, int argc, char **argv);

/* Writes the command that starts programs of an MPI library, whose path is given: mpirun, if that
 * one belongs to it; the one beside it; or the name by which Debian has it. */
void cli_mpirun_of(const char *library, const char *debian, char command[PATH_MAX]);

/* shim/cli/options.c: the options as they are set here. */

/* Writes the source of a value, "environment" or "locked by FILE:LINE", and returns it. */
enum { CLI_SOURCE = PATH_MAX + 40 };
struct cfg_row;
const char *cli_source(const struct cfg_row *row, char text[CLI_SOURCE]);

/* Returns NULL if jobs of this user are served. If the site or the user has switched the library
 * off, writes why and returns what to do. */
const char *cli_switched_off(char *why, size_t size);

/* Returns NULL if PROGRAMS has the program of this file name served, else writes why not and
 * returns what to do. */
const char *cli_left_out(const char *name, char *why, size_t size);

/* Returns true if `run` lets torch.distributed run over MPI (TORCH). */
bool cli_redirects_torch(void);

/* Returns true if nonblocking calls are taken over by themselves: not only at MPI_THREAD_MULTIPLE
 * behind an eligible blocking call. */
bool cli_asks_for_nonblocking(void);

/* Returns argv, or, if argv starts ranks by Open MPI, a copy that hands on LD_PRELOAD, PYTHONPATH
 * and all SPARSESHIM_ variables of the environment; NULL without memory. */
char **cli_launcher_exports(char **argv);
/* Frees a copy. */
void cli_launcher_free(char **command, char **argv);

/* Returns the names of the profiles that CONFIG=@NAME finds, sorted and separated by ", "; to be
 * freed. NULL if there are none, or memory is short. */
char *cli_profile_names(void);

/* Executes argv. If it cannot, prints a message and returns the exit status. */
int cli_become(const char *verb, char **argv);

/* Returns the absolute path of libsparseshim.so, to be freed: the one that was installed or built
 * with this program, else the one in ../lib of the program. NULL if there is none, or memory is
 * short. */
char *cli_find_library(void);

/* Returns LD_PRELOAD with the library first, once, then the other entries of `before` (NULL: none)
 * in their order. An entry is the library if it has its file name. Entries that must be first, and
 * are, stay before it. To be freed; NULL if memory is short. */
char *cli_preload(const char *library, const char *before);

/* Returns true for the runtime of AddressSanitizer, which must be loaded before all others. */
bool cli_must_be_first(const char *path);

/* Returns true for a path of a libsparseshim.so. */
bool cli_is_library(const char *path);

/* Returns the directories in which cli_find_library looks, as text for messages, to be freed; NULL
 * if memory is short. */
char *cli_library_places(void);

#endif
