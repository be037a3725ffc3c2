/* Stand-ins for the wrapped functions of MPI 4 if the MPI library lacks them (MPICH before 4.0,
 * Open MPI 4 and 5), since a program that looks up such a name finds this library's. A call whose
 * counts and displacements fit an int goes to the function without _c. Handles are words of any
 * MPI. */
#ifndef SHIM_MPI_LARGE_H
#define SHIM_MPI_LARGE_H

#include "shim/mpi/state.h"

/* Functions of the MPI library that the stand-ins use. */
#define SHIM_LARGE_NEEDS(X)                                                                        \
    X(comm_call_errhandler, int (*)(uintptr_t comm, int code), "PMPI_Comm_call_errhandler")        \
    X(comm_rank, int (*)(uintptr_t comm, int *rank), "PMPI_Comm_rank")                             \
    X(comm_remote_size, int (*)(uintptr_t comm, int *size), "PMPI_Comm_remote_size")               \
    X(comm_size, int (*)(uintptr_t comm, int *size), "PMPI_Comm_size")                             \
    X(comm_test_inter, int (*)(uintptr_t comm, int *inter), "PMPI_Comm_test_inter")                \
    X(type_get_extent, int (*)(uintptr_t type, intptr_t * lower, intptr_t * extent),               \
      "PMPI_Type_get_extent")

struct shim_large {
#define SHIM_MEMBER(member, type, name) __typeof__(type) member;
    SHIM_LARGE_NEEDS(SHIM_MEMBER)
#undef SHIM_MEMBER
};

/* Set together with shim.next. */
extern struct shim_large shim_large;

/* Blocking reductions with one count that is larger than an int are cut into windows. Every other
 * call that does not fit raises MPI_ERR_COUNT on its communicator and returns it. */
#define SHIM_STAND_IN(member, ...)   shim_##member##_fn shim_large_##member;
#define SHIM_STAND_IN_C(member, ...) shim_##member##_c_fn shim_large_##member##_c;
SHIM_WRAPPED_COUNTED(SHIM_STAND_IN_C)
SHIM_WRAPPED_OPTIONAL(SHIM_STAND_IN)
#undef SHIM_STAND_IN
#undef SHIM_STAND_IN_C

/* Calls PMPI_Iallgatherv, for internal traffic. */
shim_iallgatherv_c_fn shim_large_pmpi_iallgatherv_c;

#endif
