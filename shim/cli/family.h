/* Families of MPI libraries with one binary interface. */
#ifndef SHIM_CLI_FAMILY_H
#define SHIM_CLI_FAMILY_H

#include <stdbool.h>

enum family {
    FAMILY_NONE,
    FAMILY_MPICH,
    FAMILY_STANDARD,
    FAMILY_OPEN_MPI,
    FAMILY_OLD_OPEN_MPI,
    FAMILY_OTHER
};

/* Returns the family that the file name of a library, without folders, stands for. Names of Open
 * MPI up to 1.10 and of the MPICH family overlap, and only the symbols tell them apart. Open MPI 3
 * has the name of 4 and 5: it is refused at run time. */
enum family family_of_name(const char *name);

/* Returns the family of a library that defines MPI. is_open_mpi: it has Open MPI's symbols. Vendors
 * name their Open MPI in other ways. */
enum family family_of_library(const char *name, bool is_open_mpi);

/* Returns the name of a family, as `check` prints it. */
const char *family_text(enum family family);

#endif
