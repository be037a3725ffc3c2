/* Wraps names for the sake of the operator: nonblocking reductions with an operator of the program,
 * and calls that make, free or start one. PMPI names are those of Fortran under Open MPI
 * (shim/entry/fortran.c). */
#include "shim/entry/entry.h"

EXPORT shim_op_create_fn MPI_Op_create;
EXPORT shim_op_free_fn MPI_Op_free, PMPI_Op_free; /* the second: mpi_f08 */
EXPORT shim_ireduce_fn MPI_Ireduce, PMPI_Ireduce;
EXPORT shim_ireduce_c_fn MPI_Ireduce_c;
EXPORT shim_iallreduce_fn MPI_Iscan, MPI_Iexscan, MPI_Ireduce_scatter_block;
EXPORT shim_iallreduce_fn PMPI_Iscan, PMPI_Iexscan, PMPI_Ireduce_scatter_block;
EXPORT shim_iallreduce_c_fn MPI_Iscan_c, MPI_Iexscan_c, MPI_Ireduce_scatter_block_c;
EXPORT shim_ireduce_scatter_fn MPI_Ireduce_scatter, PMPI_Ireduce_scatter;
EXPORT shim_ireduce_scatter_c_fn MPI_Ireduce_scatter_c;
EXPORT shim_request_fn MPI_Start, PMPI_Start;
EXPORT shim_startall_fn MPI_Startall, PMPI_Startall;

/* A call, from arguments named alike in all functions below. */
#define OWN(is_large, what, ...)                                                                   \
    &(struct shim_call)                                                                            \
    {                                                                                              \
        .send = send, .recv = recv, .type = shim_abi_word(type), .op = shim_abi_word(op),          \
        .comm = shim_abi_word(comm), .large = is_large, .own = what, __VA_ARGS__                   \
    }

static bool is_own(uintptr_t op, const void *request)
{
    be_ready();
    return shim_is_own_operator(op) && request && shim_prepare();
}

#define SCAN(name, member, what)                                                                   \
    int name(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,                \
             uintptr_t comm, void *request)                                                        \
    {                                                                                              \
        if (is_own(op, request))                                                                   \
            return shim_own_reduction(OWN(false, what, .count = count), SHIM_NOT_COUNTED,          \
                                      request);                                                    \
        return shim.next.member(send, recv, count, type, op, comm, request);                       \
    }                                                                                              \
    int P##name(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,             \
                uintptr_t comm, void *request)                                                     \
    {                                                                                              \
        if (FROM_FORTRAN && is_own(op, request))                                                   \
            return shim_own_reduction(OWN(false, what, .count = count, .pmpi = true),              \
                                      SHIM_NOT_COUNTED, request);                                  \
        return shim.pmpi.member(send, recv, count, type, op, comm, request);                       \
    }                                                                                              \
    int name##_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,        \
                 uintptr_t comm, void *request)                                                    \
    {                                                                                              \
        if (is_own(op, request))                                                                   \
            return shim_own_reduction(OWN(true, what, .count = count), SHIM_NOT_COUNTED, request); \
        return shim.next.member##_c(send, recv, count, type, op, comm, request);                   \
    }

SCAN(MPI_Iscan, iscan, SHIM_OWN_ISCAN)
SCAN(MPI_Iexscan, iexscan, SHIM_OWN_IEXSCAN)
SCAN(MPI_Ireduce_scatter_block, ireduce_block, SHIM_OWN_IREDUCE_BLOCK)

int MPI_Ireduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op, int root,
                uintptr_t comm, void *request)
{
    if (is_own(op, request))
        return shim_own_reduction(OWN(false, SHIM_OWN_IREDUCE, .count = count, .root = root),
                                  SHIM_NOT_COUNTED, request);
    return shim.next.ireduce(send, recv, count, type, op, root, comm, request);
}

int PMPI_Ireduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op, int root,
                 uintptr_t comm, void *request)
{
    if (FROM_FORTRAN && is_own(op, request))
        return shim_own_reduction(
            OWN(false, SHIM_OWN_IREDUCE, .count = count, .root = root, .pmpi = true),
            SHIM_NOT_COUNTED, request);
    return shim.pmpi.ireduce(send, recv, count, type, op, root, comm, request);
}

int MPI_Ireduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                  int root, uintptr_t comm, void *request)
{
    if (is_own(op, request))
        return shim_own_reduction(OWN(true, SHIM_OWN_IREDUCE, .count = count, .root = root),
                                  SHIM_NOT_COUNTED, request);
    return shim.next.ireduce_c(send, recv, count, type, op, root, comm, request);
}

int MPI_Ireduce_scatter(const void *send, void *recv, const int *counts, uintptr_t type,
                        uintptr_t op, uintptr_t comm, void *request)
{
    if (is_own(op, request))
        return shim_own_reduction(OWN(false, SHIM_OWN_IREDUCE_SCATTER, .counts = counts),
                                  SHIM_NOT_COUNTED, request);
    return shim.next.ireduce_scatter(send, recv, counts, type, op, comm, request);
}

int PMPI_Ireduce_scatter(const void *send, void *recv, const int *counts, uintptr_t type,
                         uintptr_t op, uintptr_t comm, void *request)
{
    if (FROM_FORTRAN && is_own(op, request))
        return shim_own_reduction(
            OWN(false, SHIM_OWN_IREDUCE_SCATTER, .counts = counts, .pmpi = true), SHIM_NOT_COUNTED,
            request);
    return shim.pmpi.ireduce_scatter(send, recv, counts, type, op, comm, request);
}

int MPI_Ireduce_scatter_c(const void *send, void *recv, const int64_t *counts, uintptr_t type,
                          uintptr_t op, uintptr_t comm, void *request)
{
    if (is_own(op, request))
        return shim_own_reduction(OWN(true, SHIM_OWN_IREDUCE_SCATTER, .counts = counts),
                                  SHIM_NOT_COUNTED, request);
    return shim.next.ireduce_scatter_c(send, recv, counts, type, op, comm, request);
}

int MPI_Op_create(void *function, int commute, void *op)
{
    shim_prepare();
    return shim_op_create(shim.next.op_create, function, commute, op);
}

int MPI_Op_free(void *op)
{
    shim_prepare();
    return shim_op_free(shim.next.op_free, op);
}

int PMPI_Op_free(void *op)
{
    shim_prepare();
    return shim_op_free(shim.next.pmpi_op_free, op);
}

static bool may_reduce(void)
{
    be_ready();
    return atomic_load_explicit(&shim.operators, memory_order_relaxed);
}

int MPI_Start(void *request)
{
    if (may_reduce())
        shim_own_start();
    return shim.next.start(request);
}

int MPI_Startall(int count, void *requests)
{
    if (may_reduce())
        shim_own_start();
    return shim.next.startall(count, requests);
}

int PMPI_Start(void *request)
{
    if (FROM_FORTRAN && may_reduce())
        shim_own_start();
    return shim.pmpi.start(request);
}

int PMPI_Startall(int count, void *requests)
{
    if (FROM_FORTRAN && may_reduce())
        shim_own_start();
    return shim.pmpi.startall(count, requests);
}
