/* From what a user names to the ELF file that the kernel would run. */
#ifndef SHIM_CLI_SCRIPT_H
#define SHIM_CLI_SCRIPT_H

#include <limits.h>
#include <stdbool.h>

/* Path of a program: as it is where it has a '/', else the first executable of that name in PATH,
 * else the file of that name here. False when there is none. */
bool script_locate(const char *name, char path[PATH_MAX]);

/* Follows the first line of a script: false when the file does not begin with #! and a program.
 * Behind env it is the program that env would look for. */
bool script_interpreter(const char *script, char interpreter[PATH_MAX]);

struct script {
    bool is_one; /* another program runs the file */
    bool python; /* Python runs it, or it is Python */
    bool bare;   /* it is a .py file without such a first line, for `python3 FILE` */
};

/* Follows scripts from the file in path to the ELF file that runs, which is left there, and prints
 * each step. False with errno set when that cannot be read. */
bool script_follow(char path[PATH_MAX], struct script *script);

#endif
