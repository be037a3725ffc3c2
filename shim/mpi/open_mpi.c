/* The table of Open MPI's ABI: handles are the addresses of symbols. A program may hold its own
 * copy of such a symbol (a copy relocation), whose address is the handle. */
#include "shim/mpi/abi.h"

struct shim_known_slot shim_known[SHIM_KNOWN];

/* Predefined datatypes: symbol and bytes. Pairs are left out, since they count as derived types.
 * The bytes of Fortran's types depend on the compiler: shim/comm/prove.c asks for them. */
static const struct {
    const char *symbol;
    uint8_t bytes;
} types[] = {
    {"ompi_mpi_byte", 1},
    {"ompi_mpi_packed", 1},
    {"ompi_mpi_char", 1},
    {"ompi_mpi_signed_char", 1},
    {"ompi_mpi_unsigned_char", 1},
    {"ompi_mpi_short", 2},
    {"ompi_mpi_unsigned_short", 2},
    {"ompi_mpi_int", 4},
    {"ompi_mpi_unsigned", 4},
    {"ompi_mpi_long", 8},
    {"ompi_mpi_unsigned_long", 8},
    {"ompi_mpi_long_long_int", 8},
    {"ompi_mpi_unsigned_long_long", 8},
    {"ompi_mpi_float", 4},
    {"ompi_mpi_double", 8},
    {"ompi_mpi_long_double", 16},
    {"ompi_mpi_wchar", 4},
    {"ompi_mpi_c_bool", 1},
    {"ompi_mpi_c_complex", 8},
    {"ompi_mpi_c_float_complex", 8},
    {"ompi_mpi_c_double_complex", 16},
    {"ompi_mpi_c_long_double_complex", 32},
    {"ompi_mpi_cxx_bool", 1},
    {"ompi_mpi_cxx_cplex", 8},
    {"ompi_mpi_cxx_dblcplex", 16},
    {"ompi_mpi_cxx_ldblcplex", 32},
    {"ompi_mpi_int8_t", 1},
    {"ompi_mpi_uint8_t", 1},
    {"ompi_mpi_int16_t", 2},
    {"ompi_mpi_uint16_t", 2},
    {"ompi_mpi_int32_t", 4},
    {"ompi_mpi_uint32_t", 4},
    {"ompi_mpi_int64_t", 8},
    {"ompi_mpi_uint64_t", 8},
    {"ompi_mpi_aint", 8},
    {"ompi_mpi_offset", 8},
    {"ompi_mpi_count", 8},
    {"ompi_mpi_character", 1},
    {"ompi_mpi_logical", 4},
    {"ompi_mpi_logical1", 1},
    {"ompi_mpi_logical2", 2},
    {"ompi_mpi_logical4", 4},
    {"ompi_mpi_logical8", 8},
    {"ompi_mpi_integer", 4},
    {"ompi_mpi_integer1", 1},
    {"ompi_mpi_integer2", 2},
    {"ompi_mpi_integer4", 4},
    {"ompi_mpi_integer8", 8},
    {"ompi_mpi_integer16", 16},
    {"ompi_mpi_real", 4},
    {"ompi_mpi_real2", 2},
    {"ompi_mpi_real4", 4},
    {"ompi_mpi_real8", 8},
    {"ompi_mpi_real16", 16},
    {"ompi_mpi_dblprec", 8},
    {"ompi_mpi_cplex", 8},
    {"ompi_mpi_complex4", 4},
    {"ompi_mpi_complex8", 8},
    {"ompi_mpi_complex16", 16},
    {"ompi_mpi_complex32", 32},
    {"ompi_mpi_dblcplex", 16},
};

static const struct {
    const char *symbol;
    enum shim_known what;
} others[] = {
    {"ompi_mpi_op_max", SHIM_IS_OP},
    {"ompi_mpi_op_min", SHIM_IS_OP},
    {"ompi_mpi_op_sum", SHIM_IS_OP},
    {"ompi_mpi_op_prod", SHIM_IS_OP},
    {"ompi_mpi_op_land", SHIM_IS_OP},
    {"ompi_mpi_op_band", SHIM_IS_OP},
    {"ompi_mpi_op_lor", SHIM_IS_OP},
    {"ompi_mpi_op_bor", SHIM_IS_OP},
    {"ompi_mpi_op_lxor", SHIM_IS_OP},
    {"ompi_mpi_op_bxor", SHIM_IS_OP},
    {"ompi_mpi_op_maxloc", SHIM_IS_OP},
    {"ompi_mpi_op_minloc", SHIM_IS_OP},
    {"ompi_mpi_op_replace", SHIM_IS_OP},
    {"ompi_mpi_op_no_op", SHIM_IS_OP},
    {"ompi_mpi_op_null", SHIM_IS_NULL},
    {"ompi_mpi_datatype_null", SHIM_IS_NULL},
    {"OMPI_C_MPI_NULL_COPY_FN", SHIM_IS_NULL_FN},
    {"OMPI_C_MPI_NULL_DELETE_FN", SHIM_IS_NULL_FN},
    {"OMPI_C_MPI_COMM_NULL_COPY_FN", SHIM_IS_NULL_FN},
    {"OMPI_C_MPI_COMM_NULL_DELETE_FN", SHIM_IS_NULL_FN},
    {"OMPI_C_MPI_TYPE_NULL_COPY_FN", SHIM_IS_NULL_FN},
    {"OMPI_C_MPI_TYPE_NULL_DELETE_FN", SHIM_IS_NULL_FN},
    {"OMPI_C_MPI_DUP_FN", SHIM_IS_DUP_FN},
    {"OMPI_C_MPI_COMM_DUP_FN", SHIM_IS_DUP_FN},
    {"OMPI_C_MPI_TYPE_DUP_FN", SHIM_IS_DUP_FN},
};

static void enter(const void *address, unsigned what)
{
    size_t i = shim_known_slot((uintptr_t)address);

    if (!address)
        return;
    while (shim_known[i].address != 0 && shim_known[i].address != (uintptr_t)address)
        i = (i + 1) % SHIM_KNOWN;
    shim_known[i] = (struct shim_known_slot){(uintptr_t)address, (uint8_t)what};
}

bool shim_abi_set_open_mpi(shim_find_fn *find, void *ctx)
{
    struct shim_abi abi = {.kind = SHIM_ABI_OPEN_MPI,
                           .mask = UINTPTR_MAX,
                           .handle = 8,
                           .status = 24,
                           .source = 0,
                           .tag = 4,
                           .error = 8,
                           .op_bits = 1, /* shim_known_as recognises operators */
#define SHIM_VALUE(name, mpich, standard, open_mpi) .name = open_mpi,
                           SHIM_ABI_ADDRESSES(SHIM_VALUE) SHIM_ABI_NUMBERS(SHIM_VALUE)
#undef SHIM_VALUE
    };
    bool found = true;

#define SHIM_FIND(name, mpich, standard, symbol)                                                   \
    abi.name = (uintptr_t)find(ctx, #symbol);                                                      \
    found = found && abi.name != 0;
    SHIM_ABI_HANDLES(SHIM_FIND)
#undef SHIM_FIND
    if (!found)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        enter(find(ctx, types[i].symbol), types[i].bytes);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        enter(find(ctx, others[i].symbol), others[i].what);
    shim_abi = abi;
    return true;
}
