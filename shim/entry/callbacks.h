/* Code of the program that MPI may run inside any call: operators of pending collectives, callbacks
 * of attributes of freed communicators and datatypes. Such code must not run in a thread of the
 * shim: it may share data with the computation (seen: wrong sums), or need a lock that the
 * computation holds (Python's).
 *
 * If a program makes an operator or a key, this rank says so in its votes, and nonblocking calls
 * then go to the MPI library on all ranks. Threads of the shim still move calls that are in flight,
 * but stay out of MPI in three cases:
 *
 * - from the post to the end of a nonblocking reduction with an operator of the program, which is
 *   posted after the calls in flight on its communicator (shim/entry/operators.c)
 * - from MPI_Comm_free to the deletion of the communicator's attributes
 * - until the job ends once a datatype gets an attribute with a delete callback, or a
 *   persistent request is started in a program with an operator of its own
 *
 * A blocking reduction needs no precaution: MPICH (3.4 to 5.0) runs its operator in the calling
 * thread.
 *
 * The shim does not see operators made through mpi_f08 and MPI_Op_create_c until a reduction uses
 * one.
 */
#ifndef SHIM_ENTRY_CALLBACKS_H
#define SHIM_ENTRY_CALLBACKS_H

#include "shim/mpi/state.h"

/* Returns true if a thread of the shim may enter MPI during a call that begins now: a communicator
 * is served, or the job serves every nonblocking call. */
bool shim_threads_may_come(void);

/* Records the operator of a reduction. Called for every reduction. */
void shim_callbacks_operator(uintptr_t op);

/* Pass calls to `next`: MPI_Op_create; MPI_*_create_keyval, on communicators or others;
 * MPI_Comm_set_attr; MPI_Type_set_attr; MPI_Comm_free. */
int shim_op_create(shim_op_create_fn *next, void *function, int commute, void *op);
int shim_keyval(shim_keyval_fn *next, bool on_comms, void *copy, void *delete, int *keyval,
                void *extra);
/* Records a key of a Fortran program under Open MPI, with callbacks of the program or without. */
void shim_fortran_key(bool has_callbacks);
int shim_set_attr(shim_set_attr_fn *next, uintptr_t comm, int keyval, void *value);
int shim_type_set_attr(shim_set_attr_fn *next, uintptr_t type, int keyval, void *value);
int shim_comm_free(shim_comm_free_fn *next, void *comm);

/* Sees an MPI_Comm_idup or MPI_Comm_idup_with_info that has returned `err`. While Open MPI
 * (4.1, 5.0) copies a communicator, it takes the messages of the copy for those of later
 * nonblocking collectives and copies on the same one. A first exchange makes both, so a
 * communicator that is copied before its first exchange passes through. All ranks agree on that,
 * since they make the collectives of a communicator in one order.
 */
int shim_comm_copied(uintptr_t comm, int err);

#endif
