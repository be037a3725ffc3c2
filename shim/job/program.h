/* The program that this process runs. */
#ifndef SHIM_JOB_PROGRAM_H
#define SHIM_JOB_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the file name of the program, or of the script or module that Python runs. */
void shim_program_name(char *name, size_t size);

/* Returns true if PROGRAMS has the program served; patterns: its value. */
bool shim_program_is_served(const char *patterns);

#endif
