/* Finds datatypes, operators and buffers from handles without MPI calls. */
#include "shim/mpi/handles.h"

#include "shim/mpi/mpi_names.h"

#define INTEGER(type) (sizeof(type) == 4 ? SS_I32 : SS_I64)

static const struct {
    const uintptr_t *handle;
    enum ss_type type;
} types[] = {
    {&shim_abi.FLOAT, SS_F32},
    {&shim_abi.REAL, SS_F32},
    {&shim_abi.REAL4, SS_F32},
    {&shim_abi.DOUBLE, SS_F64},
    {&shim_abi.DOUBLE_PRECISION, SS_F64},
    {&shim_abi.REAL8, SS_F64},
    {&shim_abi.INT, INTEGER(int)},
    {&shim_abi.INT32_T, SS_I32},
    {&shim_abi.INTEGER, SS_I32},
    {&shim_abi.INTEGER4, SS_I32},
    {&shim_abi.LONG, INTEGER(long)},
    {&shim_abi.LONG_LONG, INTEGER(long long)},
    {&shim_abi.INT64_T, SS_I64},
    {&shim_abi.INTEGER8, SS_I64},
    {&shim_abi.UNSIGNED, INTEGER(unsigned)},
    {&shim_abi.UINT32_T, SS_I32},
    {&shim_abi.UNSIGNED_LONG, INTEGER(unsigned long)},
    {&shim_abi.UNSIGNED_LONG_LONG, INTEGER(unsigned long long)},
    {&shim_abi.UINT64_T, SS_I64},
    {&shim_abi.AINT, SS_I64},
    {&shim_abi.OFFSET, SS_I64},
    {&shim_abi.COUNT, SS_I64},
};

static const struct {
    const uintptr_t *handle;
    enum ss_op op;
} operators[] = {
    {&shim_abi.SUM, SS_SUM}, {&shim_abi.BOR, SS_BOR},   {&shim_abi.BXOR, SS_BXOR},
    {&shim_abi.LOR, SS_LOR}, {&shim_abi.LXOR, SS_LXOR},
};

/* Finds the type class. The size comes from the handle itself, since a Fortran compiler can make
 * REAL or INTEGER 8 bytes wide. */
static bool find_type(uintptr_t handle, enum ss_type *type)
{
    size_t i = 0;

    while (i < sizeof types / sizeof *types && *types[i].handle != handle)
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

    while (i < sizeof operators / sizeof *operators && *operators[i].handle != handle)
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
    const uintptr_t type = call->type, op = call->op;

    return (op == shim_abi.LOR || op == shim_abi.LXOR) &&
           (type == shim_abi.INTEGER || type == shim_abi.INTEGER4 || type == shim_abi.INTEGER8);
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
