/* The tables of the ABIs. */
#include "shim/mpi/abi.h"

/* No operator has bits outside of an empty mask. */
struct shim_abi shim_abi = {.mask = UINTPTR_MAX, .op_bits = 1};

static const struct shim_abi mpich = {.kind = SHIM_ABI_MPICH,
                                      .mask = UINT32_MAX,
                                      .handle = 4,
                                      .status = 20,
                                      .source = 8,
                                      .tag = 12,
                                      .error = 16,
                                      .op_mask = 0xfc000000,
                                      .op_bits = 0x58000000,
#define SHIM_VALUE(name, mpich, ...) .name = mpich,
                                      SHIM_ABI_HANDLES(SHIM_VALUE) SHIM_ABI_ADDRESSES(SHIM_VALUE)
                                          SHIM_ABI_NUMBERS(SHIM_VALUE)
#undef SHIM_VALUE
};

static const struct shim_abi standard = {.kind = SHIM_ABI_STANDARD,
                                         .mask = UINTPTR_MAX,
                                         .handle = 8,
                                         .status = 32,
                                         .source = 0,
                                         .tag = 4,
                                         .error = 8,
                                         .op_mask = ~(uintptr_t)0x1f,
                                         .op_bits = 0x20,
#define SHIM_VALUE(name, mpich, standard, ...) .name = standard,
                                         SHIM_ABI_HANDLES(SHIM_VALUE) SHIM_ABI_ADDRESSES(SHIM_VALUE)
                                             SHIM_ABI_NUMBERS(SHIM_VALUE)
#undef SHIM_VALUE
};

const uint8_t shim_abi_sizes[SHIM_TYPE_COUNT] = {
    [0x01] = 8,  /* AINT */
    [0x02] = 8,  /* COUNT */
    [0x03] = 8,  /* OFFSET */
    [0x07] = 1,  /* PACKED */
    [0x08] = 2,  /* SHORT */
    [0x09] = 4,  /* INT */
    [0x0a] = 8,  /* LONG */
    [0x0b] = 8,  /* LONG_LONG */
    [0x0c] = 2,  /* UNSIGNED_SHORT */
    [0x0d] = 4,  /* UNSIGNED */
    [0x0e] = 8,  /* UNSIGNED_LONG */
    [0x0f] = 8,  /* UNSIGNED_LONG_LONG */
    [0x10] = 4,  /* FLOAT */
    [0x12] = 8,  /* C_FLOAT_COMPLEX */
    [0x14] = 8,  /* DOUBLE */
    [0x16] = 16, /* C_DOUBLE_COMPLEX */
    [0x20] = 16, /* LONG_DOUBLE */
    [0x24] = 32, /* C_LONG_DOUBLE_COMPLEX */
    [0x38] = 1,  /* C_BOOL */
    [0x3c] = 4,  /* WCHAR */
    [0x40] = 1,  /* INT8_T */
    [0x41] = 1,  /* UINT8_T */
    [0x43] = 1,  /* CHAR */
    [0x44] = 1,  /* SIGNED_CHAR */
    [0x45] = 1,  /* UNSIGNED_CHAR */
    [0x47] = 1,  /* BYTE */
    [0x48] = 2,  /* INT16_T */
    [0x49] = 2,  /* UINT16_T */
    [0x50] = 4,  /* INT32_T */
    [0x51] = 4,  /* UINT32_T */
    [0x58] = 8,  /* INT64_T */
    [0x59] = 8,  /* UINT64_T */
};

void shim_abi_set(enum shim_abi_kind kind)
{
    shim_abi = kind == SHIM_ABI_STANDARD ? standard : mpich;
}
