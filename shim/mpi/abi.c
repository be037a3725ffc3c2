/* The tables of the ABIs. */
#include "shim/mpi/abi.h"

struct shim_abi shim_abi = {.mask = UINTPTR_MAX};

void shim_abi_set(enum shim_abi_kind kind)
{
    static const struct shim_abi mpich = {.kind = SHIM_ABI_MPICH,
                                          .mask = UINT32_MAX,
                                          .handle = 4,
                                          .status = 20,
                                          .source = 8,
                                          .tag = 12,
                                          .error = 16,
#define SHIM_VALUE(name, mpich) .name = mpich,
                                          SHIM_ABI_WORDS(SHIM_VALUE) SHIM_ABI_NUMBERS(SHIM_VALUE)
#undef SHIM_VALUE
    };

    if (kind == SHIM_ABI_MPICH)
        shim_abi = mpich;
}
