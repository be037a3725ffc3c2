/* Finds out by which packages a Python script communicates. */
#ifndef SHIM_CLI_IMPORTS_H
#define SHIM_CLI_IMPORTS_H

#include <stdbool.h>

struct imports {
    bool mpi4py, horovod, torch; /* torch: torch.distributed, or what calls it */
    bool objects;                /* a call of the name allreduce, which mpi4py does by pickling */
};

/* Returns the packages that the script imports itself, or by a module of its folder. Reads the text
 * line by line, and does not run it. */
struct imports imports_of(const char *script);

/* Prints them, and a remark on calls that send objects. */
void imports_print(const struct imports *i);

/* Returns true if mpi4py lies among the packages of that Python. */
bool imports_has_mpi4py(const char *python);

#endif
