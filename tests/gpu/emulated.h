/* A queue whose kernels run on the host, at once, in memory of the host. */
#ifndef TESTS_GPU_EMULATED_H
#define TESTS_GPU_EMULATED_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/queue/launch.h"

struct emulated_kernel {
    void (*run)(void **params);
    unsigned params;
    const size_t *sizes;
};

typedef void emulated_launcher(void (*run)(void **), void **params, unsigned grid, unsigned threads,
                               unsigned resident, uint64_t seed, void *(*place)(const void *));

struct emulated {
    struct gpu_queue q;
    emulated_launcher *launch;
    const struct emulated_kernel *kernel[GPU_KERNELS_ALL];
    unsigned resident; /* blocks at once */
    uint64_t seed;     /* 0: threads and blocks in the order of their numbers */
    uint64_t launches;
};

static int emulated_launch_now(struct gpu_queue *q, enum gpu_kernel kernel, unsigned blocks,
                               void **params)
{
    struct emulated *e = (struct emulated *)(void *)q;

    e->launches++;
    e->launch(e->kernel[kernel]->run, params, blocks, GPU_THREADS, e->resident,
              e->seed ? e->seed + e->launches : 0, NULL);
    return 0;
}

static int emulated_fill(struct gpu_queue *q, void *to, uint32_t word, size_t words)
{
    (void)q;
    for (size_t i = 0; i < words; i++)
        memcpy((char *)to + 4 * i, &word, sizeof word);
    return 0;
}

/* A file beside the running program. */
static inline const char *beside_me(const char *name)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

    if (length < 0)
        abort();
    path[length] = 0;
    strcpy(strrchr(path, '/') + 1, name);
    return path;
}

static inline void *emulated_symbol(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    return symbol;
}

/* The kernels for hosts: those beside the program, or what a variable says. */
static inline const char *emulated_kernels(void)
{
    const char *path = getenv("TEST_CUDA_KERNELS");

    return path ? path : beside_me("kernels.so");
}

static inline void emulated_open(struct emulated *e, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    *e = (struct emulated){
        .q = {.launch = emulated_launch_now, .fill = emulated_fill}, .resident = 3, .seed = 1};
    *(void **)&e->launch = emulated_symbol(library, "emulated_launch");
#define FIND(file, name) e->kernel[GPU_##name] = emulated_symbol(library, "emulated_ss_" #name);
    GPU_KERNELS(FIND)
#undef FIND
}

#endif
