/* Handles and buffers in terms of core. */
#ifndef SHIM_MPI_HANDLES_H
#define SHIM_MPI_HANDLES_H

#include "shim/mpi/state.h"

/* Finds type class and operator of a call. Returns false if they are not served; served are MPI_SUM
 * on floats, doubles and integers of 4 and 8 bytes, and BOR, BXOR, LOR, LXOR on those integers.
 * Makes no MPI call. */
bool shim_operation(const struct shim_call *call, enum ss_type *type, enum ss_op *op);

/* Finds the operator of a handle. Returns false if it is not served. */
bool shim_operator(uintptr_t handle, enum ss_op *op);

/* Returns true for LOR and LXOR on Fortran integers, which MPICH 5 refuses. */
bool shim_is_disputed(const struct shim_call *call);

/* Returns true if core can work on both buffers: neither is NULL, MPI_IN_PLACE is used only where
 * MPI allows it, and they do not overlap. */
bool shim_buffers(const struct shim_call *call, enum ss_type type);

bool shim_in_place(const struct shim_call *call);

/* Returns a number of a list of int, or of int64_t if `large`. */
static inline int64_t shim_list_entry(const void *list, bool large, int i)
{
    return large ? ((const int64_t *)list)[i] : ((const int *)list)[i];
}

/* Returns the bytes of an element of a predefined type, 0 for derived types. Makes no MPI call. In
 * MPICH's handles, kind is 01 (predefined), object class is 3 (datatype), and the second byte is
 * the size. */
static inline size_t shim_handle_size(uintptr_t type)
{
    if (shim_abi.kind == SHIM_ABI_STANDARD)
        return type - SHIM_TYPES < SHIM_TYPE_COUNT ? shim_abi_sizes[type - SHIM_TYPES] : 0;
    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        return shim_known_as(type) <= SHIM_IS_TYPE ? shim_known_as(type) : 0;
    return ((uint32_t)type & 0xff000000u) == 0x4c000000u ? ((uint32_t)type >> 8) & 0xff : 0;
}

/* Returns true for a derived type: made at run time, or a predefined pair. In MPICH's handles, kind
 * is 2 or 3, and object class is 3. The MPI library reports a handle that is neither derived nor
 * predefined. */
static inline bool shim_is_derived(uintptr_t type)
{
    if (shim_abi.kind == SHIM_ABI_STANDARD)
        return type >= SHIM_MADE || (type >= 0x228 && type <= 0x232);
    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        return type != 0 && shim_known_as(type) == 0;
    return ((uint32_t)type & 0xbc000000u) == 0x8c000000u;
}

/* Returns true if an operator is predefined; false for a handle that is no operator. Makes no MPI
 * call. The most frequent operator needs no search. */
static inline bool shim_is_predefined(uintptr_t op)
{
    return op == shim_abi.SUM || (op & shim_abi.op_mask) == shim_abi.op_bits ||
           (shim_abi.kind == SHIM_ABI_OPEN_MPI && shim_known_as(op) == SHIM_IS_OP);
}

/* Returns true for an operator made by MPI_Op_create; false for MPI_OP_NULL and for handles that
 * are no operator, which MPI refuses. */
static inline bool shim_is_user_operator(uintptr_t op)
{
    if (shim_abi.kind == SHIM_ABI_STANDARD)
        return op >= SHIM_MADE;
    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        return op != 0 && shim_known_as(op) == 0;
    return ((uint32_t)op & 0xbc000000u) == 0x98000000u;
}

/* Returns true for a communicator other than MPI_COMM_NULL. */
static inline bool shim_is_communicator(uintptr_t comm)
{
    if (shim_abi.kind == SHIM_ABI_STANDARD)
        return comm >= SHIM_MADE || comm == shim_abi.COMM_WORLD || comm == shim_abi.COMM_SELF;
    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        return comm != 0 && comm != shim_abi.COMM_NULL;
    return ((uint32_t)comm & 0x3c000000u) == 0x04000000u && comm != shim_abi.COMM_NULL;
}

#endif
