/* Finds datatypes, operators and buffers from MPICH's handles without MPI calls. */
#include "shim/mpi/handles.h"

#include <mpi.h>

#define INTEGER(type) (sizeof(type) == 4 ? SS_I32 : SS_I64)

static const struct {
    MPI_Datatype handle;
    enum ss_type type;
} types[] = {
    {MPI_FLOAT, SS_F32},
    {MPI_REAL, SS_F32},
    {MPI_REAL4, SS_F32},
    {MPI_DOUBLE, SS_F64},
    {MPI_DOUBLE_PRECISION, SS_F64},
    {MPI_REAL8, SS_F64},
    {MPI_INT, INTEGER(int)},
    {MPI_INT32_T, SS_I32},
    {MPI_INTEGER, SS_I32},
    {MPI_INTEGER4, SS_I32},
    {MPI_LONG, INTEGER(long)},
    {MPI_LONG_LONG, INTEGER(long long)},
    {MPI_INT64_T, SS_I64},
    {MPI_INTEGER8, SS_I64},
    {MPI_UNSIGNED, INTEGER(unsigned)},
    {MPI_UINT32_T, SS_I32},
    {MPI_UNSIGNED_LONG, INTEGER(unsigned long)},
    {MPI_UNSIGNED_LONG_LONG, INTEGER(unsigned long long)},
    {MPI_UINT64_T, SS_I64},
    {MPI_AINT, INTEGER(MPI_Aint)},
    {MPI_OFFSET, INTEGER(MPI_Offset)},
    {MPI_COUNT, INTEGER(MPI_Count)},
};

static const struct {
    MPI_Op handle;
    enum ss_op op;
} operators[] = {
    {MPI_SUM, SS_SUM}, {MPI_BOR, SS_BOR},   {MPI_BXOR, SS_BXOR},
    {MPI_LOR, SS_LOR}, {MPI_LXOR, SS_LXOR},
};

/* Finds the type class. The size comes from the handle itself, since a Fortran compiler can make
 * REAL or INTEGER 8 bytes wide. */
static bool find_type(uintptr_t handle, enum ss_type *type)
{
    size_t i = 0;

    while (i < sizeof types / sizeof *types && types[i].handle != (MPI_Datatype)handle)
        i++;
    if (i == sizeof types / sizeof *types ||
        shim_handle_size(handle) != ss_type_size(types[i].type))
        return false;
    *type = types[i].type;
    return true;
}

bool shim_operator(uintptr_t handle, enum ss_op *op)
{
    size_t i = 0;

    while (i < sizeof operators / sizeof *operators && operators[i].handle != (MPI_Op)handle)
        i++;
    if (i == sizeof operators / sizeof *operators)
        return false;
    *op = operators[i].op;
    return true;
}

bool shim_operation(const struct shim_call *call, enum ss_type *type, enum ss_op *op)
{
    return find_type(call->type, type) && shim_operator(call->op, op) &&
           (*op == SS_SUM || !ss_type_is_float(*type));
}

bool shim_is_disputed(const struct shim_call *call)
{
    const MPI_Datatype type = (MPI_Datatype)call->type;
    const MPI_Op op = (MPI_Op)call->op;

    return (op == MPI_LOR || op == MPI_LXOR) &&
           (type == MPI_INTEGER || type == MPI_INTEGER4 || type == MPI_INTEGER8);
}

bool shim_in_place(const struct shim_call *call)
{
    return call->send == MPI_IN_PLACE;
}

bool shim_buffers(const struct shim_call *call, enum ss_type type)
{
    uintptr_t send = (uintptr_t)call->send, recv = (uintptr_t)call->recv;
    uint64_t bytes;

    if (!call->send || !call->recv || call->recv == MPI_IN_PLACE)
        return false;
    if (__builtin_mul_overflow((uint64_t)call->count, ss_type_size(type), &bytes) ||
        bytes > PTRDIFF_MAX)
        return false;
    return shim_in_place(call) || send >= recv + bytes || recv >= send + bytes;
}
