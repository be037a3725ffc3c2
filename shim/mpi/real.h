/* The real MPI functions, found at run time: this library links with no MPI library. */
#ifndef SHIM_MPI_REAL_H
#define SHIM_MPI_REAL_H

#include "shim/mpi/mpi_names.h"
#include "shim/mpi/state.h"

/* Functions for internal traffic, used as shim_real.Comm_size(...). */
#define SHIM_PMPI(X)                                                                               \
    X(Add_error_class)                                                                             \
    X(Add_error_code)                                                                              \
    X(Add_error_string)                                                                            \
    X(Allreduce)                                                                                   \
    X(Cancel)                                                                                      \
    X(Comm_call_errhandler)                                                                        \
    X(Comm_compare)                                                                                \
    X(Comm_create)                                                                                 \
    X(Comm_create_group)                                                                           \
    X(Comm_create_keyval)                                                                          \
    X(Comm_delete_attr)                                                                            \
    X(Comm_free)                                                                                   \
    X(Comm_free_keyval)                                                                            \
    X(Comm_get_attr)                                                                               \
    X(Comm_get_name)                                                                               \
    X(Comm_group)                                                                                  \
    X(Comm_rank)                                                                                   \
    X(Comm_remote_size)                                                                            \
    X(Comm_set_attr)                                                                               \
    X(Comm_set_errhandler)                                                                         \
    X(Comm_size)                                                                                   \
    X(Comm_test_inter)                                                                             \
    X(Finalized)                                                                                   \
    X(Get_count)                                                                                   \
    X(Grequest_complete)                                                                           \
    X(Grequest_start)                                                                              \
    X(Group_compare)                                                                               \
    X(Group_free)                                                                                  \
    X(Group_size)                                                                                  \
    X(Group_translate_ranks)                                                                       \
    X(Iallreduce)                                                                                  \
    X(Ibarrier)                                                                                    \
    X(Iprobe)                                                                                      \
    X(Allgather)                                                                                   \
    X(Initialized)                                                                                 \
    X(Irecv)                                                                                       \
    X(Isend)                                                                                       \
    X(Pack)                                                                                        \
    X(Query_thread)                                                                                \
    X(Request_free)                                                                                \
    X(Status_set_cancelled)                                                                        \
    X(Status_set_elements)                                                                         \
    X(Test)                                                                                        \
    X(Testsome)                                                                                    \
    X(Type_commit)                                                                                 \
    X(Type_contiguous)                                                                             \
    X(Type_free)                                                                                   \
    X(Type_get_contents)                                                                           \
    X(Type_get_envelope)                                                                           \
    X(Type_get_extent_x)                                                                           \
    X(Type_get_true_extent_x)                                                                      \
    X(Type_size)                                                                                   \
    X(Type_size_x)                                                                                 \
    X(Wait)

struct shim_real {
#define SHIM_MEMBER(name) __typeof__(PMPI_##name) *name;
    SHIM_PMPI(SHIM_MEMBER)
#undef SHIM_MEMBER
};

extern struct shim_real shim_real;

/* MPICH's extension, whose requests the library polls; NULL if the library lacks it, as Open MPI
 * does. */
typedef int shim_greq_poll_fn(void *, MPI_Status *);
typedef int shim_greq_wait_fn(int, void **, double, MPI_Status *);
typedef int shim_greq_start_fn(MPI_Grequest_query_function *, MPI_Grequest_free_function *,
                               MPI_Grequest_cancel_function *, shim_greq_poll_fn *,
                               shim_greq_wait_fn *, void *, MPI_Request *);
extern shim_greq_start_fn *shim_real_grequest_start;

/* A function of MPI 4. NULL if the library lacks it, and under Open MPI, where it is slow and hangs
 * if several threads call it. */
typedef int shim_create_from_group_fn(MPI_Group, const char *, MPI_Info, MPI_Errhandler,
                                      MPI_Comm *);
/* NULL if the library lacks it. The form without _c raises an error for a datatype that was made by
 * a function of large counts. */
typedef int shim_envelope_c_fn(MPI_Datatype, MPI_Count *integers, MPI_Count *addresses,
                               MPI_Count *large, MPI_Count *types, int *combiner);
extern shim_envelope_c_fn *shim_real_envelope_c;
/* Address of MPI_COMM_DUP_FN and similar functions for C programs; NULL if the library names it
 * otherwise. */
extern void *shim_real_dup_fn;
extern shim_create_from_group_fn *shim_real_create_from_group;
/* True if the library has persistent reductions (MPI_Reduce_init). */
extern bool shim_real_persistent;

/* Returns true if one library defines both functions. */
bool shim_real_same_object(shim_init_fn *a, shim_init_thread_fn *b);

/* Lists the loaded objects for the functions below, down to shim_real_find_pmpi. */
void shim_real_look(void);
void shim_real_let_go(void);

/* Sets shim.next and shim.pmpi. Returns false if no object has an MPI_Allreduce; entries then
 * return error 15. Functions that the MPI library lacks return it as well, except those of large.h.
 */
bool shim_real_find_next(void);

/* Returns true if an object has a PMPI_Allreduce. The stub of a serial program has none. */
bool shim_real_has_library(void);

/* Finds another copy of this library among the loaded objects, by its file's name. Writes the paths
 * of both; *first: the calls of the program come to this one before the other. */
bool shim_real_find_copy(char *both, size_t size, bool *first);

/* Copies the beginning of the MPI library's version text; "" if the library cannot be asked. */
void shim_real_library(char *text, size_t size);

/* Returns the major version of the standard ABI that the MPI library has; -1 if it has another ABI,
 * or is too old to be asked. MPICH's version text does not say it. */
int shim_real_abi_version(void);
/* Returns true if the object with the library's MPI_Allreduce is named libmpi_abi. */
bool shim_real_is_named_abi(void);

/* Returns true if the MPI library is Open MPI. */
bool shim_real_is_open_mpi(void);
/* Fills in the table of Open MPI's ABI. Returns false if the library lacks a symbol. */
bool shim_real_set_open_mpi(void);

/* Returns true if the MPI library says that it takes buffers in the memory of CUDA devices. */
bool shim_real_is_cuda_aware(void);

/* Sets shim_real. Returns NULL, or the name of a function that the library lacks. */
const char *shim_real_find_pmpi(void);

#endif
