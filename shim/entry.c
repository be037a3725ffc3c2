/* The names the dynamic linker finds here before the MPI library's. No mpi.h: its prototypes would
 * truncate the handles of another MPI, which come through here as well. */
#include <stdarg.h>

#include "shim/shim.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT shim_allreduce_fn MPI_Allreduce;
EXPORT shim_allreduce_c_fn MPI_Allreduce_c;
EXPORT shim_pcontrol_fn MPI_Pcontrol;

int MPI_Allreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                  uintptr_t comm)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire))
        return shim.next.allreduce(send, recv, count, type, op, comm);
    return shim_allreduce(&(struct shim_call){send, recv, count, type, op, comm, false});
}

int MPI_Allreduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                    uintptr_t comm)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire))
        return shim.next.allreduce_c(send, recv, count, type, op, comm);
    return shim_allreduce(&(struct shim_call){send, recv, count, type, op, comm, true});
}

/* 0 votes the library off, 1 on again; other levels mean nothing to us. What follows the level is
 * not known here, so the words that can stand in argument registers are handed on as they are; on
 * x86-64 and aarch64 reading them is harmless where the caller gave fewer. */
int MPI_Pcontrol(const int level, ...)
{
    void *word[5];
    va_list ap;

    va_start(ap, level);
    for (int i = 0; i < 5; i++)
        word[i] = va_arg(ap, void *);
    va_end(ap);

    shim_prepare();
    if (level == 0 || level == 1)
        atomic_store(&shim.off, level == 0);
    return shim.next.pcontrol(level, word[0], word[1], word[2], word[3], word[4]);
}
