/* Code of the program that MPI may run inside of any call: operators of pending collectives,
 * callbacks of attributes of freed communicators and datatypes. Such code must not run in a
 * thread of ours. The code may share data with the computation beside it (seen: wrong sums), or
 * need a lock that the computation holds (Python's).
 *
 * A program that makes an operator or a key makes this rank vote so: nonblocking calls then go to
 * the MPI library on all ranks. Threads of ours go on moving calls under way. Threads
 * stay out of MPI in three cases, in which MPI may run code of the program in them.
 * - From the post to the end of a nonblocking reduction with an operator of the program's, which is
 *   posted behind the calls under way on its communicator (shim/entry/operators.c).
 * - From MPI_Comm_free to the deletion of the communicator's attributes.
 * - For good once a datatype gets an attribute with a delete callback, or a persistent request is
 *   started beside an operator of the program's.
 *
 * A blocking reduction needs nothing: MPICH (3.4 to 5.0) runs its operator in the calling thread.
 *
 * Not seen: what mpi_f08 and MPI_Op_create_c make, until a reduction with such an operator is
 * called. */
#ifndef SHIM_ENTRY_CALLBACKS_H
#define SHIM_ENTRY_CALLBACKS_H

#include "shim/mpi/state.h"

/* Whether an operator is one of the MPI library's, by its handle; false for what is none under
 * MPICH. No MPI call. */
static inline bool shim_is_predefined(uintptr_t op)
{
    return ((uint32_t)op & 0xfc000000u) == 0x58000000u;
}

/* Made by MPI_Op_create. Neither MPI_OP_NULL nor what is no operator at all: MPI refuses those. */
static inline bool shim_is_own_operator(uintptr_t op)
{
    return ((uint32_t)op & 0xbc000000u) == 0x98000000u;
}

/* Returns whether a thread of ours may come into MPI while a call that begins now is under way: a
 * communicator is served, or its first nonblocking calls will have the ranks meet. */
bool shim_threads_may_come(void);

/* To be called for every reduction. */
void shim_callbacks_operator(uintptr_t op);

/* Through `next`: MPI_Op_create; MPI_*_create_keyval, on communicators or others;
 * MPI_Comm_set_attr; MPI_Type_set_attr; MPI_Comm_free. */
int shim_op_create(shim_op_create_fn *next, void *function, int commute, void *op);
int shim_keyval(shim_keyval_fn *next, bool on_comms, void *copy, void *delete, int *keyval,
                void *extra);
int shim_set_attr(shim_set_attr_fn *next, uintptr_t comm, int keyval, void *value);
int shim_type_set_attr(shim_set_attr_fn *next, uintptr_t type, int keyval, void *value);
int shim_comm_free(shim_comm_free_fn *next, void *comm);

#endif
