#include "gpu/queue/driver.h"

#include <dlfcn.h>

const char *gpu_driver_find(struct gpu_driver *driver, void *library)
{
#define FIND(member, name, parameters) *(void **)(void *)&driver->member = dlsym(library, #name);
    GPU_DRIVER(FIND)
#undef FIND
#define LOOK(member, name, parameters)                                                             \
    if (!driver->member)                                                                           \
        return #name;
    GPU_DRIVER(LOOK)
#undef LOOK
    return NULL;
}

const char *gpu_error_name(const struct gpu_driver *driver, CUresult error)
{
    const char *name = NULL;

    if (driver->error_name(error, &name) != CUDA_SUCCESS || !name)
        return "an error that the driver has no name for";
    return name;
}
