/* A program that does not know MPI opens a plugin that does, in a scope of its own.
 *
 * Compiled three ways: HOST_ONLY, without any MPI, gives the program; PLUGIN_ONLY, as a shared
 * object, the plugin; neither, a program that runs the plugin's code directly. */
#ifndef HOST_ONLY
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

__attribute__((visibility("default"))) int plugin_run(void);

int plugin_run(void)
{
    enum { COUNT = 4096 };
    static float in[COUNT], out[COUNT];
    int status;

    MPI_Init(NULL, NULL);
    tap_begin(MPI_COMM_WORLD);
    for (int call = 0; call < 4; call++) {
        input_fill_whole(in, COUNT, (uint64_t)call, tap.rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        tap_ok(input_is_whole_sum(out, COUNT, (uint64_t)call, tap.size), "sum %d in a plugin",
               call);
    }
    status = tap_end();
    MPI_Finalize();
    return status;
}
#endif

#ifdef HOST_ONLY
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(void) = NULL;

    if (plugin)
        *(void **)&run = dlsym(plugin, "plugin_run");
    if (!run) {
        fprintf(stderr, "plugin: %s\n", dlerror());
        return 2;
    }
    return run();
}
#elif !defined(PLUGIN_ONLY)
int main(void)
{
    return plugin_run();
}
#endif
