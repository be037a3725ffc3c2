/* MPI's types, functions and constants as this library uses them, in place of an mpi.h: constants
 * are those of the MPI library that was found (abi.h). With -DSHIM_MPI_H='<mpi.h>' a real header
 * stands here, so that a compiler can compare the uses of both (scripts/abi-check); such an object
 * is not linked. */
#ifndef SHIM_MPI_MPI_NAMES_H
#define SHIM_MPI_MPI_NAMES_H

#include "shim/mpi/abi.h"

#ifdef SHIM_MPI_H
#include SHIM_MPI_H
#else

/* Pointers to incomplete types, so that the compiler distinguishes handles. */
typedef struct shim_mpi_comm *MPI_Comm;
typedef struct shim_mpi_datatype *MPI_Datatype;
typedef struct shim_mpi_errhandler *MPI_Errhandler;
typedef struct shim_mpi_group *MPI_Group;
typedef struct shim_mpi_info *MPI_Info;
typedef struct shim_mpi_op *MPI_Op;
typedef struct shim_mpi_request *MPI_Request;
typedef struct shim_mpi_status MPI_Status; /* accessed by the offsets in shim_abi */
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count, MPI_Offset;

typedef int MPI_Comm_copy_attr_function(MPI_Comm, int, void *, void *, void *, int *);
typedef int MPI_Comm_delete_attr_function(MPI_Comm, int, void *, void *);
typedef int MPI_Grequest_query_function(void *, MPI_Status *);
typedef int MPI_Grequest_free_function(void *);
typedef int MPI_Grequest_cancel_function(void *, int);

/* Equal in all ABIs. Strings have the longest size of any. */
enum {
    MPI_SUCCESS = 0,
    MPI_UNDEFINED = -32766,
    MPI_THREAD_SINGLE = 0,
    MPI_MAX_OBJECT_NAME = 128,
    MPI_MAX_ERROR_STRING = 512
};

#define MPI_COMM_NULL     ((MPI_Comm)shim_abi.COMM_NULL)
#define MPI_COMM_WORLD    ((MPI_Comm)shim_abi.COMM_WORLD)
#define MPI_COMM_SELF     ((MPI_Comm)shim_abi.COMM_SELF)
#define MPI_GROUP_NULL    ((MPI_Group)shim_abi.GROUP_NULL)
#define MPI_REQUEST_NULL  ((MPI_Request)shim_abi.REQUEST_NULL)
#define MPI_INFO_NULL     ((MPI_Info)shim_abi.INFO_NULL)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)shim_abi.ERRORS_RETURN)
#define MPI_IN_PLACE      ((void *)shim_abi.IN_PLACE)
#define MPI_STATUS_IGNORE ((MPI_Status *)shim_abi.STATUS_IGNORE)

#define MPI_COMM_NULL_COPY_FN ((MPI_Comm_copy_attr_function *)shim_abi.COMM_NULL_COPY_FN)

#define MPI_OP_NULL ((MPI_Op)shim_abi.OP_NULL)
#define MPI_MAX     ((MPI_Op)shim_abi.MAX)
#define MPI_MIN     ((MPI_Op)shim_abi.MIN)

#define MPI_DATATYPE_NULL ((MPI_Datatype)shim_abi.DATATYPE_NULL)
#define MPI_BYTE          ((MPI_Datatype)shim_abi.BYTE)
#define MPI_DOUBLE        ((MPI_Datatype)shim_abi.DOUBLE)
#define MPI_INT           ((MPI_Datatype)shim_abi.INT)
#define MPI_LONG_LONG     ((MPI_Datatype)shim_abi.LONG_LONG)
#define MPI_UINT64_T      ((MPI_Datatype)shim_abi.UINT64_T)

#define MPI_TAG_UB               (shim_abi.TAG_UB)
#define MPI_ROOT                 (shim_abi.ROOT)
#define MPI_UNEQUAL              (shim_abi.UNEQUAL)
#define MPI_ERR_OTHER            (shim_abi.ERR_OTHER)
#define MPI_ERR_REQUEST          (shim_abi.ERR_REQUEST)
#define MPI_THREAD_FUNNELED      (shim_abi.THREAD_FUNNELED)
#define MPI_THREAD_SERIALIZED    (shim_abi.THREAD_SERIALIZED)
#define MPI_THREAD_MULTIPLE      (shim_abi.THREAD_MULTIPLE)
#define MPI_COMBINER_NAMED       (shim_abi.COMBINER_NAMED)
#define MPI_COMBINER_DUP         (shim_abi.COMBINER_DUP)
#define MPI_COMBINER_CONTIGUOUS  (shim_abi.COMBINER_CONTIGUOUS)
#define MPI_COMBINER_F90_REAL    (shim_abi.COMBINER_F90_REAL)
#define MPI_COMBINER_F90_COMPLEX (shim_abi.COMBINER_F90_COMPLEX)
#define MPI_COMBINER_F90_INTEGER (shim_abi.COMBINER_F90_INTEGER)

int PMPI_Add_error_class(int *class);
int PMPI_Add_error_code(int class, int *code);
int PMPI_Add_error_string(int code, const char *text);
int PMPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int count,
                   MPI_Datatype type, MPI_Comm comm);
int PMPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm);
int PMPI_Cancel(MPI_Request *request);
int PMPI_Comm_call_errhandler(MPI_Comm comm, int code);
int PMPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *result);
int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made);
int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made);
int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy,
                            MPI_Comm_delete_attr_function *delete, int *keyval, void *extra);
int PMPI_Comm_delete_attr(MPI_Comm comm, int keyval);
int PMPI_Comm_free(MPI_Comm *comm);
int PMPI_Comm_free_keyval(int *keyval);
int PMPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *found);
int PMPI_Comm_get_name(MPI_Comm comm, char *name, int *length);
int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group);
int PMPI_Comm_rank(MPI_Comm comm, int *rank);
int PMPI_Comm_remote_size(MPI_Comm comm, int *size);
int PMPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value);
int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int PMPI_Comm_size(MPI_Comm comm, int *size);
int PMPI_Comm_test_inter(MPI_Comm comm, int *inter);
int PMPI_Finalized(int *over);
int PMPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count);
int PMPI_Get_library_version(char *text, int *length);
int PMPI_Grequest_complete(MPI_Request request);
int PMPI_Grequest_start(MPI_Grequest_query_function *query, MPI_Grequest_free_function *end,
                        MPI_Grequest_cancel_function *cancel, void *extra, MPI_Request *request);
int PMPI_Group_compare(MPI_Group a, MPI_Group b, int *result);
int PMPI_Group_free(MPI_Group *group);
int PMPI_Group_size(MPI_Group group, int *size);
int PMPI_Group_translate_ranks(MPI_Group group, int n, const int *ranks, MPI_Group other,
                               int *found);
int PMPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm, MPI_Request *request);
int PMPI_Ibarrier(MPI_Comm comm, MPI_Request *request);
int PMPI_Initialized(int *up);
int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *found, MPI_Status *status);
int PMPI_Irecv(void *recv, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
               MPI_Request *request);
int PMPI_Isend(const void *send, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
               MPI_Request *request);
int PMPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int size, int *position,
              MPI_Comm comm);
int PMPI_Query_thread(int *level);
int PMPI_Request_free(MPI_Request *request);
int PMPI_Status_set_cancelled(MPI_Status *status, int cancelled);
int PMPI_Status_set_elements(MPI_Status *status, MPI_Datatype type, int count);
int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status);
int PMPI_Testsome(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses);
int PMPI_Type_commit(MPI_Datatype *type);
int PMPI_Type_contiguous(int count, MPI_Datatype old, MPI_Datatype *made);
int PMPI_Type_free(MPI_Datatype *type);
int PMPI_Type_get_contents(MPI_Datatype type, int most_integers, int most_addresses, int most_types,
                           int *integers, MPI_Aint *addresses, MPI_Datatype *types);
int PMPI_Type_get_envelope(MPI_Datatype type, int *integers, int *addresses, int *types,
                           int *combiner);
int PMPI_Type_get_extent_x(MPI_Datatype type, MPI_Count *lower, MPI_Count *extent);
int PMPI_Type_get_true_extent_x(MPI_Datatype type, MPI_Count *lower, MPI_Count *extent);
int PMPI_Type_size(MPI_Datatype type, int *size);
int PMPI_Type_size_x(MPI_Datatype type, MPI_Count *size);
int PMPI_Wait(MPI_Request *request, MPI_Status *status);

#endif
#endif
