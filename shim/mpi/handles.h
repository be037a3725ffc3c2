/* What MPICH's handles and buffers mean to core. */
#ifndef SHIM_MPI_HANDLES_H
#define SHIM_MPI_HANDLES_H

#include "shim/mpi/state.h"

/* Type class and operator of a pair of named handles that is served: MPI_SUM on floats, doubles and
 * 4 and 8 byte integers; BOR, BXOR, LOR, LXOR on the integers. False for all others. No MPI call.
 */
bool shim_operation(const struct shim_call *call, enum ss_type *type, enum ss_op *op);

/* Finds the operator of a handle. False for those that are not served. */
bool shim_operator(uintptr_t handle, enum ss_op *op);

/* Returns true for LOR and LXOR on Fortran integers, which MPICH 5 refuses. */
bool shim_is_disputed(const struct shim_call *call);

/* Whether both buffers can be worked on: neither is NULL, IN_PLACE stands only where it may, they
 * do not overlap. */
bool shim_buffers(const struct shim_call *call, enum ss_type type);

bool shim_in_place(const struct shim_call *call);

/* Bytes per element as a predefined handle tells it; 0 for derived types. No MPI call. MPICH: kind
 * 01 (predefined), object class 3 (datatype), size in the second byte. */
static inline size_t shim_handle_size(uintptr_t type)
{
    return ((uint32_t)type & 0xff000000u) == 0x4c000000u ? ((uint32_t)type >> 8) & 0xff : 0;
}

/* Handles of MPICH: kind 2 or 3 (made at run time, and predefined pairs), object class 3. A
 * handle that is neither derived nor predefined is an error, which the MPI library names. */
static inline bool shim_is_derived(uintptr_t type)
{
    return ((uint32_t)type & 0xbc000000u) == 0x8c000000u;
}

#endif
