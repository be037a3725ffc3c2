/* Families of MPI libraries, by the names of their files. */
#include "shim/cli/family.h"

#include <string.h>

enum family family_of_name(const char *name)
{
    const char *version = strstr(name, ".so.");
    if (strncmp(name, "libmpi", 6) != 0)
        return FAMILY_NONE;
    if (strcmp(name, "libmpi_abi.so.1") == 0)
        return FAMILY_STANDARD;
    if (version != NULL && strncmp(version, ".so.12", 6) == 0)
        return FAMILY_MPICH;
    if (strncmp(name, "libmpi.so.40", 12) == 0)
        return FAMILY_OPEN_MPI;
    if (strncmp(name, "libmpi.so.20", 12) == 0)
        return FAMILY_OLD_OPEN_MPI;
    return FAMILY_OTHER;
}

enum family family_of_library(const char *name, bool is_open_mpi)
{
    const enum family family = family_of_name(name);

    if (!is_open_mpi)
        return family == FAMILY_NONE ? FAMILY_OTHER : family;
    return family != FAMILY_OPEN_MPI && strncmp(name, "libmpi.so.", 10) == 0 ? FAMILY_OLD_OPEN_MPI
                                                                             : FAMILY_OPEN_MPI;
}

const char *family_text(enum family family)
{
    switch (family) {
    case FAMILY_MPICH:
        return "MPICH ABI family (MPICH, Intel MPI, MVAPICH, Cray MPICH)";
    case FAMILY_STANDARD:
        return "MPI standard ABI (libmpi_abi)";
    case FAMILY_OPEN_MPI:
        return "Open MPI 4 or 5";
    case FAMILY_OLD_OPEN_MPI:
        return "Open MPI before 4";
    case FAMILY_OTHER:
        return "neither the MPICH ABI family nor Open MPI";
    case FAMILY_NONE:
        break;
    }
    return "none";
}
