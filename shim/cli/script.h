/* Finds the ELF file that the kernel would run for a name that the user gives. */
#ifndef SHIM_CLI_SCRIPT_H
#define SHIM_CLI_SCRIPT_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path of a program. A name with a '/' is its own path; else the first executable of
 * that name in PATH, else the file of that name in the current directory. Returns false if there is
 * none.
 */
bool script_locate(const char *name, char path[PATH_MAX]);

/* Writes the path of the interpreter in the first line of a script. If that is env, the interpreter
 * is the program that env would look for. Returns false if the file does not begin with #! and a
 * program. */
bool script_interpreter(const char *script, char interpreter[PATH_MAX]);

/* Returns true for a name of Python or of a Python source. */
bool script_names_python(const char *name);

#define SCRIPT_PYTHON "python3 "

/* Returns the word that is missing before the name of a file that is there: SCRIPT_PYTHON if it is
 * a Python source that is not executable or does not name its interpreter; "./" if it is
 * executable, in the current directory and not found in PATH; else "". */
const char *script_missing_word(const char *name);

struct script {
    bool is_one; /* another program runs the file */
    bool python; /* Python runs it, or it is Python */
    bool source; /* the file itself is a text in Python */
    bool bare;   /* a .py file without such a first line, for `python3 FILE` */
};

/* Follows scripts from the file in `path` to the ELF file that runs, leaves its path in `path`, and
 * prints each step. Returns false with errno set if the ELF file cannot be read. */
bool script_follow(char path[PATH_MAX], struct script *script);

#endif
