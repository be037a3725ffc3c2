/* Datatypes, operators and buffers, told from MPICH's handles without a call. */
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
};

static const struct {
    MPI_Op handle;
    enum ss_op op;
} operators[] = {
    {MPI_SUM, SS_SUM}, {MPI_BOR, SS_BOR},   {MPI_BXOR, SS_BXOR},
    {MPI_LOR, SS_LOR}, {MPI_LXOR, SS_LXOR},
};

bool shim_operation(const struct shim_call *call, enum ss_type *type, enum ss_op *op)
{
    size_t i;

    for (i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].handle == (MPI_Datatype)call->type)
            break;
    /* A Fortran compiler can be told to make REAL or INTEGER 8 bytes wide: the handle's own size
     * decides. */
    if (i == sizeof types / sizeof *types ||
        shim_handle_size(call->type) != ss_type_size(types[i].type))
        return false;
    *type = types[i].type;

    for (i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].handle == (MPI_Op)call->op)
            break;
    if (i == sizeof operators / sizeof *operators)
        return false;
    *op = operators[i].op;
    return *op == SS_SUM || !ss_type_is_float(*type);
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
