/* Compiled where there is a toolkit, and not run: what gpu/queue/driver.h says of the driver is
 * what cuda.h says. */
#include <cuda.h>

#include "gpu/queue/driver.h"

#define SAME_VALUE(name, value) _Static_assert((int)name == value, #name);
GPU_DRIVER_CONSTANTS(SAME_VALUE)

#define SAME_TYPE(member, name, parameters)                                                        \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), CUresult CUDAAPI parameters),    \
                   #name);
GPU_DRIVER(SAME_TYPE)
