/* The kernels as compiled by nvcc, as data of this library: a fat binary for each file. */
#include "gpu/queue/modules.h"

#define EMBED(name)                                                                                \
    __asm__(".section .rodata\n.balign 64\ngpu_module_" #name ":\n.incbin \"" GPU_MODULE_DIR       \
            "/" #name ".fatbin\"\n.previous\n");                                                   \
    extern const char gpu_module_##name[] __attribute__((visibility("hidden")));
GPU_FILES(EMBED)

#define ADDRESS(name) gpu_module_##name,
static const void *const modules[] = {GPU_FILES(ADDRESS)};

#define FILE_OF(file, name) [GPU_##name] = GPU_IN_##file,
static const unsigned char files[] = {GPU_KERNELS(FILE_OF)};

const struct gpu_modules gpu_modules = {modules, GPU_FILES_ALL, GPU_CUDA_VERSION, files};
