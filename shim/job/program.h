/* Which program this process runs. */
#ifndef SHIM_JOB_PROGRAM_H
#define SHIM_JOB_PROGRAM_H

#include <stdbool.h>

/* Whether PROGRAMS takes it. patterns: names with * and ? as fnmatch has them, separated by blanks,
 * ! before those that are left out; "": all. The name is the file name of the program, or of the
 * script or module where that is a Python. */
bool shim_program_is_served(const char *patterns);

#endif
